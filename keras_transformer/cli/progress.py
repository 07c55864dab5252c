"""A bar on the terminal for what takes long."""

import sys
from contextlib import contextmanager


@contextmanager
def progress_bar(what, shown=True, total=None):
    """Gives a function that is told how many more are done.

    Args:
        what: What is counted.
        shown: Whether to draw the bar; it is drawn on standard error, and
            only where that is a terminal.
        total: How many there will be, if that is known.
    """
    if not shown or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    count = "{task.completed:,.0f}"
    if total is not None:
        count += f" of {total:,}"
    with Progress(
        TextColumn(f"{count} {what}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    ) as bars:
        task = bars.add_task(what, total=total)
        yield lambda count: bars.advance(task, count)
