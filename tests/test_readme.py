"""The README and the pages of docs/ tell the truth: their code runs."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from keras_transformer import cli

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "saved_models").glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
SLOW = ("docs/serving.md",)  # it exports a model
BUILT = "examples/serving/translate"  # by a command before


def blocks(page, language):
    text = page.read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def named(page):
    """A page with its name, and whether its test takes long."""
    name = str(page.relative_to(ROOT))
    marks = [pytest.mark.slow] if name in SLOW else []
    return pytest.param(page, id=name, marks=marks)


def commands(page):
    """The simple commands of a page's shell blocks, as lists of words."""
    for block in blocks(page, "bash"):
        text = re.sub(r"(?m)(^|\s)#.*", "", block).replace("\\\n", " ")
        words = shlex.shlex(text, posix=True, punctuation_chars="|&;<>()\n")
        words.whitespace, words.whitespace_split = " \t", True
        command = []
        for word in [*words, "\n"]:
            if not set(word) <= set("|&;<>()\n"):
                command.append(word)
            elif command:
                yield command
                command = []


def verb_commands(page):
    for words in commands(page):
        if words[:1] == ["keras-transformer"]:
            yield words[1:]


def with_blocks(find):
    return [named(page) for page in PAGES if list(find(page))]


@pytest.mark.parametrize(
    "page", with_blocks(lambda page: blocks(page, "python"))
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


def test_all_python_is_marked_as_such():
    for page in PAGES:
        assert not blocks(page, "py"), page
        marks = re.findall(r"^```(\w+)$", page.read_text("utf-8"), re.M)
        assert set(marks) <= {"bash", "python", "json", "toml"}, page


@pytest.mark.parametrize("page", with_blocks(verb_commands))
def test_commands_have_flags_that_exist(page, capsys):
    for words in verb_commands(page):
        try:
            cli._parser().parse_args(words)
        except SystemExit:
            pytest.fail(f"{words}: {capsys.readouterr().err}")


@pytest.mark.parametrize("page", with_blocks(commands))
def test_commands_name_files_that_exist(page):
    setup = (ROOT / "setup.py").read_text("utf-8")
    for words in commands(page):
        if words[0] in ("python", "bash") and words[1].endswith((".py", ".sh")):
            folders = (ROOT, page.parent)
            assert any((f / words[1]).is_file() for f in folders), words
        if words[:2] == ["python", "-m"] and words[2].startswith("benchmarks"):
            assert (ROOT / f"{words[2].replace('.', '/')}.py").is_file(), words
        for extras in re.findall(r"\.\[(.*?)\]", " ".join(words)):
            for extra in extras.split(","):
                assert f'"{extra}": ' in setup, words
        for path in re.findall(r"\b(?:examples|saved_models)/\S+", str(words)):
            path = path.strip("',]").partition("=")[0]  # MODEL=SHARE
            assert (ROOT / path).exists() or path == BUILT, words


def shipped_commands():
    """What pages ask of the model that ships, each once."""
    seen = {}
    for page in PAGES:
        for words in verb_commands(page):
            cheap = words[0] in ("translate", "attention")
            if cheap and not {"--model", "--file"} & {*words}:
                seen[shlex.join(words)] = words
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("words", shipped_commands().values(), ids=shlex.join)
def test_commands_for_the_model_that_ships_run(
    words, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    # The sentence may come from a pipe.
    reads, writes = os.pipe()
    os.write(writes, b"Good morning.\n")
    os.close(writes)
    monkeypatch.setattr("sys.stdin", os.fdopen(reads))
    assert cli.main(words) == 0
    said, complaints = capfd.readouterr()
    assert said.strip()
    assert not complaints
    if words[0] == "attention":
        assert (tmp_path / said.split()[-1]).stat().st_size > 1000


@pytest.mark.slow
def test_the_quickstart_works_from_top_to_bottom(tmp_path):
    """All but what installs, serves until Ctrl-C, or needs data or a server."""
    program = tmp_path / "keras-transformer"
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} -m keras_transformer.cli "$@"\n'
    )
    program.chmod(0o755)
    left_out = ("pip ", "curl ", "keras-transformer serve", "prepare", "corpus")
    lines = [
        line
        for block in blocks(ROOT / "docs" / "quickstart.md", "bash")
        for line in block.replace("\\\n", " ").splitlines()
        if not any(word in line for word in left_out)
    ]
    assert len(lines) == 8
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "models" / "numbers" / "1" / "saved_model.pb").is_file()
    assert (tmp_path / "attention.html").is_file()
