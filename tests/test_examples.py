"""The examples run, with fewer steps than their readers give them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_transformer
from tests.untrained import untrained

EXAMPLES = Path(__file__).parent.parent / "examples"


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_layers_in_your_model(capsys):
    load_example("layers_in_your_model").main(steps=20)
    printed = capsys.readouterr().out
    assert "of new sentences judged rightly" in printed
    assert "of 100 lines continued rightly" in printed


@pytest.mark.slow
def test_fit_in_keras():
    # In a process of its own, because it splits the processor in two.
    code = "import fit_in_keras; fit_in_keras.main(epochs=1)"
    printed = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{EXAMPLES}:{EXAMPLES.parent}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    ).stdout
    assert "of 500 unseen numbers exact" in printed


@pytest.mark.slow
def test_fine_tuning_teaches_new_words_and_keeps_old_ones(capsys):
    before, after = load_example("fine_tune").main()
    assert before <= 4
    assert after >= 8
    # A sentence of everyday life is still translated.
    assert "after  Meine Schwester hat zwei Katzen." in capsys.readouterr().out


def test_a_mean_of_models_has_their_weights_by_share(tmp_path, capsys):
    folders, shares, expected = [], (3, 1), 0
    for name, share in zip("ab", shares):
        translator = untrained()
        weights = [w * share for w in translator.model.get_weights()]
        translator.model.set_weights(weights)
        translator.save(tmp_path / name)
        folders.append(tmp_path / name)
        expected += share * weights[0] / 4
    example = load_example("mean_of_models")
    example.main(tmp_path / "mean", folders, shares)
    assert "Wrote" in capsys.readouterr().out
    found = keras_transformer.load(tmp_path / "mean").model.get_weights()
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)
    # The same shapes, which mean something else.
    untrained(position_encoding="concatenated").save(tmp_path / "other")
    with pytest.raises(ValueError, match="which differ"):
        example.main(tmp_path / "x", [*folders, tmp_path / "other"], (3, 1, 1))


@pytest.mark.parametrize("units", [None, 24])
def test_a_larger_model_translates_as_before_and_all_of_it_learns(
    units, tmp_path
):
    example = load_example("larger_model")
    old = untrained(normalize_first=True, use_bias=True)
    old.save(tmp_path / "old")
    example.main(tmp_path / "new", tmp_path / "old", 3, 2, units)
    new = keras_transformer.load(tmp_path / "new").model
    assert (len(new.encoder_layers), len(new.decoder_layers)) == (3, 2)
    ids = {"source_ids": [[5, 6, 7, 3]], "target_ids": [[2, 8, 9]]}
    ids = {name: np.array(value) for name, value in ids.items()}
    np.testing.assert_allclose(new(ids), old.model(ids), rtol=1e-5, atol=1e-5)

    before = new.get_weights()
    labels = np.array([[8, 9, 3]])
    loss = keras_transformer.SmoothedCrossentropy()
    new.compile(keras.optimizers.SGD(0.01), loss)
    new.fit(ids, labels, epochs=2, verbose=0)  # first what is zero
    for weight, was in zip(new.weights, before):
        # A bias of keys adds the same to all scores.
        if not weight.path.endswith("key_bias"):
            assert np.abs(weight - was).max() > 0, weight.path

    untrained().save(tmp_path / "norm-last")
    with pytest.raises(ValueError, match="normalises after"):
        example.main(tmp_path / "x", tmp_path / "norm-last", 3)
    with pytest.raises(ValueError, match="at least as many"):
        example.main(tmp_path / "x", tmp_path / "new", 2)
    with pytest.raises(ValueError, match="cannot have narrower"):
        example.main(tmp_path / "x", tmp_path / "new", intermediate_dim=4)


def test_a_model_that_normalises_last_becomes_wider(tmp_path):
    old = untrained()
    old.save(tmp_path / "old")
    example = load_example("larger_model")
    example.main(tmp_path / "new", tmp_path / "old", intermediate_dim=48)
    new = keras_transformer.load(tmp_path / "new")
    assert new.model.get_config()["intermediate_dim"] == 48
    for text in ("one", "two hundred and three"):
        assert new.translate(text).text == old.translate(text).text


def test_pairs_with_rare_words_are_repeated(tmp_path, capsys):
    example = load_example("rare_words")
    pairs = [
        ("Common words", "gewöhnliche Wörter"),
        ("common words", "Gewöhnliche Wörter"),
        ("rare words", "seltene Wörter"),  # two of its words are there once
        ("1 2 3", "1 2 3"),  # no word at all
    ]
    lines = ["\t".join(pair) + "\n" for pair in pairs]
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    source, output = str(tmp_path / "pairs.tsv"), tmp_path / "rare.tsv.gz"

    example.main(output, [source], {2: 2, 1: 3})
    found = list(keras_transformer.data.read_pairs(str(output)))
    assert found == 2 * pairs[:1] + 2 * pairs[1:2] + 3 * pairs[2:3] + pairs[3:]
    assert "8 pairs from 4" in capsys.readouterr().out


def test_pairs_are_picked_that_teach_new_words(tmp_path, capsys):
    example = load_example("covering_pairs")
    own = ["this is a common word"]
    other = [
        "this is a common word too",  # the word is there twice, so no misprint
        "a new word",
        "New, as a common word is",  # as the shorter one has the word already
        "too new",  # shorter than a sentence
        "this is a mispirnt",  # once
        "this is unlike a word",
        "is it unlike that word",
    ]
    for name, texts in (("own", own), ("other", other)):
        lines = "".join(f"{text}\t{text}\n" for text in texts)
        (tmp_path / f"{name}.tsv").write_text(lines)
    files = [[str(tmp_path / f"{name}.tsv")] for name in ("own", "other")]
    output = tmp_path / "cover.tsv.gz"

    example.main(output, *files, most=0, times=1)
    found = [text for text, _ in keras_transformer.data.read_pairs(str(output))]
    assert found == [other[1], other[5], other[0]]
    assert "3 pairs from 7, with 3 words" in capsys.readouterr().out
    example.main(output, *files, most=0, times=2)
    assert "5 pairs from 7" in capsys.readouterr().out
    example.main(output, *files, most=1, times=1)
    assert "4 pairs from 7" in capsys.readouterr().out


def test_words_are_aligned():
    pytest.importorskip("eflomal", reason="pip install eflomal to align words")
    generator = np.random.default_rng(1)
    pairs, expected = [], []
    for _ in range(1000):
        words = [f"w{n}" for n in generator.choice(50, 4, replace=False)]
        order = generator.permutation(4)
        pairs.append([words, [words[n].upper() for n in order]])
        expected.append({(n, place) for place, n in enumerate(order)})
    links = load_example("word_pairs").aligned(pairs)
    assert all(found <= right for found, right in zip(links, expected))
    assert sum(map(len, links)) > 0.95 * 4000


def test_words_that_belong_together_are_found(tmp_path):
    example = load_example("word_pairs")
    sentences = [
        ("The raccoon sleeps.", "Der Waschbär schläft."),
        ("Raccoon tracks!", "Der Waschbär war da!"),  # linked in one way only
        ("The raccoon ate.", "Der Waschbär fraß."),
        ("Two budgets.", "Zwei Haushalte."),
        ("The budgets.", "Die Haushalte."),
        ("The census.", "Die Zählung."),
    ]
    lines = "".join("\t".join(pair) + "\n" for pair in sentences)
    (tmp_path / "pairs.tsv").write_text(lines)
    pairs = list(example.read_words(str(tmp_path / "pairs.tsv")))
    assert pairs[0] == [
        ["The", "raccoon", "sleeps", "."],
        ["Der", "Waschbär", "schläft", "."],
    ]
    straight = {(0, 0), (1, 1), (2, 2)}
    links = [straight, {(0, 1)}, straight, straight, straight, straight]
    found = example.word_pairs(pairs, 3, links, most=3)
    assert found == {
        ("The", "Der"): True,
        ("The", "Die"): False,
        ("raccoon", "Waschbär"): True,  # also where it begins the sentence
        ("sleeps", "schläft"): True,  # once, but in the own pairs
        ("ate", "fraß"): True,
        ("budgets", "Haushalte"): False,  # twice, in the others
    }
    assert ("raccoon", "Waschbär") not in example.word_pairs(
        pairs, 3, links, most=2
    )


def test_back_translation_keeps_what_is_new_and_like_the_old(tmp_path, capsys):
    example = load_example("back_translation")
    assert example.overlap("A red house!", "the red, red house") == 4 / 7
    pairs = [("a house", "ein Haus"), ("my house", "ein Haus"), ("two", "zwei")]
    lines = "".join("\t".join(pair) + "\n" for pair in pairs)
    (tmp_path / "pairs.tsv").write_text(lines)
    untrained().save(tmp_path / "model")
    source, output = str(tmp_path / "pairs.tsv"), tmp_path / "new.tsv.gz"
    example.main(output, tmp_path / "model", [source], least_overlap=0)
    found = keras_transformer.load(tmp_path / "model").translate(
        ["ein Haus", "zwei"], beam_size=1
    )
    new = list(keras_transformer.data.read_pairs(str(output)))
    assert new == [(found[0].text, "ein Haus"), (found[1].text, "zwei")]
    assert "2 new pairs" in capsys.readouterr().out

    example.main(output, tmp_path / "model", [source])
    assert "0 new pairs" in capsys.readouterr().out
    text = found[0].text  # that is no longer new
    (tmp_path / "pairs.tsv").write_text(f"{lines}{text}\tein Haus\n")
    example.main(output, tmp_path / "model", [source], least_overlap=0)
    new = list(keras_transformer.data.read_pairs(str(output)))
    assert new == [(found[1].text, "zwei")]


def test_back_translation_draws_more_and_a_judge_takes_some_away(tmp_path):
    example = load_example("back_translation")
    pairs = [("a house", "ein Haus"), ("two", "zwei")]
    source, output = str(tmp_path / "pairs.tsv"), tmp_path / "new.tsv.gz"
    Path(source).write_text("".join("\t".join(pair) + "\n" for pair in pairs))
    untrained().save(tmp_path / "model")

    def new(**options):
        example.main(output, tmp_path / "model", [source], 0, **options)
        return list(keras_transformer.data.read_pairs(str(output)))

    drawn = new(num_samples=4)
    assert set(new()) < set(drawn)
    assert len(drawn) == len(set(drawn)) > 4
    judge = keras_transformer.load(tmp_path / "model")
    old = {target: text for text, target in pairs}
    lost = {
        (text, target): judge.score(old[target], target, length_penalty=0)
        - judge.score(text, target, length_penalty=0)
        for text, target in drawn
    }
    for most in (min(lost.values()) - 1, 0.0, max(lost.values()) + 1):
        kept = new(num_samples=4, judge=tmp_path / "model", most_lost=most)
        assert kept == [pair for pair in drawn if lost[pair] <= most]


def test_the_wmt14_recipes_are_settings_that_a_run_takes():
    from keras_transformer.runs.settings import read_settings

    for name in ("base", "big"):
        path = EXAMPLES / "wmt14" / f"{name}.toml"
        settings = read_settings(path, {"data": "wmt14"})
        assert settings.preset == name
        assert settings.tokens_per_batch == 25_000


def test_the_multi30k_recipe_peaks_at_the_published_rate():
    from keras_transformer import TransformerSchedule
    from keras_transformer.runs.settings import read_settings

    path = EXAMPLES / "multi30k" / "tiny.toml"
    settings = read_settings(path, {"data": "multi30k"})
    rate = TransformerSchedule(
        settings.hidden_dim,
        settings.warmup_steps,
        settings.learning_rate_scale,
    )
    around = [float(rate(step)) for step in (1998, 1999, 2000)]
    assert around[1] == max(around) == pytest.approx(0.005, rel=1e-5)


def test_candidates_have_the_log_probabilities_that_score_gives():
    example = load_example("minimum_risk")
    translator = untrained()
    groups = [
        ("a house", ["ein Haus", "zwei", "ein altes Haus"], [1.0, 0.0, 0.5]),
        ("the garden is old", ["der Garten ist alt"], [1.0]),
    ]
    ((ids, rewards),) = example.batches(groups, translator)
    found = example.Candidates(translator.model)(ids)
    for row, (source, targets, expected_rewards) in enumerate(groups):
        count = len(targets)
        assert rewards[row, :count].tolist() == expected_rewards
        assert (rewards[row, count:] < 0).all()
        expected = translator.score([source] * count, targets, 0)
        np.testing.assert_allclose(found[row, :count], expected, rtol=1e-4)


def test_risk_is_what_the_candidates_there_are_can_be_expected_to_lose():
    example = load_example("minimum_risk")
    rewards = np.array([[1.0, 0.25, 0.5, -1.0], [0.5, 0.0, -1.0, -1.0]])
    log_probs = np.log([[0.5, 0.3, 0.1, 0.9], [0.04, 0.16, 0.7, 0.7]])
    found = example.risk(rewards, log_probs, sharpness=0.5, likelihood=0.1)
    for row, count in enumerate((3, 2)):
        shares = np.exp(log_probs[row, :count]) ** 0.5
        lost = (1 - rewards[row, :count]) @ shares / shares.sum()
        expected = lost - 0.1 * log_probs[row, 0]
        np.testing.assert_allclose(found[row], expected, rtol=1e-5)


def test_the_reward_is_bleu_with_the_closest_reference():
    reward = load_example("minimum_risk").reward
    assert reward("das Haus", ["ein Haus", "das Haus"]) == pytest.approx(1)
    # 1 of 2 words and 0 of 1 pair, with 1 added to both; of longer n-grams
    # there are none.
    expected = (1 / 2 * 1 / 2 * 1 * 1) ** (1 / 4)
    assert reward("das Haus", ["ein Haus"]) == pytest.approx(expected)
    assert reward("das Haus", ["zwei"]) == 0


def test_less_risk_makes_the_better_of_two_wrong_translations_likelier():
    example = load_example("minimum_risk")
    translator = untrained()
    reference, better, worse = "ein Haus am See", "ein See", "zwei See"

    def preference():
        scores = translator.score(["a house"] * 2, [better, worse], 0)
        return scores[0] - scores[1]

    before = preference()
    group = ("a house", [reference, better, worse], [1.0, 0.5, 0.1])
    ((ids, rewards),) = example.batches([group], translator)
    model = example.Candidates(translator.model)
    model.compile(keras_transformer.Adam(1e-2), example.risk)
    model.fit(ids, rewards, epochs=5, verbose=0)
    assert preference() > before + 0.3


def test_minimum_risk_writes_a_model_that_was_trained(tmp_path, capsys):
    example = load_example("minimum_risk")
    pairs = [("a house", "ein Haus"), ("a house", "das Haus"), ("two", "zwei")]
    lines = "".join("\t".join(pair) + "\n" for pair in pairs)
    (tmp_path / "pairs.tsv").write_text(lines)
    untrained().save(tmp_path / "model")
    source, output = str(tmp_path / "pairs.tsv"), tmp_path / "tuned"
    example.main(output, tmp_path / "model", [source], learning_rate=1e-2)
    assert "Training with 2 of them, 1 updates" in capsys.readouterr().out
    before, after = (
        sum(keras_transformer.load(folder).score(*map(list, zip(*pairs))))
        for folder in (tmp_path / "model", output)
    )
    assert after > before

    with pytest.raises(ValueError, match="unlike quality"):
        example.main(output, tmp_path / "model", [source], num_sentences=0)
