"""Where results are written."""

import os
import sys
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def open_output(path):
    """Standard output, or a file that is there when it is complete."""
    if path is None:
        yield sys.stdout
        return
    beside = Path(f"{path}.partial")
    file = beside.open("w", encoding="utf-8")
    try:
        with file:
            yield file
        os.replace(beside, path)
    except BaseException:
        if beside.stat().st_size:
            print(f"What was translated is in {beside}.", file=sys.stderr)
        else:
            beside.unlink()
        raise
