"""Cuts a sequence into blocks with their neighbourhoods, in linear memory."""

from keras import ops

from keras_transformer.layers import masks
from keras_transformer.layers.axes import shape_of

# Shorter blocks make matrix multiplications too small to be fast.
SHORTEST_BLOCK = 32


class Blocks:
    """The blocks of sequences for attention to `window` neighbours.

    Each block of queries sees its own keys, the `window` keys before it and,
    unless `causal`, the `window` keys after it. Blocks join the batch, so that
    attention to them is attention as ever.

    Args:
        batch: Number of sequences, a number or a scalar tensor.
        length: Their length, the same.
        window: Number of neighbours on each side.
        causal: Whether to leave out the keys after a block.
    """

    def __init__(self, batch, length, window, causal):
        self._batch = batch
        self._length = length
        self._window = window
        self._causal = causal
        self._block = max(window, SHORTEST_BLOCK)
        self._count = (length + self._block - 1) // self._block

    def queries(self, x):
        """(batch, length, width) -> (batch * count, block, width)."""
        x = self._padded(x, before=0, after=0)
        return ops.reshape(x, (-1, self._block, x.shape[-1]))

    def keys(self, x):
        """The same, with each block's neighbourhood instead of the block."""
        window, block = self._window, self._block
        x = self._padded(x, before=window, after=block)
        total = self._count * block
        parts = [
            self._cut(x[:, :total])[:, :, :window],
            self._cut(x[:, window : window + total]),
        ]
        if not self._causal:
            following = x[:, window + block : window + block + total]
            parts.append(self._cut(following)[:, :, :window])
        keys = ops.concatenate(parts, axis=2)
        return ops.reshape(keys, (-1, keys.shape[2], x.shape[-1]))

    def visible(self, key_mask):
        """Which keys a query may see: (batch * count, 1, block, keys).

        Args:
            key_mask: Booleans, `(batch, length)`, or `None`.
        """
        window, block = self._window, self._block
        num_keys = window + block + (0 if self._causal else window)
        near = masks.window_mask(block, num_keys, window, start_index=window)
        if self._causal:
            past = masks.causal_mask(block, num_keys, start_index=window)
            near = masks.combine(near, past)
        if key_mask is None:
            key_mask = ops.ones((self._batch, self._length), "bool")
        # What is not there, before the start and after the end, is False.
        real = self.keys(key_mask[:, :, None])[:, None, None, :, 0]
        return masks.combine(near[None], real)

    def join(self, x):
        """(batch * count, block, width) -> (batch, length, width)."""
        x = ops.reshape(x, (-1, self._count * self._block, x.shape[-1]))
        return x[:, : self._length]

    def _cut(self, x):
        batch, _, width = shape_of(x)
        return ops.reshape(x, (batch, self._count, self._block, width))

    def _padded(self, x, before, after):
        """With zeros before, and after up to whole blocks and `after` more."""
        batch, length, width = shape_of(x)
        after = self._count * self._block - length + after

        def zeros(size):
            return ops.zeros((batch, size, width), x.dtype)

        return ops.concatenate([zeros(before), x, zeros(after)], axis=1)
