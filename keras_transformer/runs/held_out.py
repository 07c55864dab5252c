"""Development and test pairs as text, and how well they are translated."""

import numpy as np

from keras_transformer import evaluation
from keras_transformer.data import is_blank


def texts(examples, translator, count=None):
    """Sources and references of the first pairs, or None if there are none.

    Args:
        examples: `Examples` of a prepared folder, or None.
        translator: A `Translator`, for its tokenizers.
        count: How many pairs to read; blank ones, which would count as right
            answers, are left out of these.
    """
    if examples is None:
        return None
    rows = np.arange(len(examples))[:count]
    tokenizers = (translator.source_tokenizer, translator.target_tokenizer)
    sides = [
        tokenizer.detokenize(_ids(examples, rows, side))
        for side, tokenizer in enumerate(tokenizers)
    ]
    pairs = [pair for pair in zip(*sides) if not is_blank(*pair)]
    return list(map(list, zip(*pairs))) if pairs else None


def score(pairs, translator, **search):
    """Scores of translating held-out sentences, and the translations.

    Args:
        pairs: What `texts` gave.
        translator: A `Translator`.
        **search: How to search: arguments of `Translator.translate`.
    """
    if pairs is None:
        return {}, []
    sources, references = pairs
    translations = translator.translate(sources, **search)
    found = [translation.text for translation in translations]
    bleu = evaluation.bleu(found, references)
    chrf = evaluation.chrf(found, references)
    scores = {
        "bleu": round(bleu.value, 3),
        "chrf": round(chrf.value, 3),
        "exact": round(evaluation.exact_match(found, references), 4),
        "sentences": len(references),
        "signature": bleu.signature,
        "chrf_signature": chrf.signature,
    }
    return scores, found


def _ids(examples, rows, side):
    """The pieces of each row, without padding."""
    lengths = examples.lengths[rows, side]
    padded = examples.gather(rows, side, int(lengths.max()))
    return [ids[:length].tolist() for ids, length in zip(padded, lengths)]
