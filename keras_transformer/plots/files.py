"""Writes figures."""

from pathlib import Path

from keras_transformer.files import replacing


def write_figure(figure, path):
    path = Path(path)
    with replacing(path) as beside:
        figure.savefig(beside, dpi=120, format=path.suffix[1:] or "png")
