import numpy as np

from keras_transformer.tokenizer import Tokenizer
from keras_transformer.translator import word_alignment
from keras_transformer.translator.alignment import word_shares


def test_pieces_of_any_text_belong_to_its_words():
    tokenizer = Tokenizer.train(["ein Haus am See", "two red houses"] * 5, 280)
    for text in (
        "two red houses",
        "  Häuser  am\tSee\n",
        "▁ a b 日本 \U0001f600",
        "10\xa0km, 5\u202f€\u3000\u2009日\u3000x",
    ):
        pieces = [tokenizer.pieces[i] for i in tokenizer.tokenize(text)]
        shares = word_shares(pieces)
        assert len(shares) == len(text.split())
        assert np.all(shares.sum(axis=1) > 0)
        words = [column.argmax() for column in shares.T if column.any()]
        assert words == sorted(words)


def test_a_word_counts_with_all_its_pieces():
    # "hou" and "se" have less than "red" each, and more together.
    weights = np.array([[0.3, 0.3, 0.4, 0.0]])[None, None]
    source = ["hou", "se", "▁red"]
    assert word_alignment(weights, source, ["Haus"]) == [(0, 0)]
    # Of the pieces of a target word, all have a say.
    weights = np.array([[0.4, 0.6], [0.9, 0.1], [0.2, 0.8]])[None, None]
    assert word_alignment(weights, ["a", "▁b"], ["x", "y", "▁z"]) == [
        (0, 0),
        (1, 1),
    ]


def test_a_piece_may_hold_two_words():
    weights = np.eye(3)[None, None]
    pieces = ["The", "▁10\xa0€", "▁more"]
    assert word_alignment(weights, pieces, ["Noch", "▁10", "▁mehr"]) == [
        (0, 0),
        (1, 1),
        (3, 2),
    ]
    # The two words look where their piece looks.
    assert word_alignment(weights, ["a", "▁b", "▁c"], pieces) == [
        (0, 0),
        (1, 1),
        (1, 2),
        (2, 3),
    ]


def test_ends_do_not_count():
    weights = np.array([[0.1, 0.2, 0.7], [0.0, 0.0, 1.0]])[None, None]
    assert word_alignment(weights, ["a", "▁b"], ["x"]) == [(1, 0)]


def test_heads_are_averaged_in_the_layer_that_sees_most_words():
    def layer(*heads):
        return [np.array(head) for head in heads]

    attention = np.array(
        [
            layer([[0.9, 0.1], [0.9, 0.1]], [[0.8, 0.2], [0.8, 0.2]]),
            layer([[0.1, 0.9], [0.9, 0.1]], [[0.6, 0.4], [0.5, 0.5]]),
        ]
    )  # (layers, heads, target, source)
    source, target = ["a", "▁b"], ["x", "▁y"]
    crossed = [(0, 1), (1, 0)]
    assert word_alignment(attention, source, target) == crossed
    assert word_alignment(attention, source, target, layer=1) == crossed
    assert word_alignment(attention[::-1], source, target) == crossed
    first = word_alignment(attention, source, target, layer=0)
    assert first == [(0, 0), (0, 1)]


def test_nothing_aligns_with_nothing():
    attention = np.ones((2, 2, 1, 1))
    assert word_alignment(attention, [], []) == []
    assert word_alignment(attention, ["a"], []) == []
