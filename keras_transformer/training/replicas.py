"""What the replicas of a `tf.distribute` strategy must agree on."""

import contextlib
import threading

import keras

TENSORFLOW = keras.backend.backend() == "tensorflow"

if TENSORFLOW:
    import tensorflow as tf

# A thread's own, because MirroredStrategy traces each replica in a thread.
_whole_batch = threading.local()


def sum_over_replicas(value):
    """Sums `value` over all replicas: itself where there is one replica.

    Args:
        value: A dense tensor, or a list of them, all reduced together.

    Returns:
        The sum, the same on each replica.
    """
    if not TENSORFLOW:
        return value
    # None while Keras builds a model symbolically, outside any replica.
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return value
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value)


@contextlib.contextmanager
def whole_batch(count):
    """Tells losses inside how many tokens the whole global batch has.

    A loss on one micro-batch cannot know it, and cannot ask the other
    replicas either, because it runs inside a loop.

    Args:
        count: Scalar, the sum over micro-batches and replicas; None leaves
            each loss to sum its own.
    """
    previous, _whole_batch.count = whole_batch_count(), count
    try:
        yield
    finally:
        _whole_batch.count = previous


def whole_batch_count():
    """The innermost `whole_batch`'s count, or None."""
    return getattr(_whole_batch, "count", None)
