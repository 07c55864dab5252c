"""What the site adds to the pages: help texts, and pages from elsewhere."""

import contextlib
import io
import os
import re

from mkdocs.structure.files import File

from keras_transformer import cli

# Pages of the repository that are pages of the site, too.
PAGES = {
    "saved_models/README.md": "model_card.md",
    "saved_models/HISTORY.md": "model_history.md",
    "examples/README.md": "examples.md",
    "examples/serving/README.md": "examples_serving.md",
    "examples/multi30k/README.md": "examples_multi30k.md",
    "examples/paper/README.md": "examples_paper.md",
    "examples/paper/RESULTS.md": "examples_paper_results.md",
    "benchmarks/RESULTS.md": "results.md",
    "CHANGELOG.md": "changes.md",
}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#]+)(#[^)]*)?\)")
HELP = re.compile(r"<!-- help: (\w+) -->")


def on_files(files, config):
    root = os.path.dirname(config.config_file_path)
    for path, page in PAGES.items():
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        folder = os.path.dirname(path)
        text = LINK.sub(lambda link: _from(folder, link), text)  # noqa: B023
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    folder = os.path.join("docs", os.path.dirname(page.file.src_uri))
    if page.file.src_uri not in PAGES.values():
        markdown = LINK.sub(lambda link: _from(folder, link), markdown)
    return HELP.sub(lambda match: _help(match[1]), markdown)


def _from(folder, link):
    """A link as the site has it: to its own pages, or words if it leaves."""
    text, target, anchor = link.groups(default="")
    if "://" in target:
        return link[0]
    path = os.path.normpath(os.path.join(folder, target))
    page = PAGES.get(path)
    if page is None and path.startswith("docs/"):
        page = os.path.relpath(path, "docs")
    if page is None:
        return f"{text} (`{path}`)" if text.strip("`") != path else f"`{path}`"
    start = os.path.relpath(folder, "docs")
    start = "." if start.startswith("..") else start
    return f"[{text}]({os.path.relpath(page, start)}{anchor})"


def _help(verb):
    """What `keras-transformer VERB --help` prints."""
    os.environ["COLUMNS"] = "84"
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        cli.main([verb, "--help"])
    return f"```text\n{said.getvalue()}```"
