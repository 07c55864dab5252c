"""Files that are whole, or not there."""

import os
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path):
    """A path beside to write to, which takes the place of `path` at the end.

    After an error, or Ctrl-C, nothing of it is left.
    """
    path = Path(path)
    beside = path.with_name(path.name + ".partial")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write_text(path, text):
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")
