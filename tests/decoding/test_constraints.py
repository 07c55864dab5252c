import numpy as np
import pytest

from keras_transformer import decoding
from keras_transformer.decoding.constraints import make_constraint
from tests.decoding import reference
from tests.decoding.test_beam import BEAM, SAMPLES, SHORT, assert_found
from tests.decoding.tiny import find, random_model, sources, text

CONSTRAINTS = {"min_length": 2, "no_repeat_ngram_size": 2}
PREFIXES = np.array([[5, 4], [0, 0], [6, 0]])


def judge(prefix, **settings):
    return lambda ids: reference.obeys(ids, text(prefix), **settings)


@pytest.mark.parametrize(
    ("settings", "alpha"),
    [
        ({"min_length": 2, "no_repeat_ngram_size": 1}, 0.6),
        ({"no_repeat_ngram_size": 2}, 1.0),
        ({"min_length": 3, "no_repeat_ngram_size": 3}, 0.0),
    ],
)
def test_a_wide_beam_finds_what_brute_force_allows(settings, alpha):
    # The last one repeats itself, which nothing after it may.
    prefixes = np.array([[0, 0, 0], [5, 0, 0], [4, 1, 0], [4, 4, 0]])
    for seed in range(40):
        model = random_model(seed, vocabulary_size=6)
        rng = np.random.default_rng(seed)
        ids = sources(rng, batch=4, vocabulary_size=6)
        found = find(
            decoding.beam_search,
            model,
            ids,
            prefixes,
            beam_size=108,  # as many as there are candidates
            length_penalty=alpha,
            max_length=4,
            num_results=24,  # more than there are after some prefixes
            **settings,
        )
        for row, prefix in enumerate(prefixes):
            expected = reference.brute_force(
                model, ids[row], 4, alpha, judge(prefix, **settings)
            )
            assert_found(found.ids[row], found.scores[row], expected)


def test_a_narrow_beam_finds_what_a_search_without_cache_finds():
    for seed in range(12):
        model = random_model(seed)
        ids = sources(np.random.default_rng(seed))
        found = find(
            decoding.beam_search, model, ids, PREFIXES, **BEAM, **CONSTRAINTS
        )
        for row, prefix in enumerate(PREFIXES):
            expected = reference.beam_search(
                model, ids[row], 4, 0.6, 9, 4, judge(prefix, **CONSTRAINTS)
            )
            assert_found(found.ids[row], found.scores[row], expected)


def test_greedy_finds_what_a_search_without_cache_finds():
    for seed in range(12):
        model = random_model(seed)
        ids = sources(np.random.default_rng(seed))
        found = find(
            decoding.greedy_search, model, ids, PREFIXES, **SHORT, **CONSTRAINTS
        )
        for row, prefix in enumerate(PREFIXES):
            expected = reference.beam_search(
                model, ids[row], 1, 0.6, 9, 1, judge(prefix, **CONSTRAINTS)
            )
            assert_found(found.ids[row], found.scores[row], expected)


def test_samples_obey():
    num_changed = 0
    for seed in range(10):
        model = random_model(seed)
        ids = sources(np.random.default_rng(seed))
        free = find(decoding.sample, model, ids, **SAMPLES)
        found = find(
            decoding.sample, model, ids, PREFIXES, **SAMPLES, **CONSTRAINTS
        )
        for row, prefix in enumerate(PREFIXES):
            obeys = judge(prefix, **CONSTRAINTS)
            assert all(obeys(text(x)) for x in found.ids[row])
            num_changed += sum(not obeys(text(x)) for x in free.ids[row])
    assert num_changed > 100


def test_without_constraints_nothing_is_computed():
    model = random_model(0)
    constrain, start = make_constraint(model, np.array([[4, 3]]), 1)
    log_probs = np.zeros((1, 7))
    assert constrain(log_probs, {"step": 0}) is log_probs
    assert start == {}


@pytest.mark.parametrize(
    ("search", "settings"),
    [(decoding.greedy_search, {}), (decoding.beam_search, {"num_results": 2})],
)
def test_where_no_token_is_allowed_there_is_no_hypothesis(search, settings):
    model = random_model(1, vocabulary_size=6)
    ids = sources(np.random.default_rng(1), vocabulary_size=6)
    # Three words, none of them twice, and no end before the fifth token.
    found = find(
        search,
        model,
        ids,
        min_length=4,
        no_repeat_ngram_size=1,
        max_length=6,
        **settings,
    )
    assert not np.any(found.ids)
    assert np.all(found.scores == -1e9)
