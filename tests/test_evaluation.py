import pytest
import sacrebleu

from keras_transformer import evaluation

REFERENCES = ["Das ist ein kleines Haus am See.", "Wir gehen heute nach Hause."]
HYPOTHESES = ["Das ist ein großes Haus am See.", "wir gehen heute nach Hause ."]


def test_scores_are_sacrebleus_with_its_signature():
    score = evaluation.bleu(HYPOTHESES, REFERENCES)
    expected = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert score.value == pytest.approx(expected)
    assert "tok:13a" in score.signature
    score = evaluation.chrf(HYPOTHESES, REFERENCES)
    expected = sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert score.value == pytest.approx(expected)
    assert str(score).startswith(f"{expected:.2f} (")


def test_lowercase_forgives_case():
    plain = evaluation.bleu(HYPOTHESES, REFERENCES)
    lowercase = evaluation.bleu(HYPOTHESES, REFERENCES, lowercase=True)
    assert lowercase.value > plain.value
    assert "case:lc" in lowercase.signature


def test_uneven_lists_are_named():
    for score in (evaluation.bleu, evaluation.chrf, evaluation.exact_match):
        with pytest.raises(ValueError, match="1 hypotheses, 2 references"):
            score(HYPOTHESES[:1], REFERENCES)
