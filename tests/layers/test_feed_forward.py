import keras
import numpy as np
import pytest

from keras_transformer.layers import FeedForward
from tests import reference


def test_agrees_with_the_formula(rng):
    layer = FeedForward(32)
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    output = layer(x)
    np.testing.assert_allclose(
        output, reference.feed_forward(x, layer), atol=1e-5
    )


def test_takes_activations_by_name(rng):
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    layer = FeedForward(32, activation="gelu")
    layer(x)
    w1, b1, w2, b2 = layer.get_weights()
    expected = keras.activations.gelu(x @ w1 + b1) @ w2 + b2
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)
    with pytest.raises(ValueError, match="`activation`.*activation='rleu'"):
        FeedForward(32, activation="rleu")


@pytest.mark.parametrize("name", ["dropout", "activation_dropout"])
def test_drops_out_only_while_training(rng, name):
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    layer = FeedForward(32, **{name: 0.5})
    np.testing.assert_array_equal(layer(x), layer(x))
    assert np.abs(layer(x, training=True) - layer(x)).max() > 1e-3
    with pytest.raises(ValueError, match=f"`{name}`.*{name}=2"):
        FeedForward(32, **{name: 2})


def test_saves_and_reloads_the_same(rng, reloaded):
    layer = FeedForward(32, activation="silu", dropout=0.2)
    model = keras.Sequential([keras.Input((None, 8)), layer])
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    again = reloaded(model)
    np.testing.assert_array_equal(model(x), again(x))
    assert again.layers[0].get_config() == layer.get_config()
