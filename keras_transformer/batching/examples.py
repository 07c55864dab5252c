"""Tokenised pairs, in memory or mapped from disk."""

from itertools import chain, islice

import numpy as np

from keras_transformer.tokenizer import Tokenizer


class Examples:
    """Pairs of id sequences that are read by row number, many at once.

    A shard is `(ids, lengths)`: the pieces of all its sources, one after the
    other, then those of all its targets, and the number of pieces of each,
    `(pairs, 2)`. `ids` may be mapped from a file; `lengths` are kept in
    memory, 24 bytes a pair with the places they give.

    Args:
        shards: List of `(ids, lengths)`.
    """

    def __init__(self, shards):
        self._ids = [np.asarray(ids) for ids, _ in shards]
        lengths = [np.asarray(lengths, np.int32) for _, lengths in shards]
        self.lengths = np.concatenate([np.zeros((0, 2), np.int32), *lengths])
        self._starts = np.concatenate(
            [np.zeros((0, 2), np.int64), *map(_starts, lengths)]
        )
        self._first_rows = np.cumsum([0, *map(len, lengths)])[:-1]

    def __len__(self):
        return len(self.lengths)

    def gather(self, rows, side, width):
        """Returns int32 `(rows, width)`: pieces, then zeros.

        Args:
            rows: Row numbers.
            side: 0 for sources, 1 for targets.
            width: At least the longest of these sequences.
        """
        gathered = np.zeros((len(rows), width), np.int32)
        columns = np.arange(width)
        shards = np.searchsorted(self._first_rows, rows, side="right") - 1
        for shard in np.unique(shards):
            here = np.flatnonzero(shards == shard)
            real = columns < self.lengths[rows[here], side][:, None]
            places = self._starts[rows[here], side][:, None] + columns
            padded = np.zeros(real.shape, np.int32)
            padded[real] = self._ids[shard][places[real]]
            gathered[here] = padded
        return gathered


def tokenize_pairs(pairs, tokenizers, merge_dropout=0.0, seed=0, step=1000):
    """Turns an iterable of pairs into one shard for `Examples`.

    Args:
        pairs: `(source, target)` strings.
        tokenizers: A `Tokenizer` for each side.
        merge_dropout: Share of BPE's merges left out by chance.
        seed: Of that chance.
        step: Sentences tokenised at a time; Python's lists of integers are
            large, so they are packed soon.
    """
    pairs = iter(pairs)
    dtype = id_dtype(tokenizers)
    ids, lengths = ([], []), ([], [])
    draws = np.random.default_rng(seed)
    while some := list(islice(pairs, step)):
        for side, sentences in enumerate(zip(*some)):
            if merge_dropout:
                sequences = tokenizers[side].tokenize_at_random(
                    sentences, merge_dropout, int(draws.integers(1 << 31))
                )
            else:
                sequences = tokenizers[side].tokenize(sentences)
            count = np.fromiter(map(len, sequences), np.int32, len(sequences))
            flat = chain.from_iterable(sequences)
            ids[side].append(np.fromiter(flat, dtype, count.sum()))
            lengths[side].append(count)
    if not lengths[0]:
        return np.zeros(0, dtype), np.zeros((0, 2), np.int32)
    return (
        np.concatenate([*ids[0], *ids[1]]),
        np.stack([np.concatenate(side) for side in lengths], axis=1),
    )


def tokenizer_pair(tokenizer):
    """Returns a tokenizer for each side: the same one, or one each."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer, tokenizer
    match tokenizer:
        case (Tokenizer() as source, Tokenizer() as target):
            return source, target
    raise ValueError(
        "`tokenizer` must be a Tokenizer, or two of them in a tuple, for "
        f"source and target. Received: {tokenizer!r:.80}"
    )


def id_dtype(tokenizers):
    largest = max(tokenizer.vocabulary_size for tokenizer in tokenizers)
    return np.uint16 if largest <= 1 << 16 else np.int32


def _starts(lengths):
    """Places of each sequence: first all sources lie there, then targets."""
    ends = np.cumsum(lengths.T.reshape(-1), dtype=np.int64)
    return (ends - lengths.T.reshape(-1)).reshape(2, -1).T
