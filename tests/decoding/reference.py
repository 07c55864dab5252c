"""The searches a second time, without cache, in NumPy: the judge."""

import itertools

import numpy as np

from keras_transformer.tokenizer import END, PADDING, START
from tests import reference


def log_probs(model, source, targets):
    """Of every next token, `(targets, 1 + length, vocabulary)`, in one pass."""
    starts = np.full((len(targets), 1), START)
    targets = np.concatenate([starts, np.array(targets, int)], axis=1)
    source = np.repeat(source[None], len(targets), axis=0)
    logits = reference.transformer(source, targets, model)
    return np.log(reference.softmax(logits))


def penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def log_prob(model, source, target):
    """Of one target, with its end."""
    steps = log_probs(model, source, [target[:-1]])[0]
    return sum(steps[i, token] for i, token in enumerate(target))


def anything(ids):
    return True


def brute_force(model, source, max_length, alpha, allowed=anything):
    """Every hypothesis that is allowed, best first, those cut off last.

    Returns:
        A list of `(score, ids)`.
    """
    size = model.get_config()["vocabulary_size"]
    words = [token for token in range(1, size) if token not in (START, END)]
    starts = list(itertools.product(words, repeat=max_length - 1))
    steps = log_probs(model, source, starts)
    ended, cut_off = {}, {}
    for start, tokens in zip(starts, steps):
        totals = np.cumsum([0, *(tokens[i, t] for i, t in enumerate(start))])
        for length in range(max_length):
            ids = (*start[:length], END)
            score = totals[length] + tokens[length, END]
            ended[ids] = score / penalty(length + 1, alpha)
        for word in words:
            score = totals[-1] + tokens[-1, word]
            cut_off[(*start, word)] = score / penalty(max_length, alpha)
    return [
        (score, list(ids))
        for found in (ended, cut_off)
        for ids, score in sorted(found.items(), key=lambda x: -x[1])
        if allowed(list(ids))
    ]


def beam_search(
    model, source, beam_size, alpha, max_length, num_results, allowed=anything
):
    """The best `num_results` of `(score, ids)`, as the docstring says."""
    opened, ended = [(0.0, [])], []
    for length in range(1, max_length + 1):
        steps = log_probs(model, source, [ids for _, ids in opened])[:, -1]
        candidates = [
            (total + step[token], [*ids, token])
            for (total, ids), step in zip(opened, steps)
            for token in range(1, len(step))
            if token != START and allowed([*ids, token])
        ]
        candidates = sorted(candidates, reverse=True)[: 2 * beam_size]
        ended += [
            (total / penalty(length, alpha), ids)
            for total, ids in candidates[:beam_size]
            if ids[-1] == END
        ]
        ended = sorted(ended, reverse=True)
        opened = [x for x in candidates if x[1][-1] != END][:beam_size]
        if not opened:
            break
        best = opened[0][0]
        hope = max(best / penalty(n, alpha) for n in (length + 1, max_length))
        if len(ended) >= num_results and ended[num_results - 1][0] >= hope:
            break
        worst = ended[beam_size - 1][0] if len(ended) >= beam_size else -np.inf
        if worst >= best / penalty(length, alpha):
            break
    cut_off = [(total / penalty(max_length, alpha), x) for total, x in opened]
    return (ended[:beam_size] + cut_off)[:num_results]


def obeys(ids, prefix=(), min_length=0, no_repeat_ngram_size=0):
    """Whether ids hold what a search was told. A prefix may repeat itself."""
    begun = min(len(ids), len(prefix))
    if ids[:begun] != list(prefix[:begun]) or END in ids[:min_length]:
        return False
    size = no_repeat_ngram_size
    ngrams = [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]
    return size == 0 or not any(
        ngram in ngrams[:i]
        for i, ngram in enumerate(ngrams)
        if i + size > len(prefix)
    )


def truncated(log_probs, temperature=1.0, top_k=None, top_p=1.0):
    """The distribution of one step that samples come from, `(vocabulary,)`."""
    probs = np.exp(log_probs / temperature)
    probs[[PADDING, START]] = 0
    best = np.argsort(-probs)[:top_k]
    shares = probs[best] / probs[best].sum()
    best = best[np.cumsum(shares) - shares < top_p]
    kept = np.zeros_like(probs)
    kept[best] = probs[best] / probs[best].sum()
    return kept
