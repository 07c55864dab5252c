"""What to watch while training, weighted by real tokens."""

import keras
from keras import ops

from keras_transformer.training.loss import (
    as_tokens,
    pick,
    softmax_statistics,
    token_weights,
)


class _TokenMean(keras.metrics.Metric):
    """A mean over real tokens, over batches and over replicas."""

    def __init__(self, name, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self._total = self.add_weight((), "zeros", name="total")
        self._count = self.add_weight((), "zeros", name="count")

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = as_tokens(y_true, y_pred)
        # The loss works on rows: on rows the graph can share its softmax.
        y_pred = ops.reshape(y_pred, (-1, y_pred.shape[-1]))
        weights = ops.reshape(token_weights(y_true, sample_weight), (-1,))
        values = self._values(ops.reshape(y_true, (-1,)), y_pred)
        self._total.assign_add(ops.sum(values * weights))
        self._count.assign_add(ops.sum(weights))

    def result(self):
        return ops.divide_no_nan(self._total, self._count)


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(_TokenMean):
    """The share of real tokens that no other id is likelier than.

    Targets of 0 are padding and do not count.

    >>> accuracy = TokenAccuracy()
    >>> logits = ops.one_hot(ops.array([[4, 5, 6, 7]]), 8)
    >>> float(accuracy(ops.array([[4, 5, 7, 0]]), logits))
    0.6666666865348816
    """

    def __init__(self, name="token_accuracy", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def _values(self, targets, logits):
        _, greatest, _ = softmax_statistics(logits)
        return ops.cast(ops.equal(pick(logits, targets), greatest), "float32")


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(_TokenMean):
    """e to the mean cross-entropy of real tokens, without label smoothing.

    Targets of 0 are padding and do not count.

    >>> perplexity = Perplexity()
    >>> float(perplexity(ops.array([[4, 0]]), ops.zeros((1, 2, 8))))
    8.0
    """

    def __init__(self, name="perplexity", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def _values(self, targets, logits):
        _, _, log_sum = softmax_statistics(logits)
        return log_sum - pick(logits, targets)

    def result(self):
        return ops.exp(super().result())
