"""Repeats the sentence pairs that have rare words, to train on.

    python examples/rare_words.py rare.tsv.gz --pairs train.tsv.gz \\
        --repeat 3=6 15=4 63=2

A model learns a word of three sentences late, long after it knows common ones
by heart. Here a pair whose rarest word, on either side, is there at most 3
times is written 6 times, and so on, and all others once. Capitals make no
difference.
"""

import argparse
import gzip
import re
from collections import Counter
from math import inf

from keras_transformer.data import read_pairs


def main(output, sources, repeat):
    """Writes the pairs of `sources` to `output`, as often as `repeat` says.

    Args:
        output: File to write.
        sources: Sentence pairs, as `prepare` takes them.
        repeat: How often to write a pair, by the largest count of its rarest
            word: `{3: 6, 15: 4}`. Those with a larger count are written once.
    """
    counts = Counter()
    for source in sources:
        for pair in read_pairs(source):
            counts.update(words(pair))
    read = written = 0
    with gzip.open(output, "wt", encoding="utf-8") as file:
        for source in sources:
            for pair in read_pairs(source):
                least = min(map(counts.__getitem__, words(pair)), default=inf)
                limits = [limit for limit in repeat if least <= limit]
                times = repeat[min(limits)] if limits else 1
                file.write(("\t".join(pair) + "\n") * times)
                read, written = read + 1, written + times
    print(f"Wrote {output}, {written:,} pairs from {read:,}.")


def words(pair):
    """The words of both sides, each with its side."""
    return [
        (side, word)
        for side, text in enumerate(pair)
        for word in re.findall(r"[^\W\d_]+", text.lower())
    ]


def rule(text):
    """`3=6` as numbers."""
    limit, times = map(int, text.split("="))
    return limit, times


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("output", help="file to write, .tsv.gz")
    parser.add_argument(
        "--pairs",
        nargs="+",
        required=True,
        metavar="SOURCE",
        help="training pairs, as `keras-transformer prepare` takes them",
    )
    parser.add_argument(
        "--repeat",
        nargs="+",
        type=rule,
        required=True,
        metavar="COUNT=TIMES",
        help="how often to write pairs with a word of at most that count",
    )
    args = parser.parse_args()
    try:
        main(args.output, args.pairs, dict(args.repeat))
    except (OSError, ValueError) as error:
        parser.error(str(error))
