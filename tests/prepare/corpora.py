"""A corpus for tests of `prepare`, and what came of it."""

import numpy as np

from keras_transformer.batching import load_prepared
from keras_transformer.data import numbers
from keras_transformer.tokenizer import Tokenizer

PAIRS = numbers("train", amount=1_000)


def write_tsv(path, pairs):
    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    path.write_text(text, "utf-8")
    return str(path)


def texts(folder, split="train"):
    """Reads a split back as text, through tokenizer and shards."""
    loaded = load_prepared(folder, verify=True)
    examples = getattr(loaded, split)
    tokenizers = loaded.tokenizer
    if isinstance(tokenizers, Tokenizer):
        tokenizers = (tokenizers, tokenizers)
    rows = np.arange(len(examples))
    sides = [
        tokenizer.detokenize(
            examples.gather(rows, side, int(examples.lengths.max()))
        )
        for side, tokenizer in enumerate(tokenizers)
    ]
    return list(zip(*sides))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}
