"""The code blocks of the README and of each page of docs/ run in order."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.S)
    names = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
