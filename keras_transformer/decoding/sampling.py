"""Sampling: translations drawn from the model's distribution."""

from numbers import Integral

import keras
from keras import ops

from keras_transformer.decoding import search
from keras_transformer.decoding.greedy import grow_each
from keras_transformer.decoding.search import IMPOSSIBLE, Hypotheses
from keras_transformer.layers import arguments, padding_mask
from keras_transformer.layers.axes import shape_of
from keras_transformer.tokenizer import PADDING, START


def sample(
    model,
    source_ids,
    num_results=1,
    temperature=1.0,
    top_k=None,
    top_p=None,
    seed=None,
    length_penalty=0.6,
    max_extra_length=50,
    max_length=None,
    min_length=0,
    prefix_ids=None,
    no_repeat_ngram_size=0,
    jit_compile=False,
):
    """Draws each next token from the model's distribution.

    The samples of a source depend on the model, the source, the seed and the
    arguments alone: not on the rest of the batch, and not on padding. So the
    same source twice in a batch gets the same samples. Ask for more results
    or give another seed instead.

    Args:
        model: A `Transformer`.
        source_ids: Ids, `(batch, source_length)`, each with its end.
        num_results: Number of samples for each source, each drawn on its own.
        temperature: What logits are divided by. Below 1 likely tokens become
            likelier.
        top_k: If given, only so many of the likeliest tokens are drawn from.
        top_p: If given, only the fewest of the likeliest tokens are drawn from
            that have this share of the probability, after `temperature` and
            `top_k`. Alone it sorts the whole vocabulary at each step: with
            `top_k` it takes far less time.
        seed: A whole number, a scalar integer tensor or a
            `keras.random.SeedGenerator`. By default other samples come each
            time, unless `keras.utils.set_random_seed` was called.
        length_penalty: α of the scores. They are those of `beam_search`:
            neither `temperature` nor `top_k` nor `top_p` is in them.
        max_extra_length: How many tokens longer than its source a sample may
            grow.
        max_length: The greatest length as a number, instead.
        min_length: Number of tokens before the end is allowed.
        prefix_ids: Ids to begin with, as for `beam_search`.
        no_repeat_ngram_size: Size of the n-grams that may not come twice.
        jit_compile: Whether XLA compiles the call, as for `beam_search`.

    Returns:
        `Hypotheses`, sorted by score. The same sample may come twice.
    """
    arguments.check_sizes(num_results=num_results)
    arguments.check_sizes(optional=True, top_k=top_k)
    arguments.check_number(
        "a number above 0", positive=True, temperature=temperature
    )
    if top_p is not None:
        _check_top_p(top_p)
    source_ids = search.id_tensor("source_ids", source_ids)
    keys = _keys(source_ids, num_results, seed)

    def choose(log_probs, state):
        ids = ops.arange(log_probs.shape[-1])
        never = ops.equal(ids, PADDING) | ops.equal(ids, START)
        log_probs = ops.where(never, IMPOSSIBLE, log_probs)
        uniform = _uniform(state["keys"], state["step"])
        tokens = _draw(log_probs, uniform, temperature, top_k, top_p)
        tokens = ops.cast(tokens, "int32")
        chosen = search.take_each(log_probs, tokens[:, None])
        return tokens, chosen[:, 0]

    found = grow_each(
        choose,
        {"keys": keys},
        model,
        source_ids,
        num_results,
        length_penalty,
        max_extra_length,
        max_length,
        min_length=min_length,
        prefix_ids=prefix_ids,
        no_repeat_ngram_size=no_repeat_ngram_size,
        jit_compile=jit_compile,
    )
    if num_results == 1:
        return found
    scores, best = ops.top_k(found.scores, num_results)
    return Hypotheses(search.take_each(found.ids, best), scores)


def _draw(log_probs, uniform, temperature, top_k, top_p):
    """A token for each row: where the cumulative probability passes `uniform`.

    Args:
        log_probs: Floats, `(rows, vocabulary)`.
        uniform: Floats between 0 and 1, `(rows,)`.
    """
    tokens = None
    if top_k is not None or top_p is not None:
        size = log_probs.shape[-1]
        log_probs, tokens = ops.top_k(log_probs, min(top_k or size, size))
    # From the likeliest down, so that none falls below the impossible ones.
    logits = log_probs - ops.max(log_probs, axis=-1, keepdims=True)
    probs = ops.softmax(
        ops.where(
            search.is_possible(log_probs), logits / temperature, IMPOSSIBLE
        )
    )
    cumulative = ops.cumsum(probs, axis=-1)
    if top_p is not None:
        probs = ops.where(cumulative - probs < top_p, probs, 0.0)
    drawn = uniform[:, None] * ops.sum(probs, axis=-1, keepdims=True)
    # The first of the largest: the token that reaches `drawn`, or if rounding
    # leaves that to none, the last one. Never one without probability.
    reached = ops.where(probs > 0, ops.minimum(cumulative, drawn), -1.0)
    index = ops.argmax(reached, axis=-1)
    if tokens is None:
        return index
    index = ops.cast(index, "int32")
    return search.take_each(tokens, index[:, None])[:, 0]


# Random numbers by counting and mixing, because those of the backends depend on
# the shape that they are drawn in: on the batch, its padding and its order.


def _keys(source_ids, num_results, seed):
    """A random number of its own for each sample: int32, `(rows,)`."""
    seed = _mix(_as_int32(seed))
    positions = ops.arange(shape_of(source_ids)[1], dtype="int32")
    words = _mix(source_ids + _mix(positions + 1)[None])
    words = ops.where(padding_mask(source_ids), words, 0)
    sources = _mix(ops.sum(words, axis=1) + seed)
    samples = _mix(ops.arange(num_results, dtype="int32") + 1)
    return ops.reshape(_mix(sources[:, None] + samples[None]), (-1,))


def _as_int32(seed):
    """A seed of any kind as a scalar tensor."""
    if seed is None or isinstance(seed, keras.random.SeedGenerator):
        return keras.random.randint((), 0, 2**31 - 1, seed=seed)
    if isinstance(seed, Integral):
        seed = (int(seed) + 2**31) % 2**32 - 2**31
    elif not ops.is_tensor(seed) or len(seed.shape):
        raise ValueError(
            "`seed` must be a whole number, a scalar tensor or a "
            f"`keras.random.SeedGenerator`. Received: seed={seed!r}. "
            "Leave it out for other samples each time."
        )
    return ops.cast(seed, "int32")


def _uniform(keys, step):
    """Between 0 and 1, and neither: floats, `(rows,)`."""
    bits = ops.right_shift(_mix(keys + _mix(step + 1)), 9)
    bits = ops.bitwise_and(bits, 2**23 - 1)
    return (ops.cast(bits, "float32") + 0.5) / 2**23


def _mix(x):
    """Spreads every bit of an int32 over all of them; overflow is meant.

    These are the shifts and factors that end MurmurHash3.
    """
    x = ops.bitwise_xor(x, _shifted(x, 16))
    x = ops.bitwise_xor(x * -2048144789, _shifted(x * -2048144789, 13))
    x = ops.bitwise_xor(x * -1028477387, _shifted(x * -1028477387, 16))
    return x


def _shifted(x, count):
    """To the right, with zeros from the left."""
    return ops.bitwise_and(ops.right_shift(x, count), 2 ** (32 - count) - 1)


def _check_top_p(top_p):
    if not isinstance(top_p, int | float) or not 0 < top_p <= 1:
        raise ValueError(
            "`top_p` must be a share above 0 and at most 1. "
            f"Received: top_p={top_p!r}. Leave it out to draw from all tokens."
        )
