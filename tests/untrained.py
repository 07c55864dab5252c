"""A translator of no sense, and always the same."""

import keras
import numpy as np

from keras_transformer.model import Transformer
from keras_transformer.tokenizer import Tokenizer
from keras_transformer.translator import Translator

SENTENCES = ["ein Haus am See", "a house", "zwei rote Häuser", "two red houses"]


def untrained(tokenizer=None, max_source_length=256, **kwargs):
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
    tokenizer = tokenizer or Tokenizer.train(SENTENCES * 5, 290)
    return Translator(model, tokenizer, max_source_length)
