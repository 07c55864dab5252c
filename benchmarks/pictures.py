"""The pictures in docs/, small enough for a repository."""

import csv
import tempfile

from PIL import Image

from keras_transformer import plots


def draw_attention(translator, sentence, path):
    """What `keras-transformer attention --head average` draws."""
    weights, rows, columns = translator.attention(sentence)["memory"]
    plots.attention_map(
        weights[-1].mean(axis=0),
        rows,
        columns,
        path,
        f"memory, layer {len(weights)}, average of all heads",
    )
    _shrink(path, 1)


def draw_curve(run_folder, path):
    """The curve that a run draws at its end, of what there is so far."""
    with open(run_folder / "metrics.csv", encoding="utf-8") as file:
        plots.learning_curve(list(csv.DictReader(file)), path)
    _shrink(path, 1)


def draw_page(model, sentence, path):
    """The page of `keras-transformer serve`, where there is a browser."""
    from tests.serving.browser import CHROMIUM, open_page
    from tests.serving.toy import Server

    if CHROMIUM is None:
        print(f"No Chromium: {path} stays as it is.")
        return
    with (
        Server(model) as server,
        tempfile.TemporaryDirectory() as folder,
        open_page(f"http://{server.address}/", folder, width=1000) as page,
    ):
        page.wait("document.querySelector('#model').textContent")
        page.type("#text", sentence)
        page.wait("document.querySelectorAll('#lines path').length > 0")
        page.hover("#target button", 2)
        page.run("new Promise(done => setTimeout(done, 500))")
        page.screenshot(path)
    _shrink(path, 2)


def _shrink(path, factor):
    """Fewer pixels, and few colours."""
    with Image.open(path) as image:
        size = (image.width // factor, image.height // factor)
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    small.quantize(64).save(path, optimize=True)
