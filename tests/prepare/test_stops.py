"""`prepare` makes whole folders or none, and goes on after a stop."""

import errno
import os
import signal
import threading

import pytest

from keras_transformer.batching import files, load_prepared, prepare, prepared
from keras_transformer.cli import main

from .corpora import contents


@pytest.mark.parametrize("writes", [0, *range(1, 22, 2)])
def test_a_stopped_run_goes_on_to_the_same_folder(
    here, corpus, monkeypatch, writes
):
    """Stops before each second file, wherever that is."""
    prepare("whole", **corpus)
    write = files.write
    written = []

    def stop(path, data):
        if len(written) == writes:
            raise KeyboardInterrupt
        written.append(path.name)
        write(path, data)

    monkeypatch.setattr(files, "write", stop)
    with pytest.raises(KeyboardInterrupt):
        prepare("out", **corpus)
    assert not (here / "out").exists()
    with pytest.raises(FileNotFoundError, match="has finished"):
        load_prepared("out")
    first, written = written, []
    monkeypatch.setattr(
        files,
        "write",
        lambda path, data: (written.append(path.name), write(path, data)),
    )
    prepare("out", **corpus)
    assert contents(here / "out") == contents(here / "whole")
    assert not (here / "out.partial").exists()
    # Shards that were whole are not made again.
    shards = {name for name in first if name.endswith(".lengths.npy")}
    assert not shards & set(written)


def test_what_a_kill_left_of_the_manifest_is_no_part(here, corpus, monkeypatch):
    write = files.write

    def stop(path, data):
        if path.name == "manifest.json":
            path.with_name("manifest.json.partial").write_bytes(data[:9])
            raise KeyboardInterrupt
        write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare("out", **corpus)
    prepare("out", **corpus)
    assert "manifest.json.partial" not in contents(here / "out")


@pytest.mark.parametrize("writes", [0, 1, 5, 9, 13, 17])
def test_a_full_disk_gets_a_sentence_and_leaves_nothing(
    here, corpus, capsys, monkeypatch, writes
):
    write = files.write
    written = []

    def until_full(path, data):
        written.append(path)
        if len(written) > writes:
            path.write_bytes(bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, "full", str(path))
        write(path, data)

    monkeypatch.setattr(files, "write", until_full)
    before = {path.name for path in here.iterdir()}
    arguments = ["--train", corpus["train"], "--dev", corpus["dev"]]
    command = ["prepare", "out", *arguments, "--vocabulary-size", "300"]
    assert main(command) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert {path.name for path in here.iterdir()} == before


def test_an_interrupt_does_not_wait_for_the_vocabulary(corpus, monkeypatch):
    begun, done = threading.Event(), threading.Event()

    def learn(*_, **__):
        begun.set()
        done.wait(60)

    monkeypatch.setattr(prepared.Tokenizer, "train", learn)
    thread = threading.Thread(
        target=lambda: (begun.wait(), os.kill(os.getpid(), signal.SIGINT))
    )
    thread.start()
    assert main(["prepare", "out", "--train", corpus["train"]]) == 130
    assert not done.is_set()
    done.set()


def test_an_interrupt_ends_with_130_and_a_word(corpus, capsys, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(prepared, "_learn", stop)
    assert main(["prepare", "out", "--train", corpus["train"]]) == 130
    assert "The same command goes on" in capsys.readouterr().err
