"""Word pairs from sentence pairs, to train on: a dictionary of rare words.

    pip install eflomal
    python examples/word_pairs.py words.tsv.gz --pairs train.tsv.gz \\
        --also other.tsv.gz

Words are aligned by [eflomal](https://github.com/robertostling/eflomal), in
both directions. A pair of words that are each other's translation often enough
is written if its target word is rare in the own pairs. As it costs four tokens
where a sentence costs twenty, a model can see it often.
"""

import argparse
import gzip
import re
import tempfile
from collections import Counter
from pathlib import Path

from keras_transformer.data import read_pairs

OWN_TIMES, OTHER_TIMES = 10, 4


def main(output, own, others=(), most=30):
    """Writes the pairs of words to `output`.

    Args:
        output: File to write.
        own: Sentence pairs of the kind to translate, as `prepare` takes them.
            What these have is written ten times, all else four times.
        others: More sentence pairs to find words in.
        most: Most times that the target word may be in the own pairs.
    """
    pairs = [words for source in own for words in read_words(source)]
    num_own = len(pairs)
    pairs += [words for source in others for words in read_words(source)]
    print(f"Aligning the words of {len(pairs):,} pairs ...", flush=True)
    found = word_pairs(pairs, num_own, aligned(pairs), most)
    with gzip.open(output, "wt", encoding="utf-8") as file:
        for pair, is_own in found.items():
            times = OWN_TIMES if is_own else OTHER_TIMES
            file.write(("\t".join(pair) + "\n") * times)
    print(f"Wrote {output}, {len(found):,} pairs of words.")


def read_words(source):
    """The words and signs of both sides, if both have some."""
    for pair in read_pairs(source):
        words = [re.findall(r"[^\W_]+|[^\w\s]", text) for text in pair]
        if all(words):
            yield words


def aligned(pairs):
    """For each pair, numbers of words that belong together, both ways."""
    try:
        import eflomal
    except ImportError:
        raise ValueError(
            "Words are aligned by eflomal, which is not installed. "
            "Run `pip install eflomal`; it needs a C compiler."
        ) from None
    with tempfile.TemporaryDirectory() as folder:
        names = ("source", "target", "forward", "reverse")
        files = [Path(folder, name) for name in names]
        sides = zip(*pairs)
        for file, side, change in zip(files, sides, (str.lower, str)):
            lines = (change(" ".join(words)) + "\n" for words in side)
            with file.open("w", encoding="utf-8") as text:
                text.writelines(lines)
        with files[0].open() as source, files[1].open() as target:
            eflomal.Aligner(model=2, rel_iterations=0.5).align(
                source,
                target,
                links_filename_fwd=str(files[2]),
                links_filename_rev=str(files[3]),
            )
        with files[2].open() as forward, files[3].open() as reverse:
            return [
                {
                    tuple(map(int, link.split("-")))
                    for link in set(a.split()) & set(b.split())
                }
                for a, b in zip(forward, reverse)
            ]


def word_pairs(pairs, num_own, links, most):
    """Which words translate each other, and whether the own pairs have that.

    Args:
        pairs: Words of both sides, the own pairs first.
        num_own: How many are own ones.
        links: Numbers of words that belong together, for each pair.
        most: Most times that the target word may be in the own pairs.
    """
    inside = [Counter(), Counter()]  # words that do not begin a sentence
    for pair in pairs:
        for counts, words in zip(inside, pair):
            counts.update(words[1:])
    own_targets = Counter()
    seen = [Counter(), Counter()]
    together, own_together = Counter(), Counter()
    for n, (pair, linked) in enumerate(zip(pairs, links)):
        pair = [without_capital(*side) for side in zip(pair, inside)]
        for counts, words in zip(seen, pair):
            counts.update(set(words))
        here = {(pair[0][i], pair[1][j]) for i, j in linked}
        here = {words for words in here if all(map(str.isalpha, words))}
        together.update(here)
        if n < num_own:
            own_targets.update(pair[1])
            own_together.update(here)

    found = {}
    for (source, target), count in together.items():
        is_own = (source, target) in own_together
        least = (0.2, 0.3) if count == 1 else (0.1, 0.25)
        shares = (count / seen[0][source], count / seen[1][target])
        if (
            (count > 1 or is_own)
            and len(target) > 2
            and own_targets[target] <= most
            and all(share >= bound for share, bound in zip(shares, least))
        ):
            found[source, target] = is_own
    return found


def without_capital(words, inside):
    """The words, the first one as it is mostly written inside of sentences."""
    first = words[0]
    if inside[first.lower()] > inside[first]:
        first = first.lower()
    return [first, *words[1:]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("output", help="file to write, .tsv.gz")
    for flag, required, text in (
        ("pairs", True, "own pairs, as `keras-transformer prepare` takes them"),
        ("also", False, "more pairs to find words in"),
    ):
        parser.add_argument(
            f"--{flag}",
            nargs="+",
            required=required,
            default=(),
            metavar="SOURCE",
            help=text,
        )
    parser.add_argument(
        "--most",
        type=int,
        default=30,
        metavar="N",
        help="most times that a target word is in the own pairs (30)",
    )
    args = parser.parse_args()
    try:
        main(args.output, args.pairs, args.also, args.most)
    except (OSError, ValueError) as error:
        parser.error(str(error))
