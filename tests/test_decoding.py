import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_transformer import decoding
from keras_transformer.model import Transformer
from keras_transformer.tokenizer import END, START


def random_model(seed, vocabulary_size=7, scale=0.6):
    """A tiny model that is sure of some things, as a trained one is."""
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    model = Transformer(
        vocabulary_size=vocabulary_size,
        num_layers=1,
        hidden_dim=8,
        num_heads=2,
        intermediate_dim=8,
    )
    weights = model.get_weights()
    model.set_weights([w + scale * rng.normal(size=w.shape) for w in weights])
    return model


def sources(rng, batch=3, length=4, vocabulary_size=7):
    ids = rng.integers(4, vocabulary_size, (batch, length)).astype("int32")
    ids[:, -1] = END
    return ids


def log_probability(model, source, target):
    """Of a sequence with its end, by one uncached pass."""
    inputs = {
        "source_ids": source[None],
        "target_ids": np.array([[START, *target[:-1]]]),
    }
    log_probs = ops.log_softmax(model(inputs)[0])
    return sum(float(log_probs[i, token]) for i, token in enumerate(target))


def penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def brute_force(model, source, max_length, alpha):
    """Every sequence that ends within the length, best first."""
    size = model.get_config()["vocabulary_size"]
    words = [token for token in range(1, size) if token not in (START, END)]
    found = []
    for length in range(1, max_length + 1):
        for start in itertools.product(words, repeat=length - 1):
            target = [*start, END]
            score = log_probability(model, source, target)
            found.append((score / penalty(length, alpha), target))
    return sorted(found, reverse=True)


def text(ids):
    """Ids without the padding behind them."""
    return [token for token in np.asarray(ids).tolist() if token]


@pytest.mark.parametrize("seed", range(12))
def test_a_wide_beam_finds_what_brute_force_finds(seed):
    rng = np.random.default_rng(seed)
    model = random_model(seed, vocabulary_size=6)
    source = sources(rng, batch=1, vocabulary_size=6)
    alpha = rng.choice([0.0, 0.6, 1.0])
    expected = brute_force(model, source[0], max_length=3, alpha=alpha)
    found = decoding.beam_search(
        model,
        source,
        beam_size=80,
        length_penalty=alpha,
        max_length=3,
        num_results=10,
    )
    np.testing.assert_allclose(
        found.scores[0], [score for score, _ in expected[:10]], atol=1e-4
    )
    assert text(found.ids[0, 0]) == expected[0][1]


@pytest.mark.parametrize("seed", range(6))
def test_a_beam_of_one_is_greedy(seed):
    model = random_model(seed)
    ids = sources(np.random.default_rng(seed), batch=6)
    one = decoding.beam_search(model, ids, beam_size=1, max_extra_length=6)
    greedy = decoding.greedy_search(model, ids, max_extra_length=6)
    for row in range(6):
        assert text(one.ids[row, 0]) == text(greedy.ids[row, 0])
    np.testing.assert_allclose(one.scores, greedy.scores, atol=1e-5)


def test_greedy_takes_the_likeliest_token_of_uncached_passes():
    model = random_model(3)
    source = sources(np.random.default_rng(3), batch=1)
    target = [START]
    while len(target) < 9 and target[-1] != END:
        logits = model({"source_ids": source, "target_ids": np.array([target])})
        logits = np.array(logits[0, -1])
        logits[[0, START]] = -np.inf
        target.append(int(logits.argmax()))
    found = decoding.greedy_search(model, source, max_length=8)
    assert text(found.ids[0, 0]) == target[1:]


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_a_score_is_the_log_probability_over_the_penalty(beam_size):
    model = random_model(5)
    ids = sources(np.random.default_rng(5))
    found = decoding.beam_search(
        model,
        ids,
        beam_size=beam_size,
        num_results=beam_size,
        max_extra_length=5,
    )
    for row in range(3):
        for hypothesis, score in zip(found.ids[row], found.scores[row]):
            target = text(hypothesis)
            expected = log_probability(model, ids[row], target)
            expected /= penalty(len(target), 0.6)
            np.testing.assert_allclose(score, expected, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_results_are_sorted_and_distinct(seed):
    model = random_model(seed)
    ids = sources(np.random.default_rng(seed))
    found = decoding.beam_search(
        model, ids, beam_size=4, num_results=4, max_extra_length=8
    )
    for hypotheses, scores in zip(found.ids, np.asarray(found.scores)):
        ended = np.any(np.asarray(hypotheses) == END, axis=-1)
        # What ended comes first; each kind has its own order.
        assert np.all(np.diff(ended.astype(int)) <= 0)
        assert np.all(np.diff(scores[ended]) <= 0)
        assert np.all(np.diff(scores[~ended]) <= 0)
        assert len({tuple(text(x)) for x in hypotheses}) == 4


@pytest.mark.parametrize("beam_size", [1, 4])
def test_neighbours_and_padding_change_nothing(beam_size):
    model = random_model(9)
    rng = np.random.default_rng(9)
    short, long = sources(rng, 1, 3), sources(rng, 1, 8)
    batch = np.concatenate([np.pad(short, ((0, 0), (0, 5))), long])
    together = decoding.beam_search(model, batch, beam_size=beam_size)
    for row, source in enumerate((short, long)):
        alone = decoding.beam_search(model, source, beam_size=beam_size)
        assert text(together.ids[row, 0]) == text(alone.ids[0, 0])
        np.testing.assert_allclose(
            together.scores[row], alone.scores[0], atol=1e-5
        )


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_graph_gives_what_python_gives(jit_compile):
    model = random_model(4)
    ids = sources(np.random.default_rng(4))
    for search in (decoding.beam_search, decoding.greedy_search):
        expected = search(model, ids)
        compiled = tf.function(
            lambda x, search=search: search(model, x), jit_compile=jit_compile
        )
        found = compiled(tf.constant(ids))
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=2e-5)


def test_a_hypothesis_may_be_cut_off_at_the_limit():
    model = random_model(2)
    ids = sources(np.random.default_rng(2))
    found = decoding.beam_search(model, ids, max_length=1, num_results=2)
    assert found.ids.shape == (3, 2, 1)


def test_wrong_arguments_are_named():
    model = random_model(0)
    with pytest.raises(ValueError, match="`beam_size`.*beam_size=0"):
        decoding.beam_search(model, np.array([[4, 3]]), beam_size=0)
    with pytest.raises(ValueError, match="num_results=3, beam_size=2"):
        decoding.beam_search(
            model, np.array([[4, 3]]), beam_size=2, num_results=3
        )
