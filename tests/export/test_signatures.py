"""The exported functions give what Python gives, for any batch."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.tokenizer import START
from tests.export.conftest import SETTINGS


def call(signatures, name, *texts):
    """Outputs of a signature as arrays, strings decoded."""
    inputs = {
        key: tf.constant(value, tf.string)
        for key, value in zip(("text", "translation"), texts)
        if key in signatures[name].structured_input_signature[1]
    }
    outputs = signatures[name](**inputs)
    return {key: decoded(value.numpy()) for key, value in outputs.items()}


def decoded(array):
    if array.dtype != object:
        return array
    return np.vectorize(bytes.decode, otypes=[object])(array)


def test_translations_are_those_of_python(signatures, translator, sentences):
    expected = translator.translate(
        sentences[:60],
        num_results=4,
        max_extra_length=SETTINGS["max_extra_length"],
    )
    n_bests = [[best, *best.alternatives] for best in expected]
    found = call(signatures, "translate_nbest", sentences[:60])
    assert found["translation"].tolist() == [
        [translation.text for translation in n_best] for n_best in n_bests
    ]
    scores = [[translation.score for translation in row] for row in n_bests]
    np.testing.assert_allclose(found["score"], scores, rtol=1e-5)
    assert len(set(found["translation"][:, 0])) > 20

    best = call(signatures, "serving_default", sentences[:60])
    assert best["translation"].tolist() == found["translation"][:, 0].tolist()
    np.testing.assert_allclose(best["score"], found["score"][:, 0], rtol=1e-5)


def test_greedy_translations_are_those_of_python(
    signatures, translator, sentences
):
    found = call(signatures, "translate_greedy", sentences[:60])
    expected = translator.translate(
        sentences[:60],
        beam_size=1,
        max_extra_length=SETTINGS["max_extra_length"],
    )
    assert found["translation"].tolist() == [t.text for t in expected]
    np.testing.assert_allclose(
        found["score"], [t.score for t in expected], rtol=1e-5
    )


def encoded(translator, text, translation):
    """Ids of a pair with their ends, as batches of one."""
    source = translator.source_tokenizer.tokenize(text, add_end=True)
    target = translator.target_tokenizer.tokenize(translation, add_end=True)
    return np.array([source]), np.array([target])


def test_scores_are_log_probabilities(signatures, translator, sentences):
    texts, translations = sentences[:5], sentences[3:8]
    found = call(signatures, "score", texts, translations)
    for score, *pair in zip(found["log_probability"], texts, translations):
        source, target = encoded(translator, *pair)
        before = np.concatenate([[[START]], target[:, :-1]], axis=1)
        logits = translator.model({"source_ids": source, "target_ids": before})
        log_probs = tf.nn.log_softmax(logits[0]).numpy()
        expected = log_probs[np.arange(target.size), target[0]].sum()
        assert score == pytest.approx(expected, rel=1e-5)


def test_attention_is_that_of_the_decoder(signatures, translator, sentences):
    texts, translations = sentences[:4], sentences[4:8]
    found = call(signatures, "attention", texts, translations)
    longest = found["target_length"].max(), found["source_length"].max()
    assert found["attention"].shape == (4, 2, 2, *longest)
    for row, pair in enumerate(zip(texts, translations)):
        source, target = encoded(translator, *pair)
        rows, columns = found["target_length"][row], found["source_length"][row]
        assert (rows, columns) == (target.size, source.size)
        pieces = translator.tokenizer.pieces
        assert found["source_pieces"][row].tolist() == [
            *(pieces[i] for i in source[0]),
            *[""] * (longest[1] - columns),
        ]
        assert found["target_pieces"][row, :rows].tolist() == [
            pieces[i] for i in target[0]
        ]
        before = np.concatenate([[[START]], target[:, :-1]], axis=1)
        _, layers = translator.model.decode(
            before,
            translator.model.encode(source),
            return_attention_scores=True,
        )
        attention = found["attention"][row]
        for layer, expected in zip(attention, layers):
            np.testing.assert_allclose(
                layer[:, :rows, :columns], expected["memory"][0], atol=1e-4
            )
        assert not attention[:, :, rows:].any()
        assert not attention[:, :, :, columns:].any()


def test_vectors_are_means_of_the_memory(signatures, translator, sentences):
    found = call(signatures, "encode", sentences[:6])["vector"]
    assert found.shape == (6, 16)
    for vector, sentence in zip(found, sentences):
        source, _ = encoded(translator, sentence, "")
        memory = translator.model.encode(source).numpy()[0]
        np.testing.assert_allclose(vector, memory.mean(axis=0), atol=1e-5)


def test_a_batch_may_be_empty(signatures):
    for name, function in signatures.items():
        outputs = call(signatures, name, [], [])
        for key, value in outputs.items():
            assert value.shape[0] == 0
            assert value.ndim == len(function.structured_outputs[key].shape)


def test_what_does_not_fit_together_is_refused_in_words(signatures):
    for name in ("score", "attention"):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="a translation for each text"
        ):
            call(signatures, name, ["one", "two"], ["eins"])
    long = ["x" * 100] * 5000
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Send fewer texts"
    ):
        call(signatures, "attention", long, long)


BAD = {
    "empty": "",
    "blanks": " \t\n\u00a0\u2003\u3000",
    "100,000 characters": "one two " * 12_500,
    "one word of 100,000 characters": "x" * 100_000,
    "emoji": "😀" * 1000,
    "control characters": "\x01\x02\x1f one \x7f",
    "NUL": "one\x00two",
    "right to left": "שלום עולם",
    "a script never seen": "ᚠᛇᚻ ᛒᛦᚦ",
    "no UTF-8": b"one \xff\xfe\xc3",
    "a surrogate": b"\xed\xa0\x80",
    "the pieces' own mark": "▁one▁▁ ▁",
    "line breaks": "one\r\n\ntwo\u2028three",
    "names of pieces": "<s></s><pad><unk><0x0A>",
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_text_gets_an_answer_and_its_neighbours_their_own(
    signatures, sentences, kind
):
    texts = [sentences[0], BAD[kind], sentences[1]]
    for name in ("serving_default", "translate_greedy"):
        alone = call(signatures, name, [sentences[0], sentences[1]])
        found = call(signatures, name, texts)
        assert found["translation"][[0, 2]].tolist() == (
            alone["translation"].tolist()
        )
        np.testing.assert_allclose(
            found["score"][[0, 2]], alone["score"], rtol=1e-5
        )
        assert np.isfinite(found["score"]).all()
        if kind in ("empty", "blanks"):
            assert found["translation"][1] == ""
            assert found["score"][1] == 0
    for name in ("score", "attention", "encode"):
        outputs = call(signatures, name, texts, texts)
        for values in outputs.values():
            if values.dtype != object:
                assert np.isfinite(values).all()


def test_long_text_is_cut(signatures, translator, sentences):
    long = " ".join(sentences[:20])
    ids = translator.source_tokenizer.tokenize(long)
    assert len(ids) > translator.max_source_length
    cut = translator.source_tokenizer.detokenize(
        ids[: translator.max_source_length]
    )
    found = call(signatures, "serving_default", [long, cut])["translation"]
    assert found[0] == found[1]
    lengths = call(signatures, "attention", [long], [long])
    assert lengths["source_length"] == translator.max_source_length + 1


def test_blank_is_what_python_strips(signatures):
    spaces = [chr(i) for i in range(0x110000) if chr(i).isspace()]
    others = ["\u200b", "\ufeff", "\x00", "\x1b", "▁", "\u180e"]
    found = call(signatures, "translate_greedy", spaces + others)["score"]
    assert not found[: len(spaces)].any()
    assert found[len(spaces) :].all()


def test_random_bytes_get_answers(signatures):
    rng = np.random.default_rng(0)
    texts = [rng.bytes(rng.integers(0, 60)) for _ in range(150)]
    together = call(signatures, "translate_greedy", texts)
    assert np.isfinite(together["score"]).all()
    for row in range(0, 150, 15):
        alone = call(signatures, "translate_greedy", [texts[row]])
        assert alone["translation"][0] == together["translation"][row]
