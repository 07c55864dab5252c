"""The notebook is made from its script, and runs from begin to end."""

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
jupytext = pytest.importorskip("jupytext")


def read(name):
    return jupytext.read(EXAMPLES / name)


def test_the_notebook_is_what_the_script_says_and_holds_no_outputs():
    script, notebook = read("walkthrough.py"), read("walkthrough.ipynb")
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == [
        (cell.cell_type, cell.source) for cell in script.cells
    ], "cd examples && jupytext --to ipynb walkthrough.py"
    for cell in notebook.cells:
        assert not cell.get("outputs")


@pytest.mark.slow
def test_the_notebook_runs_with_small_settings():
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = read("walkthrough.ipynb")
    (parameters,) = (
        cell
        for cell in notebook.cells
        if "parameters" in cell.metadata.get("tags", [])
    )
    parameters.source = "EPOCHS = 1\nPAIRS = 2000"
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3"
    ).execute()
    printed = "".join(
        output.get("text", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    )
    assert "63 million parameters" in printed
    assert "of 200 unseen numbers exact" in printed
    pictures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 3
