"""Which word comes from which: read off the decoder's attention."""

import re
from itertools import groupby

import numpy as np

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def word_alignment(attention, source_tokens, tokens, layer=None):
    """Links each word of a translation to the source word it looks at most.

    The weights of all heads are averaged. Those of a word's pieces are summed
    over the source, and averaged over the translation.

    Args:
        attention: Weights, `(layers, heads, target, source)`. Rows and columns
            after the last piece, as those of the ends, do not count.
        source_tokens: The pieces of the source.
        tokens: The pieces of the translation.
        layer: Number of the layer to look at, counted from 0. By default the
            one in which most source words are looked at, each by another word:
            which one that is, differs from model to model.

    Returns:
        `[(source word, target word), ...]`, counted from 0, sorted. Words are
        what spaces separate.

    >>> weights = np.array([[0.1, 0.1, 0.8], [0.3, 0.3, 0.4]])[None, None]
    >>> word_alignment(weights, ["hou", "se", "▁red"], ["rotes", "▁Haus"])
    [(0, 1), (1, 0)]
    """
    weights = np.mean(attention, axis=1)[:, : len(tokens), : len(source_tokens)]
    to_words = word_shares(tokens)
    to_words = to_words / to_words.sum(axis=1, keepdims=True)
    by_word = to_words @ weights @ word_shares(source_tokens).T
    if not by_word.size:
        return []
    if layer is None:
        layer = max(range(len(by_word)), key=lambda i: _spread(by_word[i]))
    best = by_word[layer].argmax(axis=1)
    return sorted(
        (source, target) for target, source in enumerate(best.tolist())
    )


def _spread(weights):
    """How many source words are found; then, how surely."""
    return len(set(weights.argmax(axis=1).tolist())), weights.max(axis=1).sum()


def word_shares(pieces):
    """`(words, pieces)`: the share of a piece that belongs to a word.

    A piece with a no-break space inside belongs to several words. Spaces alone
    belong to none, and neither do the bytes of one.

    >>> word_shares(["ein", "▁Ha", "us", "▁", "▁10\xa0€"])
    array([[1. , 0. , 0. , 0. , 0. ],
           [0. , 1. , 1. , 0. , 0. ],
           [0. , 0. , 0. , 0. , 0.5],
           [0. , 0. , 0. , 0. , 0.5]])
    """
    touched, count, inside = [], 0, False
    for surface in _surfaces(pieces):
        words = set()
        for character in surface:
            if character.isspace():
                inside = False
                continue
            count, inside = count + (not inside), True
            words.add(count - 1)
        touched.append(sorted(words))
    shares = np.zeros((count, len(pieces)))
    for column, words in enumerate(touched):
        shares[words, column] = 1 / max(len(words), 1)
    return shares


def _surfaces(pieces):
    """The characters of each piece; of a byte, the one that it is a part of."""
    surfaces = []
    for are_bytes, run in groupby(pieces, lambda p: bool(_BYTE.fullmatch(p))):
        if not are_bytes:
            surfaces += [piece.replace("▁", " ") for piece in run]
            continue
        codes = bytes(int(_BYTE.fullmatch(piece)[1], 16) for piece in run)
        for character in codes.decode("utf-8", "surrogateescape"):
            size = len(character.encode("utf-8", "surrogateescape"))
            surfaces += [character] * size
    return surfaces
