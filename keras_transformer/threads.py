"""Work on several things at a time, where it lets go of Python's lock."""

import os
import queue
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed


def num_cores():
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def in_background(function):
    """What a long call of C returns; a Ctrl-C does not wait for its end."""
    results = queue.SimpleQueue()

    def run():
        try:
            results.put((function(), None))
        except BaseException as error:
            results.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    while True:
        try:
            result, error = results.get(timeout=0.1)
        except queue.Empty:
            continue
        if error is not None:
            raise error
        return result


def in_threads(function, items, count):
    """Yields items and what a function makes of them, as they are done."""
    if min(count, len(items)) < 2:
        for item in items:
            yield item, function(item)
        return
    threads = ThreadPoolExecutor(count)
    try:
        tasks = {threads.submit(function, item): item for item in items}
        for task in as_completed(tasks):
            yield tasks[task], task.result()
    finally:  # after an error or Ctrl-C, what has not begun does not begin
        threads.shutdown(cancel_futures=True)
