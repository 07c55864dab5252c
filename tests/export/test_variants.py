"""Other ways to export, and the largest batches."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import cli
from keras_transformer.export import export_saved_model
from keras_transformer.tokenizer import Tokenizer
from keras_transformer.translator import load
from tests.export.conftest import SETTINGS, make_translator, texts
from tests.export.test_signatures import call

pytestmark = pytest.mark.slow


def check(found, translator, sentences, extra):
    expected = translator.translate(sentences, max_extra_length=extra)
    assert [text.decode() for text in found["translation"].numpy()] == [
        translation.text for translation in expected
    ]
    np.testing.assert_allclose(
        found["score"], [t.score for t in expected], rtol=1e-5
    )


def test_the_command_exports_two_vocabularies_and_learned_positions(
    sentences, tmp_path, capsys
):
    tokenizers = tuple(
        Tokenizer.train(texts("train", 300)[side::2], 300) for side in (0, 1)
    )
    translator = make_translator(
        tokenizers,
        target_vocabulary_size=300,
        position_encoding="learned",
        max_length=50,
        normalize_first=True,
    )
    run = tmp_path / "7"  # a run that is called so, no version of a model
    translator.save(run / "best")
    result = {
        "use": "best",
        "step": 100,
        "best_step": 80,
        "minutes": 1.5,
        "scores": {
            "test": {
                "bleu": 30.1,
                "chrf": 60.2,
                "sentences": 1000,
                "signature": "a|b",
                "chrf_signature": "c",
            }
        },
        "samples": [["one", "eins", "eins"]],
    }
    (run / "result.json").write_text(json.dumps(result))
    command = ["export", str(run), "--to", str(tmp_path / "models")]
    samples = tmp_path / "samples.txt"
    samples.write_text("two\n\n  \nthree\n")
    command += ["--samples", str(samples), "--max-source-length", "49"]
    command += ["--num-results", "2", "--max-extra-length", "7"]
    command += ["--length-penalty", "1.5"]
    assert cli.main(command) == 0
    folder = tmp_path / "models" / "7" / "1"
    assert f"Wrote {folder}" in capsys.readouterr().out
    card = (folder / "README.md").read_text()
    row = r"| test set of 1,000 sentences | BLEU 30.10 (a\|b), chrF 60.20 (c) |"
    assert row in card
    assert "| updates | 100, with the best weights, after 80 |" in card
    about = json.loads((folder / "assets.extra/metadata.json").read_text())
    assert about["samples"] == ["two", "three"]
    assert about["settings"]["max_source_length"] == 49
    assert about["settings"]["max_extra_length"] == 7
    assert load(folder).length_penalty == 1.5
    data = (folder / "variables" / "variables.data-00000-of-00001").stat()
    size = 4 * translator.model.count_params()
    assert size <= data.st_size < 1.2 * size

    signatures = tf.saved_model.load(folder).signatures
    short = [s for s in sentences if len(tokenizers[0].tokenize(s)) < 50]
    assert len(short) > 100
    found = signatures["serving_default"](text=tf.constant(short))
    check(found, load(folder.parent), short, extra=7)
    long = ["x" * 1000]
    assert call(signatures, "translate_nbest", long)["score"].shape == (1, 2)
    lengths = call(signatures, "attention", long, long)
    assert lengths["source_length"] == lengths["target_length"] == 50

    assert cli.main([*command, "--version", "1"]) == 2
    assert "version=1" in capsys.readouterr().err


def test_a_translator_in_half_precision_is_stored_in_the_type_asked_for(
    folder, tmp_path
):
    half = load(folder.parent, dtype="bfloat16")
    again = load(export_saved_model(half, tmp_path, **SETTINGS))
    for weight, expected in zip(again.model.weights, half.model.weights):
        assert weight.dtype == "float32"
        np.testing.assert_array_equal(
            weight.numpy(), np.asarray(expected.value, "float32")
        )


def test_a_compiled_search_finds_the_same(translator, sentences, tmp_path):
    folder = export_saved_model(
        translator, tmp_path, jit_compile=True, **SETTINGS
    )
    translate = tf.saved_model.load(folder).signatures["serving_default"]
    found = translate(text=tf.constant(sentences[:4]))
    check(found, translator, sentences[:4], SETTINGS["max_extra_length"])


def test_five_thousand_texts_at_once(signatures, sentences):
    alone = call(signatures, "translate_greedy", sentences)
    rows = np.random.default_rng(0).integers(0, len(sentences), 5000)
    many = call(signatures, "translate_greedy", [sentences[i] for i in rows])
    assert (many["translation"] == alone["translation"][rows]).all()
    vectors = call(signatures, "encode", [sentences[i] for i in rows])["vector"]
    assert vectors.shape == (5000, 16)
