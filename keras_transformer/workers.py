"""Several batches at a time, each with its share of the cores.

A batch of sentences is a long chain of small operations. Two cores that share
each of them spend much of their time on waiting for each other; with a batch of
their own they do not.
"""

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor, as_completed

import tensorflow as tf

# Batches at a time. With more cores, each batch gets several.
MOST = 4


def num_workers():
    """How many batches to run at a time: one, where a GPU runs them."""
    if tf.config.list_physical_devices("GPU"):
        return 1
    return min(MOST, _num_cores())


def share_cores():
    """Lets operations use no more than one batch's share of the cores.

    It holds for the whole process: a program that also trains should not call
    it. Once TensorFlow has begun to compute, it is too late, and nothing
    changes.
    """
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(
            _num_cores() // num_workers()
        )


def in_threads(function, items, count):
    """Yields items and what a function makes of them, as they are done."""
    if min(count, len(items)) < 2:
        for item in items:
            yield item, function(item)
        return
    threads = ThreadPoolExecutor(count, "translate")
    try:
        tasks = {threads.submit(function, item): item for item in items}
        for task in as_completed(tasks):
            yield tasks[task], task.result()
    finally:  # after an error or Ctrl-C, what has not begun does not begin
        threads.shutdown(cancel_futures=True)


def _num_cores():
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1
