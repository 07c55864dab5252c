"""Keys and values of earlier steps: room for some, written without a copy.

A step writes a few rows into a large tensor. On other backends, and in what XLA
compiles, that is the update of a slice. A graph of TensorFlow has no such
operation that TF Serving runs: `scatter_update` copies all of it each time, and
`slice_update` is an operation of XLA. There rows are written in place.
"""

import keras
from keras import ops, tree

from keras_transformer.layers.axes import shape_of


def writes_in_place(jit_compile):
    """Whether this is a graph of TensorFlow, or TensorFlow without one.

    Args:
        jit_compile: Whether XLA compiles the graph.
    """
    return keras.backend.backend() == "tensorflow" and not jit_compile


class Slices:
    """Keys are columns, `(batch, heads, dim, places)`: multiplied faster."""

    scores = "bhqd,bhdk->bhqk"

    @staticmethod
    def empty(batch, heads, places, key_dim, value_dim, dtype):
        """No keys and no values."""
        return {
            "key": ops.zeros((batch, heads, key_dim, places), dtype),
            "value": ops.zeros((batch, heads, places, value_dim), dtype),
        }

    @staticmethod
    def address(past, place, count):
        """For `write`: where `count` places begin. The same in all layers."""
        return place

    @staticmethod
    def write(past, place, key, value):
        """The past with `(batch, heads, hypotheses, dim)` at an address."""
        key = ops.transpose(key, (0, 1, 3, 2))
        return {
            "key": ops.slice_update(past["key"], (0, 0, 0, place), key),
            "value": ops.slice_update(past["value"], (0, 0, place, 0), value),
        }


class RowsInPlace:
    """Keys are rows, `(batch, heads, places, dim)`, in TensorFlow's memory.

    `InplaceUpdate` writes into its input. That is right here, where each state
    of the past is written once and read only after that; and `Empty` gives each
    call and each tensor memory of its own, which no optimizer shares.
    """

    scores = "bhqd,bhkd->bhqk"

    @staticmethod
    def empty(batch, heads, places, key_dim, value_dim, dtype):
        """No keys and no values."""
        import tensorflow as tf

        def room(dim):
            shape = tf.stack([batch, heads, places, dim])
            x = tf.raw_ops.Empty(shape=shape, dtype=dtype, init=True)
            x.set_shape((None, heads, None, dim))
            return x

        return {"key": room(key_dim), "value": room(value_dim)}

    @staticmethod
    def address(past, place, count):
        """For `write`: which rows `count` places are. The same in all layers.

        Of all places of a sentence and a head, one after the other.
        """
        batch, heads, places, _ = shape_of(past["key"])
        starts = ops.arange(batch * heads, dtype="int32") * places + place
        rows = starts[:, None] + ops.arange(count, dtype="int32")
        return ops.reshape(rows, (-1,)), places

    @staticmethod
    def write(past, address, key, value):
        """The past with `(batch, heads, hypotheses, dim)` at an address."""
        import tensorflow as tf

        rows, places = address

        def put(into, new):
            heads, dim = into.shape[1], into.shape[3]
            flat = tf.raw_ops.InplaceUpdate(
                x=ops.reshape(into, (-1, dim)),
                i=rows,
                v=ops.reshape(new, (-1, dim)),
            )
            return ops.reshape(flat, (-1, heads, places, dim))

        return {
            "key": put(past["key"], key),
            "value": put(past["value"], value),
        }

    @staticmethod
    def widen(past, count):
        """The past of all layers with room for `count` places more."""
        more = ((0, 0), (0, 0), (0, count), (0, 0))
        return tree.map_structure(lambda x: ops.pad(x, more), past)
