import dataclasses

import pytest

from keras_transformer.runs.settings import (
    Settings,
    read_settings,
    write_settings,
)


def test_a_written_file_reads_back_the_same(tmp_path):
    settings = read_settings(
        flags={
            "train": ["a.tsv", "b.en,b.de", "😀.tsv"],
            "hidden_dim": 128,
            "dropout": 0.3,
            "normalize_first": True,
            "minutes": 30,
        }
    )
    path = tmp_path / "settings.toml"
    write_settings(settings, path)
    assert read_settings(path) == settings
    text = path.read_text()
    for field in dataclasses.fields(Settings):
        assert f"# {field.metadata['help']}" in text


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text('data = "x"\nhidden_dim = 32\ndropout = 0.2\n')
    settings = read_settings(path, {"dropout": 0.5})
    assert (settings.hidden_dim, settings.dropout) == (32, 0.5)
    assert settings.warmup_steps == 4000


def test_a_flag_that_ends_a_run_replaces_the_end_in_the_file(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("steps = 100\n")
    settings = read_settings(path, {"minutes": 5.0})
    assert (settings.steps, settings.minutes) == (None, 5.0)
    with pytest.raises(ValueError, match="Give one of them"):
        read_settings(path, {"minutes": 5.0, "epochs": 2})


def test_a_cool_down_needs_a_last_update():
    with pytest.raises(ValueError, match="`cooldown_steps` needs"):
        read_settings(flags={"minutes": 5.0, "cooldown_steps": 10})
    with pytest.raises(ValueError, match="cooldown_steps=-1"):
        read_settings(flags={"steps": 5, "cooldown_steps": -1})


def test_numbers_have_defaults_of_their_own():
    assert read_settings().steps == 1500
    assert read_settings(flags={"minutes": 2.0}).steps is None
    assert read_settings(flags={"data": "folder"}).steps is None
    assert read_settings(flags={"dropout": 0.2}).dropout == 0.2
    assert read_settings(flags={"train": ["numbers:0-9"]}).steps == 1500
    assert read_settings(flags={"train": ["numbers.tsv"]}).steps is None


def test_only_what_is_given_reaches_the_model():
    settings = read_settings(flags={"data": "x", "num_heads": 2})
    assert settings.model_arguments() == {"num_heads": 2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hiden_dim = 3", "'hiden_dim'.*Known are"),
        ('hidden_dim = "3"', "`hidden_dim` must be of type int"),
        ("dropout = true", "`dropout` must be of type float"),
        ("steps = 3\nminutes = 2", "steps=3, epochs=None, minutes=2"),
        ("validate_every = 0", "`validate_every`.*validate_every=0"),
        ("hidden_dim = ", "in which"),
        ("steps = 0", "`steps` must be at least 1.*steps=0"),
        ("epochs = 0.0", "`epochs` must be above 0.*epochs=0.0"),
        ("minutes = -0.5", "`minutes` must be above 0"),
        ("minutes = inf", "`minutes` must be of type float.*inf"),
        ("patience = 0", "`patience` must be at least 1"),
        ("max_extra_length = -1", "`max_extra_length`.*max_extra_length=-1"),
        ('train = "corpus.tsv"', "`train` must be a list of sources"),
        ("dev = [5]", "`dev` must be a list of sources"),
        ("train = []", "`train` must be a list of sources"),
        ('dtype = "float16"', "`dtype` must be one of.*dtype='float16'"),
        (
            'dtype = "mixed_float16"\nsteps_per_execution = 4',
            "mixed_float16.*steps_per_execution=4",
        ),
        ("clip_norm = -1.0", "`clip_norm` must be above 0"),
        ("consistency = -1.0", "`consistency` must be at least 0"),
        ("label_smoothing = 1.0", "`label_smoothing` must be below 1"),
        ("train = 5", "`train` must be a list of sources.*train=5"),
        ('data = "x"\nswap = true', "swap=True with data='x'"),
        ('data = "x"\ndev = ["y.tsv"]', "`dev` is for training without"),
    ],
)
def test_wrong_files_are_named(tmp_path, text, words):
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        read_settings(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.toml"):
        read_settings(tmp_path / "nowhere.toml")
