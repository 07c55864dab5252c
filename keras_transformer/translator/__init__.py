"""Text to text: a tokenizer, a model and a search."""

from keras_transformer.translator.alignment import word_alignment
from keras_transformer.translator.loading import load
from keras_transformer.translator.splitting import split_text
from keras_transformer.translator.translation import AttentionMap, Translation
from keras_transformer.translator.translator import (
    LENGTH_PENALTY,
    Translator,
)

__all__ = [
    "LENGTH_PENALTY",
    "AttentionMap",
    "Translation",
    "Translator",
    "load",
    "split_text",
    "word_alignment",
]
