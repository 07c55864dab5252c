import base64
import json
import re

import numpy as np
import pytest

from keras_transformer import TransformerSchedule, plots

ROWS = ["ein", "▁Haus", "</s>"]
COLUMNS = ["a", "▁$5", "▁x$", "</s>"]


@pytest.fixture
def weights(rng):
    return rng.dirichlet(np.ones(len(COLUMNS)), size=(2, 3, len(ROWS)))


def size_of_png(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return [int.from_bytes(data[i : i + 4], "big") for i in (16, 20)]


def test_a_map_grows_with_its_pieces(weights, tmp_path):
    plots.attention_map(weights[0, 0], ROWS, COLUMNS, tmp_path / "a.png")
    long = np.tile(weights[0, 0], (5, 8))
    plots.attention_map(long, ROWS * 5, COLUMNS * 8, tmp_path / "b.png")
    small, large = (
        size_of_png(tmp_path / "a.png"),
        size_of_png(tmp_path / "b.png"),
    )
    assert large[0] > 2 * small[0]
    assert large[1] > 2 * small[1]
    assert not list(tmp_path.glob("*.partial"))


def test_all_heads_are_drawn(weights, tmp_path):
    plots.attention_heads(
        weights[0], ROWS, COLUMNS, tmp_path / "a.png", "layer $1$"
    )
    plots.attention_heads(weights[0, :1], ROWS, COLUMNS, tmp_path / "b.png")
    three, one = (
        size_of_png(tmp_path / "a.png"),
        size_of_png(tmp_path / "b.png"),
    )
    assert three[0] > one[0]


def test_weights_must_fit_their_pieces(weights, tmp_path):
    with pytest.raises(ValueError, match="3 rows, 3 columns"):
        plots.attention_map(weights[0, 0], ROWS, ROWS, tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_a_page_holds_all_it_needs(weights, tmp_path):
    path = tmp_path / "a.html"
    title = "</script><b>$& {{data}}"
    maps = {"memory": (weights, ROWS, COLUMNS)}
    plots.attention_page(maps, path, title, layer=1, head=0)
    page = path.read_text("utf-8")
    assert not re.search(r"https?://|<link|<script src|@import|url\(", page)
    (data,) = re.findall(r'application/json">(.*?)</script>', page, re.DOTALL)
    data = json.loads(data)
    assert data["title"] == title
    assert (data["kind"], data["layer"], data["head"]) == ("memory", 1, 0)
    found = data["maps"]["memory"]
    assert found["rows"] == ["ein", "·Haus", "</s>"]
    numbers = np.frombuffer(base64.b64decode(found["weights"]), np.uint8)
    np.testing.assert_allclose(
        numbers.reshape(found["shape"]) / 255, weights, atol=0.5 / 255 + 1e-9
    )


def test_a_curve_of_text_is_that_of_its_numbers(tmp_path):
    rows = [{"step": 9, "loss": 3.0, "bleu": 1.5}, {"step": 10, "loss": 2.5}]
    texts = [{k: str(v) for k, v in row.items()} for row in rows]
    for name, history in (("a.png", rows), ("b.png", texts)):
        plots.learning_curve(history, tmp_path / name)
    drawn = [(tmp_path / name).read_bytes() for name in ("a.png", "b.png")]
    assert drawn[0] == drawn[1]


def test_schedule_and_positions_are_drawn(tmp_path):
    plots.schedule(TransformerSchedule(64), tmp_path / "a.png", steps=50)
    plots.positions(16, tmp_path / "b.png", length=20)
    for name in ("a.png", "b.png"):
        assert min(size_of_png(tmp_path / name)) > 200
