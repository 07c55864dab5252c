"""The compiled search gives the same, and is taken where it is faster."""

import numpy as np
import pytest

from keras_transformer.translator import speeds
from keras_transformer.translator.speeds import Speeds
from tests.untrained import untrained

SENTENCES = ["one", "two hundred and six", "", "nine " * 9, "forty-one"] * 9


@pytest.fixture(scope="module")
def translator():
    return untrained()


@pytest.mark.parametrize(
    "settings",
    [
        {"beam_size": 1},
        {"beam_size": 2, "num_results": 2, "attention": True},
        {"beam_size": 2, "prefix": "drei"},
        {"temperature": 0.5, "seed": 3},
    ],
)
def test_compiled_translations_are_the_same(translator, settings):
    settings = {**settings, "max_extra_length": 5}
    graph, compiled = (
        translator.translate(SENTENCES, jit_compile=choice, **settings)
        for choice in (False, True)
    )
    for ours, theirs in zip(graph, compiled):
        assert ours.text == theirs.text
        assert ours.score == pytest.approx(theirs.score, abs=1e-5)
        assert len(ours.alternatives) == len(theirs.alternatives)
        if ours.attention is not None:
            np.testing.assert_allclose(
                ours.attention, theirs.attention, atol=1e-5
            )


def clock(monkeypatch, seconds):
    """Batches take the time that `seconds` gives for a size or None."""
    now = [0.0]
    monkeypatch.setattr(speeds.time, "perf_counter", lambda: now[0])

    def work(chooser, count, **settings):
        compiled = []
        for group in chooser.groups(
            [10] * count, 320, (), longest=99, **settings
        ):
            for rows, size in group:
                now[0] += seconds(size) * len(rows)
                compiled += [size is not None] * len(rows)
        return compiled

    return work


@pytest.mark.parametrize("num_workers", [1, 3])
@pytest.mark.parametrize("compiled_is_faster", [True, False])
def test_many_sentences_take_what_is_faster(
    monkeypatch, compiled_is_faster, num_workers
):
    work = clock(
        monkeypatch,
        lambda size: 1.0 if (size is not None) == compiled_is_faster else 2.0,
    )
    compiled = work(
        Speeds(), 4 * speeds.ENOUGH * speeds.ROWS, num_workers=num_workers
    )
    assert any(compiled[: speeds.ENOUGH * speeds.ROWS])
    assert set(compiled[len(compiled) // 2 :]) == {compiled_is_faster}


def test_few_sentences_are_not_compiled_unless_asked_for(monkeypatch):
    work = clock(monkeypatch, lambda size: 1.0)
    assert not any(work(Speeds(), 1000))
    assert all(work(Speeds(), 100, jit_compile=True))


def test_sentences_of_many_calls_count_together(monkeypatch):
    work = clock(monkeypatch, lambda size: 1.0 if size else 2.0)
    chooser = Speeds()
    calls = [any(work(chooser, 1000)) for _ in range(5)]
    assert calls[0] is False
    assert calls[-1] is True


def test_every_row_comes_once():
    lengths = [3, 30, 8, 9, 1, 16, 17, 200] * 20
    for choice in (None, True, False):
        groups = Speeds().groups(
            lengths, 64, without=[4], longest=201, jit_compile=choice
        )
        batches = [batch for group in groups for batch in group]
        rows = [row for rows, _ in batches for row in rows]
        assert sorted(rows) == [i for i in range(len(lengths)) if i != 4]
        for rows, size in batches:
            if size is not None:
                assert len(rows) <= size[0] <= speeds.ROWS
                assert max(lengths[row] for row in rows) <= size[1] <= 201
