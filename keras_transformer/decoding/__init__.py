"""Searches for translations, over ids: greedy, the paper's beam, sampling."""

from keras_transformer.decoding.beam import beam_search
from keras_transformer.decoding.greedy import greedy_search
from keras_transformer.decoding.sampling import sample
from keras_transformer.decoding.scoring import score
from keras_transformer.decoding.search import Hypotheses

__all__ = [
    "Hypotheses",
    "beam_search",
    "greedy_search",
    "sample",
    "score",
]
