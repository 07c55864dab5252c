"""The Transformer of "Attention Is All You Need" for Keras 3."""

from keras_transformer import layers
from keras_transformer.model import Transformer

__version__ = "0.1.0"

__all__ = ["Transformer", "layers"]
