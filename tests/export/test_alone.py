"""An exported model needs no package of ours, and no Python."""

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.export.conftest import SETTINGS

KIT = Path(__file__).parents[2] / "examples" / "serving"
WORKER = Path(__file__).with_name("alone_worker.py")

pytestmark = pytest.mark.slow


def run(*command, code=0, **kwargs):
    """What a command prints: to standard output and to standard error."""
    done = subprocess.run(
        [str(part) for part in command],
        env={
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHON": sys.executable,
        },
        capture_output=True,
        timeout=600,
        **kwargs,
    )
    errors = done.stderr.decode(errors="replace")
    assert done.returncode == code, errors[-3000:]
    return done.stdout, errors


def test_tensorflow_alone_gives_what_the_translator_gives(
    folder, translator, sentences, tmp_path
):
    settings = {"max_extra_length": SETTINGS["max_extra_length"]}
    greedy = translator.translate(sentences, beam_size=1, **settings)
    n_bests = translator.translate(sentences, num_results=4, **settings)
    best = [n_best.text for n_best in n_bests]

    others = sentences[1:] + sentences[:1]
    inputs, outputs = tmp_path / "inputs.json", tmp_path / "outputs.pickle"
    inputs.write_text(json.dumps({"text": sentences, "translation": others}))
    run(sys.executable, "-I", WORKER, folder, inputs, outputs)
    found = pickle.loads(outputs.read_bytes())

    def text(signature):
        return [
            row.decode()
            if isinstance(row, bytes)
            else [t.decode() for t in row]
            for row in found[signature]["translation"].tolist()
        ]

    def check_numbers(signature, key, expected):
        np.testing.assert_allclose(
            found[signature][key], expected, rtol=1e-5, atol=1e-5
        )

    assert text("serving_default") == best
    check_numbers("serving_default", "score", [t.score for t in n_bests])
    assert text("translate_greedy") == [t.text for t in greedy]
    check_numbers("translate_greedy", "score", [t.score for t in greedy])
    n_bests = [[t, *t.alternatives] for t in n_bests]
    assert text("translate_nbest") == [[t.text for t in row] for row in n_bests]
    check_numbers(
        "translate_nbest", "score", [[t.score for t in row] for row in n_bests]
    )
    check_numbers(
        "score",
        "log_probability",
        translator.score(sentences, others, length_penalty=0.0),
    )
    for row, pair in enumerate(zip(sentences, others)):
        expected = translator.attention(*pair)["memory"]
        rows, columns = len(expected.rows), len(expected.columns)
        attention = found["attention"]
        assert attention["target_length"][row] == rows
        assert attention["source_length"][row] == columns
        pieces = [piece.decode() for piece in attention["source_pieces"][row]]
        assert pieces[:columns] == expected.columns
        np.testing.assert_allclose(
            attention["attention"][row, :, :, :rows, :columns],
            expected.weights,
            atol=1e-4,
        )
    ids = translator.source_tokenizer.tokenize(sentences, add_end=True)
    padded = np.zeros((len(ids), max(map(len, ids))), "int32")
    for row, sentence in zip(padded, ids):
        row[: len(sentence)] = sentence
    memory = np.asarray(translator.model.encode(padded))
    means = [m[: len(i)].mean(axis=0) for m, i in zip(memory, ids)]
    check_numbers("encode", "vector", means)


def test_saved_model_cli_shows_names_and_shapes(folder):
    tool = Path(sys.executable).with_name("saved_model_cli")
    shown, errors = run(tool, "show", "--dir", folder, "--all")
    assert "Traceback" not in errors
    found = {}
    for line in re.sub(r"\s+", " ", shown.decode()).split("signature_def['")[
        1:
    ]:
        signature, rest = line.split("'", 1)
        found[signature] = re.findall(
            r"(inputs|outputs)\['(\w+)'\] tensor_info: dtype: DT_(\w+) "
            r"shape: \(([^)]*)\)",
            rest,
        )
    text = ("inputs", "text", "STRING", "-1")
    translation = ("inputs", "translation", "STRING", "-1")
    one = [
        text,
        ("outputs", "score", "FLOAT", "-1"),
        ("outputs", "translation", "STRING", "-1"),
    ]
    found.pop("__saved_model_init_op")
    assert found == {
        "serving_default": one,
        "translate_greedy": one,
        "translate_nbest": [
            text,
            ("outputs", "score", "FLOAT", "-1, 4"),
            ("outputs", "translation", "STRING", "-1, 4"),
        ],
        "score": [
            text,
            translation,
            ("outputs", "log_probability", "FLOAT", "-1"),
        ],
        "attention": [
            text,
            translation,
            ("outputs", "attention", "FLOAT", "-1, 2, 2, -1, -1"),
            ("outputs", "source_length", "INT32", "-1"),
            ("outputs", "source_pieces", "STRING", "-1, -1"),
            ("outputs", "target_length", "INT32", "-1"),
            ("outputs", "target_pieces", "STRING", "-1, -1"),
        ],
        "encode": [text, ("outputs", "vector", "FLOAT", "-1, 16")],
    }


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    program = tmp_path_factory.mktemp("program") / "translate"
    _, errors = run(KIT / "build.sh", program)
    assert "warning" not in errors
    return program


def test_a_program_in_c_gives_the_same_bytes(
    program, folder, translator, sentences
):
    settings = {"max_extra_length": SETTINGS["max_extra_length"]}

    def lines(translations):
        texts = [re.sub(r"[\r\n]", " ", t.text) for t in translations]
        return "".join(f"{text}\n" for text in texts).encode()

    some = [*sentences[:5], "", "  ", "😀 ▁ <s>"]
    found, _ = run(program, "--signature", "translate_greedy", folder, *some)
    greedy = translator.translate(some, beam_size=1, **settings)
    assert found == lines(greedy)

    # More lines than it translates at once, and none at the end; the first
    # ones end as on Windows.
    many = [*sentences, *sentences[:100], "one\0two"]
    text = "\n".join(many).replace("\n", "\r\n", 9)
    found, _ = run(program, folder, input=text.encode())
    assert found == lines(translator.translate(many, **settings))


def test_the_program_in_c_says_what_is_wrong(program, folder, tmp_path):
    for command, sentence in (
        ([], "usage:"),
        ([tmp_path, "one"], "Could not find SavedModel"),
        (["--signature", "none", folder, "one"], "has no signature none"),
        (["--signature", "encode", folder, "one"], "has no `translation`"),
    ):
        found, errors = run(program, *command, code=2)
        assert found == b""
        assert sentence in errors
