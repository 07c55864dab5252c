"""Trains one model in many ways and writes the weights; see test_equality.py.

usage: equality_worker.py single|mirrored|workers OUTPUT.npz
"""

import contextlib
import functools
import itertools
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.model import Transformer
from keras_transformer.training import (
    Adam,
    Muon,
    Perplexity,
    SmoothedCrossentropy,
    TokenAccuracy,
    TransformerSchedule,
)

VOCABULARY_SIZE = 23
NUM_UPDATES = 20


def make_strategy(kind):
    if kind == "mirrored":
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
        return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    if kind == "workers":
        return tf.distribute.MultiWorkerMirroredStrategy()
    return None


def ragged_batches():
    """Batches that split unevenly, one of them a single row."""
    rng = np.random.default_rng(0)
    shapes = itertools.cycle([(7, 5), (4, 9), (6, 3), (1, 4), (5, 6)])
    for rows, length in itertools.islice(shapes, NUM_UPDATES):
        ids = rng.integers(4, VOCABULARY_SIZE, (3, rows, length))
        lengths = rng.integers(1, length + 1, (3, rows, 1))
        lengths[2] = lengths[1]
        ids *= np.arange(length) < lengths
        source, target, labels = ids.astype("int32")
        yield {"source_ids": source, "target_ids": target}, labels


def make_dataset():
    # Not from a generator: under a strategy it takes seconds to take down.
    batches = map(tf.data.Dataset.from_tensors, ragged_batches())
    dataset = functools.reduce(tf.data.Dataset.concatenate, batches)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    return dataset.with_options(options)


def make_model():
    keras.utils.set_random_seed(1)
    return Transformer(
        VOCABULARY_SIZE,
        num_layers=1,
        hidden_dim=16,
        num_heads=2,
        intermediate_dim=32,
        dropout=0.0,
    )


def train(strategy, optimizer, accumulation_steps, steps_per_execution):
    # A rate of at most 0.008. Adam turns a last bit into a share of the rate,
    # so at ten times the rate even one device strays by more than 1e-5 from
    # itself, started one bit away.
    schedule = TransformerSchedule(16, warmup_steps=10, scale=0.1)
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = make_model()
        model.compile(
            optimizer(schedule, global_clipnorm=0.5),
            SmoothedCrossentropy(0.1),
            metrics=[TokenAccuracy(), Perplexity()],
            accumulation_steps=accumulation_steps,
            steps_per_execution=steps_per_execution,
        )
    history = model.fit(
        make_dataset(), validation_data=make_dataset(), verbose=0
    ).history
    weights = [w.ravel() for w in model.get_weights()]
    logs = [history[name][-1] for name in sorted(history)]
    assert model.optimizer.iterations.numpy() == NUM_UPDATES
    return np.concatenate(weights), np.array(logs)


def main(kind, output):
    strategy = make_strategy(kind)
    results = {}
    ways = itertools.product((Adam, Muon), (1, 4), (1, 4))
    for optimizer, *steps in ways:
        weights, logs = train(strategy, optimizer, *steps)
        name = "-".join(map(str, (optimizer.__name__, *steps)))
        results[f"weights-{name}"] = weights
        results[f"logs-{name}"] = logs
    np.savez(output, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
