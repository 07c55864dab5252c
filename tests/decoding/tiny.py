"""A tiny model whose weights change, and searches that are traced once."""

import functools

import numpy as np
import tensorflow as tf

from keras_transformer.model import Transformer
from keras_transformer.tokenizer import END


@functools.cache
def built_model(vocabulary_size=7, **settings):
    return Transformer(
        **{
            "vocabulary_size": vocabulary_size,
            "num_layers": 1,
            "hidden_dim": 8,
            "num_heads": 2,
            "intermediate_dim": 8,
            **settings,
        }
    )


def random_model(seed, **settings):
    """The same model each time, with weights of its own for each seed.

    Large ones: it is sure of some things, as a trained one is, and a third of
    what it greedily finds ends.
    """
    model = built_model(**settings)
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        scale = 0.8 if len(weight.shape) > 1 else 0.1
        numbers = scale * rng.normal(size=weight.shape)
        weight.assign(numbers + (weight.name == "gamma"))
    return model


def sources(rng, batch=3, length=4, vocabulary_size=7):
    ids = rng.integers(4, vocabulary_size, (batch, length)).astype("int32")
    ids[:, -1] = END
    return ids


def find(search, model, ids, *more_ids, jit_compile=False, **settings):
    """Runs a search in a graph for ids of any shape.

    Args:
        search: A function of a model and ids.
        model: A model. Its weights may change from call to call.
        ids: Ids, `(batch, length)`.
        *more_ids: `prefix_ids` or `target_ids`, if `search` takes some.
        jit_compile: Whether XLA compiles the graph.
        **settings: More arguments of `search`.
    """
    graph = _graph(
        search,
        model,
        1 + len(more_ids),
        jit_compile,
        tuple(sorted(settings.items())),
    )
    found = graph(*(tf.constant(x, tf.int32) for x in (ids, *more_ids)))
    return tf.nest.map_structure(np.asarray, found)


@functools.cache
def _graph(search, model, num_inputs, jit_compile, settings):
    def run(ids, more_ids=None):
        keywords = dict(settings)
        if jit_compile:
            keywords["jit_compile"] = True
        if more_ids is not None and search.__name__ != "score":
            return search(model, ids, prefix_ids=more_ids, **keywords)
        if more_ids is not None:
            return search(model, ids, more_ids, **keywords)
        return search(model, ids, **keywords)

    return tf.function(
        run,
        input_signature=[tf.TensorSpec((None, None), tf.int32)] * num_inputs,
        jit_compile=jit_compile,
        autograph=False,
    )


def text(ids):
    """Ids without the padding behind them."""
    return [token for token in np.asarray(ids).tolist() if token]
