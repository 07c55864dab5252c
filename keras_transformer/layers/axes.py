"""Folds inputs with any number of axes into (batch, length, width) and back."""

import math
from numbers import Integral

import keras
import numpy as np
from keras import ops


def shape_of(x):
    """Shape with numbers where they are known and tensors where not."""
    dynamic = ops.shape(x)
    return tuple(
        dynamic[axis] if size is None else size
        for axis, size in enumerate(x.shape)
    )


def known_values(x):
    """A tensor's numbers as an array, or `None` while a graph is traced.

    A tensor without numbers is refused by TensorFlow and PyTorch with
    `NotImplementedError` and by JAX with `TypeError`.
    """
    if isinstance(x, keras.KerasTensor):
        return None
    try:
        return np.asarray(ops.convert_to_numpy(x))
    except (NotImplementedError, TypeError):
        return None


def as_index(x):
    """A position: a number where it is known, else an int32 tensor."""
    if isinstance(x, Integral):
        return int(x)
    values = known_values(x)
    return ops.cast(x, "int32") if values is None else int(values)


class Folding:
    """The way to three axes and back for one call of an attention layer.

    Axes that are attended over become the length, all others but the last
    become the batch. Inputs that have three axes already are left alone.

    Args:
        query: Tensor, `(..., width)`.
        value: Tensor with as many axes.
        attention_axes: Axes to attend over, or `None` for all between the
            first and the last.
    """

    def __init__(self, query, value, attention_axes):
        rank = len(query.shape)
        if attention_axes is None:
            attention_axes = range(1, rank - 1)
        self._attended = [axis % rank for axis in attention_axes]
        self._leading = [a for a in range(rank - 1) if a not in self._attended]
        self._plain = rank == 3
        self._query_shape = shape_of(query)
        self._key_shape = shape_of(value)

    def fold(self, *tensors):
        """(..., width) -> (batch, length, width), the same for the same."""
        if self._plain:
            return tensors
        folded = {id(x): self._fold(x) for x in tensors}
        return tuple(folded[id(x)] for x in tensors)

    def fold_mask(self, mask):
        """(...) -> (batch, length)."""
        if mask is None or self._plain:
            return mask
        return self._fold(ops.cast(mask, "bool")[..., None])[..., 0]

    def fold_attention_mask(self, mask):
        """-> (batch or 1, heads or 1, query length, key length)."""
        if mask is None:
            return None
        mask = ops.cast(mask, "bool")
        queries, keys = self._lengths(self._query_shape, self._key_shape)
        inner = 2 * len(self._attended)
        leading = [self._query_shape[axis] for axis in self._leading]
        extra = len(mask.shape) - inner
        if 0 < extra < len(leading):  # the same along the other axes
            missing = range(extra, len(leading))
            mask, extra = ops.expand_dims(mask, tuple(missing)), len(leading)
        if extra == 0:
            mask, heads = mask[None, None], [1]
        elif extra == len(leading):
            mask, heads = ops.expand_dims(mask, len(leading)), [1]
        elif extra == len(leading) + 1:
            heads = [mask.shape[len(leading)]]
        else:
            raise ValueError(
                "`attention_mask` must be (batch, query_length, key_length), "
                "with an axis for the heads after the first if they differ. "
                f"Received: attention_mask.shape={tuple(mask.shape)} for "
                f"{len(self._query_shape)} axes of the query. "
                "Add or remove an axis."
            )
        if self._plain:
            return mask
        if extra == 0:
            return ops.reshape(mask, (1, 1, queries, keys))
        mask = ops.broadcast_to(
            mask, (*leading, *heads, *shape_of(mask)[-inner:])
        )
        return ops.reshape(mask, (-1, *heads, queries, keys))

    def unfold(self, x, output_shape=None):
        """(batch, length, width) -> the query's axes, then `output_shape`."""
        output_shape = output_shape or (x.shape[-1],)
        if self._plain and len(output_shape) == 1:
            return x
        order = [*self._leading, *self._attended]
        x = ops.reshape(
            x, [*(self._query_shape[axis] for axis in order), *output_shape]
        )
        inverse = [order.index(axis) for axis in range(len(order))]
        tail = range(len(order), len(order) + len(output_shape))
        return ops.transpose(x, [*inverse, *tail])

    def unfold_scores(self, scores):
        """(batch, heads, query, key) -> the axes that stock Keras returns."""
        if self._plain:
            return scores
        return ops.reshape(
            scores,
            [
                *(self._query_shape[axis] for axis in self._leading),
                scores.shape[1],
                *(self._query_shape[axis] for axis in self._attended),
                *(self._key_shape[axis] for axis in self._attended),
            ],
        )

    def _fold(self, x):
        shape = shape_of(x)
        (length,) = self._lengths(shape)
        last = len(shape) - 1
        x = ops.transpose(x, [*self._leading, *self._attended, last])
        return ops.reshape(x, (-1, length, shape[-1]))

    def _lengths(self, *shapes):
        return [math.prod(s[axis] for axis in self._attended) for s in shapes]
