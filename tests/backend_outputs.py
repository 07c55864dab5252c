"""Computes a model's outputs under the backend of KERAS_BACKEND.

Run as `python -m tests.backend_outputs FILE` it writes them as an .npz file.
"""

import sys

import keras
import numpy as np

from keras_transformer.layers import MultiHeadAttention, padding_mask
from keras_transformer.model import Transformer


def random_weights(layer):
    """The same on every backend, which initializers are not."""
    rng = np.random.default_rng(5)
    layer.set_weights([0.3 * rng.normal(size=w.shape) for w in layer.weights])


def outputs():
    """Logits at once and step by step, pre-norm too, restricted attention."""
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
        inputs = {"source_ids": source_ids, "target_ids": target_ids}
        results[f"logits_{normalize_first}"] = model(inputs)
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
        results[f"steps_{normalize_first}"] = keras.ops.concatenate(steps, 1)

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
