"""Greedy search, and the loop that it shares with sampling."""

from keras import ops, tree

from keras_transformer.decoding import search
from keras_transformer.decoding.constraints import make_constraint
from keras_transformer.decoding.loop import grow_all
from keras_transformer.decoding.search import IMPOSSIBLE, Hypotheses
from keras_transformer.decoding.step import make_step
from keras_transformer.layers import arguments
from keras_transformer.layers.axes import shape_of
from keras_transformer.tokenizer import END, START


def greedy_search(
    model,
    source_ids,
    length_penalty=0.6,
    max_extra_length=50,
    max_length=None,
    min_length=0,
    prefix_ids=None,
    no_repeat_ngram_size=0,
    jit_compile=False,
):
    """The likeliest token at each step: a beam of 1, in less time.

    Args:
        model: A `Transformer`.
        source_ids: Ids, `(batch, source_length)`, each with its end.
        length_penalty: α of the score that is returned.
        max_extra_length: How many tokens longer than its source a hypothesis
            may grow.
        max_length: The greatest length as a number, instead.
        min_length: Number of tokens before the end is allowed.
        prefix_ids: Ids to begin with, as for `beam_search`.
        no_repeat_ngram_size: Size of the n-grams that may not come twice.
        jit_compile: Whether XLA compiles the call, as for `beam_search`.

    Returns:
        `Hypotheses`, one for each source.
    """
    return grow_each(
        lambda log_probs, state: _first(*search.likeliest(log_probs, 1)),
        {},
        model,
        search.id_tensor("source_ids", source_ids),
        1,
        length_penalty,
        max_extra_length,
        max_length,
        min_length=min_length,
        prefix_ids=prefix_ids,
        no_repeat_ngram_size=no_repeat_ngram_size,
        jit_compile=jit_compile,
    )


def grow_each(
    choose,
    start,
    model,
    source_ids,
    num_results,
    length_penalty,
    max_extra_length,
    max_length,
    jit_compile,
    **constraints,
):
    """Grows every hypothesis on its own, one token at each step.

    Args:
        choose: A function of log-probabilities, `(batch * num_results,
            vocabulary)`, and of the state, that gives a token for each row and
            its log-probability.
        start: What that function needs in the state: tensors with a row for
            each hypothesis.

    The other arguments are those of the searches.

    Returns:
        `Hypotheses`, in no order.
    """
    arguments.check_number(length_penalty=length_penalty)
    limits, limit = search.length_limits(
        model, source_ids, max_extra_length, max_length
    )
    batch = shape_of(source_ids)[0]
    rows = batch * num_results
    constrain, constraint_start = make_constraint(
        model, source_ids, 1, max_length, **constraints
    )
    if num_results > 1:
        source_ids, limits, constraint_start = tree.map_structure(
            lambda x: ops.repeat(x, num_results, axis=0),
            (source_ids, limits, constraint_start),
        )
    next_log_probs, step_start = make_step(
        model, source_ids, limit, jit_compile=jit_compile
    )
    state = {
        "step": ops.zeros((), "int32"),
        "ids": ops.zeros((rows, limit), "int32"),
        "last": ops.full((rows,), START, "int32"),
        "log_probs": ops.zeros((rows,)),
        "lengths": ops.zeros((rows,), "int32"),
        "limits": limits,
        "done": ops.equal(limits, 0),
        **start,
        **constraint_start,
        **step_start,
    }

    def grow(state):
        step, done = state["step"], state["done"]
        log_probs, past = next_log_probs(state["last"], state)
        tokens, chosen = choose(constrain(log_probs, state), state)
        tokens = ops.where(done, 0, tokens)
        return {
            **state,
            "step": step + 1,
            "ids": search.append(state["ids"], tokens, step),
            "last": tokens,
            "log_probs": state["log_probs"] + ops.where(done, 0.0, chosen),
            "lengths": state["lengths"] + ops.cast(~done, "int32"),
            "past": past,
            "done": done
            | ops.equal(tokens, END)
            | (step + 1 >= state["limits"]),
        }

    def finish(state):
        possible = search.is_possible(state["log_probs"])
        scores = state["log_probs"] / search.penalty(
            state["lengths"], length_penalty
        )
        scores = ops.where(possible, scores, IMPOSSIBLE)
        ids = ops.where(possible[:, None], state["ids"], 0)
        return Hypotheses(ids, scores)

    found = grow_all(grow, state, finish, limit, 1, jit_compile)
    return Hypotheses(
        ops.reshape(found.ids, (batch, num_results, limit)),
        ops.reshape(found.scores, (batch, num_results)),
    )


def _first(log_probs, tokens):
    """The likeliest of a few tokens, and its log-probability."""
    best = ops.expand_dims(ops.argmax(log_probs, axis=-1), 1)
    tokens = search.take_each(tokens, best)
    return ops.cast(tokens[:, 0], "int32"), ops.max(log_probs, axis=-1)
