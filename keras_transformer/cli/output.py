"""Where results are written, and how scores read."""

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
    path = Path(path)
    if path.exists() and not path.is_file():  # a pipe, a device
        with path.open("w", encoding="utf-8") as file:
            yield file
        return
    path = path.resolve()  # a link stays one
    beside = path.with_name(path.name + ".partial")
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


def describe_scores(scores):
    """The scores of a run's `result.json`, each with its signature."""
    parts = [f"chrF {scores['chrf']:.2f} ({scores['chrf_signature']})"]
    if scores["bleu"]:  # sentences of one word have none
        parts.insert(0, f"BLEU {scores['bleu']:.2f} ({scores['signature']})")
    return ", ".join(parts)
