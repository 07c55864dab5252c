"""Where sentence pairs come from: files, TFDS, numbers in words."""

from keras_transformer.data.cleaning import Cleaner
from keras_transformer.data.number_words import (
    english_number,
    german_number,
    numbers,
)
from keras_transformer.data.sources import read_pairs

__all__ = [
    "Cleaner",
    "english_number",
    "german_number",
    "numbers",
    "read_pairs",
]
