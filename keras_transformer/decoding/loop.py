"""The loop of a search: it goes on until every sentence is done."""

from keras import ops, tree

from keras_transformer.decoding.past import RowsInPlace, writes_in_place
from keras_transformer.decoding.search import Hypotheses
from keras_transformer.layers.axes import shape_of

# Below this number of sentences nothing is gained by leaving some out.
FEW = 8
# Steps to make room for at first.
FIRST_ROOM = 16


def grow_all(grow, state, finish, limit, num_hypotheses, jit_compile):
    """Grows hypotheses, a token at each step, until all are done.

    In a graph for all sizes, sentences that are done leave the batch when they
    are half of it, and room for the past is made as it is needed. A batch then
    costs what its tokens cost, however long its longest sentence gets.

    Args:
        grow: A function of a state that gives the next one.
        state: A dictionary. `"step"` counts, `"done"` tells which sentences
            are; all of it but the step has a row for each sentence. `"past"`
            is what `make_step` gave, `"lines"`, if any, is as long.
        finish: A function of a state that gives `Hypotheses`.
        limit: The greatest number of steps.
        num_hypotheses: Number of hypotheses for each sentence.
        jit_compile: Whether XLA compiles the graph: it knows fixed sizes only.

    Returns:
        `Hypotheses`.
    """

    def is_open(state):
        return ops.logical_not(ops.all(state["done"]))

    def loop(condition, state):
        return ops.while_loop(condition, lambda x: (grow(x),), (state,))[0]

    if not writes_in_place(jit_compile):
        return finish(loop(is_open, state))
    import tensorflow as tf

    def goes_on(state):
        rows = shape_of(state["done"])[0]
        num_done = ops.sum(ops.cast(state["done"], "int32"))
        enough = ops.logical_or(rows <= FEW, 2 * num_done < rows)
        has_room = state["step"] < _room(state, num_hypotheses)
        return is_open(state) & enough & has_room

    def regroup(state, rows, found):
        """Grows for a while, and goes on with what is not done."""
        state = loop(goes_on, state)
        found = tree.map_structure(
            lambda all_rows, some: ops.scatter_update(
                all_rows, rows[:, None], some
            ),
            found,
            finish(state),
        )
        left = tf.where(ops.logical_not(state["done"]))[:, 0]
        step = state.pop("step")
        state, rows = tree.map_structure(
            lambda x: ops.take(x, left, axis=0), (state, rows)
        )
        room = _room(state, num_hypotheses)
        # As much again, if it is full.
        more = ops.where(step < room, 0, ops.minimum(room, limit - room))
        state["past"] = RowsInPlace.widen(state["past"], more * num_hypotheses)
        if "lines" in state:
            state["lines"] = ops.pad(
                state["lines"], ((0, 0), (0, 0), (0, more))
            )
        return {"step": step, **state}, rows, found

    batch = shape_of(state["done"])[0]
    found = finish(state)
    found = Hypotheses(ops.zeros_like(found.ids), ops.zeros_like(found.scores))
    variables = (state, ops.arange(batch, dtype="int32"), found)
    _, _, found = tf.while_loop(
        lambda state, rows, found: shape_of(rows)[0] > 0,
        regroup,
        variables,
        shape_invariants=tree.map_structure(_loose_shape, variables),
    )
    return found


def first_room(limit, jit_compile):
    """Steps that the past has room for when a search begins."""
    if not writes_in_place(jit_compile):
        return limit
    return ops.minimum(FIRST_ROOM, limit)


def _room(state, num_hypotheses):
    """Steps that the past has room for."""
    return shape_of(state["past"][0]["key"])[2] // num_hypotheses


def _loose_shape(x):
    """What stays the same of a shape: not the batch, not the room."""
    import tensorflow as tf

    shape = [None] * len(x.shape)
    if len(shape) > 1:
        shape[1] = x.shape[1]
    if len(shape) == 4:
        shape[3] = x.shape[3]
    return tf.TensorShape(shape)
