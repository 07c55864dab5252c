"""New training pairs from old ones, by a model for the other direction.

    keras-transformer prepare corpus-back --swap --tokenizer runs/mine …
    keras-transformer train corpus-back --run-folder runs/back …
    python examples/back_translation.py new.tsv.gz runs/back --pairs train.tsv

The targets of the pairs are translated back, by greedy search, and with
`--samples` at random, too. The new pairs have what came out, and the old
targets, which people wrote. Those are left out that are there already, and
those that share too few words with the old source, since most of them are
wrong. A model for the forward direction is a better judge: with `--judge` the
target must be about as likely, given the new source, as it was with the old.
"""

import argparse
import gzip
import re
from collections import Counter, defaultdict

import keras_transformer as kt
from keras_transformer.data import read_pairs


def main(
    output,
    model,
    sources,
    least_overlap=0.5,
    num_samples=0,
    judge=None,
    most_lost=2.0,
    dtype="float32",
):
    """Writes new pairs of the targets in `sources` to the file `output`."""
    known = defaultdict(list)
    for source in sources:
        for text, target in read_pairs(source):
            known[target].append(text)
    print(f"Translating {len(known):,} sentences back ...", flush=True)
    translator = kt.load(model, dtype)
    searches = [translator.translate(list(known), beam_size=1)]
    if num_samples:
        searches.append(
            translator.translate(
                list(known), num_results=num_samples, temperature=0.6, seed=1
            )
        )
    new = [
        (text, target)
        for target, *results in zip(known, *searches)
        for text in different(results)
        if text not in known[target]
        and max(overlap(text, old) for old in known[target]) >= least_overlap
    ]
    if judge:
        print(f"Judging {len(new):,} of the translations ...", flush=True)
        new = likely(kt.load(judge, dtype), new, known, most_lost)
    with gzip.open(output, "wt", encoding="utf-8") as file:
        file.writelines(f"{text}\t{target}\n" for text, target in new)
    print(f"Wrote {output}, {len(new):,} new pairs.")


def different(results):
    """The texts of all results and of their alternatives, each once."""
    texts = [
        t.text for result in results for t in (result, *result.alternatives)
    ]
    return dict.fromkeys(" ".join(text.split()) for text in texts)


def likely(judge, pairs, known, most_lost):
    """Those pairs whose target is hardly less likely than with an old source.

    What is lost is the difference of log-probabilities.
    """
    old = [(text, target) for target in known for text in known[target]]
    before = defaultdict(lambda: float("-inf"))
    for (_, target), score in zip(old, scores(judge, old)):
        before[target] = max(before[target], score)
    return [
        pair
        for pair, score in zip(pairs, scores(judge, pairs))
        if score >= before[pair[1]] - most_lost
    ]


def scores(judge, pairs):
    """Log-probabilities of the targets, given the sources."""
    return judge.score(*zip(*pairs), length_penalty=0) if pairs else []


def overlap(a, b):
    """Share of the words that two texts have in common, from 0 to 1."""
    a, b = (Counter(re.findall(r"\w+", text.lower())) for text in (a, b))
    return 2 * (a & b).total() / max(1, a.total() + b.total())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("output", help="file to write, .tsv.gz")
    parser.add_argument("model", help="a model from target to source")
    parser.add_argument(
        "--pairs",
        nargs="+",
        required=True,
        metavar="SOURCE",
        help="training pairs, as `keras-transformer prepare` takes them",
    )
    parser.add_argument(
        "--least-overlap",
        type=float,
        default=0.5,
        metavar="X",
        help="share of words in common with the old source (0.5)",
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=0,
        metavar="N",
        help="translations to draw of each target, besides (0)",
    )
    parser.add_argument(
        "--judge", metavar="MODEL", help="a model from source to target"
    )
    parser.add_argument(
        "--most-lost",
        type=float,
        default=2.0,
        metavar="X",
        help="log-probability that the judge lets a target lose (2.0)",
    )
    parser.add_argument(
        "--dtype",
        default="float32",
        help="mixed_bfloat16 is faster where the processor multiplies in it",
    )
    args = parser.parse_args()
    try:
        main(
            args.output,
            args.model,
            args.pairs,
            args.least_overlap,
            args.samples,
            args.judge,
            args.most_lost,
            args.dtype,
        )
    except (OSError, ValueError) as error:
        parser.error(str(error))
