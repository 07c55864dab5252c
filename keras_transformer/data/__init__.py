"""Where sentence pairs come from: files, TFDS, numbers in words."""

from keras_transformer.data.cleaning import Cleaner
from keras_transformer.data.number_words import (
    english_number,
    german_number,
    numbers,
)
from keras_transformer.data.sources import is_blank, is_numbers, read_pairs

__all__ = [
    "Cleaner",
    "english_number",
    "german_number",
    "is_blank",
    "is_numbers",
    "numbers",
    "read_pairs",
]
