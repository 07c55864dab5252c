"""What a run trains on: one device, several, or several hosts."""

import os

import tensorflow as tf


def make_strategy(devices):
    """No strategy for one device, else what `tf.distribute` has for it."""
    if "TF_CONFIG" in os.environ:
        return tf.distribute.MultiWorkerMirroredStrategy()
    gpus = tf.config.list_physical_devices("GPU")
    if devices is not None and devices < 1:
        raise ValueError(
            f"`devices` must be at least 1. Received: devices={devices}."
        )
    if gpus:
        if devices is not None and devices > len(gpus):
            raise ValueError(
                "`devices` cannot exceed the GPUs of this host. Received: "
                f"devices={devices} with {len(gpus)} GPUs."
            )
        names = [f"GPU:{i}" for i in range(devices or len(gpus))]
    else:
        names = [f"CPU:{i}" for i in range(devices or 1)]
        if len(names) > 1:
            _split_cpu(len(names))
    return tf.distribute.MirroredStrategy(names) if len(names) > 1 else None


def _split_cpu(count):
    """Several devices on one processor, to try what several GPUs would do."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    devices = tf.config.get_logical_device_configuration(cpu) or []
    if len(devices) < count:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * count
        )


def worker(strategy):
    """Whether this process writes, and how many workers there are."""
    if strategy is None or "TF_CONFIG" not in os.environ:
        return True, 1
    resolver = strategy.cluster_resolver
    jobs = resolver.cluster_spec().as_dict()
    if not jobs:
        return True, 1
    num_workers = sum(len(jobs.get(job, ())) for job in ("chief", "worker"))
    first = "chief" if "chief" in jobs else "worker"
    is_first = (resolver.task_type, resolver.task_id) == (first, 0)
    return is_first, num_workers


def num_replicas(strategy):
    return strategy.num_replicas_in_sync if strategy else 1
