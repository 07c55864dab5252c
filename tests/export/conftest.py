"""A translator of no sense, and what was exported of it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import numbers
from keras_transformer.export import export_saved_model
from keras_transformer.model import Transformer
from keras_transformer.tokenizer import Tokenizer
from keras_transformer.translator import Translator

SETTINGS = {"max_extra_length": 8, "tokens_per_batch": 2048}


def make_translator(tokenizer, max_source_length=60, **kwargs):
    """Random weights that are sure of some things, and always the same.

    They are numbers that half precision holds exactly.
    """
    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(3)
    model = Transformer(
        vocabulary_size=300,
        num_layers=1,
        num_decoder_layers=2,
        hidden_dim=16,
        num_heads=2,
        intermediate_dim=16,
        **kwargs,
    )
    weights = [w + 0.5 * rng.normal(size=w.shape) for w in model.get_weights()]
    model.set_weights([w.astype("float16") for w in weights])
    return Translator(model, tokenizer, max_source_length)


def texts(split, amount):
    return [text for pair in numbers(split, amount=amount) for text in pair]


@pytest.fixture(scope="session")
def sentences():
    """200 of different lengths."""
    return texts("test", 100)


@pytest.fixture(scope="session")
def tokenizer():
    return Tokenizer.train(texts("train", 300), 300)


@pytest.fixture(scope="session")
def translator(tokenizer):
    return make_translator(tokenizer)


@pytest.fixture(scope="session")
def folder(translator, tmp_path_factory):
    """Of the exported version."""
    path = tmp_path_factory.mktemp("models")
    return export_saved_model(
        translator, path, name="toy", weights="float16", **SETTINGS
    )


@pytest.fixture(scope="session")
def signatures(folder):
    """Functions of tensors, as loaded from the folder."""
    import tensorflow_text  # noqa: F401

    return tf.saved_model.load(folder).signatures
