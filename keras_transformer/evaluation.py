"""How good translations are: BLEU and chrF, with their signatures."""

from dataclasses import dataclass

import sacrebleu


@dataclass(frozen=True)
class Score:
    """A number and what sacreBLEU says of how it was computed."""

    value: float
    signature: str

    def __str__(self):
        return f"{self.value:.2f} ({self.signature})"


def bleu(hypotheses, references, lowercase=False):
    """BLEU of a corpus, as sacreBLEU computes it.

    Args:
        hypotheses: Translations, a list of strings.
        references: What they should be, one for each.
        lowercase: Whether case counts not; with it the number is close to the
            "tokenised, lower-case BLEU" of older papers.

    >>> bleu(["ein Haus am See"], ["ein Haus am See"]).value
    100.0
    """
    metric = sacrebleu.BLEU(lowercase=lowercase)
    return _score(metric, hypotheses, references)


def chrf(hypotheses, references):
    """chrF of a corpus: overlap of characters, from 0 to 100."""
    return _score(sacrebleu.CHRF(), hypotheses, references)


def exact_match(hypotheses, references):
    """The share of translations that equal their reference.

    >>> exact_match(["eins", "zwei"], ["eins", "drei"])
    0.5
    """
    _check(hypotheses, references)
    right = sum(h == r for h, r in zip(hypotheses, references))
    return right / len(references)


def _score(metric, hypotheses, references):
    _check(hypotheses, references)
    result = metric.corpus_score(hypotheses, [references])
    return Score(
        value=round(result.score, 10), signature=str(metric.get_signature())
    )


def _check(hypotheses, references):
    if not references or len(hypotheses) != len(references):
        raise ValueError(
            "There must be one reference for each translation, and at least "
            f"one. Received: {len(hypotheses)} hypotheses, {len(references)} "
            "references. Check that both have the same lines."
        )
