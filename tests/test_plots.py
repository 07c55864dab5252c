import base64
import json
import re

import keras
import numpy as np
import pytest

from keras_transformer import TransformerSchedule, plots
from tests import reference
from tests.serving.browser import CHROMIUM, open_page

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


def test_letters_that_the_font_lacks_are_named_once(weights, tmp_path):
    rows = ["猫", "▁が", "</s>"]
    with pytest.warns(UserWarning, match="boxes instead of が猫") as told:
        plots.attention_map(weights[0, 0], rows, COLUMNS, tmp_path / "a.png")
    assert len(told) == 1


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


def test_a_curve_shows_losses_and_scores(drawn, tmp_path):
    rows = [
        {"step": 10, "loss": 3.0, "val_loss": 3.5, "bleu": 1.5, "chrf": 9.0},
        {"step": 20, "loss": 2.5, "val_loss": 3.25, "bleu": 4.0, "chrf": 12.0},
    ]
    plots.learning_curve(rows, tmp_path / "curve.png")
    lines = [line for axes in drawn for line in axes.lines]
    shown = [list(map(float, line.get_ydata())) for line in lines]
    for name in ("loss", "val_loss", "bleu"):
        assert [row[name] for row in rows] in shown
    assert all(list(line.get_xdata()) == [10, 20] for line in lines)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_attention_page_shows_what_is_chosen(weights, tmp_path):
    path = tmp_path / "page.html"
    maps = {"memory": (weights, ROWS, COLUMNS)}
    plots.attention_page(maps, path, "a → b", layer=1, head=0)
    with open_page(path.as_uri(), tmp_path / "profile") as page:
        cells = "document.querySelectorAll('#map td:not(:first-child)').length"
        assert page.run(cells) > 0
        page.run(
            "document.querySelector('#rows span')"
            ".dispatchEvent(new MouseEvent('mouseenter'))"
        )
        assert "→" in page.text("#hint")
        heads = "document.querySelectorAll('#head button')"
        page.run(f"{heads}[2].focus()")
        page.run(f"{heads}[2].click()")
        pressed = f"[...{heads}].map(b => b.getAttribute('aria-pressed'))"
        assert page.run(pressed).index("true") == 2
        # The keyboard is where it was.
        assert page.run(f"document.activeElement === {heads}[2]")
        assert page.complaints == []


def test_a_curve_of_text_is_that_of_its_numbers(tmp_path):
    rows = [{"step": 9, "loss": 3.0, "bleu": 1.5}, {"step": 10, "loss": 2.5}]
    texts = [{k: str(v) for k, v in row.items()} for row in rows]
    for name, history in (("a.png", rows), ("b.png", texts)):
        plots.learning_curve(history, tmp_path / name)
    drawn = [(tmp_path / name).read_bytes() for name in ("a.png", "b.png")]
    assert drawn[0] == drawn[1]


@pytest.fixture
def drawn(monkeypatch):
    """The axes of what is drawn next."""
    axes = []
    for module in ("attention", "curves"):
        monkeypatch.setattr(
            f"keras_transformer.plots.{module}.write_figure",
            lambda figure, path: axes.extend(figure.axes),
        )
    return axes


def test_heat_maps_hold_the_weights(weights, drawn):
    plots.attention_map(weights[0, 0], ROWS, COLUMNS, "a.png")
    plots.attention_heads(weights[0], ROWS, COLUMNS, "b.png")
    images = [axes.images[0].get_array() for axes in drawn if axes.images]
    expected = [weights[0, 0], *weights[0]]
    assert len(images) == len(expected)
    for image, values in zip(images, expected):
        np.testing.assert_allclose(image, values)


def test_a_schedule_is_drawn_from_its_first_update_to_its_last(drawn):
    paper = TransformerSchedule(64, warmup_steps=300)
    plots.schedule(paper, "a.png", steps=1000)
    updates, rates = drawn[0].lines[0].get_data()
    assert (updates[0], updates[-1]) == (1, 1000)
    expected = 64**-0.5 * np.minimum(updates**-0.5, updates * 300**-1.5)
    np.testing.assert_allclose(rates, expected, rtol=1e-5)
    # Schedules and functions that take no array.
    cosine = keras.optimizers.schedules.CosineDecay(
        0.0, 20, warmup_target=0.1, warmup_steps=5
    )
    for schedule in (cosine, lambda step: 0.1):
        plots.schedule(schedule, "b.png", steps=30)
        assert max(drawn[-1].lines[0].get_ydata()) == pytest.approx(0.1)


@pytest.mark.parametrize("kind", ["sinusoidal", "concatenated"])
def test_positions_are_the_papers_waves(drawn, kind):
    plots.positions(16, "a.png", length=20, kind=kind)
    waves = reference.sinusoids(20, 16)
    if kind == "concatenated":
        waves = np.concatenate([waves[:, ::2], waves[:, 1::2]], axis=1)
    np.testing.assert_allclose(drawn[0].images[0].get_array(), waves, atol=1e-5)


def test_positions_that_are_learned_cannot_be_drawn(drawn):
    with pytest.raises(ValueError, match="kind='learned'"):
        plots.positions(16, "a.png", kind="learned")
