"""The model that ships: found from anywhere, and still the same."""

import subprocess
import sys
from pathlib import Path

import pytest

import keras_transformer

FOLDER = Path(__file__).parents[1] / "saved_models" / "en-de"


@pytest.fixture(scope="module")
def translator():
    return keras_transformer.load()


def samples():
    lines = (FOLDER / "samples.tsv").read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines]


def test_it_gives_the_recorded_translations(translator):
    found = translator.translate([source for source, _ in samples()])
    assert [result.text for result in found] == [text for _, text in samples()]


def test_it_fits_into_the_repository():
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 30e6


def test_the_command_finds_it_from_any_folder(tmp_path):
    source, translation = samples()[0]
    command = [sys.executable, "-m", "keras_transformer.cli", "translate"]
    found = subprocess.run(
        [*command, source],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == f"{translation}\n"


@pytest.mark.slow
def test_its_saved_model_gives_the_same(translator):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers the operations

    (version,) = (path for path in FOLDER.iterdir() if path.name.isdecimal())
    translate = tf.saved_model.load(str(version)).signatures["serving_default"]
    sources = [source for source, _ in samples()]
    found = translate(text=tf.constant(sources))["translation"].numpy()
    assert [text.decode() for text in found] == [text for _, text in samples()]
