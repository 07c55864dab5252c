"""Sentences of any length as batches of similar ones."""

import numpy as np


def rows_by_length(lengths, tokens_per_batch, without=()):
    """Yields numbers of rows that share a batch, longest first."""
    rows = set(range(len(lengths))).difference(without)
    rows = sorted(rows, key=lambda row: -lengths[row])
    start = 0
    while start < len(rows):
        count = max(1, tokens_per_batch // lengths[rows[start]])
        yield rows[start : start + count]
        start += count


def padded_rows(ids, rows):
    """Arrays of some rows, by name."""
    return {
        name: padded([sentences[row] for row in rows])
        for name, sentences in ids.items()
    }


def padded(ids):
    """Ids of any lengths as one array, `(rows, length)`."""
    longest = max(map(len, ids))
    array = np.zeros((len(ids), longest), np.int32)
    for row, sentence in zip(array, ids):
        row[: len(sentence)] = sentence
    return array
