"""Loads a translator from a folder, or the one that ships."""

import json
import re
from pathlib import Path

import keras
import tensorflow as tf

from keras_transformer.files import reading
from keras_transformer.model import Transformer
from keras_transformer.tokenizer import Tokenizer
from keras_transformer.translator.stored_weights import StoredWeights
from keras_transformer.translator.translator import (
    LENGTH_PENALTY,
    MAX_SOURCE_LENGTH,
    Translator,
)

# Beside a SavedModel's own files; TensorFlow leaves this folder alone.
EXTRA = "assets.extra"


def load(folder=None, dtype="float32"):
    """Loads a translator.

    Args:
        folder: What `Translator.save` wrote; or what `export_saved_model`
            wrote, one version or all; or the folder of a training run, of
            which the better one of its best and its averaged weights is
            taken. By default the model that ships, from English to German.
        dtype: Keras dtype policy to compute with. That of training is not
            kept: half precision pays there, and costs time on most processors
            when translating.
    """
    folder = shipped_model() if folder is None else Path(folder)
    dtype = keras.dtype_policies.get(dtype)
    result = folder / "result.json"
    if result.is_file():
        with reading(folder):
            folder = folder / json.loads(result.read_text("utf-8"))["use"]
    elif kept := [n for n in ("best", "averaged") if (folder / n).is_dir()]:
        folder = folder / kept[0]  # of a run that is not at its end
    elif versions := exported_versions(folder):
        folder = folder / str(max(versions))
    if (folder / EXTRA / "metadata.json").is_file():
        with reading(folder, tf.errors.OpError):
            return _load_exported(folder, dtype)
    if (folder / "config.json").is_file():
        with reading(folder):
            return _load_saved(folder, dtype)
    found = "which has neither a config.json nor a version of a model"
    if not folder.exists():
        found = "which does not exist"
    raise FileNotFoundError(
        "`folder` must be a saved translator, an exported model or a run "
        f"folder with at least one validation. Received: {folder}, {found}. "
        "Train one with `keras-transformer train`."
    )


def shipped_model():
    """The folder of the model that comes with the package."""
    package = Path(__file__).parents[1]
    # In an installed package it is inside, in the repository beside.
    for folder in (package / "saved_models", package.parent / "saved_models"):
        if (folder / "en-de").is_dir():
            return folder / "en-de"
    raise FileNotFoundError(
        "The model that ships must be installed with the package. Received: "
        f"an installation at {package} without saved_models/en-de. "
        "Install the package again, or name a model of your own."
    )


def exported_versions(folder):
    """Numbers of the versions in the folder of an exported model."""
    if not folder.is_dir():
        return []
    names = [child.name for child in folder.iterdir() if child.is_dir()]
    return [int(name) for name in names if re.fullmatch(r"[1-9]\d*", name)]


def _load_saved(folder, dtype):
    config = json.loads((folder / "config.json").read_text("utf-8"))
    if config.pop("class", None) != "Transformer":
        raise ValueError(
            "`folder` must be what `Translator.save` wrote. Received: "
            f"{folder}, whose config.json is of something else. Models of "
            "other libraries cannot be loaded."
        )
    max_source_length = config.pop("max_source_length", MAX_SOURCE_LENGTH)
    length_penalty = config.pop("length_penalty", LENGTH_PENALTY)
    model = Transformer.from_config({**config, "dtype": dtype})
    model.load_weights(folder / "model.weights.h5")
    names = ["tokenizer.model"]
    if not (folder / names[0]).is_file():
        names = ["source.model", "target.model"]
    tokenizer = _tokenizer(folder, names)
    return Translator(model, tokenizer, max_source_length, length_penalty)


def _load_exported(folder, dtype):
    """The translator that is inside of a SavedModel, with its weights."""
    extra = folder / EXTRA
    about = json.loads((extra / "metadata.json").read_text("utf-8"))
    model = Transformer.from_config({**about["model"], "dtype": dtype})
    stored = StoredWeights(model, about["settings"]["weights"])
    # Whatever the file lacks is an error; what else it has is not.
    tf.train.Checkpoint(weights=stored.values, scales=stored.scales).read(
        str(folder / "variables" / "variables")
    ).assert_existing_objects_matched().expect_partial()
    for weight in model.weights:
        weight.assign(stored.restore(weight))
    tokenizer = _tokenizer(extra, about["tokenizers"])
    return Translator(
        model,
        tokenizer,
        about["max_source_length"],
        about["settings"]["length_penalty"],
    )


def _tokenizer(folder, names):
    """One for both languages, or one for each."""
    tokenizers = [Tokenizer.load(folder / name) for name in names]
    return tokenizers[0] if len(tokenizers) == 1 else tuple(tokenizers)
