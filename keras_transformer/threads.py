"""Work on several things at a time, where it lets go of Python's lock."""

import os
from concurrent.futures import ThreadPoolExecutor, as_completed


def num_cores():
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


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
