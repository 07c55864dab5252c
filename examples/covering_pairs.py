"""Picks pairs of another kind that teach words which the own pairs hardly have.

    python examples/covering_pairs.py cover.tsv.gz --own train.tsv.gz \\
        --other other.tsv.gz

Of a large collection of another kind, most sentences teach nothing new and pull
the model away from its own kind. Here one is taken, the shortest first, if it
has a source word that is rare in the own pairs and that has not been taken
often enough. A word that is in the other pairs only once is more often a
misprint, and does not count. Capitals make no difference.
"""

import argparse
import gzip
import re
from collections import Counter

from keras_transformer.data import read_pairs

LENGTHS = range(3, 25)  # of a source sentence, in words


def main(output, own, other, most=20, times=12):
    """Writes those pairs of `other` to `output`.

    Args:
        output: File to write.
        own: Sentence pairs of the kind to translate, as `prepare` takes them.
        other: Sentence pairs to pick from.
        most: Most times that a word to learn is there in `own`.
        times: How often to take each such word, if that can be.
    """
    known = Counter(
        word
        for source in own
        for text, _ in read_pairs(source)
        for word in words(text)
    )
    pairs = [pair for source in other for pair in read_pairs(source)]
    seen = Counter(word for text, _ in pairs for word in words(text))
    rare = {w for w, n in seen.items() if n > 1 and known[w] <= most}
    taken = Counter()
    written = 0
    with gzip.open(output, "wt", encoding="utf-8") as file:
        for pair in sorted(pairs, key=lambda pair: len(words(pair[0]))):
            here = words(pair[0])
            new = {word for word in here if word in rare}
            if len(here) in LENGTHS and any(taken[w] < times for w in new):
                taken.update(new)
                file.write("\t".join(pair) + "\n")
                written += 1
    print(
        f"Wrote {output}, {written:,} pairs from {len(pairs):,}, "
        f"with {len(taken):,} words to learn."
    )


def words(text):
    """The words of a text, without capitals."""
    return re.findall(r"[^\W\d_]+", text.lower())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("output", help="file to write, .tsv.gz")
    for flag, text in (
        ("own", "own pairs, as `keras-transformer prepare` takes them"),
        ("other", "pairs to pick from"),
    ):
        parser.add_argument(
            f"--{flag}", nargs="+", required=True, metavar="SOURCE", help=text
        )
    for flag, default, text in (
        ("most", 20, "most times that a word to learn is in the own pairs"),
        ("times", 12, "how often to take each such word"),
    ):
        parser.add_argument(
            f"--{flag}",
            type=int,
            default=default,
            metavar="N",
            help=f"{text} ({default})",
        )
    args = parser.parse_args()
    try:
        main(args.output, args.own, args.other, args.most, args.times)
    except (OSError, ValueError) as error:
        parser.error(str(error))
