"""Two passes over a batch, and what their predictions must have in common."""

import keras
import numpy as np
import pytest

from keras_transformer.training import (
    Adam,
    SmoothedCrossentropy,
)
from keras_transformer.training.loss import disagreement

from .bigram import Halves, compiled, direct, flat_weights


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def divergences(first, second):
    """Of each position, the mean of both ways; by the definition."""
    p, q = log_softmax(first), log_softmax(second)
    one_way, other_way = np.exp(p) * (p - q), np.exp(q) * (q - p)
    return (one_way + other_way).sum(-1) / 2


@pytest.mark.parametrize("weighted", [False, True])
def test_disagreement_is_the_divergence_at_real_tokens(rng, weighted):
    first, second = rng.normal(size=(2, 3, 5, 7))
    targets = rng.integers(1, 7, (3, 5))
    targets[1, 2:] = 0
    weights = rng.uniform(size=(3, 5)) if weighted else np.ones((3, 5))
    expected = divergences(first, second) * (targets != 0) * weights
    result = disagreement(
        np.concatenate([targets, targets]),
        np.concatenate([first, second]),
        np.concatenate([weights, weights]) if weighted else None,
    )
    np.testing.assert_allclose(result, expected.sum(), rtol=1e-5)


def test_an_update_follows_the_slope_of_both_terms(rng, data):
    """The slope is measured: a weight is moved a little, one way and back."""
    ids, targets = data
    loss = SmoothedCrossentropy(0.1)
    model = Halves()
    model(ids)
    embeddings, stretch = rng.normal(size=(11, 11)), rng.uniform(0.5, 2, 11)
    model.embedding.embeddings.assign(embeddings)
    model.stretch.assign(stretch)

    def total(stretch):
        first = embeddings[ids]
        second = first * stretch
        real = targets != 0
        apart = np.sum(divergences(first, second) * real) / (2 * real.sum())
        both = np.concatenate([first, second])
        return float(loss(np.tile(targets, (2, 1)), both)) + 3.0 * apart

    model.compile(keras.optimizers.SGD(1.0), loss, consistency=3.0)
    model.train_on_batch(ids, targets)
    slopes = [
        (total(stretch + step) - total(stretch - step)) / 2e-2
        for step in 1e-2 * np.eye(11)
    ]
    moved = stretch - np.asarray(model.stretch)
    np.testing.assert_allclose(moved, slopes, rtol=0.01, atol=1e-4)


@pytest.mark.parametrize("accumulation_steps", [2, 5])
def test_micro_batches_make_the_same_update(data, accumulation_steps):
    results = []
    for steps in (1, accumulation_steps):
        keras.utils.set_random_seed(1)
        model = compiled(Halves(), consistency=4.0, accumulation_steps=steps)
        logs = model.fit(*data, batch_size=5, verbose=0, shuffle=False).history
        results.append([*flat_weights(model), *map(np.mean, logs.values())])
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


def test_without_dropout_the_second_pass_changes_nothing(data):
    results = []
    for consistency in (0.0, 5.0):
        keras.utils.set_random_seed(1)
        model = compiled(direct(), consistency=consistency)
        logs = model.fit(*data, batch_size=4, verbose=0, shuffle=False).history
        results.append([*flat_weights(model), *map(np.mean, logs.values())])
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


def test_predictions_come_to_agree(data):
    ids, targets = data
    apart = {}
    for consistency in (0.0, 5.0):
        keras.utils.set_random_seed(1)
        model = compiled(direct(dropout=0.5), consistency=consistency)
        model.fit(ids, targets, batch_size=12, epochs=60, verbose=0)
        ids_20, targets_20 = np.tile(ids, (20, 1)), np.tile(targets, (20, 1))
        logits = model(ids_20, training=True)
        apart[consistency] = float(disagreement(targets_20, logits))
    assert apart[5.0] < 0.5 * apart[0.0]


def test_validation_sees_a_batch_once(data):
    model = compiled(direct(dropout=0.5), consistency=5.0)
    expected = SmoothedCrossentropy(0.1)(data[1], model(data[0]))
    results = model.evaluate(*data, verbose=0, return_dict=True)
    np.testing.assert_allclose(results["loss"], expected, rtol=1e-5)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "5", None])
def test_a_bad_weight_is_named(value):
    with pytest.raises(ValueError, match="consistency="):
        compiled(direct(), consistency=value)


@pytest.mark.parametrize("loss", ["mse", [SmoothedCrossentropy()]])
def test_other_losses_are_refused(loss):
    with pytest.raises(ValueError, match="SmoothedCrossentropy.*as the one"):
        direct().compile(Adam(), loss, consistency=5.0)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_learns_with_weights_of_rows(data, policy):
    keras.config.set_dtype_policy(policy)
    try:
        model = compiled(direct(dropout=0.2), consistency=5.0)
        weights = np.linspace(0, 1, 12)
        logs = model.fit(
            *data, sample_weight=weights, epochs=30, verbose=0
        ).history
    finally:
        keras.config.set_dtype_policy("float32")
    assert logs["loss"][-1] < 0.9 * logs["loss"][0]
