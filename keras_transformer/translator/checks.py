"""What a translator is given: the rule, what arrived, what to do."""

from numbers import Integral

import numpy as np


def check_texts(name, texts):
    """A list of strings, or a sentence on what is none."""
    if isinstance(texts, bytes) or not hasattr(texts, "__iter__"):
        texts = [texts]
    texts = list(texts)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                f"`{name}` must be a string or a list of strings. Received: "
                f"{text!r:.80} (of type {type(text).__name__}) as number "
                f"{number}. Turn it into a string first."
            )
    return texts


def check_vocabulary(side, tokenizer, model):
    rows = getattr(model, f"{side}_embedding").input_dim
    if tokenizer.vocabulary_size > rows:
        raise ValueError(
            "`tokenizer` must be the one that the model was trained with. "
            f"Received: {tokenizer.vocabulary_size:,} {side} pieces for a "
            f"model with embeddings of {rows:,}."
        )


def check_positions(model, source_ids, target_ids):
    """Raises where the model has no positions for what it is to read."""
    for positions, rows in (
        (model.source_positions, source_ids),
        (model.target_positions, target_ids),
    ):
        positions.check_length(max(map(len, rows), default=0))


def check_prefixes(model, texts, ids, max_extra_length):
    """Raises where a prefix leaves no room for a translation."""
    for text, source, prefix in zip(
        texts, ids["source_ids"], ids["prefix_ids"]
    ):
        if not text.strip():  # it gets no translation
            continue
        model.target_positions.check_length(len(prefix) + 1)  # and its start
        if len(prefix) >= len(source) + max_extra_length:
            raise ValueError(
                "`prefix` must be shorter than the longest translation. "
                f"Received: a prefix of {len(prefix)} pieces for a sentence "
                f"of {len(source)} and max_extra_length={max_extra_length}. "
                "Give a larger `max_extra_length`."
            )


def as_seed(seed):
    """The seed as an int32; without one, a number that comes only once."""
    if seed is None:
        seed = np.random.randint(2**31)
    if not isinstance(seed, Integral):
        raise ValueError(
            f"`seed` must be a whole number. Received: seed={seed!r}. "
            "Leave it out for other translations each time."
        )
    return np.int32(seed % 2**31)
