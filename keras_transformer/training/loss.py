"""The training loss: label-smoothed cross-entropy over the real tokens."""

import keras
from keras import ops

from keras_transformer.training.replicas import (
    TENSORFLOW,
    sum_over_replicas,
    whole_batch_count,
)

if TENSORFLOW:
    import tensorflow as tf

SMOOTH_OVER = ("wrong", "all")


@keras.saving.register_keras_serializable(package="keras_transformer")
class SmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy with label smoothing, averaged over real tokens.

    Targets of 0 are padding and do not count. The mean is over the tokens of
    the whole global batch: the sum on this replica is divided by the number
    of tokens on all replicas, so that the sum of gradients that
    `tf.distribute` makes is the gradient of one large batch. Under
    `DistributedModel` the micro-batches of gradient accumulation count too.
    A batch without a real token has a loss of 0.

    With smoothing ε and a vocabulary of V there are two customs:

    - `smooth_over="wrong"`, the authors' (tensor2tensor): the right label
      gets `1 - ε`, each of the `V - 1` others `ε / (V - 1)`. (tensor2tensor
      also subtracts a constant so that the best loss is 0; we do not.)
    - `smooth_over="all"`, that of Keras and PyTorch: each of the V labels
      gets `ε / V`, and the right one `1 - ε` on top.

    The second with ε is the first with `ε (V - 1) / V`.

    No one-hot of the vocabulary is made. On TensorFlow the gradient is
    written by hand, and the probabilities are the only array of the logits'
    size that waits for it. Half-precision logits are worked on in float32.

    Args:
        label_smoothing: ε, from 0 to below 1.
        smooth_over: `"wrong"` or `"all"`.

    Call arguments:
        y_true: Integers, `(batch, length)`.
        y_pred: Logits, `(batch, length, vocabulary)`.
        sample_weight: Optional, `(batch,)` or `(batch, length)`. The mean is
            then weighted: the sum is divided by the weights of real tokens.

    >>> targets, logits = ops.array([[5, 2, 0]]), ops.zeros((1, 3, 8))
    >>> round(float(SmoothedCrossentropy(0.1)(targets, logits)), 4)
    2.0794
    """

    def __init__(
        self,
        label_smoothing=0.1,
        smooth_over="wrong",
        name="smoothed_crossentropy",
    ):
        if not 0 <= label_smoothing < 1:
            raise ValueError(
                "`label_smoothing` must be from 0 to below 1. "
                f"Received: label_smoothing={label_smoothing}. "
                "The paper has 0.1."
            )
        if smooth_over not in SMOOTH_OVER:
            raise ValueError(
                f"`smooth_over` must be one of {SMOOTH_OVER}. "
                f"Received: smooth_over={smooth_over!r}. "
                'Take "wrong" for the paper, "all" to compare with PyTorch.'
            )
        super().__init__(name=name, reduction="sum")
        self.label_smoothing = label_smoothing
        self.smooth_over = smooth_over

    def __call__(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = as_tokens(y_true, y_pred)
        weights = token_weights(y_true, sample_weight)
        total = self._weighted_sum(y_true, y_pred, weights)
        count = whole_batch_count()
        if count is None:
            count = sum_over_replicas(ops.sum(weights))
        return ops.divide_no_nan(total, count)

    def call(self, y_true, y_pred):
        """The loss of each token, `(batch, length)`; 0 at padding."""
        y_true, y_pred = as_tokens(y_true, y_pred)
        right, rest = self._shares(y_pred.shape[-1])
        losses = (
            ops.logsumexp(y_pred, axis=-1)
            - right * pick(y_pred, y_true)
            - rest * ops.sum(y_pred, axis=-1)
        )
        return losses * token_weights(y_true)

    def count(self, y_true, sample_weight=None):
        """What `y_true` weighs in the mean: its number of real tokens."""
        return ops.sum(token_weights(y_true, sample_weight))

    def _shares(self, vocabulary_size):
        """Target probability of every label, and the right one's on top."""
        wrong_only = self.smooth_over == "wrong"
        rest = self.label_smoothing / (vocabulary_size - wrong_only)
        return 1.0 - rest * vocabulary_size, rest

    def _weighted_sum(self, y_true, y_pred, weights):
        if not _in_tensorflow(y_pred):
            return ops.sum(self.call(y_true, y_pred) * weights)
        vocabulary_size = y_pred.shape[-1]
        return _fused_weighted_sum(
            ops.reshape(y_pred, (-1, vocabulary_size)),
            ops.reshape(y_true, (-1,)),
            ops.reshape(weights, (-1,)),
            *self._shares(vocabulary_size),
        )

    def get_config(self):
        return {
            "label_smoothing": self.label_smoothing,
            "smooth_over": self.smooth_over,
            "name": self.name,
        }


def disagreement(y_true, y_pred, sample_weight=None):
    """How far the second half of the rows is from the first, summed.

    Both halves are of the same rows, as two passes with other dropout saw
    them. At each real token it is the mean of both Kullback-Leibler
    divergences, `½ Σ (p - q) (log p - log q)` over the vocabulary, where the
    logits stand for the logarithms: what they lack is a constant, and `p - q`
    sums to 0.
    """
    y_true, y_pred = as_tokens(y_true, y_pred)
    weights = ops.split(token_weights(y_true, sample_weight), 2)[0]
    first, second = ops.split(y_pred, 2)
    p, q = ops.softmax(first, axis=-1), ops.softmax(second, axis=-1)
    divergences = 0.5 * ops.sum((p - q) * (first - second), axis=-1)
    return ops.sum(divergences * weights)


def as_tokens(y_true, y_pred):
    """Integer targets and float32 logits, checked against each other."""
    y_true = ops.convert_to_tensor(y_true)
    y_pred = ops.convert_to_tensor(y_pred)
    if len(y_pred.shape) != len(y_true.shape) + 1:
        raise ValueError(
            "`y_pred` must be logits with one dimension more than `y_true`. "
            f"Received: y_true.shape={tuple(y_true.shape)}, "
            f"y_pred.shape={tuple(y_pred.shape)}. "
            "Give token ids as targets, not one-hot vectors."
        )
    return ops.cast(y_true, "int32"), ops.cast(y_pred, "float32")


def token_weights(y_true, sample_weight=None):
    """1 at real tokens and 0 at padding, times `sample_weight`."""
    weights = ops.cast(ops.not_equal(y_true, 0), "float32")
    if sample_weight is None:
        return weights
    sample_weight = ops.cast(sample_weight, "float32")
    if len(sample_weight.shape) < len(weights.shape):
        sample_weight = ops.expand_dims(sample_weight, -1)
    return weights * sample_weight


def pick(values, indices):
    """`values[..., indices]`: one of the last dimension at each position."""
    if _in_tensorflow(values):
        return tf.gather(values, indices, batch_dims=len(indices.shape))
    indices = ops.expand_dims(indices, -1)
    return ops.squeeze(ops.take_along_axis(values, indices, axis=-1), -1)


def softmax_statistics(logits):
    """Probabilities, the greatest logit, and log-sum-exp of each position.

    log-sum-exp is read off the likeliest id, whose probability is at least
    one over the vocabulary: exact, and without another sum over the logits.
    TensorFlow computes this once where the loss and the metrics both ask.
    """
    logits = ops.stop_gradient(logits)
    probabilities = ops.softmax(logits, axis=-1)
    # With a first value, because a batch may have no rows.
    greatest = ops.max(logits, axis=-1, initial=-float("inf"))
    log_sum = greatest - ops.log(ops.max(probabilities, axis=-1, initial=0.0))
    return probabilities, greatest, log_sum


def _in_tensorflow(tensor):
    return TENSORFLOW and not isinstance(tensor, keras.KerasTensor)


def _fused_weighted_sum(logits, targets, weights, right, rest):
    """`SmoothedCrossentropy.call`, weighted and summed, on TensorFlow.

    Left to itself, TensorFlow keeps several arrays of the logits' size for
    the gradient, which is no more than `softmax - smoothed target`.
    """
    probabilities, _, log_sum = softmax_statistics(logits)

    @tf.custom_gradient
    def weighted_sum(logits):
        losses = log_sum - right * pick(logits, targets)
        if rest:
            losses -= rest * tf.reduce_sum(logits, axis=-1)

        def gradient(upstream):
            scales = weights * upstream
            gradients = probabilities - rest if rest else probabilities
            rows = tf.range(tf.size(targets))
            return tf.tensor_scatter_nd_sub(
                gradients * scales[:, None],
                tf.stack([rows, targets], axis=1),
                right * scales,
            )

        return tf.reduce_sum(losses * weights), gradient

    return weighted_sum(logits)
