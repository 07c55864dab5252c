"""Files that are whole, or not there."""

import errno
import json
import os
import shutil
import uuid
from contextlib import contextmanager, suppress
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


def holds_something(path):
    """Whether it is a file, or a folder that is not empty."""
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def holds_files(path):
    """Whether a whole file is there; a stop at once leaves none."""
    return path.is_file() or any(
        found.is_file() and found.suffix != ".partial"
        for found in path.rglob("*")
    )


def remove_folder(folder):
    """Removes it under another name, so that nobody finds half of it."""
    folder = Path(folder)
    doomed = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.removed")
    with suppress(OSError):  # it may not be there
        os.replace(folder, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


@contextmanager
def reading(folder, *errors):
    """A sentence where a folder turns out to be damaged, or of other kind.

    Args:
        folder: The folder that is read.
        *errors: What its files may raise besides Python's own errors.
    """
    try:
        yield
    except (
        OSError,
        LookupError,
        TypeError,
        AttributeError,
        AssertionError,
        json.JSONDecodeError,
        UnicodeDecodeError,
        *errors,
    ) as error:
        if getattr(error, "errno", None) in (errno.EMFILE, errno.EACCES):
            raise
        raise ValueError(
            f"{folder} must be whole to be read. Received: one with something "
            f"missing or damaged ({type(error).__name__}: "
            f"{' '.join(str(error).split()):.150}). Fetch or make it again."
        ) from error


def write_text(path, text):
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")
