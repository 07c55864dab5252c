"""What a hypothesis must hold, put on the log-probabilities of its next token.

A search without constraints has none of this in its graph.
"""

import numpy as np
from keras import ops

from keras_transformer.decoding import search
from keras_transformer.layers.axes import known_values, shape_of
from keras_transformer.tokenizer import END, PADDING, START


def make_constraint(
    model,
    source_ids,
    num_rows,
    max_length=None,
    min_length=0,
    prefix_ids=None,
    no_repeat_ngram_size=0,
):
    """A function that makes the tokens that are not allowed impossible.

    Args:
        model: A `Transformer`.
        source_ids: Ids, `(batch, source_length)`.
        num_rows: Number of hypotheses for each source.
        max_length: The greatest length, or `None`.
        min_length: Number of tokens before the end is allowed.
        prefix_ids: Ids, `(batch, prefix_length)`, that hypotheses must begin
            with. They win over the other two.
        no_repeat_ngram_size: Size of the n-grams that may not occur twice.

    Returns:
        A function of log-probabilities, `(batch * num_rows, vocabulary)`, and
        of the search's state with `"ids"`, those so far, and `"step"`, their
        number. It gives the log-probabilities back. And what it needs in that
        state besides, a dictionary.
    """
    search.check_count(
        min_length=min_length, no_repeat_ngram_size=no_repeat_ngram_size
    )
    if max_length is not None and min_length >= max_length:
        raise ValueError(
            "`min_length` must leave room for the end within `max_length`. "
            f"Received: min_length={min_length}, max_length={max_length}. "
            "Change either."
        )
    start = {}
    if prefix_ids is not None:
        prefix_ids = search.id_tensor("prefix_ids", prefix_ids)
        _check_prefix(prefix_ids, source_ids, model.target_embedding.input_dim)
        # One column more: nothing is forced from there on.
        start["prefix_ids"] = ops.pad(prefix_ids, ((0, 0), (0, 1)))

    def constrain(log_probs, state):
        allowed, step = log_probs, state["step"]
        if no_repeat_ngram_size:
            allowed = _without_repeats(
                allowed, state["ids"], step, no_repeat_ngram_size
            )
        if min_length:
            allowed = _without_end(allowed, step < min_length)
        if prefix_ids is not None:
            columns = state["prefix_ids"]
            column = ops.minimum(step, shape_of(columns)[1] - 1)
            forced = ops.repeat(ops.take(columns, column, axis=1), num_rows)
            allowed = _forced(forced, log_probs, allowed)
        return allowed

    return constrain, start


def _without_repeats(log_probs, ids, step, size):
    """Without the tokens that would end an n-gram a second time."""
    ids = ops.reshape(ids, (-1, shape_of(ids)[-1]))
    rows, length = shape_of(ids)
    # Before the first token stands what no token equals.
    context = size - 1
    padded = ops.pad(ids, ((0, 0), (context, 0)), constant_values=-1)
    last = ops.slice(padded, (0, step), (rows, context))
    repeats = ops.ones((rows, length), "bool")
    for i in range(context):
        repeats &= ops.equal(padded[:, i : i + length], last[:, i : i + 1])
    # Where the tokens before it were the last ones, a token may not come again.
    # Positions not written yet hold padding, which may not come anyway.
    tokens = ops.where(repeats, ids, PADDING)
    numbers = ops.broadcast_to(
        ops.arange(rows, dtype="int32")[:, None], (rows, length)
    )
    indices = ops.reshape(ops.stack([numbers, tokens], axis=-1), (-1, 2))
    return ops.scatter_update(
        log_probs, indices, ops.full((rows * length,), search.IMPOSSIBLE)
    )


def _without_end(log_probs, early):
    is_end = ops.equal(ops.arange(log_probs.shape[-1]), END)
    return ops.where(is_end & early, search.IMPOSSIBLE, log_probs)


def _forced(forced, log_probs, allowed):
    """`allowed`, or where a token other than padding is forced, that alone."""
    forced = forced[:, None]
    is_forced = ops.equal(
        ops.arange(log_probs.shape[-1], dtype="int32"), forced
    )
    forced_only = ops.where(is_forced, log_probs, search.IMPOSSIBLE)
    return ops.where(ops.equal(forced, PADDING), allowed, forced_only)


def _check_prefix(prefix_ids, source_ids, vocabulary_size):
    batch, prefix_batch = source_ids.shape[0], prefix_ids.shape[0]
    if None not in (batch, prefix_batch) and batch != prefix_batch:
        raise ValueError(
            "`prefix_ids` must have one row for each source. Received: "
            f"{prefix_batch} rows for {batch} sources. "
            "Give a row of zeros where nothing is forced."
        )
    ids = known_values(prefix_ids)
    if ids is None:
        return
    is_token = (ids > 0) & (ids < vocabulary_size)
    is_token &= (ids != START) & (ids != END)
    wrong = ~is_token & (ids != PADDING)
    wrong[:, 1:] |= is_token[:, 1:] & (ids[:, :-1] == PADDING)
    if np.any(wrong):
        row = ids[np.any(wrong, axis=1)][0].tolist()
        raise ValueError(
            "`prefix_ids` must be tokens of the vocabulary, without start and "
            f"end, and then padding. Received: {row} for a vocabulary of "
            f"{vocabulary_size}. Leave out the start ({START}) and the end "
            f"({END}), and pad with {PADDING} at the right."
        )
