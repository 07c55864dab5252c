"""The model that ships: found from anywhere, and still the same."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import keras_transformer
from keras_transformer import cli, evaluation
from tests.serving.toy import Server

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "saved_models" / "en-de"


@pytest.fixture(scope="module")
def translator():
    return keras_transformer.load()


def read_tsv(path):
    lines = path.read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines]


def recorded():
    """50 sentences and what the model made of them when it was released."""
    return read_tsv(FOLDER / "recorded.tsv")


def test_it_gives_the_recorded_translations(translator):
    assert len(recorded()) == 50
    found = translator.translate([source for source, _ in recorded()])
    texts = [result.text for result in found]
    assert texts == [text for _, text in recorded()]


def test_it_scores_what_its_card_says(translator):
    pairs = read_tsv(ROOT / "tests" / "sentences" / "everyday.tsv")
    assert len(pairs) == 200
    found = translator.translate([source for source, _ in pairs])
    texts = [result.text for result in found]
    references = [target for _, target in pairs]
    card = (ROOT / "saved_models" / "README.md").read_text("utf-8")
    row = re.search(r"\| 200 everyday .*\| ([\d.]+) \| ([\d.]+) \|", card)
    scores = (
        evaluation.bleu(texts, references).value,
        (evaluation.chrf(texts, references).value),
    )
    # Half of the last digit that the card has.
    assert scores == pytest.approx([float(x) for x in row.groups()], abs=0.0051)


def test_the_cards_samples_are_of_the_model(translator):
    pairs = read_tsv(ROOT / "tests" / "sentences" / "everyday.tsv")
    references = dict(pairs)
    card = (ROOT / "saved_models" / "README.md").read_text("utf-8")
    table = card.partition("<!-- samples -->")[2].partition("<!-- /samples")[0]
    samples = re.findall(r"^\| (\d+) \| (.+) \| (.+) \| (.+) \|$", table, re.M)
    assert len(samples) == 10
    for chrf, source, text, reference in samples:
        assert references[source] == reference
        assert translator.translate(source).text == text
        score = evaluation.chrf([text], [reference]).value
        assert round(score) == int(chrf)


def test_its_settings_are_those_that_a_run_takes():
    from keras_transformer.runs.settings import read_settings

    path = ROOT / "saved_models" / "settings.toml"
    settings = read_settings(path, {"data": "corpus"})
    assert settings.optimizer == "muon"
    assert 0 < settings.cooldown_steps < settings.steps
    history = (ROOT / "saved_models" / "HISTORY.md").read_text("utf-8")
    assert "--settings saved_models/settings.toml" in history


def test_it_fits_into_the_repository():
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 30e6


def test_the_command_finds_it_from_any_folder(tmp_path):
    source, translation = recorded()[0]
    command = [sys.executable, "-m", "keras_transformer.cli", "translate"]
    found = subprocess.run(
        [*command, source],
        cwd=tmp_path,
        # It chooses TensorFlow, whatever Keras runs on elsewhere.
        env={**os.environ, "KERAS_BACKEND": "none"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == f"{translation}\n"
    assert found.stderr == ""


def version():
    """The folder of the SavedModel."""
    (version,) = (path for path in FOLDER.iterdir() if path.name.isdecimal())
    return version


def test_evaluate_prints_its_scores(translator, capfd, tmp_path):
    path = tmp_path / "recorded.tsv"
    path.write_text("".join("\t".join(r) + "\n" for r in recorded()[:8]))
    assert cli.main(["evaluate", str(path)]) == 0
    assert re.search(
        r"BLEU +100\.00 .*\n(.*\n)*exact +100", capfd.readouterr()[0]
    )


@pytest.mark.slow
def test_its_saved_model_gives_the_same():
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers the operations

    signatures = tf.saved_model.load(str(version())).signatures
    sources = [source for source, _ in recorded()]
    found = signatures["serving_default"](text=tf.constant(sources))
    texts = [text.decode() for text in found["translation"].numpy()]
    assert texts == [text for _, text in recorded()]


@pytest.mark.slow
def test_a_program_in_c_gives_the_same(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    program = tmp_path / "translate"
    kit = ROOT / "examples" / "serving"
    subprocess.run([kit / "build.sh", program], check=True, capture_output=True)
    found = subprocess.run(
        [program, version()],
        input="".join(f"{source}\n" for source, _ in recorded()),
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines() == [text for _, text in recorded()]


@pytest.mark.slow
def test_it_is_served_and_can_be_exported_again(tmp_path):
    (source, text), *_ = recorded()
    with Server(FOLDER) as server:
        path = "/v1/models/en-de:predict"
        _, answer = server.ask("POST", path, {"instances": [source]})
    assert answer["predictions"][0]["translation"] == text
    assert cli.main(["export", str(FOLDER), "--to", str(tmp_path)]) == 0
    translator = keras_transformer.load(tmp_path / "en-de")
    assert translator.translate(source).text == text
