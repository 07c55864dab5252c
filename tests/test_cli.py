import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from importlib import metadata

import pytest
import tensorflow as tf

from keras_transformer import cli
from tests.untrained import SENTENCES, untrained


@pytest.fixture(scope="module")
def translator():
    return untrained()


@pytest.fixture(scope="module")
def model(translator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "saved"
    translator.save(folder)
    return str(folder)


@pytest.fixture
def run(model, capfd):
    """Runs a verb; gives its exit code, output and errors."""

    def run(verb, *arguments):
        code = cli.main([verb, *arguments, "--model", model])
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def stdin(monkeypatch):
    """What is written to it comes from standard input."""
    reads, writes = os.pipe()
    monkeypatch.setattr("sys.stdin", os.fdopen(reads))
    return os.fdopen(writes, "wb")


@pytest.fixture(scope="module")
def expected(translator):
    """Each found by greedy search, which needs the least time."""
    return [result.text for result in translator.translate(SENTENCES, 1)]


def test_arguments_and_files_give_the_same_lines(run, expected, tmp_path):
    lines = "".join(f"{text}\n" for text in expected)
    result = run("translate", *SENTENCES, "--beam-size", "1")
    assert result == (0, lines, "")
    path, output = tmp_path / "lines.txt.gz", tmp_path / "out.txt"
    path.write_bytes(gzip.compress("\n".join(SENTENCES).encode()))
    command = ("translate", "--file", str(path), "--output", str(output))
    told = f"Wrote {output}, 4 lines translated.\n"
    assert run(*command, "--beam-size", "1") == (0, told, "")
    assert output.read_text("utf-8") == lines
    assert not list(tmp_path.glob("*.partial"))


def test_each_line_in_is_a_line_out(run, expected, stdin):
    stdin.write("a\u2028house\r\n\na house".encode())
    stdin.close()
    code, out, _ = run("translate", "--beam-size", "1")
    assert code == 0
    assert len(out.split("\n")) == 4
    assert out.split("\n")[1:] == ["", expected[1], ""]


def test_columns_hold_what_json_holds(run, tmp_path):
    command = ["translate", "a house", "", "--n-best", "2", "--alignments"]
    code, out, _ = run(*command, "--json")
    assert code == 0
    row, blank = map(json.loads, out.splitlines())
    assert list(row) == [
        *("source", "text", "score", "tokens", "alignment", "alternatives")
    ]
    assert (blank["text"], blank["alternatives"]) == ("", [])
    code, out, _ = run(*command, "--scores")
    assert code == 0
    lines = [line.split("\t") for line in out.split("\n")[:4]]
    for line, found in zip(lines, (row, *row["alternatives"])):
        assert float(line[0]) == pytest.approx(found["score"], abs=1e-4)
        assert line[1] == found["text"].replace("\t", " ")
        pairs = [list(map(int, pair.split("-"))) for pair in line[2].split()]
        assert pairs == found["alignment"]
        assert pairs
    assert lines[2:] == [["0.0000", "", ""], [""]]


def test_long_lines_are_told_once(tmp_path, capsys):
    untrained(max_source_length=12).save(tmp_path / "saved")
    text = "A house. Two red houses. Zwei rote Häuser."
    command = ["translate", "a house", text, "--json", "--beam-size", "1"]
    assert cli.main([*command, "--model", str(tmp_path / "saved")]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("1 of 2 lines were longer than the 12 pieces")
    short, long = map(json.loads, out.splitlines())
    assert "parts" not in short
    assert len(long["parts"]) == 3


def test_half_an_output_file_has_another_name(run, expected, tmp_path):
    lines, output = tmp_path / "lines.txt", tmp_path / "out.txt"
    lines.write_bytes(b"a house\n\xff\n")
    command = ("translate", "--file", str(lines), "--output", str(output))
    code, _, err = run(*command, "--beam-size", "1")
    assert code == 2
    assert "Line 2 of" in err
    assert not output.exists()
    partial = tmp_path / "out.txt.partial"
    assert str(partial) in err
    assert partial.read_text("utf-8") == expected[1] + "\n"


def test_too_little_memory_gets_a_sentence(monkeypatch, capsys):
    error = tf.errors.ResourceExhaustedError(None, None, "OOM of a tensor")

    def run(args):
        raise error

    for verb in (cli.translate, cli.train):
        monkeypatch.setattr(verb, "run", run)
    assert cli.main(["translate", "x"]) == 2
    assert "Give a smaller beam" in capsys.readouterr().err
    assert cli.main(["train"]) == 2
    assert "more `--accumulation-steps`" in capsys.readouterr().err
    # What is no such thing is a fault of ours, and shows where it is.
    error = RuntimeError("a fault")
    with pytest.raises(RuntimeError, match="a fault"):
        cli.main(["translate", "x"])


def test_links_and_pipes_are_written_to(run, expected, tmp_path):
    (tmp_path / "file.txt").write_text("before")
    (tmp_path / "link.txt").symlink_to("file.txt")
    os.mkfifo(tmp_path / "pipe")
    received = []
    reader = threading.Thread(
        target=lambda: received.append((tmp_path / "pipe").read_text("utf-8"))
    )
    reader.start()
    for name in ("link.txt", "pipe"):
        command = ("translate", SENTENCES[1], "--beam-size", "1", "--output")
        assert run(*command, str(tmp_path / name))[0] == 0
    reader.join()
    line = expected[1] + "\n"
    assert received == [line]
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "file.txt").read_text("utf-8") == line


def test_a_pipe_of_the_shell_is_written_to(run, expected):
    """As by `--output >(gzip > file.gz)`."""
    reads, writes = os.pipe()
    command = ("translate", SENTENCES[1], "--beam-size", "1", "--output")
    assert run(*command, f"/dev/fd/{writes}")[0] == 0
    os.close(writes)
    with os.fdopen(reads, encoding="utf-8") as file:
        assert file.read() == expected[1] + "\n"


def test_a_pipe_may_be_read(run, expected, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(
        target=lambda: (tmp_path / "pipe").write_text(SENTENCES[1] + "\n")
    )
    writer.start()
    command = ("translate", "--file", str(tmp_path / "pipe"))
    code, out, _ = run(*command, "--beam-size", "1")
    writer.join()
    assert (code, out) == (0, expected[1] + "\n")


def test_without_standard_input_there_is_a_sentence(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    code, _, err = run("translate")
    assert code == 2
    assert "Give them as arguments, or by --file" in err


def test_a_folder_of_another_library_gets_a_sentence(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    assert cli.main(["translate", "x", "--model", str(tmp_path)]) == 2
    assert "config.json is of something else" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("result.json", b'{"from": "another tool"}'),
        ("config.json", b"[]"),
        ("config.json", b""),
        ("model.weights.h5", None),
        ("model.weights.h5", b"half of"),
        ("tokenizer.model", None),
    ],
)
def test_a_damaged_folder_gets_a_sentence(
    model, tmp_path, capsys, file, content
):
    folder = shutil.copytree(model, tmp_path / "copy")
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    assert cli.main(["translate", "x", "--model", str(folder)]) == 2
    message = capsys.readouterr().err
    assert str(folder) in message
    assert "missing or damaged" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a house", "--file", "x.txt"], "Leave one out"),
        (["--file", "nowhere.txt"], "nowhere.txt, which does not exist"),
        (["a house", "--seed", "1"], "`seed` is for random translations"),
        (["a house", "--beam-size", "0"], "`beam_size` must be"),
        (["a house", "--output", "no/folder.txt"], "No such file"),
    ],
)
def test_what_does_not_fit_gets_a_sentence(run, arguments, message):
    code, out, err = run("translate", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("translate: ")
    assert message in err


def test_a_missing_model_gets_a_sentence(tmp_path, capsys):
    command = ["translate", "x", "--model", str(tmp_path / "nowhere")]
    assert cli.main(command) == 2
    message = capsys.readouterr().err
    assert "nowhere" in message
    assert "Traceback" not in message


def test_lines_are_translated_as_they_come_until_ctrl_c(
    model, expected, stdin, monkeypatch, capsys
):
    out_read, out_write = os.pipe()
    monkeypatch.setattr("sys.stdout", os.fdopen(out_write, "w"))
    stdin.write(b"a house\n")
    stdin.flush()  # and it stays open: more may come
    seen = []

    def stop_after_a_line():
        with os.fdopen(out_read, encoding="utf-8") as file:
            seen.append(file.readline())
        os.kill(os.getpid(), signal.SIGINT)

    reader = threading.Thread(target=stop_after_a_line)
    reader.start()
    code = cli.main(["translate", "--beam-size", "1", "--model", model])
    reader.join()
    stdin.close()
    assert code == 130
    assert seen == [expected[1] + "\n"]
    assert capsys.readouterr().err == "Stopped.\n"


def test_a_closed_pipe_ends_quietly(model, monkeypatch, capsys):
    reads, writes = os.pipe()
    os.close(reads)
    monkeypatch.setattr("sys.stdout", os.fdopen(writes, "w"))
    command = ["translate", "a house", "--beam-size", "1", "--model", model]
    assert cli.main(command) == 141
    assert capsys.readouterr().err == ""


def test_a_test_set_is_evaluated(run, expected, tmp_path):
    pairs, saved = tmp_path / "test.tsv", tmp_path / "out.txt"
    rows = zip(SENTENCES, expected)
    lines = "".join(f"{s}\t{t}\n" for s, t in rows)
    pairs.write_text(lines + "\t\n \t\n", "utf-8")
    command = ("evaluate", str(pairs), "--save", str(saved))
    code, out, _ = run(*command, "--beam-size", "1")
    assert code == 0
    count, bleu, chrf, lowercase, exact, wrote = out.splitlines()
    assert count == "4 sentences, and 2 blank"
    assert bleu.startswith("BLEU    ")
    assert "case:mixed" in bleu
    assert chrf.startswith("chrF    100.00 (nrefs:1|case:mixed|eff:yes|nc:6")
    assert lowercase.startswith("BLEU lc ")
    assert "case:lc|eff:no|tok:13a" in lowercase
    assert exact == "exact   100.0%"
    assert wrote == f"Wrote {saved}"
    # A line for each of the test set, so that the two files go together.
    assert saved.read_text("utf-8").splitlines() == [*expected, "", ""]


def test_a_test_set_may_ask_for_short_translations(
    run, translator, expected, tmp_path
):
    pairs, saved = tmp_path / "test.tsv", tmp_path / "out.txt"
    pairs.write_text("".join(f"{s}\tein Haus\n" for s in SENTENCES), "utf-8")
    command = ("evaluate", str(pairs), "--save", str(saved))
    code, _, _ = run(*command, "--beam-size=1", "--max-extra-length=1")
    assert code == 0
    short = translator.translate(SENTENCES, 1, max_extra_length=1)
    found = saved.read_text("utf-8").splitlines()
    assert found == [result.text for result in short]
    assert found != expected


@pytest.mark.parametrize("text", ["", "\t\n \t\n"])
def test_a_test_set_must_not_be_empty(run, tmp_path, text):
    (tmp_path / "test.tsv").write_text(text)
    code, _, err = run("evaluate", str(tmp_path / "test.tsv"))
    assert code == 2
    assert "at least one pair" in err


@pytest.mark.parametrize(
    ("head", "suffix", "start"),
    [
        ("all", "png", b"\x89PNG"),
        ("average", "png", b"\x89PNG"),
        ("2", "png", b"\x89PNG"),
        ("1", "html", b"<!doctype html>"),
    ],
)
def test_attention_is_drawn(run, tmp_path, head, suffix, start):
    output = tmp_path / f"map.{suffix}"
    code, out, _ = run(
        *("attention", "a house", "--translation", "ein $Haus$"),
        *("--head", head, "--kind", "decoder", "--output", str(output)),
    )
    assert (code, out) == (0, f"a house → ein $Haus$\nWrote {output}\n")
    assert output.read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a house", "--output", "map.jpg"], "end with .png or .html"),
        (["a house", "--output", "gone/map.png"], "Make gone first"),
        (["a house", "--layer", "0"], "from 1 to 1. Received: --layer 0"),
        (["a house", "--head", "mean"], "or average. Received: --head mean"),
        ([" "], "Received a blank one"),
    ],
)
def test_attention_that_is_not_there_gets_a_sentence(
    run, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    code, _, err = run("attention", *arguments)
    assert code == 2
    assert message in err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_translating_imports_no_more_than_it_needs(model):
    program = f"""
import sys
sys.argv[0] = "keras-transformer"
from keras_transformer import cli
assert cli.main(["translate", "a house", "--model", {model!r}]) == 0
heavy = {{"matplotlib", "pandas", "sacrebleu", "tensorflow_datasets"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
import matplotlib.figure  # it is hidden for TensorFlow's import alone
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "told", "shown"),
    [
        (["train", "--help"], "--learning-rate-scale", ""),
        (["prepare", "out", "--train", "numbers:0-99"], "Wrote out.", "━"),
    ],
)
def test_help_and_prepare_need_no_tensorflow(tmp_path, arguments, told, shown):
    program = f"""
import sys
sys.argv[0] = "keras-transformer"
from keras_transformer import cli
try:
    cli.main({arguments})
finally:
    assert "keras" not in sys.modules
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert told in done.stdout
    # Nothing but the lines of progress.
    assert all(shown and shown in line for line in done.stderr.splitlines())


def test_the_version_is_that_of_the_distribution(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--version"])
    assert stopped.value.code == 0
    version = metadata.version("keras-transformer-layers")
    assert capsys.readouterr().out == f"{version}\n"


@pytest.mark.parametrize("verb", ["translate", "attention"])
def test_arguments_that_are_no_utf8_are_said_so(run, verb):
    code, _, errors = run(verb, "caf\udce9")  # as Python reads byte 0xE9
    assert code == 2
    assert "as character 4" in errors


def test_without_standard_error_there_is_still_an_answer(model, expected):
    command = [sys.executable, "-m", "keras_transformer.cli", "translate"]
    command += ["--beam-size", "1", "--model", model, SENTENCES[0]]
    done = subprocess.run(
        ["bash", "-c", '"$@" 2>&-', "bash", *command],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"{expected[0]}\n")
