import io
import json

import keras
import numpy as np
import pytest

from keras_transformer import cli
from keras_transformer.model import Transformer
from keras_transformer.tokenizer import Tokenizer
from keras_transformer.translator import Translator, load

SENTENCES = ["ein Haus am See", "a house", "zwei rote Häuser", "two red houses"]


def untrained(tokenizer, **kwargs):
    """A translator of no sense, and always the same."""
    keras.utils.set_random_seed(2)
    rng = np.random.default_rng(2)
    model = Transformer(
        vocabulary_size=290,
        num_layers=1,
        hidden_dim=8,
        num_heads=2,
        intermediate_dim=8,
        **kwargs,
    )
    weights = model.get_weights()
    model.set_weights([w + 0.7 * rng.normal(size=w.shape) for w in weights])
    return Translator(model, tokenizer)


@pytest.fixture(scope="module")
def translator():
    return untrained(Tokenizer.train(SENTENCES * 5, 290))


@pytest.mark.parametrize("beam_size", [1, 4])
def test_results_come_in_order_and_as_alone(translator, beam_size):
    settings = {"beam_size": beam_size, "max_extra_length": 5}
    together = translator.translate(
        SENTENCES * 3, tokens_per_batch=40, **settings
    )
    for sentence, result in zip(SENTENCES * 3, together):
        alone = translator.translate([sentence], **settings)[0]
        assert result.text == alone.text
        assert result.score == pytest.approx(alone.score, abs=1e-4)
    assert len({result.score for result in together}) > 1


def test_one_string_gives_one_translation(translator):
    one = translator.translate("a house")
    assert one.text == translator.translate(["a house"])[0].text
    assert isinstance(one.tokens, list)


def test_nothing_in_gives_nothing_out(translator):
    assert translator.translate([]) == []
    texts = [t.text for t in translator.translate(["", "a house", "  "])]
    assert (texts[0], texts[2]) == ("", "")


def test_reloaded_is_saved(translator, tmp_path):
    translator.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.translate(SENTENCES) == translator.translate(SENTENCES)
    translator.save(tmp_path / "saved")  # over what is there
    assert not list(tmp_path.glob("*.partial"))


def test_two_vocabularies_are_saved_too(tmp_path):
    tokenizers = (
        Tokenizer.train(["a house", "two red houses"] * 5, 290),
        Tokenizer.train(["ein Haus", "zwei rote Häuser"] * 5, 290),
    )
    translator = untrained(tokenizers, target_vocabulary_size=290)
    translator.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.translate(SENTENCES) == translator.translate(SENTENCES)


def test_a_folder_that_holds_no_translator_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no config.json"):
        load(tmp_path)


def test_the_command_translates_arguments_files_and_pipes(
    translator, tmp_path, capsys, monkeypatch
):
    translator.save(tmp_path / "saved")
    expected = [result.text for result in translator.translate(SENTENCES)]
    command = ["translate", "--model", str(tmp_path / "saved")]

    assert cli.main([*command, *SENTENCES]) == 0
    assert capsys.readouterr().out.splitlines() == expected

    path = tmp_path / "lines.txt"
    path.write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    assert cli.main([*command, "--file", str(path), "--json"]) == 0
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    assert [row["text"] for row in rows] == expected

    monkeypatch.setattr("sys.stdin", io.StringIO("a house\n\n"))
    assert cli.main([*command, "--scores"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("\t")[1] == expected[1]
    assert lines[1] == "0.0000\t"


def test_the_command_evaluates_a_test_set(translator, tmp_path, capsys):
    translator.save(tmp_path / "saved")
    texts = [result.text for result in translator.translate(SENTENCES)]
    pairs = tmp_path / "test.tsv"
    pairs.write_text(
        "".join(f"{s}\t{t}\n" for s, t in zip(SENTENCES, texts)), "utf-8"
    )
    command = ["evaluate", str(pairs), "--model", str(tmp_path / "saved")]
    assert cli.main([*command, "--save", str(tmp_path / "out.txt")]) == 0
    printed = capsys.readouterr().out
    assert "exact           100.0%" in printed
    assert "nrefs:1|case:lc" in printed
    assert (tmp_path / "out.txt").read_text("utf-8").splitlines() == texts


def test_a_missing_model_gets_a_sentence(tmp_path, capsys):
    command = ["translate", "x", "--model", str(tmp_path / "nowhere")]
    assert cli.main(command) == 2
    message = capsys.readouterr().err
    assert "nowhere" in message
    assert "Traceback" not in message
