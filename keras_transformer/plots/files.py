"""Writes figures."""

import re
import warnings
from pathlib import Path

from keras_transformer.files import replacing


def write_figure(figure, path):
    path = Path(path)
    with (
        warnings.catch_warnings(record=True) as caught,
        replacing(path) as beside,
    ):
        warnings.simplefilter("always")
        figure.savefig(beside, dpi=120, format=path.suffix[1:] or "png")
    without_glyph = set()
    for warning in caught:
        if glyph := re.match(r"Glyph (\d+) .*missing", str(warning.message)):
            without_glyph.add(chr(int(glyph[1])))
        else:
            warnings.warn_explicit(
                warning.message,
                warning.category,
                warning.filename,
                warning.lineno,
            )
    if without_glyph:
        characters = "".join(sorted(without_glyph)[:20])
        warnings.warn(
            f"The font of {path.name} shows boxes instead of {characters}. "
            "An .html file of the same shows them.",
            stacklevel=3,
        )
