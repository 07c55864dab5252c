"""The paper's beam search."""

from keras import ops

from keras_transformer.decoding import search
from keras_transformer.decoding.constraints import make_constraint
from keras_transformer.decoding.loop import first_room, grow_all
from keras_transformer.decoding.search import IMPOSSIBLE, Hypotheses
from keras_transformer.decoding.step import make_step
from keras_transformer.layers import arguments
from keras_transformer.layers.axes import shape_of
from keras_transformer.tokenizer import END, START


def beam_search(
    model,
    source_ids,
    beam_size=4,
    length_penalty=0.6,
    max_extra_length=50,
    max_length=None,
    num_results=1,
    min_length=0,
    prefix_ids=None,
    no_repeat_ngram_size=0,
    jit_compile=False,
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
        min_length: Number of tokens before the end is allowed.
        prefix_ids: Ids, `(batch, prefix_length)`, that the hypotheses of each
            source begin with: without the start, padded with 0. They are part
            of the results and of their scores, and allowed whatever they are.
        no_repeat_ngram_size: If above 0, no sequence of so many tokens comes
            twice in a hypothesis.
        jit_compile: Must be true where XLA compiles the call, as in a
            `tf.function` with `jit_compile=True`.

    Returns:
        `Hypotheses`.
    """
    arguments.check_sizes(beam_size=beam_size, num_results=num_results)
    arguments.check_number(length_penalty=length_penalty)
    if num_results > beam_size:
        raise ValueError(
            "`num_results` cannot exceed `beam_size`. Received: "
            f"num_results={num_results}, beam_size={beam_size}. "
            "Widen the beam."
        )
    source_ids = search.id_tensor("source_ids", source_ids)
    batch = shape_of(source_ids)[0]
    limits, limit = search.length_limits(
        model, source_ids, max_extra_length, max_length
    )
    constrain, constraint_start = make_constraint(
        model,
        source_ids,
        beam_size,
        max_length,
        min_length,
        prefix_ids,
        no_repeat_ngram_size,
    )
    next_log_probs, step_start = make_step(
        model, source_ids, limit, beam_size, jit_compile
    )
    shape = (batch, beam_size)
    room = first_room(limit, jit_compile)
    places = ops.arange(beam_size, dtype="int32")[None]
    state = {
        "step": ops.zeros((), "int32"),
        # Open hypotheses. All start alike, so only the first may grow.
        "ids": ops.zeros((*shape, limit), "int32"),
        "last": ops.full(shape, START, "int32"),
        "log_probs": ops.zeros(shape)
        + ops.where(ops.arange(beam_size) > 0, IMPOSSIBLE, 0.0)[None],
        # The place that each had among the open ones, at each step.
        "lines": ops.zeros((*shape, room), "int32"),
        # Ended ones, best first.
        "ended_ids": ops.zeros((*shape, limit), "int32"),
        "ended_scores": ops.full(shape, 2 * IMPOSSIBLE, "float32"),
        "num_ended": ops.zeros((batch,), "int32"),
        "limits": limits,
        "done": ops.equal(limits, 0),
        **constraint_start,
        **step_start,
    }

    def grow(state):
        step, was_done = state["step"], state["done"]
        limits = state["limits"]
        log_probs, past = next_log_probs(state["last"], state, state["lines"])
        log_probs = constrain(log_probs, state)
        # Two for each beam: even if all end, as many stay open.
        log_probs, tokens = search.likeliest(log_probs, 2 * beam_size)
        count = log_probs.shape[-1]
        totals = ops.reshape(log_probs, (-1, beam_size, count))
        totals = ops.reshape(
            totals + state["log_probs"][..., None], (-1, beam_size * count)
        )
        totals, best = ops.top_k(totals, min(2 * beam_size, beam_size * count))
        tokens = ops.reshape(tokens, (-1, beam_size * count))
        tokens = search.take_each(tokens, best)
        beams = best // count  # (batch, 2 * beam_size)
        grown = search.append(
            search.take_each(state["ids"], beams), tokens, step
        )
        ends = ops.equal(tokens, END)

        # An end counts among the first `beam_size` candidates, as in a search
        # that keeps no more than these.
        first = ops.arange(totals.shape[1]) < beam_size
        ending = ends & first[None] & search.is_possible(totals)
        ending = ending & ops.logical_not(was_done)[:, None]
        penalty = search.penalty(step + 1, length_penalty)
        scores = ops.where(ending, totals / penalty, 2 * IMPOSSIBLE)
        ended_scores, best = ops.top_k(
            ops.concatenate([state["ended_scores"], scores], axis=1), beam_size
        )
        ended_ids = search.take_each(
            ops.concatenate([state["ended_ids"], grown], axis=1), best
        )
        num_ended = state["num_ended"] + ops.sum(
            ops.cast(ending, "int32"), axis=1
        )

        totals, best = ops.top_k(
            ops.where(ends, totals + IMPOSSIBLE, totals), beam_size
        )
        beams = search.take_each(beams, best)
        tokens = search.take_each(tokens, best)
        # The best that an open hypothesis can still reach: now, or at the end.
        hope = ops.maximum(
            totals[:, 0] / search.penalty(step + 2, length_penalty),
            totals[:, 0] / search.penalty(limits, length_penalty),
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
            **state,
            "step": step + 1,
            "ids": ops.where(
                frozen[..., None], state["ids"], search.take_each(grown, best)
            ),
            "last": tokens,
            "log_probs": ops.where(frozen, state["log_probs"], totals),
            "past": past,
            # Each open hypothesis takes over the line of the one it grew from.
            "lines": search.take_each(
                search.append(state["lines"], places, step), beams
            ),
            "ended_ids": ended_ids,
            "ended_scores": ended_scores,
            "num_ended": num_ended,
            "done": done,
        }

    def finish(state):
        # What was cut off comes after what ended, in its own order.
        ended, open_ = state["ended_scores"], state["log_probs"]
        ranks = ops.arange(beam_size, dtype="float32")[None]
        cut_off = ops.zeros_like(open_) + 1.5 * IMPOSSIBLE - 1e3 * ranks
        _, best = ops.top_k(
            ops.concatenate([ended, cut_off], axis=1), num_results
        )
        ids = ops.concatenate([state["ended_ids"], state["ids"]], axis=1)
        penalty = search.penalty(state["limits"], length_penalty)[:, None]
        cut_scores = ops.where(
            search.is_possible(open_), open_ / penalty, IMPOSSIBLE
        )
        scores = ops.concatenate([ended, cut_scores], axis=1)
        scores = search.take_each(scores, best)
        ids = search.take_each(ids, best)
        ids = ops.where(search.is_possible(scores)[..., None], ids, 0)
        return Hypotheses(ids, scores)

    return grow_all(grow, state, finish, limit, beam_size, jit_compile)
