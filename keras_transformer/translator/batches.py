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


def padded_rows(ids, rows, size=None):
    """Arrays of some rows, by name.

    Args:
        ids: Lists of ids for all rows, by name.
        rows: Numbers of rows.
        size: Number of rows and length of the sources to pad to, if given;
            other ids are then padded to a multiple of 8.
    """
    arrays = {}
    for name, sentences in ids.items():
        array = padded([sentences[row] for row in rows])
        if size is not None:
            count, length = size
            if name != "source_ids":
                length = -(-array.shape[1] // 8) * 8
            more = (count - len(array), length - array.shape[1])
            array = np.pad(array, [(0, n) for n in more])
        arrays[name] = array
    return arrays


def padded(ids):
    """Ids of any lengths as one array, `(rows, length)`."""
    longest = max(map(len, ids))
    array = np.zeros((len(ids), longest), np.int32)
    for row, sentence in zip(array, ids):
        row[: len(sentence)] = sentence
    return array
