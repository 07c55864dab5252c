"""`MultiHeadAttention(attention_window=...)`: few neighbours, in blocks."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import MultiHeadAttention
from tests import reference

from .tensors import close, normal


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 3, 40])
@pytest.mark.parametrize("length", [1, 31, 32, 33, 100])
def test_restricted_attention_in_blocks_is_attention_with_a_band(
    rng, causal, window, length
):
    layer = MultiHeadAttention(2, 4, attention_window=window)
    x = normal(rng, 2, length, 8)
    real = np.ones((2, length), bool)
    real[1, length // 2 :] = False
    distance = np.arange(length) - np.arange(length)[:, None]
    visible = (np.abs(distance) <= window)[None] & real[:, None]
    if causal:
        visible &= distance <= 0
    output = layer(x, x, value_mask=real, use_causal_mask=causal)
    expected, weights = reference.attention(
        x.numpy(), x.numpy(), x.numpy(), layer, visible
    )
    close(output, expected)
    asked = layer(
        x,
        x,
        value_mask=real,
        use_causal_mask=causal,
        return_attention_scores=True,
    )
    close(asked[0], expected)
    close(asked[1], weights)


@pytest.mark.parametrize("axes", [1, 2])
def test_restricted_attention_takes_inputs_of_their_own(rng, axes):
    layer = MultiHeadAttention(2, 4, attention_window=2)
    shape = (2, *[5] * axes, 8)
    query, value = normal(rng, *shape), normal(rng, *shape)
    output = layer(query, value)
    # Scores are asked for, so that a mask does what the blocks did.
    close(output, layer(query, value, return_attention_scores=True)[0])


def test_restricted_attention_holds_nothing_that_grows_with_the_square():
    def largest(window):
        layer = MultiHeadAttention(1, 8, attention_window=window)
        call = tf.function(lambda x: layer(x, x))
        x = tf.TensorSpec((1, 4096, 8))
        operations = call.get_concrete_function(x).graph.get_operations()
        return max(
            output.shape.num_elements() or 0
            for op in operations
            for output in op.outputs
        )

    assert largest(None) >= 4096**2
    assert largest(16) <= 4096 * 64
