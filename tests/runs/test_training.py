"""Whole runs, as a user starts them: on the built-in numbers, tiny."""

import csv
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_transformer
from keras_transformer import cli, prepare
from keras_transformer.runs.watch import Watch
from keras_transformer.translator import load
from tests.training.processes import start_workers

from .tiny import TINY


def start(folder, *flags):
    """The command in a process of its own, to be stopped."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "keras_transformer.cli", "train"),
            *("--run-folder", str(folder), *TINY, *flags),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(process, pattern):
    """Reads what it prints up to a line that matches."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if re.search(pattern, line):
            return lines
    raise AssertionError(f"{pattern!r} never came:\n{''.join(lines)}")


def weights(folder):
    return load(folder).model.get_weights()


def test_a_run_folder_holds_what_it_promises(finished):
    names = {path.name for path in finished.iterdir()}
    assert names >= {
        "settings.toml",
        "data",
        "checkpoints",
        "logs",
        "metrics.csv",
        "samples",
        "best",
        "averaged",
        "learning_curve.png",
        "result.json",
    }
    with open(finished / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["4", "8", "12"]
    assert {"loss", "val_loss", "bleu", "learning_rate"} <= set(rows[0])
    assert "nrefs:1" in rows[0]["signature"]
    assert len(list((finished / "samples").iterdir())) == 3
    assert not list(finished.rglob("*.partial"))


def test_the_result_loads_and_translates(finished):
    result = json.loads((finished / "result.json").read_text())
    assert result["use"] in ("best", "averaged")
    assert len(result["samples"]) == 3
    translator = load(finished)
    assert isinstance(translator.translate("forty-two").text, str)
    assert translator.translate(["", "two"])[0].text == ""


@pytest.fixture
def copied(finished, tmp_path):
    """The same run, to go on with."""
    return shutil.copytree(finished, tmp_path / "copied")


def test_a_finished_run_goes_on_when_given_more_steps(copied, capsys):
    before = weights(copied / "averaged")
    flags = ["--run-folder", str(copied), *TINY]
    assert cli.main(["train", *flags, "--steps=16"]) == 0
    assert "Going on at step 12" in capsys.readouterr().out
    after = weights(copied / "averaged")
    assert max(np.abs(a - b).max() for a, b in zip(before, after)) > 1e-6


def test_a_run_that_goes_on_forgets_the_result_before(copied, monkeypatch):
    class Stops(Watch):
        def on_train_batch_end(self, batch, logs=None):
            self._run.stop_asked = batch == 1
            super().on_train_batch_end(batch, logs)

    monkeypatch.setattr("keras_transformer.runs.training.Watch", Stops)
    flags = ["--run-folder", str(copied), *TINY]
    assert cli.main(["train", *flags, "--steps=16"]) == 130
    assert not (copied / "result.json").exists()
    for ours, best in zip(weights(copied), weights(copied / "best")):
        np.testing.assert_array_equal(ours, best)


def test_other_settings_in_the_same_folder_are_refused(finished, capsys):
    flags = ["--run-folder", str(finished), *TINY, "--seed=9"]
    assert cli.main(["train", *flags]) == 2
    message = capsys.readouterr().err
    assert "seed=9" in message
    assert "seed=1" in message


def test_other_data_in_the_same_place_is_refused(tmp_path, capsys):
    corpus, folder = tmp_path / "corpus", tmp_path / "run"
    model = TINY[TINY.index("--num-layers=1") :]
    command = ["train", str(corpus), "--run-folder", str(folder), *model]
    for size in ("300", "310"):
        shutil.rmtree(corpus, ignore_errors=True)
        prepare(
            corpus,
            train="numbers:0-999",
            dev="numbers:0-999",
            vocabulary_size=int(size),
            verbose=False,
        )
        code = cli.main([*command, "--steps=4"])
        assert code == (0 if size == "300" else 2)
    assert "data it began with" in capsys.readouterr().err
    assert [path.name for path in (folder / "checkpoints").iterdir()] == [
        "step-00000004.npz"
    ]


def test_settings_may_be_a_dictionary(tmp_path):
    names = (flag.lstrip("-").split("=") for flag in TINY if "=" in flag)
    settings = {name.replace("-", "_"): json.loads(x) for name, x in names}
    settings |= {"train": ["numbers:0-999"], "dev": ["numbers:0-999"]}
    with ThreadPoolExecutor() as threads:  # where no signals can be heard
        run = threads.submit(
            keras_transformer.train, {**settings, "steps": 2}, tmp_path / "run"
        )
    assert run.result()["step"] == 2
    with pytest.raises(ValueError, match="'stepps'"):
        keras_transformer.train({"stepps": 2}, tmp_path / "other")


@pytest.fixture
def overflows(monkeypatch):
    """Half precision begins with so large a scale that updates overflow."""

    class Large(keras.optimizers.LossScaleOptimizer):
        def __init__(self, inner, **kwargs):
            super().__init__(inner, initial_scale=2.0**26, **kwargs)

    monkeypatch.setattr("keras.src.trainers.trainer.LossScaleOptimizer", Large)


def test_half_precision_validates_where_it_is_told(tmp_path, overflows):
    """Updates that overflow are skipped, and do not count."""
    folder = tmp_path / "run"
    flags = ["--run-folder", str(folder), *TINY, "--dtype=mixed_float16"]
    assert cli.main(["train", *flags, "--steps=8"]) == 0
    with open(folder / "metrics.csv", newline="") as file:
        assert [row["step"] for row in csv.DictReader(file)] == ["4", "8"]


def test_half_precision_goes_on_with_the_next_batch(
    tmp_path, monkeypatch, overflows
):
    """Where it was stopped after updates that were skipped."""
    flags = [*TINY, "--dtype=mixed_float16", "--validate-every=16"]
    flags += ["--steps=16", "--learning-rate-scale=1"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert cli.main(["train", "--run-folder", str(whole), *flags]) == 0

    class Stops(Watch):
        def on_train_batch_end(self, batch, logs=None):
            self._run.stop_asked = batch == 12
            super().on_train_batch_end(batch, logs)

    with monkeypatch.context() as patch:
        patch.setattr("keras_transformer.runs.training.Watch", Stops)
        assert cli.main(["train", "--run-folder", str(stopped), *flags]) == 130
    (path,) = (stopped / "checkpoints").iterdir()
    assert 0 < int(path.stem.removeprefix("stopped-")) < 13  # some skipped
    assert cli.main(["train", "--run-folder", str(stopped), *flags]) == 0
    for ours, theirs in zip(weights(stopped), weights(whole)):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--preset=huge"], "preset='huge'"),
        (["--optimizer=sgd"], "optimizer='sgd'"),
        (["--devices=0"], "devices=0"),
        (["--num-heads=3"], "num_heads=3"),
        (["nowhere"], "nowhere"),
        (["--settings=nowhere.toml"], "nowhere.toml"),
        (
            ["--steps-per-execution=3"],
            "validate_every=4, steps_per",
        ),
        (["--steps-per-execution=4", "--steps=6"], "steps=6, steps_per"),
        (["--max-length=1"], "none within `max_length`"),
        (["--tokens-per-batch=9"], "`tokens_per_batch` must hold"),
    ],
)
def test_bad_settings_get_a_sentence(tmp_path, capsys, flags, words):
    command = ["train", "--run-folder", str(tmp_path / "run"), *TINY, *flags]
    assert cli.main(command) == 2
    message = capsys.readouterr().err
    assert words in message
    assert "Traceback" not in message
    # The right command may follow in the same folder.
    assert not (tmp_path / "run" / "settings.toml").exists()


def test_a_larger_batch_may_follow_in_the_same_folder(tmp_path):
    command = ["train", "--run-folder", str(tmp_path / "run"), *TINY]
    assert cli.main([*command, "--tokens-per-batch=9"]) == 2
    assert cli.main([*command, "--steps=1"]) == 0


def test_a_folder_may_be_written_in_several_ways(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    prepare("corpus.v1", train="numbers:0-999", vocabulary_size=300)
    sizes = TINY[TINY.index("--num-layers=1") :]
    assert cli.main(["train", "corpus.v1", *sizes, "--patience=3"]) == 2
    assert "patience=3 without any" in capsys.readouterr().err
    for steps, data in enumerate(("corpus.v1", "./corpus.v1/"), start=1):
        assert cli.main(["train", data, *sizes, f"--steps={steps}"]) == 0
    result = json.loads(Path("runs/corpus.v1/result.json").read_text())
    assert result["step"] == 2
    # Without development pairs there are no best weights.
    Path("runs/corpus.v1/result.json").unlink()
    assert load("runs/corpus.v1").translate("two", max_extra_length=2)


def test_blank_pairs_are_no_right_answers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{i}\t{i}\n" for i in range(400)]
    Path("train.tsv").write_text("".join(lines[3:]))
    Path("dev.tsv").write_text("".join([*lines[:3], "\t\n", " \t\n"]))
    flags = [*TINY, "--vocabulary-size=290", "--steps=1", "--run-folder=run"]
    flags += ["--train=train.tsv", "--dev=dev.tsv", "--validation-sentences=9"]
    assert cli.main(["train", *flags]) == 0
    scores = json.loads(Path("run/result.json").read_text())["scores"]
    assert scores["averaged"]["sentences"] == 3
    assert scores["averaged"]["exact"] == 0


def test_a_run_that_ends_where_it_was_stopped_keeps_all_updates(copied):
    newest = max((copied / "checkpoints").iterdir())
    stopped = newest.with_name(newest.name.replace("step", "stopped"))
    newest.rename(stopped)
    step = int(newest.stem.removeprefix("step-"))
    flags = ["--run-folder", str(copied), *TINY, f"--steps={step}"]
    assert cli.main(["train", *flags]) == 0
    assert newest.exists()
    assert not stopped.exists()


def test_a_run_that_was_stopped_early_may_end_there(copied, capsys):
    """With no checkpoint but the one of a Ctrl-C."""
    for path in (copied / "checkpoints").iterdir():
        name = path.name.replace("step", "stopped")
        path.rename(path.with_name(name))
    flags = ["--run-folder", str(copied), *TINY, "--steps=2"]
    assert cli.main(["train", *flags]) == 0
    assert "nan" not in capsys.readouterr().out
    assert all(np.all(np.isfinite(w)) for w in weights(copied / "averaged"))


def test_epochs_end_with_a_whole_call_of_the_graph(tmp_path):
    folder = tmp_path / "run"
    flags = ["--run-folder", str(folder), *TINY, "--steps-per-execution=4"]
    assert cli.main(["train", *flags, "--epochs=0.1"]) == 0
    result = json.loads((folder / "result.json").read_text())
    assert result["step"] == 4


def test_a_run_ends_by_the_clock(tmp_path):
    folder = tmp_path / "run"
    flags = ["--run-folder", str(folder), *TINY, "--minutes=0.001"]
    assert cli.main(["train", *flags]) == 0
    result = json.loads((folder / "result.json").read_text())
    assert result["step"] >= 1
    assert result["minutes"] >= 0.001
    assert list((folder / "checkpoints").glob("step-*"))
    assert (folder / "metrics.csv").read_text().count("\n") == 2


def test_a_run_ends_when_nothing_gets_better(tmp_path):
    folder = tmp_path / "run"
    # So small a rate that nothing is learned.
    flags = ["--run-folder", str(folder), *TINY, "--learning-rate-scale=1e-9"]
    assert cli.main(["train", *flags, "--steps=400", "--patience=2"]) == 0
    result = json.loads((folder / "result.json").read_text())
    assert result["step"] == 12  # the first is the best, and two more


def test_a_warm_up_longer_than_the_run_is_said_so(tmp_path, capsys):
    flags = ["--run-folder", str(tmp_path / "run"), *TINY, "--steps=2"]
    assert cli.main(["train", *flags]) == 0
    assert "--warmup-steps" in capsys.readouterr().out


def test_a_run_that_goes_on_may_cool_down(tmp_path, capsys):
    flags = ["--run-folder", str(tmp_path / "run"), *TINY]
    assert cli.main(["train", *flags, "--steps=4"]) == 0
    assert cli.main(["train", *flags, "--steps=12", "--cooldown-steps=16"]) == 2
    assert "cooldown_steps=16" in capsys.readouterr().err
    assert cli.main(["train", *flags, "--steps=12", "--cooldown-steps=8"]) == 0
    with open(tmp_path / "run" / "metrics.csv", newline="") as file:
        rates = {
            row["step"]: float(row["learning_rate"])
            for row in csv.DictReader(file)
        }
    paper = keras_transformer.TransformerSchedule(16, warmup_steps=10)
    assert rates["4"] == pytest.approx(float(paper(4)))
    assert rates["8"] == pytest.approx(float(paper(8)) / 2)
    assert rates["12"] == 0  # of the update that would be next


def test_a_run_with_muon_goes_on_as_if_it_had_not_stopped(tmp_path):
    flags = [*TINY, "--optimizer=muon", "--dtype=mixed_bfloat16"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder, steps in (whole, 12), (parts, 4), (parts, 12):
        command = ["train", "--run-folder", str(folder), *flags]
        assert cli.main([*command, f"--steps={steps}"]) == 0
    for ours, theirs in zip(weights(parts), weights(whole)):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_other_lines_in_the_file_that_a_run_began_with(tmp_path, capsys):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"number {i}\tZahl {i}\n" for i in range(400)))
    flags = ["--run-folder", str(tmp_path / "run"), *TINY, "--steps=1"]
    flags.append(f"--train={pairs}")
    assert cli.main(["train", *flags]) == 0
    pairs.write_text(pairs.read_text() + "one more\tnoch eine\n")
    assert cli.main(["train", *flags]) == 2
    message = capsys.readouterr().err
    assert "A run goes on with the data it began with" in message
    assert "pairs.tsv" in message


def test_divergence_stops_with_a_word(tmp_path, capsys):
    flags = ["--learning-rate-scale=1e30", "--steps=8", "--warmup-steps=1"]
    folder = tmp_path / "run"
    command = ["train", "--run-folder", str(folder), *TINY, *flags]
    assert cli.main(command) == 2
    message = capsys.readouterr().err
    assert "diverged" in message
    assert "learning_rate_scale" in message
    assert not list((folder / "checkpoints").glob("step-00000008*"))


@pytest.mark.slow
def test_ctrl_c_saves_and_the_same_command_goes_on(tmp_path, finished_twin):
    folder = tmp_path / "run"
    process = start(folder, "--steps=12")
    wait_for(process, "step 4:")
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(60) == 130
    assert "goes on from here" in rest
    again = start(folder, "--steps=12")
    lines = wait_for(again, "Wrote")
    assert again.wait(60) == 0
    assert any("Going on at step" in line for line in lines)
    for ours, theirs in zip(weights(folder), finished_twin):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.fixture(scope="module")
def finished_twin(tmp_path_factory):
    """The weights of an uninterrupted run in a process of its own."""
    folder = tmp_path_factory.mktemp("runs") / "twin"
    process = start(folder, "--steps=12")
    wait_for(process, "Wrote")
    assert process.wait(60) == 0
    return weights(folder)


@pytest.mark.slow
def test_killed_ten_times_a_run_ends_with_the_same_weights(tmp_path):
    whole = tmp_path / "whole"
    process = start(whole, "--steps=240")
    wait_for(process, "Wrote")
    assert process.wait(60) == 0

    chance = random.Random(3)
    folder = tmp_path / "killed"
    for _ in range(10):
        process = start(folder, "--steps=240")
        # Somewhere behind a validation: in a step, in a translation, or while
        # a file is written.
        wait_for(process, r"^step \d+:")
        time.sleep(chance.random() * 0.5)
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
    process = start(folder, "--steps=240")
    wait_for(process, "Wrote")
    assert process.wait(60) == 0
    for ours, theirs in zip(weights(folder), weights(whole)):
        np.testing.assert_array_equal(ours, theirs)
    assert losses(folder) == losses(whole)


def losses(folder):
    with open(folder / "metrics.csv", newline="") as file:
        return [(row["step"], row["loss"]) for row in csv.DictReader(file)]


@pytest.mark.slow
def test_a_run_on_two_devices(tmp_path):
    # That both end alike is the business of tests/training/test_equality.py.
    process = start(tmp_path / "run", "--steps=8", "--devices=2")
    lines = wait_for(process, "Wrote")
    assert process.wait(60) == 0
    assert any("replicas: 2" in line for line in lines)
    assert load(tmp_path / "run").translate("two").score < 0


@pytest.mark.slow
def test_two_workers_train_one_run_and_go_on_with_it(tmp_path):
    prepare(
        tmp_path / "data",
        train=["numbers:0-999"],
        dev=["numbers:0-999"],
        vocabulary_size=300,
    )
    flags = ["train", tmp_path / "data", "--run-folder", tmp_path / "run"]
    flags += TINY[TINY.index("--num-layers=1") :]
    for steps, announced in ((4, "Training"), (8, "Going on at step 4")):
        workers = start_workers(
            "keras_transformer.cli", *[[*flags, f"--steps={steps}"]] * 2
        )
        printed = [worker.communicate(timeout=240)[0] for worker in workers]
        assert [worker.returncode for worker in workers] == [0, 0], printed
        assert announced in printed[0]
        assert "replicas: 2" in printed[0]
    with open(tmp_path / "run" / "metrics.csv", newline="") as file:
        assert [row["step"] for row in csv.DictReader(file)] == ["4", "8"]
    assert load(tmp_path / "run").translate("two").score < 0
