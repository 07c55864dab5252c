import collections
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import decoding
from keras_transformer.tokenizer import END
from tests.decoding import reference
from tests.decoding.test_beam import SAMPLES
from tests.decoding.tiny import find, random_model, sources, text

MANY = {"num_results": 20_000, "max_length": 2, "seed": 8}


def assert_frequencies(counts, shares):
    """Pearson's test: a right program would fail it once in 2,000 times.

    Args:
        counts: What was seen how often.
        shares: What has which probability.
    """
    total = sum(counts.values())
    assert set(counts) <= set(shares)
    likely = [x for x, share in shares.items() if total * share >= 5]
    cells = [(counts[x], total * shares[x]) for x in likely]
    seen, expected = np.sum(cells, axis=0)
    if total - expected >= 5:
        cells.append((total - seen, total - expected))
    statistic = sum((seen - mean) ** 2 / mean for seen, mean in cells)
    freedom = max(1, len(cells) - 1)
    # Wilson and Hilferty's approximation of the chi-square distribution.
    spread = 2 / (9 * freedom)
    assert statistic < freedom * (1 - spread + 3.29 * spread**0.5) ** 3


def shares_of_samples(model, source, **truncation):
    """Every sample of up to two tokens, and its probability."""
    words = [token for token in range(1, 7) if token != 2]
    steps = reference.log_probs(model, source, [[word] for word in words])
    first = reference.truncated(steps[0, 0], **truncation)
    shares = {}
    for word, step in zip(words, steps):
        second = reference.truncated(step[1], **truncation)
        if word == END:
            shares[(END,)] = first[END]
            continue
        for last in words:
            shares[word, last] = first[word] * second[last]
    return {x: share for x, share in shares.items() if share > 0}


@pytest.mark.parametrize(
    "truncation",
    [
        {},
        {"temperature": 2.0, "top_k": 2},
        {"top_p": 0.7},
        {"temperature": 1.5, "top_k": 3, "top_p": 0.8},
    ],
)
def test_samples_are_as_frequent_as_they_are_likely(truncation):
    ids = sources(np.random.default_rng(1), batch=2)
    num_cells = 0
    for seed in range(4):
        model = random_model(seed)
        found = find(decoding.sample, model, ids, **MANY, **truncation)
        for source, samples in zip(ids, found.ids):
            counts = collections.Counter(tuple(text(x)) for x in samples)
            shares = shares_of_samples(model, source, **truncation)
            assert_frequencies(counts, shares)
            num_cells += len(shares)
    assert num_cells >= 15


def test_samples_of_two_sources_are_independent():
    model = random_model(0)
    ids = sources(np.random.default_rng(1), batch=2)
    graph = tf.function(
        lambda seed: decoding.sample(model, ids, seed=seed, max_length=1),
        input_signature=[tf.TensorSpec((), tf.int32)],
        autograph=False,
    )
    tokens = [tuple(np.ravel(graph(seed).ids)) for seed in range(400)]
    first, second = (
        reference.truncated(reference.log_probs(model, source, [[]])[0, 0])
        for source in ids
    )
    shares = {
        (i, j): first[i] * second[j]
        for i, j in itertools.product(range(7), repeat=2)
    }
    assert_frequencies(collections.Counter(tokens), shares)


@pytest.mark.parametrize("truncation", [{}, {"top_k": 3}, {"top_p": 0.9}])
def test_the_lowest_temperatures_find_the_likeliest(truncation):
    model, ids = random_model(0), sources(np.random.default_rng(0))
    greedy = decoding.greedy_search(model, ids, max_length=4)
    for temperature in (1e-3, 1e-9, 1e-30):
        drawn = decoding.sample(
            model, ids, max_length=4, temperature=temperature, **truncation
        )
        np.testing.assert_array_equal(drawn.ids, greedy.ids)


def test_results_are_sorted():
    ids = sources(np.random.default_rng(0))
    found = find(decoding.sample, random_model(0), ids, **SAMPLES)
    assert np.all(np.diff(found.scores) <= 0)
    assert len(np.unique(found.scores)) > 10


def test_a_seed_gives_the_same_samples_and_another_others():
    model = random_model(3)
    ids = sources(np.random.default_rng(3))

    def samples(seed):
        found = decoding.sample(
            model, ids, num_results=8, max_length=2, seed=seed
        )
        return np.asarray(found.ids)

    np.testing.assert_array_equal(samples(1), samples(1))
    assert np.any(samples(1) != samples(2))
    generator = keras.random.SeedGenerator(5)
    first, second = samples(generator), samples(generator)
    assert np.any(first != second)
    again = samples(keras.random.SeedGenerator(5))
    np.testing.assert_array_equal(first, again)


def test_without_a_seed_a_graph_gives_others_each_time():
    model = random_model(3)
    ids = sources(np.random.default_rng(3))
    first, second = (
        find(decoding.sample, model, ids, num_results=8, max_length=4).ids
        for _ in range(2)
    )
    assert np.any(first != second)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_results": 0}, "`num_results`.*=0"),
        ({"temperature": 0}, "`temperature`.*temperature=0"),
        ({"top_k": 0}, "`top_k`.*top_k=0"),
        ({"top_p": 0}, "`top_p`.*top_p=0"),
        ({"top_p": 1.5}, "`top_p`.*top_p=1.5"),
        ({"top_p": "0.5"}, "`top_p`.*'0.5'"),
        ({"seed": "now"}, "`seed`.*'now'"),
        ({"seed": 0.5}, "`seed`.*0.5"),
    ],
)
def test_wrong_arguments_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        decoding.sample(random_model(0), [[4, 3]], **settings)
