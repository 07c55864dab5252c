"""Scaled dot-product attention, equation 1 of the paper, and its gradient.

All tensors are (batch, heads, length, dim), masks broadcast against (batch,
heads, query, key).
"""

import keras
from keras import ops

# Added to the scores of hidden keys. Far below any score, and still finite, so
# that a query without visible keys gives numbers.
HIDDEN = -1e9


def attend(query, key, value, visible=None):
    """`softmax(QKᵀ / √d_k) V`, with a gradient that saves memory traffic.

    Long sequences spend their time on passes over the (query, key) weights.
    The gradient of a softmax needs the sum of `weights * d_weights` over the
    keys; it equals the sum of `outputs * d_outputs` over a head's width, which
    is a far smaller array. So two passes do where TensorFlow would make four.

    Returns:
        The outputs alone. `attend_with_weights` also gives the weights.
    """

    @ops.custom_gradient
    def outputs_and_gradient(query, key, value):
        weights = _weights(query, key, visible)
        outputs = ops.matmul(weights, value)

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            d_weights = ops.matmul(upstream, ops.swapaxes(value, -1, -2))
            shift = ops.sum(upstream * outputs, axis=-1, keepdims=True)
            d_scores = weights * (d_weights - shift)
            scale = ops.cast(query.shape[-1] ** -0.5, query.dtype)
            return (
                ops.matmul(d_scores, key * scale),
                ops.matmul(ops.swapaxes(d_scores, -1, -2), query * scale),
                ops.matmul(ops.swapaxes(weights, -1, -2), upstream),
            )

        return outputs, gradient

    return _zero_if_blind(outputs_and_gradient(query, key, value), visible)


def attend_with_weights(query, key, value, visible=None, dropout=None):
    """The same, with dropout on the weights, and with the weights.

    Returns:
        The outputs, and the weights before dropout.
    """
    weights = _zero_if_blind(_weights(query, key, visible), visible)
    dropped = weights if dropout is None else dropout(weights)
    return ops.matmul(dropped, value), weights


def _weights(query, key, visible):
    query = query * ops.cast(query.shape[-1] ** -0.5, query.dtype)
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2))
    # Half precision is too coarse for a softmax over many keys.
    scores = ops.cast(
        scores, keras.backend.result_type(scores.dtype, "float32")
    )
    if visible is not None:
        hidden = ops.where(visible, 0.0, HIDDEN)
        scores = scores + ops.cast(hidden, scores.dtype)
    return ops.cast(ops.softmax(scores, axis=-1), query.dtype)


def _zero_if_blind(x, visible):
    """Zeros for queries that see no key.

    Their weights would spread evenly over all keys, also over the future.
    """
    if visible is None:
        return x
    return x * ops.cast(ops.any(visible, axis=-1, keepdims=True), x.dtype)
