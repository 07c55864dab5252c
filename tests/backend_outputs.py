"""Computes a model's outputs under the backend of KERAS_BACKEND.

Run as `python -m tests.backend_outputs FILE` it writes them as an .npz file.
"""

import functools
import sys

import keras
import numpy as np

from keras_transformer import decoding
from keras_transformer.layers import MultiHeadAttention, padding_mask
from keras_transformer.model import Transformer


def random_weights(layer):
    """The same on every backend, which initializers are not."""
    rng = np.random.default_rng(5)
    layer.set_weights([0.3 * rng.normal(size=w.shape) for w in layer.weights])


@functools.cache
def outputs():
    """Logits at once and step by step, searches, restricted attention."""
    rng = np.random.default_rng(6)
    source_ids = rng.integers(1, 40, (3, 7)).astype("int32")
    target_ids = rng.integers(1, 40, (3, 6)).astype("int32")
    source_ids[1, 4:] = target_ids[2, 3:] = 0
    results = {}
    for normalize_first in (False, True):
        model = Transformer(
            vocabulary_size=40,
            num_layers=2,
            hidden_dim=16,
            num_heads=2,
            intermediate_dim=32,
            value_dim=6,
            normalize_first=normalize_first,
        )
        random_weights(model)
        found = run(functools.partial(logits, model), source_ids, target_ids)
        if not normalize_first:
            found.update(
                run(functools.partial(searches, model), source_ids, target_ids)
            )
        for name, array in found.items():
            results[f"{name}_{normalize_first}"] = array

    attention = MultiHeadAttention(2, 8, attention_window=3)
    x = keras.ops.convert_to_tensor(rng.normal(size=(2, 50, 16)), "float32")
    attention.build(x.shape, x.shape)
    random_weights(attention)
    results["restricted"] = attention(x, x)
    results["gradient"] = gradient(
        lambda x: keras.ops.sum(attention(x, x, use_causal_mask=True) ** 3), x
    )
    return {
        name: keras.ops.convert_to_numpy(array)
        for name, array in results.items()
    }


def logits(model, source_ids, target_ids):
    """At once, and with a cache."""
    memory = model.encode(source_ids)
    cache = model.make_cache(memory, target_ids.shape[1])
    steps = []
    for i in range(target_ids.shape[1]):
        step, cache = model.decode(
            target_ids[:, i : i + 1],
            memory,
            padding_mask(source_ids),
            cache=cache,
            cache_index=i,
        )
        steps.append(step)
    inputs = {"source_ids": source_ids, "target_ids": target_ids}
    return {
        "logits": model(inputs),
        "steps": keras.ops.concatenate(steps, 1),
    }


def searches(model, source_ids, target_ids):
    """What greedy search, beam search and sampling find."""
    plain = {"max_extra_length": 2}
    constraints = {
        "min_length": 3,
        "no_repeat_ngram_size": 2,
        "prefix_ids": np.array([[9, 9, 7], [0, 0, 0], [8, 0, 0]]),
        **plain,
    }
    found = {
        "greedy": decoding.greedy_search(model, source_ids, **plain),
        "beam": decoding.beam_search(model, source_ids, num_results=4, **plain),
        "constrained": decoding.beam_search(
            model, source_ids, num_results=2, **constraints
        ),
        "samples": decoding.sample(
            model, source_ids, num_results=4, seed=3, top_p=0.9, **plain
        ),
    }
    results = {"scores": decoding.score(model, source_ids, target_ids)}
    for name, hypotheses in found.items():
        results[f"{name}_ids"] = hypotheses.ids
        results[f"{name}_scores"] = hypotheses.scores
    return results


def run(function, *args):
    """Calls a function, compiled where that takes less time."""
    if keras.backend.backend() == "jax":
        import jax

        function = jax.jit(function)
    return function(*args)


def gradient(function, x):
    """Of a scalar function, by whatever differentiates here."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(jax.grad(function))(x)
    x = x.clone().requires_grad_()
    function(x).backward()
    return x.grad


if __name__ == "__main__":
    np.savez(sys.argv[1], **outputs())
