"""`prepare` makes a folder of shards from sources of pairs."""

import gzip
import json
import os
import re
import shutil

import numpy as np
import pytest

from keras_transformer.batching import (
    load_prepared,
    make_batches,
    prepare,
    prepared,
    spool,
)
from keras_transformer.cli import main
from keras_transformer.data import numbers, read_pairs
from keras_transformer.tokenizer import Tokenizer

from .corpora import PAIRS, contents, texts, write_tsv


def test_a_prepared_folder_holds_the_cleaned_corpus(here, corpus):
    result = prepare("out", **corpus)
    assert texts("out") == PAIRS
    assert texts("out", "dev") == numbers("dev")[:50]
    # Evaluation is on all that was given.
    assert len(texts("out", "test")) == 42
    train = result.manifest["splits"]["train"]
    assert (train["pairs"], train["pairs_read"]) == (1000, 1004)
    assert train["pairs_dropped"] == {
        "empty": 1,
        "too_long": 0,
        "ratio": 1,
        "held_out": 1,
        "duplicate": 1,
    }
    assert len(train["shards"]) == 4
    assert train["source_tokens"] == result.train.lengths[:, 0].sum()
    assert train["longest_target"] == result.train.lengths[:, 1].max()
    assert sorted(path.name for path in here.iterdir()) == [
        "dev.tsv",
        "out",
        "test.tsv",
        "train.tsv",
    ]
    assert not (here / "out" / "work").exists()


def test_shards_give_the_batches_that_the_pairs_give(corpus):
    result = prepare("out", **corpus)
    expected = make_batches(PAIRS, result.tokenizer, 1024, seed=4)
    found = make_batches(result.train, tokens_per_batch=1024, seed=4)
    for first, second in zip(expected, found, strict=True):
        np.testing.assert_array_equal(first[1], second[1])
        for name in first[0]:
            np.testing.assert_array_equal(first[0][name], second[0][name])


def test_copies_are_the_same_text_in_other_pieces(corpus):
    plain = prepare("plain", **corpus)
    result = prepare("out", **corpus, merge_dropout=0.2, copies=3)
    assert texts("out") == PAIRS * 3
    assert texts("out", "dev") == texts("plain", "dev")
    split = result.manifest["splits"]["train"]
    assert (split["pairs"], split["pairs_read"]) == (3000, 1004)
    lengths = result.train.lengths.reshape(3, 1000, 2)
    assert lengths.mean() > 1.05 * plain.train.lengths.mean()
    assert (lengths[0] != lengths[1]).mean() > 0.2
    assert (lengths[1] != lengths[2]).mean() > 0.2
    np.testing.assert_array_equal(result.dev.lengths, plain.dev.lengths)
    again = prepare("again", **corpus, merge_dropout=0.2, copies=3)
    np.testing.assert_array_equal(again.train.lengths, result.train.lengths)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"merge_dropout": 1.0}, "merge_dropout=1.0"),
        ({"merge_dropout": 0.1, "copies": 0}, "copies=0"),
        ({"copies": 2}, "`copies` must differ by `merge_dropout`"),
        ({"merge_dropout": 0.1, "kind": "unigram"}, "kind='unigram'"),
    ],
)
def test_copies_that_cannot_be_get_a_sentence(here, corpus, given, message):
    with pytest.raises(ValueError, match=message):
        prepare("out", **corpus, **given)
    assert not list(here.glob("out*"))


def test_cleaning_is_off_by_argument(corpus):
    prepare("out", **corpus, clean=False)
    assert len(texts("out")) == 1004


def test_each_language_may_have_its_vocabulary(here, corpus):
    result = prepare("out", **corpus, shared_vocabulary=False, kind="unigram")
    source, target = result.tokenizer
    assert source != target
    assert "ß" not in "".join(source.pieces)
    assert "ß" in "".join(target.pieces)
    assert texts("out") == PAIRS


def test_pairs_may_come_from_python_with_line_breaks_in_them():
    pairs = [*PAIRS, ("two\nlines\t", "zwei\r\nZeilen \u2028")]
    prepare("out", iter(pairs), vocabulary_size=300, swap=True, verbose=False)
    assert texts("out") == [(target, source) for source, target in pairs]


def test_several_sources_are_joined(here, corpus):
    (here / "a.en").write_text("yes\nno\n")
    (here / "a.de").write_text("ja\nnein\n")
    million = "numbers:1000000-1000020"
    corpus["train"] = [corpus["train"], "a.en,a.de", million]
    prepare("out", **corpus)
    found = texts("out")
    assert found[1000:1002] == [("yes", "ja"), ("no", "nein")]
    assert found[1002:] == list(read_pairs(million))


def test_duplicates_are_found_whatever_the_memory(here, monkeypatch):
    pairs = [PAIRS[i] for i in np.random.default_rng(0).integers(0, 99, 1000)]
    find = spool._mark_duplicates
    monkeypatch.setattr(
        spool, "_mark_duplicates", lambda *a: find(*a, part_size=64)
    )
    prepare("out", pairs, vocabulary_size=300, verbose=False)
    # The first of equal pairs stays, in its place.
    assert texts("out") == list(dict.fromkeys(pairs))


def test_the_same_command_again_has_nothing_to_do(here, corpus, monkeypatch):
    prepare("out", **corpus)
    monkeypatch.setattr(prepared, "_build", None)
    before = contents(here / "out")
    prepare("out", **corpus)
    prepare("out", **corpus, tokens_per_batch=99)  # is of no account to shards
    assert contents(here / "out") == before
    with pytest.raises(ValueError, match="holds something else"):
        prepare("out", **{**corpus, "vocabulary_size": 310})
    write_tsv(here / "train.tsv", PAIRS[:500])
    with pytest.raises(ValueError, match="holds something else"):
        prepare("out", **corpus)


def test_another_text_from_a_pipe_is_another_source(here):
    def piped(pairs):
        reads, writes = os.pipe()
        text = "".join(f"{a}\t{b}\n" for a, b in pairs)
        os.write(writes, text.encode())  # fits into the pipe
        os.close(writes)
        return reads

    reads = piped(PAIRS[:300])
    os.dup2(reads, 99)  # the name that a shell would give again
    prepare("out", train="/dev/fd/99", vocabulary_size=300)
    os.dup2(piped(PAIRS[300:500]), 99)
    with pytest.raises(ValueError, match="holds something else"):
        prepare("out", train="/dev/fd/99", vocabulary_size=300)
    os.close(99)


def test_where_you_are_cannot_be_replaced(here, corpus, monkeypatch, capsys):
    (here / "inside").mkdir()
    monkeypatch.chdir(here / "inside")
    assert main(["prepare", ".", "--train", str(here / "train.tsv")]) == 2
    assert "inside, where you are" in capsys.readouterr().err


def test_a_budget_that_no_pair_fits_is_said_so(here, corpus, capsys):
    flags = ["--vocabulary-size=300", "--tokens-per-batch=3"]
    assert main(["prepare", "out", "--train", "train.tsv", *flags]) == 0
    assert "No pair fits" in capsys.readouterr().out


def test_other_settings_start_clean(here, corpus, monkeypatch):
    monkeypatch.setattr(
        prepared,
        "_tokenize",
        lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
    )
    with pytest.raises(KeyboardInterrupt):
        prepare("out", **corpus)
    monkeypatch.undo()
    monkeypatch.chdir(here)
    corpus["vocabulary_size"] = 310
    assert prepare("out", **corpus).tokenizer.vocabulary_size == 310


def test_changed_files_are_noticed(here, corpus):
    prepare("out", **corpus)
    path = here / "out" / "train-00001.ids.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    load_prepared("out")
    with pytest.raises(ValueError, match="train-00001.ids.npy is missing or"):
        load_prepared("out", verify=True)
    path.write_bytes(data[:-2])
    with pytest.raises(ValueError, match="train-00001.ids.npy is missing or"):
        load_prepared("out")


def test_the_command_line_prepares(here, corpus, capsys):
    code = main(
        ["prepare", "out", "--train", corpus["train"], "--dev", corpus["dev"]]
        + ["--vocabulary-size", "300", "--tokens-per-batch", "2000"]
    )
    assert code == 0
    out = capsys.readouterr().out
    assert "train: 1,000 of 1,004 pairs" in out
    assert "1 dropped: held out" in out
    assert "Batches of 2,000 tokens are 9" in out
    assert out.strip().splitlines()[-1].startswith("Wrote out.")
    assert texts("out") == PAIRS


def test_the_flags_are_the_arguments(here, corpus):
    flags = ["--separate-vocabularies", "--no-clean", "--swap"]
    flags += ["--max-ratio=5", "--max-characters=900"]
    flags += ["--vocabulary-size=300", "--train", corpus["train"]]
    assert main(["prepare", "out", *flags]) == 0
    settings = load_prepared("out").manifest["settings"]
    expected = {
        "shared_vocabulary": False,
        "clean": False,
        "swap": True,
        "max_ratio": 5.0,
        "max_characters": 900,
    }
    assert expected.items() <= settings.items()


def test_the_command_line_counts_copies_apart(here, corpus, capsys):
    code = main(
        ["prepare", "out", "--train", corpus["train"], "--dev", corpus["dev"]]
        + ["--vocabulary-size", "300", "--merge-dropout", "0.1"]
        + ["--copies", "3"]
    )
    assert code == 0
    out = capsys.readouterr().out
    assert "train: 1,000 of 1,004 pairs, 3 times each, " in out
    assert "dev: 50 of 50 pairs, " in out
    assert texts("out") == PAIRS * 3


def test_without_a_source_the_numbers_are_prepared(monkeypatch, capsys):
    monkeypatch.setattr(
        "keras_transformer.data.number_words.AMOUNTS",
        {"train": 1000, "dev": 50, "test": 60},
    )
    assert main(["prepare", "out"]) == 0
    assert "test: 60 of 60 pairs" in capsys.readouterr().out
    assert load_prepared("out").tokenizer.vocabulary_size == 512


GOOD = "one\teins\ntwo\tzwei\n"


@pytest.mark.parametrize(
    ("files", "train", "message"),
    [
        ({"a": "1\n2\n3\n", "b": "1\n"}, "a,b", "goes on with line 2"),
        ({}, "gone.tsv", "gone.tsv, which does not exist"),
        ({"a.gz": gzip.compress(GOOD.encode())[:-9]}, "a.gz", "whole gzip"),
        ({"a": GOOD + "x" * 1_000_000 + "\ty\n"}, "a", "Line 3 of a has more"),
        ({"a": "\n" * 5, "b": "\n" * 5}, "a,b", "5 pairs read, .*: 5 empty"),
        ({"a": "\n" * 5}, "a", "5 pairs read, .*: 5 empty"),
        ({"a": ""}, "a", "0 pairs read"),
        ({"a": "one\ntwo\n"}, "a", "one column in line 1"),
        ({"a": GOOD.encode() + b"caf\xe9\tx\n"}, "a", "Line 3 of a .*0xE9"),
        ({}, "tfds:no_such_dataset", "not found"),
        ({"a": GOOD}, "a", "must be at most 2.*Give that, or more text"),
        ({"numbers.tsv": GOOD}, "numbers.tsv", "vocabulary_size=32000"),
    ],
)
def test_bad_input_gets_a_sentence_and_code_2(
    here, capsys, files, train, message
):
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (here / name).write_bytes(data)
    assert main(["prepare", "out", "--train", train]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("prepare: ")
    assert re.search(message, error), error
    assert "Traceback" not in error
    assert {path.name for path in here.iterdir()} == set(files)


def test_blank_dev_files_get_a_sentence(here, corpus, capsys):
    (here / "blank.tsv").write_text("\n\n")
    arguments = ["--train", corpus["train"], "--dev", "blank.tsv"]
    assert main(["prepare", "out", *arguments]) == 2
    assert "The dev source must hold pairs" in capsys.readouterr().err


def test_an_output_in_use_is_not_touched(here, corpus, capsys):
    (here / "out").mkdir()
    (here / "out" / "thesis.txt").write_text("years of work")
    assert main(["prepare", "out", "--train", corpus["train"]]) == 2
    assert "holds something else" in capsys.readouterr().err
    assert contents(here / "out") == {"thesis.txt": b"years of work"}


def test_a_neighbour_with_the_unfinished_name_is_not_touched(
    here, corpus, capsys
):
    (here / "out.partial").mkdir()
    (here / "out.partial" / "thesis.txt").write_text("years of work")
    assert main(["prepare", "out", "--train", corpus["train"]]) == 2
    assert "out.partial, which holds something else" in capsys.readouterr().err
    assert contents(here / "out.partial") == {"thesis.txt": b"years of work"}


def test_a_linked_folder_is_filled_where_it_is(here, corpus):
    (here / "disk" / "corpus").mkdir(parents=True)
    (here / "link").symlink_to("disk/corpus")
    prepare("link", **corpus)
    assert (here / "link").is_symlink()
    assert (here / "disk" / "corpus" / "manifest.json").is_file()


@pytest.mark.parametrize("manifest", ["{}", "[]", "no JSON"])
def test_a_folder_of_another_tool_gets_a_sentence(here, capsys, manifest):
    (here / "other").mkdir()
    (here / "other" / "manifest.json").write_text(manifest)
    assert main(["train", "other"]) == 2
    assert "missing or damaged" in capsys.readouterr().err
    assert main(["prepare", "other"]) == 2
    assert "holds something else" in capsys.readouterr().err


def test_an_unknown_flag_gives_code_2(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["prepare", "out", "--vocab", "x"])
    assert stopped.value.code == 2


def test_the_manifest_is_plain_json(here, corpus):
    prepare("out", **corpus)
    manifest = json.loads((here / "out" / "manifest.json").read_text())
    names = {path.name for path in (here / "out").iterdir()}
    assert set(manifest["files"]) == names - {"manifest.json"}
    shutil.move("out", "moved")  # nothing in it names its own place
    assert texts("moved") == PAIRS


def test_a_vocabulary_that_is_there_is_taken(here, capsys):
    write_tsv(here / "train.tsv", PAIRS[:200])
    Tokenizer.train((s for pair in PAIRS for s in pair), 300).save("own.model")
    command = ["prepare", "out", "--train", "train.tsv", "--tokenizer"]
    assert main([*command, "own.model"]) == 0
    assert load_prepared("out").tokenizer == Tokenizer.load("own.model")
    assert sorted(texts("out")) == sorted(map(tuple, PAIRS[:200]))
    assert main([*command, "own.model", "own.model", "own.model"]) == 2
    assert "two of them" in capsys.readouterr().err
