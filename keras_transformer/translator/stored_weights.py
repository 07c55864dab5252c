"""A model's weights as an exported model stores them: in as few bits."""

import keras
import tensorflow as tf

WEIGHT_DTYPES = ("float32", "float16", "int8")


class StoredWeights:
    """Variables for the weights of a model: `values` and `scales`, by path.

    In `"int8"` each row of a matrix, which is what its last axis counts, is
    stored as whole numbers from -127 to 127 and one float32 by which they are
    multiplied. Vectors, of which there are few numbers, stay float32.

    Args:
        model: A model. Only the names, shapes and types of its weights are
            taken.
        dtype: `"float32"`, `"float16"` or `"int8"`.
    """

    def __init__(self, model, dtype):
        self.values = {}
        self.scales = {}
        for weight in model.weights:
            path, shape, kind = weight.path, tuple(weight.shape), dtype
            if not keras.backend.is_float_dtype(weight.dtype):
                kind = weight.dtype
            elif dtype == "int8" and len(shape) < 2:
                kind = "float32"
            elif dtype == "int8":
                rows = tf.zeros((*shape[:-1], 1))
                self.scales[path] = tf.Variable(rows, name=f"{path}/scale")
            zeros = tf.zeros(shape, kind)
            self.values[path] = tf.Variable(zeros, name=path)

    def store(self, weight):
        """Takes the value of one of the model's weights, rounded."""
        value = tf.convert_to_tensor(weight.value)
        stored = self.values[weight.path]
        if weight.path in self.scales:
            value = tf.cast(value, tf.float32)
            largest = tf.reduce_max(tf.abs(value), axis=-1, keepdims=True)
            scale = self.scales[weight.path]
            scale.assign(largest / 127)
            value = tf.round(tf.math.divide_no_nan(value, scale))
            finite = tf.math.is_finite(largest)
        else:
            value = tf.cast(value, stored.dtype)
            finite = not value.dtype.is_floating or tf.math.is_finite(value)
        if not tf.reduce_all(finite):
            raise ValueError(
                f"Weights must be numbers that fit into {stored.dtype.name}. "
                f"Received: others in {weight.path}. If they are numbers at "
                'all, give `weights="float32"`.'
            )
        stored.assign(tf.cast(value, stored.dtype))

    def restore(self, weight):
        """The stored value, in the type of the weight."""
        value = self.values[weight.path]
        if weight.path in self.scales:
            value = tf.cast(value, tf.float32) * self.scales[weight.path]
        return tf.cast(value, weight.dtype)
