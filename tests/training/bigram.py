"""Small models of which word follows which, for tests of `fit`."""

import keras
import numpy as np

from keras_transformer.training import (
    Adam,
    DistributedModel,
    Perplexity,
    SmoothedCrossentropy,
    TokenAccuracy,
    TransformerSchedule,
)


def bigram_layers(dropout=0.0):
    return (
        keras.layers.Embedding(11, 8),
        keras.layers.Dropout(dropout),
        keras.layers.Dense(11),
    )


def direct(dropout=0.0, **kwargs):
    inputs = outputs = keras.Input((None,), dtype="int32")
    for layer in bigram_layers(dropout):
        outputs = layer(outputs)
    return DistributedModel(inputs, outputs, **kwargs)


class Halves(DistributedModel):
    """Stretches the second half of its rows, as if by other dropout."""

    def __init__(self):
        super().__init__()
        self.embedding = keras.layers.Embedding(
            11, 11, keras.initializers.RandomNormal(stddev=1.0)
        )
        self.stretch = self.add_weight(
            shape=(11,), initializer="random_uniform"
        )

    def call(self, ids, training=None):
        logits = self.embedding(ids)
        if not training:
            return logits
        first, second = keras.ops.split(logits, 2)
        return keras.ops.concatenate([first, second * self.stretch])


def compiled(model, **kwargs):
    model.compile(
        Adam(TransformerSchedule(8, warmup_steps=5), global_clipnorm=1.0),
        SmoothedCrossentropy(0.1),
        metrics=[TokenAccuracy(), Perplexity()],
        **kwargs,
    )
    return model


def flat_weights(model):
    return np.concatenate([w.ravel() for w in model.get_weights()])
