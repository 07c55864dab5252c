"""Trains on whatever KERAS_BACKEND is; see test_backends.py.

usage: backend_worker.py OUTPUT.npz
"""

import sys

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


class FunctionalSubclass(DistributedModel):
    def __init__(self):
        ids = keras.Input((None,), dtype="int32")
        hidden = keras.layers.Embedding(11, 8)(ids)
        super().__init__(inputs=ids, outputs=keras.layers.Dense(11)(hidden))


class CallSubclass(DistributedModel):
    def __init__(self):
        super().__init__()
        self.embedding = keras.layers.Embedding(11, 8)
        self.output_layer = keras.layers.Dense(11)

    def call(self, ids):
        return self.output_layer(self.embedding(ids))


def main(output):
    rng = np.random.default_rng(0)
    ids, targets = rng.integers(1, 11, (2, 12, 6)).astype("int32")
    targets[:5, 3:] = 0
    initial = [rng.normal(size=s) for s in ((11, 8), (8, 11), (11,))]
    results = {}
    for make in (FunctionalSubclass, CallSubclass, FunctionalSubclass):
        model = make()
        model(ids)
        model.set_weights(initial)
        model.compile(
            Adam(TransformerSchedule(8, warmup_steps=5), global_clipnorm=0.1),
            SmoothedCrossentropy(0.1),
            metrics=[TokenAccuracy(), Perplexity()],
        )
        # As a file that was trained on TensorFlow is loaded. Without dropout
        # neither changes an update.
        config = model.get_compile_config()
        config |= {"accumulation_steps": 3, "consistency": 2.0}
        model.compile_from_config(config)
        # All rows in a batch: elsewhere Keras reports a mean over batches.
        logs = model.fit(
            ids, targets, batch_size=12, epochs=5, shuffle=False, verbose=0
        ).history
        results[f"weights-{make.__name__}"] = np.concatenate(
            [w.ravel() for w in model.get_weights()]
        )
        results[f"logs-{make.__name__}"] = [logs[k] for k in sorted(logs)]
    np.savez(output, **results)


if __name__ == "__main__":
    main(sys.argv[1])
