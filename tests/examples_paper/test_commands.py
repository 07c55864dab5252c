"""Each example of the paper runs from a clean checkout, in its quick mode."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "examples" / "paper"


def run(name, *flags):
    """What `python examples/paper/NAME.py` prints."""
    done = subprocess.run(
        [sys.executable, PAPER / f"{name}.py", *map(str, flags)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def cells(text, start):
    """The cells of the first row of a table that begins so."""
    (row, *_) = (line for line in text.splitlines() if line.startswith(start))
    return [cell.strip() for cell in row.strip("|").split("|")]


@pytest.mark.slow
def test_parsing_learns_the_made_up_grammar_and_goes_on(tmp_path):
    flags = ("--quick", "--beam-size", 4, "--folder", tmp_path / "parsing")
    printed = run("parsing", *flags)
    learned = float(cells(printed, "| made up | Transformer")[2])
    baseline = float(cells(printed, "| made up | right-branching")[2])
    assert learned > baseline + 25
    for number in (1, 2, 3):
        picture = tmp_path / "parsing" / f"tree-{number}.png"
        assert picture.read_bytes()[:4] == b"\x89PNG"
    # A second time nothing is trained, and the figures are the same.
    again = run("parsing", *flags)
    assert "step 80" not in again
    assert cells(again, "| made up | Tr") == cells(printed, "| made up | Tr")


@pytest.mark.slow
def test_table3_trains_its_rows_once(tmp_path):
    flags = ("--quick", "--rows", "E", "--folder", tmp_path / "table3")
    printed = run("table3", *flags)
    base, learned = cells(printed, "| base "), cells(printed, "| E ")
    assert len(base) == len(learned)
    assert "learned" in learned
    assert float(learned[-2]) > float(base[-2]), "positions have weights too"
    again = run("table3", *flags)
    assert "Training" not in again
    assert cells(again, "| base ") == base


@pytest.mark.slow
def test_table1_measures_and_fits(tmp_path):
    printed = run("table1", "--quick", "--folder", tmp_path / "table1")
    exponents = {
        layer: cells(printed, f"| {layer} | {formula} ")
        for layer, formula in (
            ("self-attention", "n²·d"),
            ("restricted self-attention", "r·n·d"),
            ("recurrent (LSTM)", "n·d²"),
        )
    }
    # Memory does not depend on what else the machine does; time does.
    full = float(exponents["self-attention"][4])
    restricted = float(exponents["restricted self-attention"][4])
    assert full > restricted + 0.3
    assert (tmp_path / "table1" / "table1.png").stat().st_size > 10_000
    again = run("table1", "--quick", "--folder", tmp_path / "table1")
    assert " of 16: " not in again, "a second time nothing is measured"


@pytest.mark.slow
def test_pictures_are_drawn_and_heads_counted(tmp_path):
    printed = run("pictures", "--sentences", 4, "--folder", tmp_path)
    assert "greatest at step 4,000" in printed
    errors = re.findall(r"M PE\(pos\) within ([\d.e+-]+)", printed)
    assert errors
    assert max(map(float, errors)) < 1e-4
    assert cells(printed, "| encoder | previous piece")[2].endswith("%")
    names = {path.name for path in tmp_path.glob("*.png")}
    assert {"schedule.png", "positions.png", "pronoun.png"} <= names
    assert {f"attention-{n}-memory.png" for n in (1, 2, 3)} <= names


def test_the_rows_of_table3_are_settings_that_a_run_takes():
    import table3

    from keras_transformer.runs.settings import read_settings

    base, rows = table3.read_rows(PAPER / "table3.toml")
    assert {row["name"] for row in rows} == {*"ABCDE", "base", "big"}
    folders = {table3.run_folder(Path(), row) for row in rows}
    assert len(folders) == len(rows), "each row has a folder of its own"
    for row in rows:
        changes = {k: v for k, v in row.items() if k != "name"}
        settings = read_settings(None, {**base, **changes, "data": "corpus"})
        # Else the one validation would come before or after the end.
        assert settings.steps == settings.validate_every


def test_a_row_of_unknown_settings_is_named(tmp_path):
    import table3

    path = tmp_path / "rows.toml"
    path.write_text('[base]\nsteps = 1\n[[rows]]\nname = "A"\nnum_head = 1\n')
    with pytest.raises(ValueError, match="num_head"):
        table3.read_rows(path)


def test_parsing_settings_are_those_of_a_run():
    from keras_transformer.runs.settings import read_settings

    settings = read_settings(PAPER / "parsing.toml", {"data": "trees"})
    assert settings.max_length >= 200


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_an_exponent_is_fitted_as_it_was_made(power):
    import table1

    rows = [{"n": n, "milliseconds": 3 * n**power} for n in (16, 64, 256)]
    fitted = table1.exponent(rows, "n", "milliseconds")
    assert fitted == pytest.approx(power)
    assert table1.exponent(rows[:2], "n", "milliseconds") is None


def test_attention_is_fitted_only_where_it_rules():
    import table1

    def case(length, width):
        return {"length": length, "width": width}

    assert table1.rules(case(512, 64), "self-attention")
    assert not table1.rules(case(256, 64), "self-attention")
    assert not table1.rules(case(4096, 1024), "self-attention")


def test_positions_shift_by_one_matrix_for_all():
    import pictures

    matrix = pictures.shift_matrix(8, 3)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(8), atol=1e-12)
    twice = pictures.shift_matrix(8, 6)
    np.testing.assert_allclose(matrix @ matrix, twice, atol=1e-12)


def test_places_in_attention_are_where_they_are_named():
    import pictures

    encoder = pictures.places("encoder", 3, 3)
    assert encoder["previous piece"].astype(int).tolist() == [
        [0, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
    ]
    assert encoder["end"].astype(int).tolist() == [[0, 0, 1]] * 3
    decoder = pictures.places("decoder", 2, 2)
    assert decoder["last piece"].astype(int).tolist() == [[1, 0], [0, 1]]
