import numpy as np
import pytest

from keras_transformer import decoding
from keras_transformer.tokenizer import END, START
from tests.decoding import reference
from tests.decoding.tiny import (
    built_model,
    find,
    random_model,
    sources,
    text,
)

# The settings of most tests here, so that few graphs are traced. Sources of 4
# tokens give hypotheses of up to 9.
SHORT = {"max_extra_length": 5}
BEAM = {"num_results": 4, **SHORT}
SAMPLES = {"num_results": 16, "seed": 3, **SHORT}


def assert_found(found_ids, found_scores, expected):
    """The hypotheses of one source are the expected ones, in their order."""
    nothing = [(-1e9, [])] * len(found_scores)
    expected = (expected + nothing)[: len(found_scores)]
    scores = [score for score, _ in expected]
    np.testing.assert_allclose(found_scores, scores, rtol=2e-5, atol=1e-4)
    score_of = {tuple(ids): score for score, ids in expected}
    for ids, score in zip(found_ids, found_scores):
        # Of two that score the same either may come first.
        np.testing.assert_allclose(
            score, score_of[tuple(text(ids))], rtol=2e-5, atol=1e-4
        )


# Hundreds of models, with those of `test_constraints.py`.
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_wide_beam_finds_what_brute_force_finds(alpha):
    for seed in range(100):
        model = random_model(seed, vocabulary_size=6)
        rng = np.random.default_rng(seed)
        ids = sources(rng, batch=2, vocabulary_size=6)
        found = find(
            decoding.beam_search,
            model,
            ids,
            beam_size=36,  # as many as there are candidates
            length_penalty=alpha,
            max_length=3,
            num_results=16,  # three more than those that end
        )
        for row in range(2):
            expected = reference.brute_force(model, ids[row], 3, alpha)
            assert_found(found.ids[row], found.scores[row], expected)


def test_a_narrow_beam_finds_what_a_search_without_cache_finds():
    for seed in range(20):
        model = random_model(seed)
        ids = sources(np.random.default_rng(seed), batch=2)
        found = find(decoding.beam_search, model, ids, **BEAM)
        for row in range(2):
            expected = reference.beam_search(
                model, ids[row], 4, 0.6, 9, num_results=4
            )
            assert_found(found.ids[row], found.scores[row], expected)


def test_greedy_takes_the_likeliest_token_of_passes_without_cache():
    for seed in range(20):
        model = random_model(seed)
        source = sources(np.random.default_rng(seed), batch=1)
        target = []
        while len(target) < 9 and target[-1:] != [END]:
            step = reference.log_probs(model, source[0], [target])[0, -1]
            step[[0, START]] = -np.inf
            target.append(int(step.argmax()))
        found = find(decoding.greedy_search, model, source, **SHORT)
        assert text(found.ids[0, 0]) == target


def test_a_beam_of_one_is_greedy():
    for seed in range(20):
        model = random_model(seed)
        ids = sources(np.random.default_rng(seed), batch=6)
        one = find(decoding.beam_search, model, ids, beam_size=1, **SHORT)
        greedy = find(decoding.greedy_search, model, ids, **SHORT)
        np.testing.assert_array_equal(one.ids, greedy.ids)
        np.testing.assert_allclose(one.scores, greedy.scores, atol=1e-5)


def test_results_are_sorted_and_distinct():
    for seed in range(20):
        model = random_model(seed)
        ids = sources(np.random.default_rng(seed))
        found = find(decoding.beam_search, model, ids, **BEAM)
        for hypotheses, scores in zip(found.ids, found.scores):
            ended = np.any(hypotheses == END, axis=-1)
            # What ended comes first; each kind has its own order.
            assert np.all(np.diff(ended.astype(int)) <= 0)
            assert np.all(np.diff(scores[ended]) <= 0)
            assert np.all(np.diff(scores[~ended]) <= 0)
            assert len({tuple(text(x)) for x in hypotheses}) == 4


@pytest.mark.parametrize(
    ("search", "settings"),
    [
        (decoding.greedy_search, SHORT),
        (decoding.beam_search, BEAM),
        (decoding.sample, SAMPLES),
    ],
)
def test_neighbours_and_padding_change_nothing(search, settings):
    num_ended = num_cut_off = 0
    for seed in range(12):
        model = random_model(seed)
        rng = np.random.default_rng(seed)
        short, long = sources(rng, 1, 3), sources(rng, 1, 8)
        batch = np.zeros((3, 10), "int32")
        batch[0, :3], batch[2, :8] = short, long
        together = find(search, model, batch, **settings)
        # A row of padding has an empty translation, for certain.
        assert not together.ids[1].any()
        assert together.scores[1, 0] == 0
        for row, source in ((0, short), (2, long)):
            alone = find(search, model, source, **settings)
            for ids, expected in zip(together.ids[row], alone.ids[0]):
                assert text(ids) == text(expected)
                num_ended += END in ids
                num_cut_off += END not in ids
            np.testing.assert_allclose(
                together.scores[row], alone.scores[0], atol=1e-5
            )
    assert num_ended >= 3
    assert num_cut_off >= 3


PATHS = [
    (decoding.greedy_search, {}),
    (decoding.beam_search, {"num_results": 3, "no_repeat_ngram_size": 2}),
    (decoding.sample, {"num_results": 3, "min_length": 2, "seed": 1}),
]


@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("search", "settings"), PATHS)
def test_the_graph_gives_what_python_gives(search, settings, jit_compile):
    model = random_model(4)
    ids = sources(np.random.default_rng(4))
    prefix = np.array([[5, 6], [0, 0], [1, 0]])
    settings = {"max_length": 4, **settings}
    expected = search(model, ids, prefix_ids=prefix, **settings)
    found = find(
        search, model, ids, prefix, jit_compile=jit_compile, **settings
    )
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=2e-5)


def test_no_hypothesis_outgrows_learned_positions():
    model = random_model(0, position_encoding="learned", max_length=5)
    ids = sources(np.random.default_rng(0))
    expected = decoding.greedy_search(model, ids, max_length=5)
    for found in (
        decoding.greedy_search(model, ids),
        find(decoding.greedy_search, model, ids),
    ):
        np.testing.assert_array_equal(found.ids, expected.ids)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam_size": 0}, "`beam_size`.*beam_size=0"),
        ({"beam_size": 2, "num_results": 3}, "num_results=3, beam_size=2"),
        ({"length_penalty": "0.6"}, "`length_penalty`.*'0.6'"),
        ({"length_penalty": float("nan")}, "`length_penalty`.*nan"),
        ({"max_extra_length": -1}, "`max_extra_length`.*=-1"),
        ({"max_length": 0}, "`max_length`.*max_length=0"),
        ({"min_length": -1}, "`min_length`.*=-1"),
        ({"min_length": 5, "max_length": 5}, "min_length=5, max_length=5"),
        ({"no_repeat_ngram_size": 1.5}, "`no_repeat_ngram_size`.*1.5"),
        ({"prefix_ids": [[4], [4]]}, "`prefix_ids`.*2 rows for 1 source"),
        ({"prefix_ids": [4]}, "`prefix_ids`.*shape=\\(1,\\)"),
        ({"prefix_ids": [[0, 4]]}, "`prefix_ids`.*\\[0, 4\\]"),
        ({"prefix_ids": [[4, END]]}, "`prefix_ids`.*without start and end"),
        ({"prefix_ids": [[7]]}, "`prefix_ids`.*vocabulary of 7"),
        ({"source_ids": [4, 3]}, "`source_ids`.*shape=\\(2,\\)"),
        ({"source_ids": [[4.0, 3.0]]}, "`source_ids`.*dtype=float"),
    ],
)
def test_wrong_arguments_are_named(settings, message):
    model = random_model(0)
    settings = {"source_ids": np.array([[4, 3]]), **settings}
    with pytest.raises(ValueError, match=message):
        decoding.beam_search(model, **settings)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("normalize_first", [False, True])
def test_a_model_in_mixed_precision_scores_nearly_the_same(
    dtype, normalize_first
):
    full = random_model(3, normalize_first=normalize_first)
    half = random_model(3, normalize_first=normalize_first, dtype=dtype)
    ids = sources(np.random.default_rng(0))
    exact = decoding.beam_search(full, ids, max_length=6)
    found = decoding.beam_search(half, ids, max_length=6)
    np.testing.assert_allclose(found.scores, exact.scores, atol=0.2)


def test_logits_are_not_rounded_in_mixed_precision():
    model = random_model(3, dtype="mixed_bfloat16")
    ids = sources(np.random.default_rng(0))
    once = decoding.greedy_search(model, ids, max_length=1)
    scores = decoding.score(model, ids, once.ids[:, 0])
    np.testing.assert_allclose(once.scores[:, 0], scores, atol=1e-5)


def test_a_quantized_model_is_refused():
    model = built_model(hidden_dim=16)
    copy = type(model).from_config(model.get_config())
    copy.quantize("int8")
    with pytest.raises(ValueError, match="in int8"):
        decoding.beam_search(copy, np.array([[4, 3]]))
