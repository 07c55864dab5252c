"""Searches for translations, over ids: greedy and the paper's beam search."""

from typing import NamedTuple

from keras import ops, tree

from keras_transformer.layers import arguments, padding_mask
from keras_transformer.layers.axes import shape_of
from keras_transformer.tokenizer import END, PADDING, START

# Below every log-probability, and still finite.
IMPOSSIBLE = -1e9


class Hypotheses(NamedTuple):
    """What a search found, best first.

    Attributes:
        ids: `(batch, num_results, length)`, without the start, with the end
            where it was reached, then padding.
        scores: `(batch, num_results)`: log-probability over length penalty.
    """

    ids: object
    scores: object


def beam_search(
    model,
    source_ids,
    beam_size=4,
    length_penalty=0.6,
    max_extra_length=50,
    max_length=None,
    num_results=1,
):
    """The paper's beam search.

    A hypothesis Y scores `log P(Y) / ((5 + |Y|) / 6) ** length_penalty`, with
    |Y| counting its end. One that ends is frozen. A sentence is done when no
    open hypothesis can still come among the results, or when `beam_size` have
    ended and all of them score better than what is open does at its length.
    Hypotheses that reach the greatest length without an end come after all
    that ended. With a beam of 1 this is greedy search.

    Args:
        model: A `Transformer`.
        source_ids: Ids, `(batch, source_length)`, each with its end.
        beam_size: Number of hypotheses kept open.
        length_penalty: α in the paper. 0 compares plain log-probabilities.
        max_extra_length: How many tokens longer than its source a hypothesis
            may grow. The paper's is 50.
        max_length: The greatest length as a number, instead.
        num_results: Number of hypotheses to return, at most `beam_size`.

    Returns:
        `Hypotheses`.
    """
    arguments.check_sizes(beam_size=beam_size, num_results=num_results)
    if num_results > beam_size:
        raise ValueError(
            "`num_results` cannot exceed `beam_size`. Received: "
            f"num_results={num_results}, beam_size={beam_size}. "
            "Widen the beam."
        )
    source_ids = ops.cast(source_ids, "int32")
    batch = shape_of(source_ids)[0]
    limits, limit = _limits(source_ids, max_extra_length, max_length)
    next_log_probs, past = _stepper(model, source_ids, limit, beam_size)
    shape = (batch, beam_size)
    state = {
        "step": ops.zeros((), "int32"),
        # Open hypotheses. All start alike, so only the first may grow.
        "ids": ops.zeros((*shape, limit), "int32"),
        "last": ops.full(shape, START, "int32"),
        "log_probs": ops.zeros(shape)
        + ops.where(ops.arange(beam_size) > 0, IMPOSSIBLE, 0.0)[None],
        "past": past,
        # Ended ones, best first.
        "ended_ids": ops.zeros((*shape, limit), "int32"),
        "ended_scores": ops.full(shape, 2 * IMPOSSIBLE, "float32"),
        "num_ended": ops.zeros((batch,), "int32"),
        "done": ops.equal(limits, 0),
    }

    def is_open(state):
        return ops.logical_not(ops.all(state["done"]))

    def grow(state):
        step, was_done = state["step"], state["done"]
        log_probs, past = next_log_probs(state["last"], state["past"], step)
        size = log_probs.shape[-1]
        totals = ops.reshape(log_probs, (batch, beam_size, size))
        totals = ops.reshape(
            totals + state["log_probs"][..., None], (batch, -1)
        )
        # Two for each beam: even if all end, as many stay open.
        totals, flat = ops.top_k(totals, min(2 * beam_size, beam_size * size))
        beams, tokens = flat // size, flat % size  # (batch, 2 * beam_size)
        grown = _append(_take(state["ids"], beams), tokens, step)
        ends = ops.equal(tokens, END)

        # An end counts among the first `beam_size` candidates, as in a search
        # that keeps no more than these.
        first = ops.arange(totals.shape[1]) < beam_size
        ending = ends & first[None] & (totals > IMPOSSIBLE / 2)
        ending = ending & ops.logical_not(was_done)[:, None]
        penalty = _penalty(step + 1, length_penalty)
        scores = ops.where(ending, totals / penalty, 2 * IMPOSSIBLE)
        ended_scores, best = ops.top_k(
            ops.concatenate([state["ended_scores"], scores], axis=1), beam_size
        )
        ended_ids = _take(
            ops.concatenate([state["ended_ids"], grown], axis=1), best
        )
        num_ended = state["num_ended"] + ops.sum(
            ops.cast(ending, "int32"), axis=1
        )

        totals, best = ops.top_k(
            ops.where(ends, totals + IMPOSSIBLE, totals), beam_size
        )
        beams = ops.take_along_axis(beams, best, axis=1)
        tokens = ops.take_along_axis(tokens, best, axis=1)
        # The best that an open hypothesis can still reach: now, or at the end.
        hope = ops.maximum(
            totals[:, 0] / _penalty(step + 2, length_penalty),
            totals[:, 0] / _penalty(limits, length_penalty),
        )
        full = num_ended >= beam_size
        done = (
            was_done
            | (full & (ended_scores[:, -1] >= totals[:, 0] / penalty))
            | (ended_scores[:, num_results - 1] >= hope)
            | (step + 1 >= limits)
        )
        frozen = was_done[:, None]
        return {
            "step": step + 1,
            "ids": ops.where(
                frozen[..., None], state["ids"], _take(grown, best)
            ),
            "last": tokens,
            "log_probs": ops.where(frozen, state["log_probs"], totals),
            # Each open hypothesis takes over the past of the one it grew from.
            "past": tree.map_structure(
                lambda x: ops.take(x, _rows(beams, beam_size), axis=0), past
            ),
            "ended_ids": ended_ids,
            "ended_scores": ended_scores,
            "num_ended": num_ended,
            "done": done,
        }

    (state,) = ops.while_loop(is_open, lambda state: (grow(state),), (state,))
    # What was cut off comes after what ended, in its own order.
    ranks = ops.arange(beam_size, dtype="float32")[None]
    cut_off = ops.zeros(shape) + 1.5 * IMPOSSIBLE - 1e6 * ranks
    _, best = ops.top_k(
        ops.concatenate([state["ended_scores"], cut_off], axis=1), num_results
    )
    ids = ops.concatenate([state["ended_ids"], state["ids"]], axis=1)
    cut_scores = state["log_probs"] / _penalty(limits, length_penalty)[:, None]
    scores = ops.concatenate([state["ended_scores"], cut_scores], axis=1)
    return Hypotheses(
        _take(ids, best), ops.take_along_axis(scores, best, axis=1)
    )


def greedy_search(
    model,
    source_ids,
    length_penalty=0.6,
    max_extra_length=50,
    max_length=None,
):
    """The likeliest token at each step: a beam of 1, in less time.

    Args:
        model: A `Transformer`.
        source_ids: Ids, `(batch, source_length)`, each with its end.
        length_penalty: α of the score that is returned.
        max_extra_length: How many tokens longer than its source a hypothesis
            may grow.
        max_length: The greatest length as a number, instead.

    Returns:
        `Hypotheses`, one for each source.
    """
    source_ids = ops.cast(source_ids, "int32")
    batch = shape_of(source_ids)[0]
    limits, limit = _limits(source_ids, max_extra_length, max_length)
    next_log_probs, past = _stepper(model, source_ids, limit)
    state = {
        "step": ops.zeros((), "int32"),
        "ids": ops.zeros((batch, limit), "int32"),
        "last": ops.full((batch,), START, "int32"),
        "log_probs": ops.zeros((batch,)),
        "lengths": ops.zeros((batch,), "int32"),
        "past": past,
        "done": ops.equal(limits, 0),
    }

    def is_open(state):
        return ops.logical_not(ops.all(state["done"]))

    def grow(state):
        step, done = state["step"], state["done"]
        log_probs, past = next_log_probs(state["last"], state["past"], step)
        tokens = ops.cast(ops.argmax(log_probs, axis=-1), "int32")
        tokens = ops.where(done, 0, tokens)
        best = ops.max(log_probs, axis=-1)
        return {
            "step": step + 1,
            "ids": _append(state["ids"], tokens, step),
            "last": tokens,
            "log_probs": state["log_probs"] + ops.where(done, 0.0, best),
            "lengths": state["lengths"] + ops.cast(~done, "int32"),
            "past": past,
            "done": done | ops.equal(tokens, END) | (step + 1 >= limits),
        }

    (state,) = ops.while_loop(is_open, lambda state: (grow(state),), (state,))
    scores = state["log_probs"] / _penalty(state["lengths"], length_penalty)
    return Hypotheses(state["ids"][:, None], scores[:, None])


def _limits(source_ids, max_extra_length, max_length):
    """The greatest length of each hypothesis, and of all."""
    batch, source_length = shape_of(source_ids)
    if max_length is not None:
        return ops.full((batch,), max_length, "int32"), max_length
    # Of the source without its padding: neighbours must not matter.
    lengths = ops.sum(ops.cast(padding_mask(source_ids), "int32"), axis=1)
    limits = ops.where(lengths > 0, lengths + max_extra_length, 0)
    return limits, source_length + max_extra_length


def _stepper(model, source_ids, limit, beam_size=1):
    """A function for one step, and the empty past that it starts from.

    `step(last ids, past, index)` gives log-probabilities of the next token,
    `(rows, vocabulary)`, and the past with this step in it. What belongs to the
    source stays outside of the loop: it never changes.
    """
    mask = padding_mask(source_ids)
    cache = model.make_cache(model.encode(source_ids), limit, beam_size)
    memory = [layer["memory"] for layer in cache]

    def step(last, past, index):
        logits, cache = model.decode(
            ops.reshape(last, (-1, 1)),
            None,
            mask,
            cache=[
                {"self": layer_past, "memory": layer_memory}
                for layer_past, layer_memory in zip(past, memory)
            ],
            cache_index=index,
        )
        logits = ops.cast(logits[:, 0], "float32")
        log_probs = ops.log_softmax(logits, axis=-1)
        # No sentence has padding or a start inside.
        ids = ops.arange(logits.shape[-1])
        never = ops.equal(ids, PADDING) | ops.equal(ids, START)
        log_probs = ops.where(never, IMPOSSIBLE, log_probs)
        return log_probs, [layer["self"] for layer in cache]

    return step, [layer["self"] for layer in cache]


def _penalty(length, length_penalty):
    """`((5 + |Y|) / 6) ** α`."""
    return ((5.0 + ops.cast(length, "float32")) / 6.0) ** length_penalty


def _rows(beams, num_beams):
    """Numbers of beams to numbers of rows of the flat (batch * beam, ...)."""
    batch = shape_of(beams)[0]
    offsets = ops.arange(batch, dtype="int32")[:, None] * num_beams
    return ops.reshape(beams + offsets, (-1,))


def _take(x, beams):
    """Rows of (batch, beams, length) by number: (batch, chosen, length)."""
    batch, num_beams, length = shape_of(x)
    flat = ops.reshape(x, (-1, length))
    taken = ops.take(flat, _rows(beams, num_beams), axis=0)
    return ops.reshape(taken, (batch, beams.shape[1], length))


def _append(ids, tokens, step):
    """Writes one token at position `step` of each row."""
    here = ops.equal(ops.arange(shape_of(ids)[-1], dtype="int32"), step)
    return ops.where(here, tokens[..., None], ids)
