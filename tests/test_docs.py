"""Pages, card and results agree with each other and with the package."""

import csv
import re
import subprocess
import sys

import pytest

import keras_transformer
from keras_transformer import cli
from tests.test_readme import PAGES, ROOT, named

README = (ROOT / "README.md").read_text("utf-8")
CARD = (ROOT / "saved_models" / "README.md").read_text("utf-8")
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
FIGURE = re.compile(r"\d+(?:[.,]\d+)*")


def part(page, name):
    """What `python -m benchmarks.shipped_model` wrote into a page."""
    return re.search(f"<!-- {name} -->(.*?)<!-- /{name} -->", page, re.S)[1]


def rows(text):
    """The cells of the tables' rows."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in lines
    ]


def test_readme_and_card_have_the_same_scores():
    assert part(README, "scores") == part(CARD, "scores")
    assert len(rows(part(CARD, "scores"))) >= 2


def test_the_readme_has_the_recorded_answer():
    sentence = re.search(r'translate "(.*?)"', README)[1]
    path = ROOT / "saved_models" / "en-de" / "recorded.tsv"
    with path.open(encoding="utf-8", newline="") as file:
        recorded = dict(
            csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        )
    assert f"`{recorded[sentence]}`" in part(README, "answer")


def test_measured_figures_are_in_the_results():
    sections = RESULTS.split("\n## ")
    measured = [row for row in rows(README) if "benchmarks" in row[-1]]
    assert len(measured) >= 5
    for what, result, command in measured:
        (section,) = (text for text in sections if command in text)
        missing = {*FIGURE.findall(result)} - {*FIGURE.findall(section)}
        assert not missing, f"{what}: {missing} are not in RESULTS.md"


def slug(title):
    """What a title is called in an address."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", [named(page) for page in PAGES])
def test_links_lead_somewhere(page):
    text = page.read_text("utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = page.parent / name if name else page
        assert path.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)", path.read_text("utf-8"), re.M)
            assert anchor in map(slug, titles), target


def test_pictures_are_small():
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", README)
    assert len(pictures) >= 2
    for picture in pictures:
        assert (ROOT / picture).stat().st_size < 100_000, picture


def test_each_command_has_a_page_with_its_help():
    for verb in cli.VERBS:
        page = (ROOT / "docs" / "commands" / f"{verb}.md").read_text("utf-8")
        assert f"<!-- help: {verb} -->" in page


def test_each_public_name_is_in_the_reference():
    pages = (ROOT / "docs" / "reference").glob("*.md")
    text = "".join(page.read_text("utf-8") for page in pages)
    names = {*re.findall(r"^::: keras_transformer\..*?(\w+)$", text, re.M)}
    public = {*keras_transformer.__all__, *keras_transformer.layers.__all__}
    public |= {*keras_transformer.plots.__all__}
    assert public - {"layers", "plots"} <= names


@pytest.mark.slow
def test_the_site_builds_and_needs_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings_handlers.python")
    pytest.importorskip("material")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(
        [*command, "--site-dir", str(site)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pages = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    fetched = re.compile(r'(?:src|<link[^>]* href)="(?:https?:)?//')
    for path, html in pages.items():
        assert not fetched.search(html), path
    assert "--max-wait-ms" in pages[site / "commands" / "serve.html"]
    layers = pages[site / "reference" / "layers.html"]
    assert "Width of queries and keys in each head" in layers


def test_flags_in_pages_exist(capsys):
    """Those that a page names in its text, of a verb or a script beside it."""
    flags = {
        "--help",
        "--xla_cpu_compilation_enabled",  # TF Serving's
        "--tensorflow_intra_op_parallelism",
    }
    for verb in cli.VERBS:
        with pytest.raises(SystemExit):
            cli.main([verb, "--help"])
        flags |= {*re.findall(r"--[\w-]+", capsys.readouterr().out)}
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S)
        named = {*re.findall(r"`(--[\w-]+)", text)}
        own = {
            flag
            for script in page.parent.glob("*.py")
            for flag in re.findall(r'"(--[\w-]+)"', script.read_text("utf-8"))
        }
        assert named <= flags | own, page
