"""From pairs to batches: prepared shards, buckets by length, token budgets."""

from keras_transformer.batching.batches import BatchPlan, make_batches
from keras_transformer.batching.examples import Examples
from keras_transformer.batching.prepared import Prepared, load_prepared, prepare

__all__ = [
    "BatchPlan",
    "Examples",
    "Prepared",
    "load_prepared",
    "make_batches",
    "prepare",
]
