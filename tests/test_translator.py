import json

import numpy as np
import pytest

from keras_transformer.tokenizer import Tokenizer
from keras_transformer.translator import Translation, Translator, load
from keras_transformer.translator.translation import join
from tests.untrained import SENTENCES, untrained

SHORT = {"max_extra_length": 5}


@pytest.fixture(scope="module")
def translator():
    return untrained()


@pytest.mark.parametrize("beam_size", [1, 4])
def test_results_come_in_order_and_as_alone(translator, beam_size):
    settings = {"beam_size": beam_size, **SHORT}
    together = translator.translate(
        SENTENCES * 3, tokens_per_batch=40, **settings
    )
    for sentence, result in zip(SENTENCES * 3, together):
        alone = translator.translate([sentence], **settings)[0]
        assert result.text == alone.text
        assert result.score == pytest.approx(alone.score, abs=1e-4)
    assert len({result.score for result in together}) > 1


def test_one_string_gives_one_translation(translator):
    one = translator.translate("a house", **SHORT)
    assert one == translator.translate(["a house"], **SHORT)[0]
    assert "".join(one.source_tokens) == "a▁house"
    tokenizer = translator.target_tokenizer
    ids = [tokenizer.pieces.index(piece) for piece in one.tokens]
    assert tokenizer.detokenize(ids) == one.text


def test_nothing_in_gives_nothing_out(translator):
    assert translator.translate([]) == []
    assert translator.translate("") == Translation("", 0.0, [])
    results = translator.translate(["", "a house", " \n "], **SHORT)
    texts = [result.text for result in results]
    assert (texts[0], texts[2]) == ("", "")
    assert texts[1]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (42, "42 .of type int. as number 0"),
        (["a", None], "None .of type NoneType. as number 1"),
        (b"a house", "b'a house' .of type bytes. as number 0"),
    ],
)
def test_what_is_no_string_is_named(translator, given, named):
    with pytest.raises(ValueError, match=named):
        translator.translate(given)


def test_alternatives_are_the_next_best(translator):
    best = translator.translate("a house", num_results=2, **SHORT)
    assert best.text == translator.translate("a house", **SHORT).text
    found = [best, *best.alternatives]
    assert len({tuple(result.tokens) for result in found}) == 2
    scores = [result.score for result in found]
    assert scores == sorted(scores, reverse=True)


def test_progress_counts_every_sentence_once(translator):
    counts = []
    translator.translate(
        [*SENTENCES, "", "a house"],
        beam_size=1,
        tokens_per_batch=20,
        progress=counts.append,
        **SHORT,
    )
    assert sum(counts) == 6
    assert len(counts) > 2


def test_given_translations_score_what_the_model_says(translator):
    texts = ["a house", "", "two red houses", "Haus"]
    scores = translator.score(SENTENCES, texts)
    for sentence, text, score in zip(SENTENCES, texts, scores):
        source = translator.tokenizer.tokenize(sentence, add_end=True)
        target = translator.tokenizer.tokenize(text, add_end=True)
        inputs = {"source_ids": [source], "target_ids": [[2, *target[:-1]]]}
        inputs = {name: np.array(ids) for name, ids in inputs.items()}
        logits = np.asarray(translator.model(inputs), np.float64)[0]
        logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        total = logits[np.arange(len(target)), target].sum()
        penalty = ((5 + len(target)) / 6) ** 0.6
        assert score == pytest.approx(total / penalty, abs=1e-4)
        plain = translator.score(sentence, text, length_penalty=0)
        assert plain == pytest.approx(total, abs=1e-4)
    with pytest.raises(ValueError, match="4 sentences, 1 translations"):
        translator.score(SENTENCES, texts[:1])


def test_translations_begin_with_their_prefix(translator):
    for prefix in ("ein rotes", ["zwei", "", "a", "Haus am"]):
        results = translator.translate(SENTENCES, 1, prefix=prefix, **SHORT)
        begins = [prefix] * 4 if isinstance(prefix, str) else prefix
        for result, begin in zip(results, begins):
            assert result.text.startswith(begin)
    without = translator.translate(SENTENCES[1], 1, **SHORT)
    assert results[1].text == without.text
    with pytest.raises(ValueError, match="2 for 4 sentences"):
        translator.translate(SENTENCES, 1, prefix=["a", "b"], **SHORT)
    with pytest.raises(ValueError, match="max_extra_length=5"):
        translator.translate("a house", 1, prefix="zwei rote " * 9, **SHORT)


def test_a_blank_sentence_needs_no_room_for_a_prefix(translator):
    sentences = ["a house", " ", "two red houses"]
    texts = [
        result.text
        for result in translator.translate(
            sentences, 1, prefix="zwei rote", max_extra_length=4
        )
    ]
    assert [text[:4] for text in texts] == ["zwei", "", "zwei"]


def test_rows_beyond_the_vocabulary_are_no_pieces():
    """A model may have more, as for a size that computes faster."""
    small = untrained(Tokenizer.train(SENTENCES * 5, 280))
    results = small.translate(SENTENCES * 5, temperature=5.0, seed=1)
    assert any(result.text for result in results)


def test_constraints_hold(translator):
    options = {"min_length": 6, "no_repeat_ngram_size": 1, **SHORT}
    for result in translator.translate(SENTENCES, 1, **options):
        assert len(result.tokens) >= 6
        assert len(set(result.tokens)) == len(result.tokens)


def test_draws_are_decided_by_their_seed(translator):
    options = {"temperature": 2.0, "num_results": 3, **SHORT}
    first = translator.translate(SENTENCES, seed=1, **options)
    assert translator.translate(SENTENCES, seed=1, **options) == first
    assert translator.translate(SENTENCES, seed=2, **options) != first
    alone = translator.translate(SENTENCES[2], seed=1, **options)
    assert alone.text == first[2].text
    assert translator.translate(SENTENCES, **options) != translator.translate(
        SENTENCES, **options
    )
    greedy = translator.translate(SENTENCES, 1, **SHORT)
    likeliest = translator.translate(SENTENCES, top_k=1, **SHORT)
    assert [r.text for r in likeliest] == [r.text for r in greedy]
    with pytest.raises(ValueError, match="seed=1 without `temperature`"):
        translator.translate(SENTENCES, seed=1)


def test_attention_is_cut_to_each_sentence(translator):
    results = translator.translate(SENTENCES, attention=True, **SHORT)
    for sentence, result in zip(SENTENCES, results):
        rows, columns = len(result.tokens) + 1, len(result.source_tokens) + 1
        assert result.attention.shape == (1, 2, rows, columns)
        np.testing.assert_allclose(result.attention.sum(axis=-1), 1, atol=1e-5)
        alone = translator.translate(sentence, attention=True, **SHORT)
        np.testing.assert_allclose(result.attention, alone.attention, atol=1e-5)
        assert {t for _, t in result.alignment} == set(
            range(len(result.text.split()))
        )
    assert len({result.attention.shape for result in results}) > 1


def test_attention_of_a_given_translation_has_three_kinds(translator):
    tokenizer = translator.tokenizer
    maps = translator.attention("a house", "ein Haus")
    source = [tokenizer.pieces[i] for i in tokenizer.tokenize("a house")]
    target = [tokenizer.pieces[i] for i in tokenizer.tokenize("ein Haus")]
    source, start, end = [*source, "</s>"], "<s>", "</s>"
    assert maps["encoder"][1:] == (source, source)
    assert maps["memory"][1:] == ([*target, end], source)
    assert maps["decoder"][1:] == ([*target, end], [start, *target])
    for weights, rows, columns in maps.values():
        assert weights.shape == (1, 2, len(rows), len(columns))
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    # What is not written yet cannot be looked at.
    decoder = maps["decoder"].weights
    np.testing.assert_array_equal(decoder, np.tril(decoder))


def test_long_sources_are_translated_in_parts(translator, monkeypatch):
    options = {"num_results": 2, "attention": True, **SHORT}
    sources = ["A house.", "Two red houses,", "zwei rote Häuser."]
    expected = translator.translate(sources, **options)
    monkeypatch.setattr(translator, "max_source_length", 12)
    text = "A house.\nTwo red houses, zwei rote Häuser. "
    with pytest.warns(UserWarning, match="12 pieces at once: 1 of 2 sent"):
        long, short = translator.translate([text, "a house"], **options)
    assert short.parts == []
    assert [part.text for part in long.parts] == [e.text for e in expected]
    first, second, third = (e.text for e in expected)
    assert long.text == f"{first}\n{second} {third}"
    assert long.score == pytest.approx(sum(e.score for e in expected), abs=1e-4)
    assert {s for s, _ in long.alignment} <= set(range(8))
    assert {t for _, t in long.alignment} == set(range(len(long.text.split())))
    first, second, third = (e.alternatives[0].text for e in expected)
    assert long.alternatives[0].text == f"{first}\n{second} {third}"


def test_alignments_of_parts_count_on():
    one, two = (
        Translation("x y", -1.0, [], alignment=[(0, 1), (1, 0)]),
        Translation("z", -2.0, [], alignment=[(2, 0)]),
    )
    whole = join([("a b.", " "), ("c d e", "")], [[one], [two]])
    assert whole.text == "x y z"
    assert whole.alignment == [(0, 1), (1, 0), (4, 2)]
    # A word that was cut is one word.
    whole = join([("a b.", ""), ("c d e", "")], [[one], [two]])
    assert whole.text == "x yz"
    assert whole.alignment == [(0, 1), (1, 0), (3, 1)]


@pytest.mark.parametrize("jit_compile", [False, True])
def test_learned_positions_bound_the_sources(jit_compile):
    few = untrained(position_encoding="learned", max_length=20)
    assert few.max_source_length == 19
    with pytest.warns(UserWarning, match="19 pieces"):
        result = few.translate(
            " ".join(SENTENCES * 2), beam_size=1, jit_compile=jit_compile
        )
    assert len(result.parts) > 1


def test_learned_positions_bound_what_is_read_at_once():
    few = untrained(position_encoding="learned", max_length=20)
    long = " ".join(SENTENCES * 2)
    for read in (
        lambda: few.score("a house", long),
        lambda: few.score(long, "ein Haus"),
        lambda: few.attention(long, "ein Haus"),
        lambda: few.attention("a house", long),
        lambda: few.translate("a house", prefix=long),
    ):
        with pytest.raises(ValueError, match="max_length=20"):
            read()


@pytest.mark.parametrize(
    "option", ["min_length", "top_k", "top_p", "temperature", "length_penalty"]
)
def test_options_of_a_wrong_kind_are_named(translator, option):
    with pytest.raises(ValueError, match=rf"{option}=\[3\]"):
        translator.translate("a house", **{option: [3]})


def test_reloaded_is_saved(translator, tmp_path):
    translator.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    expected = translator.translate(SENTENCES, 1, **SHORT)
    assert again.translate(SENTENCES, 1, **SHORT) == expected
    assert again.max_source_length == translator.max_source_length
    translator.save(tmp_path / "saved")  # over what is there
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_a_full_disk_leaves_nothing_behind(translator, tmp_path, monkeypatch):
    translator.save(tmp_path / "saved")

    def save_weights(path):
        path.write_bytes(b"half of it")
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(translator.model, "save_weights", save_weights)
        with pytest.raises(OSError, match="No space left"):
            translator.save(tmp_path / "saved")
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    load(tmp_path / "saved")  # what was there before


def test_nothing_else_is_saved_over(translator, tmp_path):
    (tmp_path / "work").mkdir()
    translator.save(tmp_path / "work")  # it is empty
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("Once")
    (tmp_path / "thesis" / "config.json").write_text('{"class": "Thesis"}')
    (tmp_path / ".new.before").mkdir()
    (tmp_path / ".new.before" / "chapter").write_text("Twice")
    for path in (
        tmp_path,
        tmp_path / "thesis",
        tmp_path / "thesis/chapter",
        tmp_path / "new",
    ):
        with pytest.raises(ValueError, match="holds something else"):
            translator.save(path)
    assert (tmp_path / "thesis" / "chapter").read_text() == "Once"
    assert (tmp_path / ".new.before" / "chapter").read_text() == "Twice"
    assert not list(tmp_path.rglob("*.partial"))


def test_models_of_like_names_live_side_by_side(translator, tmp_path):
    names = ["hotel", "hotel.before", "hotel.partial"]
    for name in (*names[::-1], "hotel"):
        translator.save(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_tokenizer_of_another_model_is_named(translator):
    many = Tokenizer.train([*SENTENCES, "am Abend"] * 5, 300)
    with pytest.raises(ValueError, match="300 source pieces .* of 290"):
        Translator(translator.model, many)
    with pytest.raises(ValueError, match="'tokenizer.model'"):
        Translator(translator.model, "tokenizer.model")


@pytest.mark.parametrize(
    "wrong",
    [{"beam_size": [4]}, {"length_penalty": "a"}, {"tokens_per_batch": "5"}],
)
def test_wrong_settings_are_named(translator, wrong):
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` must be"):
        translator.translate("a house", **wrong)


def test_a_folder_of_an_older_version_loads(translator, tmp_path):
    translator.save(tmp_path / "saved")
    path = tmp_path / "saved" / "config.json"
    config = json.loads(path.read_text())
    del config["max_source_length"], config["length_penalty"]
    path.write_text(json.dumps(config))
    again = load(tmp_path / "saved")
    assert again.max_source_length == 256
    assert again.length_penalty == 0.6


def test_a_translator_s_own_length_penalty_holds_where_none_is_given(
    translator, tmp_path
):
    own = Translator(translator.model, translator.tokenizer, length_penalty=2)
    given = translator.translate(SENTENCES, length_penalty=2, **SHORT)
    assert own.translate(SENTENCES, **SHORT) == given
    paper = translator.translate(SENTENCES, **SHORT)
    assert [t.score for t in paper] != [t.score for t in given]
    assert own.translate(SENTENCES, length_penalty=0.6, **SHORT) == paper
    texts = [translation.text for translation in given]
    assert own.score(SENTENCES, texts) == translator.score(
        SENTENCES, texts, length_penalty=2
    )
    own.save(tmp_path / "saved")
    assert load(tmp_path / "saved").length_penalty == 2
    with pytest.raises(ValueError, match="`length_penalty` must be a number"):
        Translator(translator.model, translator.tokenizer, length_penalty="2")


def test_two_vocabularies_are_saved_too(tmp_path):
    tokenizers = (
        Tokenizer.train(["a house", "two red houses"] * 5, 290),
        Tokenizer.train(["ein Haus", "zwei rote Häuser"] * 5, 290),
    )
    translator = untrained(tokenizers, target_vocabulary_size=290)
    translator.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    expected = translator.translate(SENTENCES, 1, **SHORT)
    assert again.translate(SENTENCES, 1, **SHORT) == expected


def test_a_folder_that_holds_no_translator_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="neither a config.json"):
        load(tmp_path)
