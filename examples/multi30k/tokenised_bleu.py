"""BLEU as older papers have it: on tokenised text in lower case.

    pip install sacremoses
    python tokenised_bleu.py TRANSLATIONS REFERENCES

Both files have a sentence a line and may be gzipped. The tokeniser is that of
Moses, for German.
"""

import sys

import sacrebleu
from sacremoses import MosesTokenizer

from keras_transformer.data.sources import read_lines


def tokenised_bleu(translations, references):
    """The score and what sacreBLEU says of how it was computed."""
    tokenizer = MosesTokenizer("de")
    texts, references = (
        [
            tokenizer.tokenize(line.lower(), return_str=True, escape=False)
            for line in lines
        ]
        for lines in (translations, references)
    )
    metric = sacrebleu.BLEU(tokenize="none", force=True)
    score = metric.corpus_score(texts, [references]).score
    return score, f"moses, lower case, {metric.get_signature()}"


if __name__ == "__main__":
    lines = (list(read_lines(path)) for path in sys.argv[1:])
    score, signature = tokenised_bleu(*lines)
    print(f"tokenised BLEU {score:.2f} ({signature})")
