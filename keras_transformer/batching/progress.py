"""What `prepare` shows while it works: a line for each step."""

from contextlib import contextmanager


@contextmanager
def progress_lines(verbose):
    """Gives a function that starts a line of progress and advances it."""
    if not verbose:
        yield lambda *_: lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task):
            seconds = task.finished_time or task.elapsed or 1
            speed = task.completed / seconds
            return Text(f"{speed:,.0f} pairs/s")

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    ) as progress:

        def start(description, total=None):
            for task in progress.tasks:  # the steps before are finished
                progress.update(task.id, total=task.completed)
            task = progress.add_task(description, total=total)
            return lambda number: progress.advance(task, number)

        yield start
