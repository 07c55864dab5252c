"""Pictures of attention: heat maps as PNG, and a page to look around in."""

import base64
import json
import math
from pathlib import Path

import numpy as np

from keras_transformer.files import write_text
from keras_transformer.plots.files import write_figure


def attention_map(weights, rows, columns, path, title=None):
    """Draws one head, or the average of several, as a heat map.

    Args:
        weights: Floats, `(rows, columns)`.
        rows: The pieces that look, on the left.
        columns: The pieces that are looked at, on top.
        path: The file to write.
        title: A line above.
    """
    _check(weights, rows, columns)
    figure = _figure(rows, columns, 1, 1, size=9)
    axes = figure.add_subplot()
    image = _draw(axes, weights, np.max(weights, initial=0.1))
    _label(axes, rows, columns, size=9)
    figure.colorbar(image, ax=axes, shrink=0.6, label="weight")
    if title:
        figure.suptitle(title, fontsize=11, parse_math=False)
    write_figure(figure, path)


def attention_heads(weights, rows, columns, path, title=None):
    """Draws all heads of a layer beside each other.

    Args:
        weights: Floats, `(heads, rows, columns)`.
        rows: The pieces that look, on the left.
        columns: The pieces that are looked at, on top.
        path: The file to write.
        title: A line above.
    """
    _check(weights, rows, columns)
    across = math.ceil(math.sqrt(len(weights)))
    # A little wider, if that fills all rows.
    fitting = (n for n in range(across, 2 * across) if len(weights) % n == 0)
    across = next(fitting, across)
    down = math.ceil(len(weights) / across)
    figure = _figure(rows, columns, down, across, size=6.5)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for number, (axes, head) in enumerate(zip(panels, weights)):
        image = _draw(axes, head, 1.0)
        first_in_row, in_first_row = number % across == 0, number < across
        _label(
            axes,
            rows if first_in_row else [],
            columns if in_first_row else [],
            size=6.5,
        )
        axes.set_xlabel(f"head {number + 1}", fontsize=8)
    for axes in panels[len(weights) :]:
        axes.set_visible(False)
    figure.colorbar(image, ax=panels.tolist(), shrink=0.6, label="weight")
    if title:
        figure.suptitle(title, fontsize=11, parse_math=False)
    write_figure(figure, path)


def attention_page(maps, path, title, kind="memory", layer=None, head=None):
    """Writes one HTML file in which to choose layer and head.

    Args:
        maps: What `Translator.attention` returns.
        path: The file to write. It needs no other.
        title: The heading.
        kind: The kind of attention that it shows first.
        layer: The layer that it shows first, from 0; by default the last.
        head: The head that it shows first, from 0; by default the average.
    """
    data = {
        "title": title,
        "kind": kind,
        "layer": layer,
        "head": head,
        "maps": {
            name: {
                "rows": _readable(rows),
                "columns": _readable(columns),
                "shape": np.shape(weights),
                # A byte for a weight: a screen shows no more.
                "weights": base64.b64encode(
                    np.round(np.asarray(weights) * 255).astype("uint8")
                ).decode(),
            }
            for name, (weights, rows, columns) in maps.items()
        },
    }
    # "<" could end the script that holds the data.
    data = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    template = Path(__file__).with_name("attention.html").read_text("utf-8")
    write_text(path, template.replace("{{data}}", data))


def _check(weights, rows, columns):
    if np.shape(weights)[-2:] != (len(rows), len(columns)):
        raise ValueError(
            "`weights` must have a row for each of `rows` and a column for "
            f"each of `columns`. Received: weights.shape={np.shape(weights)}, "
            f"{len(rows)} rows, {len(columns)} columns. Take all three from "
            "one `AttentionMap`."
        )


def _figure(rows, columns, down, across, size):
    """As large as its pieces need to be read at a font's size."""
    from matplotlib.figure import Figure

    cell, letter = 1.9 * size / 72, 0.65 * size / 72  # inches
    width = across * (cell * max(8, len(columns)) + 0.1)
    height = down * (cell * max(4, len(rows)) + 0.3)
    width += letter * max(map(len, rows)) + 1.0  # for the scale of colours
    height += letter * max(map(len, columns)) + 0.4
    return Figure(figsize=(width, height), layout="constrained")


def _draw(axes, weights, largest):
    return axes.imshow(weights, cmap="Blues", vmin=0, vmax=largest)


def _label(axes, rows, columns, size):
    axes.tick_params(length=0, pad=2)
    axes.xaxis.tick_top()
    for axis, pieces in ((axes.xaxis, columns), (axes.yaxis, rows)):
        axis.set_ticks(
            range(len(pieces)),
            _readable(pieces),
            fontsize=size,
            parse_math=False,
        )
    for text in axes.get_xticklabels():
        text.set_rotation(90)


def _readable(pieces):
    """With a smaller mark where a space begins a piece."""
    return [piece.replace("▁", "·") for piece in pieces]
