"""Several batches at a time, each with its share of the cores.

A batch of sentences is a long chain of small operations. Two cores that share
each of them spend much of their time on waiting for each other; with a batch of
their own they do not.
"""

import contextlib

import tensorflow as tf

from keras_transformer.threads import num_cores

# Batches at a time. With more cores, each batch gets several.
MOST = 4


def num_workers():
    """How many batches to run at a time: one, where a GPU runs them."""
    if tf.config.list_physical_devices("GPU"):
        return 1
    return min(MOST, num_cores())


def share_cores():
    """Lets operations use no more than one batch's share of the cores.

    It holds for the whole process: a program that also trains should not call
    it. Once TensorFlow has begun to compute, it is too late, and nothing
    changes.
    """
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(
            num_cores() // num_workers()
        )
