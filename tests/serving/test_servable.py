"""What can be served, and what is said of what cannot."""

import shutil
import socket
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.cli import main
from keras_transformer.serving.servable import load_servable
from tests.untrained import SENTENCES, untrained


@pytest.fixture
def models(toy_folder, tmp_path):
    """The toy in versions 7 and 10."""
    for version in ("7", "10"):
        shutil.copytree(toy_folder / "toy/7", tmp_path / "toy" / version)
    return tmp_path


@pytest.mark.parametrize(
    ("folder", "version"), [("", 10), ("toy", 10), ("toy/7", 7)]
)
def test_the_greatest_version_is_served_unless_one_is_given(
    models, folder, version
):
    servable = load_servable(models / folder)
    assert (servable.name, servable.version) == ("toy", version)


def test_a_folder_without_a_number_is_version_1(models):
    (models / "toy/7").rename(models / "plain")
    servable = load_servable(models / "plain")
    assert (servable.name, servable.version) == ("plain", 1)


def test_only_signatures_of_fixed_rows_are_joined(toy_folder):
    signatures = load_servable(toy_folder).signatures
    joined = {name for name, s in signatures.items() if s.joins}
    assert joined == set(signatures) - {"attention", "nothing"}


def test_a_choice_of_models_is_left_to_the_user(models, capsys):
    shutil.copytree(models / "toy", models / "other")
    assert main(["serve", str(models), "--port", "0"]) == 2
    assert "other, toy. Give one" in capsys.readouterr().err


def test_a_folder_of_something_else_is_refused(tmp_path, capsys):
    assert main(["serve", str(tmp_path), "--port", "0"]) == 2
    assert "config.json" in capsys.readouterr().err


def test_a_model_without_signatures_is_refused(tmp_path, capsys):
    tf.saved_model.save(tf.Module(), str(tmp_path / "empty"))
    assert main(["serve", str(tmp_path / "empty"), "--port", "0"]) == 2
    assert "must have signatures" in capsys.readouterr().err


def test_a_port_in_use_is_said_so(toy_folder, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["serve", str(toy_folder), "--port", str(port)]) == 2
    assert "in use" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["nowhere.invalid", "1.2.3.4"])
def test_an_address_elsewhere_is_said_so(toy_folder, capsys, host):
    assert main(["serve", str(toy_folder), "--host", host]) == 2
    assert f"host={host}" in capsys.readouterr().err


def test_a_limit_of_nothing_is_refused(toy_folder, capsys):
    assert main(["serve", str(toy_folder), "--max-batch", "0"]) == 2
    assert "max_batch=0" in capsys.readouterr().err


def test_missing_libraries_are_named_with_the_command(
    toy_folder, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", str(toy_folder)]) == 2
    assert "pip install starlette uvicorn" in capsys.readouterr().err


@pytest.mark.slow
def test_a_saved_translator_is_served_as_it_translates(tmp_path):
    translator = untrained()
    translator.save(tmp_path / "my run")
    servable = load_servable(tmp_path / "my run")
    assert servable.name == "my_run"
    texts = [*SENTENCES, "", "zwei Häuser am roten See"]
    outputs = servable.signatures["serving_default"](
        {"text": np.array([text.encode() for text in texts], object)}
    )
    results = translator.translate(texts)
    translations = [text.decode() for text in outputs["translation"]]
    assert translations == [result.text for result in results]
    scores = [result.score for result in results]
    np.testing.assert_allclose(outputs["score"], scores, atol=1e-4)
    joined = {name for name, s in servable.signatures.items() if s.joins}
    assert joined == set(servable.signatures) - {"attention"}
