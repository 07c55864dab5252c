import random

import pytest

from keras_transformer.translator import split_text
from keras_transformer.translator.translation import Translation, join


def sentences(text):
    """What a text that is too long as a whole is cut into."""
    return [part for part, _ in split_text(text, lambda part: part != text)]


@pytest.mark.parametrize(
    "parts",
    [
        ["It is late.", "We go home!", "Do we?", "Yes…", "42 is enough."],
        ['He said: "Come in!"', "(She did.)", "„Gut!“", "Ärger gibt es nicht."],
        ["Mr. Smith met Dr. J. R. Brown.", "They had 3.5 minutes."],
        ["Am 25. Mai kam Prof. Ott.", "Das war z. B. schön."],
        ["Wait... what happened?", "Nobody knows."],
    ],
)
def test_text_is_cut_where_sentences_end(parts):
    assert sentences(" ".join(parts)) == parts


def test_a_line_break_ends_a_sentence():
    assert sentences("A title\n\nand a text") == ["A title", "and a text"]


def test_a_long_run_of_spaces_takes_no_longer_than_its_length():
    """Read once for each of its spaces, it would take minutes."""
    text = "one" + 300_000 * " " + "two\n \nthree"
    assert sentences(text) == [text[: -len("\n \nthree")], "three"]


def test_chinese_and_japanese_need_no_space():
    assert sentences("これは本。「はい！」次は？") == [
        "これは本。",
        "「はい！」",
        "次は？",
    ]


def test_a_long_sentence_is_halved_at_clauses_then_words_then_anywhere():
    def parts(text):
        return [part for part, _ in split_text(text, lambda p: len(p) <= 12)]

    assert parts("we go home, as it is late") == [
        "we go home,",
        "as it",
        "is late",
    ]
    assert parts("a" * 30) == ["a" * 7, "a" * 8, "a" * 7, "a" * 8]


def test_parts_and_gaps_are_the_text_again():
    rng = random.Random(1)
    for _ in range(500):
        text = "".join(rng.choices('aB .,\n!"。ß', k=rng.randrange(60)))
        limit = rng.randrange(1, 20)
        pieces = split_text(text, lambda part, limit=limit: len(part) <= limit)
        assert "".join(part + gap for part, gap in pieces) == text
        assert all(len(part) <= limit for part, _ in pieces)
        assert not any(gap.strip() for _, gap in pieces)
        if text == text.strip():
            assert all(part.strip() for part, _ in pieces[1:])


def test_translations_of_parts_have_spaces_where_their_language_has_them():
    def joined(parts, *texts):
        return join(parts, [[Translation(t, 0.0, [])] for t in texts]).text

    chinese = split_text("这是。它很旧。", lambda part: len(part) < 5)
    assert joined(chinese, "This.", "It is old.") == "This. It is old."
    assert joined(chinese, "これ。", "古い。") == "これ。古い。"
    english = split_text("It is. We go.", lambda part: len(part) < 8)
    assert joined(english, "Es ist.", "Wir gehen.") == "Es ist. Wir gehen."
    word = split_text("a" * 8, lambda part: len(part) < 5)
    assert joined(word, "bb", "bb") == "bbbb"
    lines = split_text("就是它。\n我们走吧。", lambda part: len(part) < 6)
    assert joined(lines, "This is it.", "We go.") == "This is it.\nWe go."
