"""Sentences that are done leave the batch; nothing else changes."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_transformer import decoding
from keras_transformer.decoding import loop
from tests.decoding.tiny import find, random_model, sources

SEARCHES = [
    (decoding.greedy_search, {}),
    (decoding.beam_search, {"beam_size": 3, "num_results": 2}),
    (decoding.sample, {"seed": 5, "temperature": 0.2}),
    (decoding.beam_search, {"min_length": 3, "no_repeat_ngram_size": 4}),
]


MODELS = [
    {},
    {"key_dim": 3, "value_dim": 5, "tie_output": False},
    {"attention_window": 4, "normalize_first": True, "use_bias": True},
    {"share_embeddings": False, "position_encoding": "concatenated"},
]


@pytest.mark.parametrize(
    ("search", "settings", "sizes"),
    [(*pair, {}) for pair in SEARCHES]
    + [(*SEARCHES[1], sizes) for sizes in MODELS[1:]],
)
def test_a_large_batch_finds_what_fixed_sizes_find(search, settings, sizes):
    # Some end early, and some are so long that more room is made.
    model, rng = random_model(4, **sizes), np.random.default_rng(1)
    ids = sources(rng, batch=5 * loop.FEW, length=6)
    ids[::3, 2:] = 0
    settings = {**settings, "max_extra_length": 3 * loop.FIRST_ROOM}
    shrinking = find(search, model, ids, **settings)
    fixed = find(search, model, ids, jit_compile=True, **settings)
    lengths = (fixed.ids[:, 0] > 0).sum(axis=1)
    assert lengths.min() < loop.FIRST_ROOM < lengths.max()
    np.testing.assert_array_equal(shrinking.ids, fixed.ids)
    np.testing.assert_allclose(shrinking.scores, fixed.scores, atol=1e-4)


def test_prefixes_stay_with_their_sentences():
    model, rng = random_model(4), np.random.default_rng(2)
    ids = sources(rng, batch=5 * loop.FEW, length=6)
    prefixes = rng.integers(4, 7, (len(ids), 2)).astype("int32")
    found = find(decoding.beam_search, model, ids, prefixes)
    np.testing.assert_array_equal(found.ids[:, 0, :2], prefixes)
    for row in (0, 17, len(ids) - 1):
        one = slice(row, row + 1)
        alone = find(decoding.beam_search, model, ids[one], prefixes[one])
        np.testing.assert_allclose(alone.scores, found.scores[one], atol=1e-4)


@pytest.mark.parametrize("sizes", MODELS)
def test_a_step_is_a_pass_of_the_whole_model(sizes):
    model, rng = random_model(5, **sizes), np.random.default_rng(4)
    ids = sources(rng, batch=3, length=6)
    found = find(decoding.greedy_search, model, ids, max_length=24)
    scores = find(
        decoding.score, model, ids, found.ids[:, 0], length_penalty=0.6
    )
    np.testing.assert_allclose(found.scores[:, 0], scores, atol=1e-4)


def test_calls_at_the_same_time_share_no_memory():
    # The past is written in place: the memory of one call is its own.
    model, rng = random_model(4), np.random.default_rng(3)
    batches = [sources(rng, batch=12, length=5) for _ in range(4)]
    alone = [find(decoding.beam_search, model, ids) for ids in batches]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            together = pool.map(
                lambda ids: find(decoding.beam_search, model, ids), batches
            )
            for ours, theirs in zip(together, alone):
                np.testing.assert_array_equal(ours.ids, theirs.ids)
                np.testing.assert_array_equal(ours.scores, theirs.scores)


@pytest.mark.parametrize("width", [999, 1000, 8000, 10_007, 37_000])
def test_the_blocked_top_k_is_the_top_k(width):
    rng = np.random.default_rng(width)
    # Few different numbers, so that many are equal.
    x = rng.integers(0, width // 3, (7, width)).astype("float32")
    for count in (1, 3, 10):
        numbers, places = decoding.search.top_k(x, count)
        order = np.argsort(-x, axis=1, kind="stable")[:, :count]
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(
            numbers, np.take_along_axis(x, order, axis=1)
        )
