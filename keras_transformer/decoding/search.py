"""What every search does: limits, the likeliest tokens, the score."""

import math
from typing import NamedTuple

import keras
from keras import ops

from keras_transformer.layers import arguments, padding_mask
from keras_transformer.layers.axes import shape_of
from keras_transformer.tokenizer import PADDING, START

# Below every log-probability, and still finite.
IMPOSSIBLE = -1e9


class Hypotheses(NamedTuple):
    """What a search found, best first.

    Attributes:
        ids: `(batch, num_results, length)`, without the start, with the end
            where it was reached, then padding. Padding alone where there was
            no other hypothesis to be found.
        scores: `(batch, num_results)`: log-probability over length penalty.
            -1e9 where there was none.
    """

    ids: object
    scores: object


def id_tensor(name, ids):
    """Ids as int32, `(batch, length)`, or a sentence on what they are."""
    ids = ops.convert_to_tensor(ids)
    dtype = keras.backend.standardize_dtype(ids.dtype)
    if len(ids.shape) != 2 or "int" not in dtype:
        raise ValueError(
            f"`{name}` must be whole numbers of shape (batch, length). "
            f"Received: {name}.shape={tuple(ids.shape)}, "
            f"{name}.dtype={dtype}. Give one row of ids for each sentence, "
            "padded with 0."
        )
    return ops.cast(ids, "int32")


def check_count(**counts):
    """Raises unless every given argument is a whole number from zero on."""
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise ValueError(
                f"`{name}` must be a whole number, zero or more. "
                f"Received: {name}={count!r}. Give 0 to switch it off."
            )


def length_limits(model, source_ids, max_extra_length, max_length):
    """The greatest length of each hypothesis, and of all.

    Nothing grows from a source that is all padding.
    """
    check_count(max_extra_length=max_extra_length)
    arguments.check_sizes(optional=True, max_length=max_length)
    # Of the source without its padding: neighbours must not matter.
    lengths = ops.sum(ops.cast(padding_mask(source_ids), "int32"), axis=1)
    limits, limit = max_length, max_length
    if max_length is None:
        limits = lengths + max_extra_length
        limit = shape_of(source_ids)[1] + max_extra_length
    positions = model.target_positions
    if positions.kind == "learned":
        limits = ops.minimum(limits, positions.max_length)
        known = isinstance(limit, int)
        limit = (min if known else ops.minimum)(limit, positions.max_length)
    return ops.where(lengths > 0, limits, 0), limit


def likeliest(log_probs, count):
    """The likeliest tokens of each row: their log-probabilities, and them.

    No sentence has padding or a start inside. Two more are looked at and the
    two made impossible, which spares a pass over the vocabulary.
    """
    count = min(count + 2, log_probs.shape[-1])
    log_probs, tokens = top_k(log_probs, count)
    never = ops.equal(tokens, PADDING) | ops.equal(tokens, START)
    return ops.where(never, IMPOSSIBLE, log_probs), tokens


def top_k(x, count):
    """`ops.top_k` of many columns, in less time.

    The largest numbers are in the blocks with the largest maxima. A maximum is
    found many times faster than an order.
    """
    size = _block_size(x.shape[-1], count)
    if size is None:
        return ops.top_k(x, count)
    blocks = ops.reshape(x, (-1, x.shape[-1] // size, size))
    _, best = ops.top_k(ops.max(blocks, axis=-1), count)
    # In their order, so that the first of equal numbers stays the first.
    best = -ops.top_k(-best, count)[0]
    numbers, places = ops.top_k(
        ops.reshape(take_each(blocks, best), (-1, count * size)), count
    )
    return numbers, take_each(best, places // size) * size + places % size


def _block_size(width, count):
    """About the least work: a divisor near the root of `width / count`."""
    if width < 1000:
        return None
    ideal = (width / count) ** 0.5
    divisors = [n for n in range(8, width // count) if width % n == 0]
    size = min(divisors, key=lambda n: abs(math.log(n / ideal)), default=None)
    if size is None or not ideal / 4 < size < ideal * 4:
        return None
    return size


def is_possible(log_probs):
    """Whether nothing that is not allowed is in these sums."""
    return log_probs > IMPOSSIBLE / 2


def penalty(length, length_penalty):
    """`((5 + |Y|) / 6) ** α`."""
    return ((5.0 + ops.cast(length, "float32")) / 6.0) ** length_penalty


def append(ids, tokens, step):
    """Writes one token at position `step` of each row."""
    here = ops.equal(ops.arange(shape_of(ids)[-1], dtype="int32"), step)
    return ops.where(here, tokens[..., None], ids)


def take_each(x, indices):
    """What each sentence has at its own numbers: (batch, chosen, ...).

    Args:
        x: `(batch, number)` or `(batch, number, length)`.
        indices: Integers, `(batch, chosen)`.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # One operation, where those of Keras are made of twenty.
        return tf.gather(x, indices, batch_dims=1)
    if len(x.shape) == 3:
        indices = indices[..., None]
    return ops.take_along_axis(x, indices, axis=1)
