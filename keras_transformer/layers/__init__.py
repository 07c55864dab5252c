"""The reusable layers. They run on TensorFlow, JAX and PyTorch."""

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.decoder import DecoderLayer
from keras_transformer.layers.embedding import TokenEmbedding
from keras_transformer.layers.encoder import EncoderLayer
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.masks import causal_mask, padding_mask
from keras_transformer.layers.positions import PositionalEncoding

__all__ = [
    "DecoderLayer",
    "EncoderLayer",
    "FeedForward",
    "MultiHeadAttention",
    "PositionalEncoding",
    "TokenEmbedding",
    "causal_mask",
    "padding_mask",
]
