"""Cuts a sequence into blocks with their neighbourhoods, in linear memory."""

from keras import ops

from keras_transformer.layers import masks
from keras_transformer.layers.axes import shape_of

# Shorter blocks make matrix multiplications too small to be fast.
SHORTEST_BLOCK = 32


class Blocks:
    """The blocks of one sequence for attention to `window` neighbours.

    Each block of queries sees its own keys, the `window` keys before it and,
    unless `causal`, the `window` keys after it.

    Args:
        length: Length of the sequence, a number or a scalar tensor.
        window: Number of neighbours on each side.
        causal: Whether to leave out the keys after a block.
    """

    def __init__(self, length, window, causal):
        self._length = length
        self._window = window
        self._causal = causal
        self._block = max(window, SHORTEST_BLOCK)
        self._count = (length + self._block - 1) // self._block

    def queries(self, x):
        """(batch, heads, length, dim) -> (batch, heads, count, block, dim)."""
        return self._cut(self._padded(x, before=0, after=0))

    def keys(self, x):
        """The same, with each block's neighbourhood instead of the block."""
        window, block = self._window, self._block
        x = self._padded(x, before=window, after=block)
        total = self._count * block
        parts = [
            self._cut(x[:, :, :total])[..., :window, :],
            self._cut(x[:, :, window : window + total]),
        ]
        if not self._causal:
            following = x[:, :, window + block : window + block + total]
            parts.append(self._cut(following)[..., :window, :])
        return ops.concatenate(parts, axis=-2)

    def near(self):
        """Which keys of a neighbourhood a query may see: (1, query, key)."""
        window, block = self._window, self._block
        if self._causal:
            keys = window + block
            return masks.combine(
                masks.window_mask(block, keys, window, start_index=window),
                masks.causal_mask(block, keys, start_index=window),
            )
        keys = window + block + window
        return masks.window_mask(block, keys, window, start_index=window)

    def join(self, x):
        """(batch, heads, count, block, dim) -> (batch, heads, length, dim)."""
        batch, heads, count, block, dim = shape_of(x)
        x = ops.reshape(x, (batch, heads, count * block, dim))
        return x[:, :, : self._length]

    def _cut(self, x):
        batch, heads, _, dim = shape_of(x)
        return ops.reshape(x, (batch, heads, self._count, self._block, dim))

    def _padded(self, x, before, after):
        """With zeros before, and after up to whole blocks and `after` more."""
        batch, heads, length, dim = shape_of(x)
        after = self._count * self._block - length + after

        def zeros(size):
            return ops.zeros((batch, heads, size, dim), x.dtype)

        return ops.concatenate([zeros(before), x, zeros(after)], axis=2)
