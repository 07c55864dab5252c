"""Writes files that are complete, or not there."""

import os
from pathlib import Path


def write_figure(figure, path):
    path = Path(path)
    beside = path.with_name(path.name + ".partial")
    figure.savefig(beside, dpi=120, format=path.suffix[1:] or "png")
    os.replace(beside, path)


def write_text(text, path):
    path = Path(path)
    beside = path.with_name(path.name + ".partial")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)
