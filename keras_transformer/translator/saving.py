"""Writes the folder that `load` reads."""

import json
import os
from pathlib import Path

from keras_transformer.files import remove_folder
from keras_transformer.tokenizer import Tokenizer


def save_translator(translator, folder):
    """Writes beside, then renames; what `Translator.save` does."""
    folder = Path(folder).absolute()
    # Hidden, as `NAME.before` may well be a model that someone keeps.
    beside = folder.with_name(f".{folder.name}.partial")
    before = folder.with_name(f".{folder.name}.before")
    for each in (folder, beside, before):
        _check_replaceable(each)
    remove_folder(beside)
    beside.mkdir(parents=True)
    try:
        _write(translator, beside)
    except BaseException:
        remove_folder(beside)  # the disk may be full
        raise
    # Two renames, that a kill finds one of the two models whole.
    remove_folder(before)
    if folder.exists():
        os.replace(folder, before)
    os.replace(beside, folder)
    remove_folder(before)


def _write(translator, folder):
    config = {
        "class": "Transformer",
        "max_source_length": translator.max_source_length,
        "length_penalty": translator.length_penalty,
        **translator.model.get_config(),
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    translator.model.save_weights(folder / "model.weights.h5")
    if isinstance(translator.tokenizer, Tokenizer):
        translator.tokenizer.save(folder / "tokenizer.model")
    else:
        translator.source_tokenizer.save(folder / "source.model")
        translator.target_tokenizer.save(folder / "target.model")


def _check_replaceable(folder):
    """Raises where something else than a saved model would be lost."""
    empty = folder.is_dir() and not any(folder.iterdir())
    if folder.exists() and not empty and not _is_saved_model(folder):
        raise ValueError(
            "`folder` must be new, empty, or a model that was saved before. "
            f"Received: {folder}, which holds something else. Choose another "
            "name."
        )


def _is_saved_model(folder):
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        return config["class"] == "Transformer"
    except (OSError, ValueError, KeyError, TypeError):
        return False
