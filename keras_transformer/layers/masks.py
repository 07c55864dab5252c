"""Makes the masks: booleans, `True` is visible."""

from keras import ops
from keras.src import backend


def padding_mask(ids):
    """Marks the real tokens: `(batch, length)` ids to booleans. 0 is padding.

    >>> import numpy as np
    >>> np.asarray(padding_mask(np.array([[7, 8, 0]]))).tolist()
    [[True, True, False]]
    """
    return ops.not_equal(ids, 0)


def causal_mask(query_length, key_length=None, start_index=0):
    """Lets each position see itself and what came before: `(1, query, key)`.

    Args:
        query_length: Number of query positions.
        key_length: Number of key positions. Defaults to `query_length`.
        start_index: Position of the first query among the keys, for decoding
            with a cache.

    >>> import numpy as np
    >>> np.asarray(causal_mask(3)[0]).astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    key_length = query_length if key_length is None else key_length
    return _offsets(query_length, key_length, start_index) <= 0


def window_mask(query_length, key_length, attention_window, start_index=0):
    """Lets each position see `attention_window` neighbours on each side.

    >>> import numpy as np
    >>> np.asarray(window_mask(3, 3, 1)[0]).astype(int).tolist()
    [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    """
    offsets = _offsets(query_length, key_length, start_index)
    return ops.abs(offsets) <= attention_window


def combine(*masks):
    """The positions that every given mask shows; `None` shows everything."""
    masks = [mask for mask in masks if mask is not None]
    if not masks:
        return None
    combined = ops.cast(masks[0], "bool")
    for mask in masks[1:]:
        combined = ops.logical_and(combined, ops.cast(mask, "bool"))
    return combined


# Keras keeps a tensor's padding mask beside it, and offers no public way to it.


def attached_mask(tensor):
    """The padding mask that a layer attached to its output, or `None`.

    Keras fills a `mask` argument only when a layer is called with a single
    tensor. A layer that also takes a memory or an attention mask asks here.
    """
    return backend.get_keras_mask(tensor)


def attach_mask(tensor, mask):
    """Attaches a padding mask for the layers that come next."""
    backend.set_keras_mask(tensor, mask)


def _offsets(query_length, key_length, start_index):
    """How far each key stands to the right of each query: (1, query, key)."""
    queries = ops.arange(query_length, dtype="int32") + start_index
    keys = ops.arange(key_length, dtype="int32")
    return (keys[None, :] - queries[:, None])[None]
