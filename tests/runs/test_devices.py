"""Who of several processes writes."""

import json
from types import SimpleNamespace

import pytest
import tensorflow as tf

from keras_transformer.runs import devices

WORKERS = {"worker": ["a:1", "b:1"]}
WITH_CHIEF = {"chief": ["a:1"], "worker": ["b:1"]}


@pytest.mark.parametrize(
    ("cluster", "task", "expected"),
    [
        (WORKERS, ("worker", 0), (True, 2)),
        (WORKERS, ("worker", 1), (False, 2)),
        (WITH_CHIEF, ("chief", 0), (True, 2)),
        (WITH_CHIEF, ("worker", 0), (False, 2)),
        ({"chief": ["a:1"]}, ("chief", 0), (True, 1)),
        ({}, ("worker", 0), (True, 1)),
    ],
)
def test_one_of_all_writes(monkeypatch, cluster, task, expected):
    config = {"cluster": cluster, "task": dict(zip(("type", "index"), task))}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = SimpleNamespace(cluster_resolver=resolver)
    assert devices.worker(strategy) == expected
