import keras
import numpy as np
import pytest

from keras_transformer.training import Perplexity, TokenAccuracy

from . import reference


@pytest.fixture
def batches(rng):
    """Two batches with very different numbers of real tokens."""
    first = rng.integers(1, 9, (4, 7)).astype("int32")
    second = np.array([[3, 0, 0, 0]], "int32")
    return [(t, rng.normal(size=(*t.shape, 9))) for t in (first, second)]


def mean_over_tokens(batches, values):
    real = [targets != 0 for targets, _ in batches]
    total = sum((values(t, z) * m).sum() for (t, z), m in zip(batches, real))
    return total / sum(m.sum() for m in real)


def test_accuracy_is_over_all_real_tokens(batches):
    metric = TokenAccuracy()
    for batch in batches:
        metric.update_state(*batch)
    expected = mean_over_tokens(batches, lambda t, z: z.argmax(-1) == t)
    assert float(metric.result()) == pytest.approx(expected, rel=1e-6)


def test_perplexity_is_of_the_mean_crossentropy_over_all_tokens(batches):
    metric = Perplexity()
    for batch in batches:
        metric.update_state(*batch)

    def crossentropies(targets, logits):
        return np.array(
            [
                reference.loss_and_gradient(
                    np.array([[max(t, 1)]]), z[None, None], smoothing=0
                )[0]
                for t, z in zip(targets.ravel(), logits.reshape(-1, 9))
            ]
        ).reshape(targets.shape)

    expected = np.exp(mean_over_tokens(batches, crossentropies))
    assert float(metric.result()) == pytest.approx(expected, rel=1e-5)


def test_sample_weights_weigh_tokens():
    metric = TokenAccuracy()
    targets = np.array([[1, 2], [1, 2]])
    logits = np.eye(3)[[[1, 2], [0, 0]]]
    metric.update_state(targets, logits, sample_weight=np.array([3.0, 1.0]))
    assert float(metric.result()) == 0.75


@pytest.mark.parametrize(
    ("metric", "value"), [(TokenAccuracy(), 0.0), (Perplexity(), 1.0)]
)
def test_padding_alone_is_no_result(metric, value):
    metric.update_state(np.zeros((2, 3), "int32"), np.ones((2, 3, 5)))
    assert float(metric.result()) == value


@pytest.mark.parametrize("metric", [TokenAccuracy("a"), Perplexity("p")])
def test_reloads_from_its_config(metric):
    config = keras.saving.serialize_keras_object(metric)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(metric)
    assert again.name == metric.name
