"""Runs that begin with the weights of a trained model."""

import numpy as np
import pytest

from keras_transformer import cli
from keras_transformer.translator import load


def test_a_run_starts_from_the_weights_of_another(tmp_path, finished, capsys):
    folder = tmp_path / "tuned"
    flags = ["--run-folder", str(folder), "--train", "numbers:1000-1999"]
    flags += ["--start-from", str(finished / "averaged"), "--dropout=0.2"]
    # So small a rate that the weights stay what they were, but for rounding.
    flags += ["--learning-rate-scale=1e-9", "--steps=2", "--validate-every=2"]
    flags += ["--tokens-per-batch=512", "--dtype=mixed_bfloat16"]
    flags += ["--length-penalty=1.5"]
    assert cli.main(["train", *flags]) == 0, capsys.readouterr().err
    before, after = load(finished / "averaged"), load(folder)
    assert after.tokenizer == before.tokenizer
    assert after.model.get_config()["dropout"] == 0.2
    assert after.model.compute_dtype == "float32"
    assert (before.length_penalty, after.length_penalty) == (0.6, 1.5)
    for old, new in zip(before.model.weights, after.model.weights):
        np.testing.assert_allclose(old, new, atol=1e-6)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--train", "numbers:0-99", "--hidden-dim=32"], "hidden_dim=16"),
        (["data"], "--tokenizer"),
    ],
)
def test_what_does_not_fit_the_start_gets_a_sentence(
    tmp_path, finished, capsys, monkeypatch, flags, words
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["prepare", "data", "--vocabulary-size=300"]) == 0
    command = ["train", *flags, "--start-from", str(finished / "averaged")]
    assert cli.main(command) == 2
    assert words in capsys.readouterr().err


def test_data_prepared_with_a_model_s_vocabulary_fit_it(
    tmp_path, finished, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    translator = load(finished)
    translator.length_penalty = 1.5
    translator.save(start := "start")
    command = ["prepare", "data", "--train", "numbers:0-99"]
    assert cli.main([*command, "--tokenizer", start]) == 0
    flags = ["--start-from", start, "--steps=1", "--tokens-per-batch=512"]
    assert cli.main(["train", "data", *flags, "--run-folder=run"]) == 0
    assert load("run").tokenizer == load(start).tokenizer
    assert load("run").length_penalty == 1.5
