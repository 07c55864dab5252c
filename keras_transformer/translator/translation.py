"""What a translator gives back."""

from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from keras_transformer.translator.splitting import target_gap


@dataclass(frozen=True)
class Translation:
    """One translation.

    Attributes:
        text: The translation.
        score: Its log-probability over its length penalty; for a source that
            was translated in parts, the sum of the scores of these.
        tokens: Its pieces, without start and end.
        source_tokens: The pieces of its source, without the end.
        alternatives: The next best translations, if several were asked for.
        parts: The translations of its parts, if the source was too long.
        attention: If asked for, the decoder's attention to the source: floats,
            `(layers, heads, len(tokens) + 1, len(source_tokens) + 1)`. The last
            row and the last column belong to the ends. A translation in parts
            has it in its parts.
        alignment: If attention was asked for, pairs of a source word and a
            target word, counted from 0. Words are what spaces separate.
    """

    text: str
    score: float
    tokens: list
    source_tokens: list = field(default_factory=list)
    alternatives: list = field(default_factory=list)
    parts: list = field(default_factory=list)
    attention: np.ndarray | None = field(default=None, compare=False)
    alignment: list | None = None


class AttentionMap(NamedTuple):
    """One kind of attention in one translation.

    Attributes:
        weights: Floats, `(layers, heads, rows, columns)`. Rows sum to 1.
        rows: The pieces that look: what is read, or what is written next.
        columns: The pieces that are looked at.
    """

    weights: np.ndarray
    rows: list
    columns: list


def join(parts, n_bests):
    """One translation from those of its parts.

    Args:
        parts: `[(source, gap), ...]`, as `split_text` gives them.
        n_bests: For each part its translations, best first.

    Returns:
        A `Translation`. Its n-th alternative is made of the n-th of each part.
    """
    best, *others = (
        _join(parts, [n_best[min(n, len(n_best) - 1)] for n_best in n_bests])
        for n in range(max(map(len, n_bests)))
    )
    return replace(best, alternatives=others)


def _join(parts, translations):
    if len(translations) == 1:
        return translations[0]
    targets = [
        t.text + target_gap(t.text, *part)
        for t, part in zip(translations, parts[:-1])
    ]
    targets.append(translations[-1].text + parts[-1][1])
    alignment = None
    if translations[0].alignment is not None:
        source_offsets = _word_offsets([text + gap for text, gap in parts])
        offsets = zip(source_offsets, _word_offsets(targets))
        alignment = sorted(
            (source + first, target + second)
            for (first, second), t in zip(offsets, translations)
            for source, target in t.alignment
        )
    return Translation(
        text="".join(targets),
        score=sum(t.score for t in translations),
        tokens=[piece for t in translations for piece in t.tokens],
        source_tokens=[p for t in translations for p in t.source_tokens],
        parts=translations,
        alignment=alignment,
    )


def _word_offsets(texts):
    """The number of the word that each text begins with."""
    before = accumulate(texts[:-1], initial="")
    return [
        len(text.split()) - bool(text and not text[-1].isspace())
        for text in before
    ]
