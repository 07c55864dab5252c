"""Which word comes from which: read off the decoder's attention."""

import re

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
        layer: Number of the layer to look at. By default the one in which most
            source words are looked at, each by another word: which one that
            is, differs from model to model.

    Returns:
        `[(source word, target word), ...]`, counted from 0, sorted. Words are
        what spaces separate.

    >>> weights = np.array([[0.1, 0.1, 0.8], [0.3, 0.3, 0.4]])[None, None]
    >>> word_alignment(weights, ["hou", "se", "▁red"], ["rotes", "▁Haus"])
    [(0, 1), (1, 0)]
    """
    rows, columns = word_numbers(tokens), word_numbers(source_tokens)
    weights = np.mean(attention, axis=1)[:, : len(rows), : len(columns)]
    by_word = _averages(rows) @ weights @ _members(columns).T
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


def word_numbers(pieces):
    """The number of the word that each piece belongs to, -1 for spaces.

    >>> word_numbers(["ein", "▁Ha", "us", "▁", "▁am"])
    [0, 1, 1, -1, 2]
    """
    numbers, count, inside = [], 0, False
    for piece in pieces:
        number = -1
        for character in _surface(piece):
            if character.isspace():
                inside = False
            elif not inside:
                count, inside = count + 1, True
            if inside and number < 0:
                number = count - 1
        numbers.append(number)
    return numbers


def _surface(piece):
    """The characters of a piece; a byte above ASCII is a part of a letter."""
    if byte := _BYTE.fullmatch(piece):
        code = int(byte[1], 16)
        return chr(code) if code < 128 else "x"
    return piece.replace("▁", " ")


def _members(numbers):
    """`(words, pieces)`: 1 where a piece belongs to a word."""
    numbers = np.array(numbers, int)
    words = np.arange(numbers.max(initial=-1) + 1)
    return (words[:, None] == numbers).astype(float)


def _averages(numbers):
    members = _members(numbers)
    return members / members.sum(axis=1, keepdims=True)
