"""Position encodings, after section 3.5 of the paper."""

import keras
import numpy as np
from keras import ops

from keras_transformer.layers import arguments
from keras_transformer.layers.axes import as_index, shape_of

KINDS = ("sinusoidal", "concatenated", "learned")


@keras.saving.register_keras_serializable(package="keras_transformer")
class PositionalEncoding(keras.layers.Layer):
    """Adds to each vector what tells its position, then drops out.

    `"sinusoidal"` is the paper's formula: dimensions `2i` and `2i + 1` hold
    `sin` and `cos` of `position / 10000^(2i / hidden_dim)`. `"concatenated"`
    holds the same numbers with all sines first and all cosines after them, the
    layout of tensor2tensor and Marian (tensor2tensor's own frequencies differ
    a little: it divides by `hidden_dim / 2 - 1`). Both have no maximum length.
    `"learned"` is a table of `max_length` rows (row E of the paper's Table 3).

    Args:
        kind: `"sinusoidal"`, `"concatenated"` or `"learned"`.
        max_length: Number of learned positions. Only for `"learned"`.
        dropout: Share of sums dropped while training.
        seed: Seed of the dropout.

    Call arguments:
        inputs: Floats, `(batch, length, hidden_dim)`.
        start_index: Position of the first vector, for decoding with a cache.
        training: Whether to drop out.

    Returns:
        Floats shaped like `inputs`. A padding mask passes through.

    >>> tuple(PositionalEncoding()(keras.ops.zeros((2, 5, 16))).shape)
    (2, 5, 16)
    """

    def __init__(
        self,
        kind="sinusoidal",
        max_length=None,
        dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        arguments.check_choice(KINDS, kind=kind)
        arguments.check_sizes(optional=True, max_length=max_length)
        arguments.check_rates(dropout=dropout)
        if kind == "learned" and max_length is None:
            raise ValueError(
                "Learned positions need `max_length`. "
                f"Received: kind={kind!r}, max_length=None. "
                "Give the length of the longest sequence."
            )
        self.supports_masking = True
        self.kind = kind
        self.max_length = max_length
        self.dropout = dropout
        self.seed = seed
        self._dropout = keras.layers.Dropout(
            dropout, seed=seed, dtype=self.dtype_policy
        )

    def build(self, input_shape):
        arguments.check_rank("inputs", input_shape)
        if self.kind == "learned":
            width = input_shape[-1]
            self.positions = self.add_weight(
                name="positions",
                shape=(self.max_length, width),
                initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
            )

    def call(self, inputs, start_index=0, training=None):
        _, length, width = shape_of(inputs)
        start_index = as_index(start_index)
        self.check_length(length, start_index)
        if self.kind == "learned":
            encoding = ops.slice(
                ops.convert_to_tensor(self.positions),
                (start_index, 0),
                (length, width),
            )
        else:
            positions = ops.arange(length, dtype="int32") + start_index
            encoding = sinusoids(positions, width, self.kind)
        outputs = inputs + ops.cast(encoding, inputs.dtype)
        return self._dropout(outputs, training=training)

    def get_config(self):
        return {
            **super().get_config(),
            "kind": self.kind,
            "max_length": self.max_length,
            "dropout": self.dropout,
            "seed": self.seed,
        }

    def check_length(self, length, start_index=0):
        """Raises where positions are known not to have been learned."""
        known = isinstance(length, int) and isinstance(start_index, int)
        learned = self.kind == "learned"
        if learned and known and start_index + length > self.max_length:
            raise ValueError(
                "There are `max_length` learned positions and no more. "
                f"Received: length={start_index + length}, "
                f"max_length={self.max_length}. Give shorter inputs, a larger "
                '`max_length`, or kind="sinusoidal".'
            )


def sinusoids(positions, width, kind="sinusoidal"):
    """The paper's waves at the given positions: floats, `(length, width)`.

    >>> print(np.round(np.asarray(sinusoids(np.array([0, 1]), 4)), 2))
    [[0.   1.   0.   1.  ]
     [0.84 0.54 0.01 1.  ]]
    """
    dims = np.arange(width)
    if kind == "concatenated":
        pairs, is_cosine = dims % ((width + 1) // 2), dims >= (width + 1) // 2
    else:
        pairs, is_cosine = dims // 2, dims % 2 == 1
    frequencies = 10000.0 ** (-2.0 * pairs / width) / (2 * np.pi)
    # position * frequency is exact in parts of 8 bits, so that whole turns can
    # be taken off before float32 rounds: right to 2e-6 up to position 65,536.
    positions = ops.cast(positions, "float32")[:, None]
    turns = ops.convert_to_tensor(is_cosine[None] * 0.25, "float32")
    for part in _parts_of_8_bits(frequencies):
        product = positions * part.astype("float32")
        turns = turns + (product - ops.floor(product))
        turns = turns - ops.floor(turns)
    return ops.sin(turns * (2 * np.pi))


def _parts_of_8_bits(numbers, count=4):
    """Addends that are short enough to be multiplied without rounding."""
    parts = []
    for _ in range(count):
        mantissa, exponent = np.frexp(numbers)
        part = np.ldexp(np.round(mantissa * 256) / 256, exponent)
        parts.append(part)
        numbers = numbers - part
    return parts
