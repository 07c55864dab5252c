"""Pictures: attention, learning curves, the learning rate, positions."""

from keras_transformer.plots.attention import (
    attention_heads,
    attention_map,
    attention_page,
)
from keras_transformer.plots.curves import learning_curve, positions, schedule

__all__ = [
    "attention_heads",
    "attention_map",
    "attention_page",
    "learning_curve",
    "positions",
    "schedule",
]
