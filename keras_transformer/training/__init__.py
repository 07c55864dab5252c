"""Training: loss, schedule, metrics, optimizer, and the base model."""

from keras_transformer.training.distribution import DistributedModel
from keras_transformer.training.loss import SmoothedCrossentropy
from keras_transformer.training.metrics import Perplexity, TokenAccuracy
from keras_transformer.training.optimizer import Adam, Muon, ReduceFirst
from keras_transformer.training.schedule import TransformerSchedule

__all__ = [
    "Adam",
    "DistributedModel",
    "Muon",
    "Perplexity",
    "ReduceFirst",
    "SmoothedCrossentropy",
    "TokenAccuracy",
    "TransformerSchedule",
]
