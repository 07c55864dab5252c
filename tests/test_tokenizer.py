"""Text becomes ids and comes back, whoever does it, whatever it is."""

import pickle

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_transformer.data import numbers
from keras_transformer.tokenizer import Tokenizer

SENTENCES = [side for pair in numbers("dev") for side in pair] + [
    "Ein Haus, das ▁ sagt: <s> und <0x41>!",
    "tabs\tand  two spaces ",
] * 20

ODD = [
    "",
    " ",
    "  two  spaces, and one behind ",
    "tab\tnewline\nreturn\r\n",
    "▁",
    "a▁b ▁ ▁▁c",
    "\x10",
    "\x100\x101\x10▁1",
    "\0",
    "a\0b",
    "<s></s><pad><unk>",
    "<0x41><0x0A>",
    "⁇ and \ufffd and \ufeff",
    "e\u0301 ﬁ ½ ＡＢＣ",  # NFKC would change these
    "👩‍👩‍👧 日本語 العربية",
    "\u2028\u0085\u00a0\u3000",
    "\U0010ffff\ue000",
]

text = st.text(st.characters(exclude_categories=["Cs"]))
# Letters that SentencePiece or the escapes give a meaning.
tricky = st.text("▁\x10 01\0<s>x/\ufffd⁇ae")


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request):
    return Tokenizer.train(SENTENCES, 400, kind=request.param)


def in_graph(tokenizer, sentences):
    """Round trip by tensors; each sentence apart in a ragged batch."""
    ids = tokenizer.tokenize(tf.constant(sentences, tf.string))
    return ids.to_list(), tokenizer.detokenize(ids).numpy().tolist()


@pytest.mark.parametrize("sentence", ODD)
def test_odd_strings_come_back_exactly(tokenizer, sentence):
    ids = tokenizer.tokenize(sentence)
    assert tokenizer.detokenize(ids) == sentence
    assert in_graph(tokenizer, [sentence]) == ([ids], [sentence.encode()])


@settings(deadline=None, max_examples=300)
@given(sentences=st.lists(text | tricky, min_size=1, max_size=5))
@example(sentences=ODD)
def test_every_string_comes_back_and_all_paths_agree(tokenizer, sentences):
    ids = tokenizer.tokenize(sentences)
    assert tokenizer.detokenize(ids) == sentences
    assert [tokenizer.tokenize(sentence) for sentence in sentences] == ids
    encoded = [sentence.encode() for sentence in sentences]
    assert in_graph(tokenizer, encoded) == (ids, encoded)


@settings(deadline=None, max_examples=300)
@given(data=st.binary() | tricky.map(lambda t: t.encode()[1:]))
@example(data=b"caf\xe9")
@example(data=b"\xed\xa0\x80")
@example(data=b"\xe2\x96")
def test_bytes_that_are_no_text_do_no_harm(tokenizer, data):
    ids = tokenizer.tokenize(data)
    found, (back,) = in_graph(tokenizer, [data])
    assert found == [ids]
    assert back == tokenizer.detokenize(ids).encode()
    # Every broken byte is replaced by itself; text around it stays.
    if b"\xff" not in data:
        broken = tokenizer.tokenize(b"ab\xff" + data)
        assert tokenizer.detokenize(broken) == "ab\ufffd" + back.decode()


def test_a_lone_surrogate_does_no_harm(tokenizer):
    assert tokenizer.detokenize(tokenizer.tokenize("a\ud800b")).startswith("a")


def test_a_reloaded_tokenizer_gives_the_same_ids(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "a.model")
    assert [path.name for path in tmp_path.iterdir()] == ["a.model"]
    for other in (
        Tokenizer.load(tmp_path / "a.model"),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert other == tokenizer
        assert other.pieces == tokenizer.pieces
        assert other.tokenize(ODD) == tokenizer.tokenize(ODD)
        assert in_graph(other, ODD) == in_graph(tokenizer, ODD)


def test_left_out_merges_change_the_pieces_and_not_the_text():
    tokenizer = Tokenizer.train(SENTENCES, 400)
    plain = tokenizer.tokenize(SENTENCES)
    found = {
        (dropout, seed): tokenizer.tokenize_at_random(SENTENCES, dropout, seed)
        for dropout, seed in [(0, 1), (0.3, 1), (0.3, 2), (1, 1)]
    }
    assert found[0, 1] == plain
    assert found[0.3, 1] != found[0.3, 2]
    assert tokenizer.tokenize_at_random(SENTENCES, 0.3, 1) == found[0.3, 1]
    for ids in found.values():
        assert tokenizer.detokenize(ids) == SENTENCES
    sizes = {key: sum(map(len, ids)) for key, ids in found.items()}
    assert sizes[0, 1] < sizes[0.3, 1] < sizes[1, 1]


def test_only_merges_can_be_left_out():
    tokenizer = Tokenizer.train(SENTENCES, 400, kind="unigram")
    assert tokenizer.kind == "unigram"
    with pytest.raises(ValueError, match="kind='unigram'"):
        tokenizer.tokenize_at_random(["a"], 0.1, 1)
    with pytest.raises(ValueError, match="merge_dropout=1.5"):
        Tokenizer.train(SENTENCES, 400).tokenize_at_random(["a"], 1.5, 1)


def test_training_twice_gives_the_same_file(tokenizer):
    again = [Tokenizer.train(SENTENCES, 300, kind="bpe") for _ in range(2)]
    assert again[0] == again[1]
    assert again[0] != tokenizer


def test_the_special_ids_are_as_promised(tokenizer):
    assert tokenizer.pieces[:4] == ["<pad>", "<unk>", "<s>", "</s>"]
    assert tokenizer.vocabulary_size == len(tokenizer.pieces) == 400
    assert tokenizer.pieces[4] == "<0x00>"
    ids = tokenizer.tokenize(SENTENCES + ODD)
    assert min(min(sentence, default=9) for sentence in ids) > 3


def test_start_and_end_are_added_where_asked(tokenizer):
    plain = tokenizer.tokenize("zwei")
    for start, end, expected in (
        (True, False, [2, *plain]),
        (False, True, [*plain, 3]),
        (True, True, [2, *plain, 3]),
    ):
        both = {"add_start": start, "add_end": end}
        assert tokenizer.tokenize("zwei", **both) == expected
        assert tokenizer.tokenize(["zwei", ""], **both) == [
            expected,
            [2] * start + [3] * end,
        ]
        tensor = tokenizer.tokenize(tf.constant(["zwei", ""]), **both)
        assert tensor.to_list() == tokenizer.tokenize(["zwei", ""], **both)
        scalar = tokenizer.tokenize(tf.constant("zwei"), **both)
        assert scalar.numpy().tolist() == expected
    assert tokenizer.detokenize([2, *plain, 3, 0, 0]) == "zwei"


def test_arrays_and_padded_batches_are_read(tokenizer):
    ids = tokenizer.tokenize(["zwei", "einundzwanzig!"], add_end=True)
    padded = tf.ragged.constant(ids).to_tensor()
    expected = ["zwei", "einundzwanzig!"]
    assert tokenizer.detokenize(padded.numpy()) == expected
    assert tokenizer.detokenize(np.array(ids[0])) == "zwei"
    tensor = tokenizer.detokenize(tf.cast(padded, tf.int64))
    assert [text.decode() for text in tensor.numpy()] == expected
    assert tokenizer.tokenize(np.array(expected)) == tokenizer.tokenize(
        expected
    )
    assert tokenizer.detokenize([]) == ""
    assert tokenizer.detokenize([[], [3]]) == ["", ""]


def test_it_runs_in_data_pipelines(tokenizer):
    dataset = tf.data.Dataset.from_tensor_slices(SENTENCES[:10]).batch(4)
    ids = [
        sentence
        for batch in dataset.map(tokenizer.tokenize)
        for sentence in batch.to_list()
    ]
    assert ids == tokenizer.tokenize(SENTENCES[:10])


def test_it_travels_inside_a_saved_model(tokenizer, tmp_path):
    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.tokenizer = tokenizer.in_graph

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def ids(self, text):
            ids = tokenizer.tokenize(text, add_end=True)
            return ids.to_tensor(), tokenizer.detokenize(ids)

    tf.saved_model.save(Module(), tmp_path / "saved")
    loaded = tf.saved_model.load(tmp_path / "saved")
    ids, back = loaded.ids(tf.constant(ODD))
    expected = tokenizer.tokenize(ODD, add_end=True)
    np.testing.assert_array_equal(ids, tf.ragged.constant(expected).to_tensor())
    assert back.numpy().tolist() == [sentence.encode() for sentence in ODD]


def test_a_vocabulary_may_be_too_large_or_too_small():
    with pytest.raises(ValueError, match=r"at most 2\d\d.*Received: .*=9000"):
        Tokenizer.train(["ein Haus"] * 9, 9000)
    with pytest.raises(ValueError, match=r"at least 2\d\d.*Received: .*=100"):
        Tokenizer.train(["ein Haus"] * 9, 100)


@pytest.mark.parametrize("sentences", [[], [""], ["a" * 5000]])
def test_nothing_to_learn_from_gets_a_sentence(sentences):
    with pytest.raises(ValueError, match=r"text to learn|at most"):
        Tokenizer.train(sentences, 300)


def test_what_the_sentences_raise_is_raised():
    def sentences():
        yield "ein Haus"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Tokenizer.train(sentences(), 300)
    with pytest.raises(ValueError, match=r"must be a string. Received: 3"):
        Tokenizer.train(["ein Haus", 3], 300)


def test_other_bad_input_gets_a_sentence(tokenizer, tmp_path):
    with pytest.raises(ValueError, match="`kind` must be"):
        Tokenizer.train(SENTENCES, 300, kind="word")
    with pytest.raises(ValueError, match=r"0 to 399. Received: 1 to 400"):
        tokenizer.detokenize([1, 400])
    with pytest.raises(ValueError, match="must be a string"):
        tokenizer.tokenize(["a", None])
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Tokenizer.load(tmp_path / "gone")
    (tmp_path / "text").write_text("ein Haus")
    with pytest.raises(ValueError, match="text cannot be loaded"):
        Tokenizer.load(tmp_path / "text")


def test_a_model_with_other_ids_is_refused():
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=model,
        vocab_size=100,
        minloglevel=2,
    )
    with pytest.raises(ValueError, match=r"\(-1, 0, 1, 2\)"):
        Tokenizer(model.getvalue())


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize(
    ("corpus", "size"),
    [(["1", "2", "3"], 264), (["你好", "世界", "再见"], 267)],
)
def test_spaces_come_back_though_the_corpus_has_none(kind, corpus, size):
    tokenizer = Tokenizer.train(corpus * 20, size, kind=kind)
    text = "1 2  ▁ 你好 "
    assert tokenizer.detokenize(tokenizer.tokenize(text)) == text
