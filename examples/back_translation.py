"""New training pairs from old ones, by a model for the other direction.

    keras-transformer prepare corpus-back --swap --tokenizer runs/mine …
    keras-transformer train corpus-back --run-folder runs/back …
    python examples/back_translation.py new.tsv.gz runs/back --pairs train.tsv

The targets of the pairs are translated back, by greedy search. The new pairs
have what came out, and the old targets, which people wrote. Those are left
out that are there already, and those that share too few words with the old
source, since most of them are wrong.
"""

import argparse
import gzip
import re
from collections import Counter, defaultdict

import keras_transformer as kt
from keras_transformer.data import read_pairs


def main(output, model, sources, least_overlap=0.5):
    """Writes new pairs of the targets in `sources` to the file `output`."""
    known = defaultdict(list)
    for source in sources:
        for text, target in read_pairs(source):
            known[target].append(text)
    print(f"Translating {len(known):,} sentences back ...", flush=True)
    results = kt.load(model).translate(list(known), beam_size=1)
    new = [
        (result.text, target)
        for result, (target, texts) in zip(results, known.items())
        if result.text not in texts
        and max(overlap(result.text, text) for text in texts) >= least_overlap
    ]
    with gzip.open(output, "wt", encoding="utf-8") as file:
        file.writelines(f"{text}\t{target}\n" for text, target in new)
    print(f"Wrote {output}, {len(new):,} new pairs.")


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
    args = parser.parse_args()
    try:
        main(args.output, args.model, args.pairs, args.least_overlap)
    except (OSError, ValueError) as error:
        parser.error(str(error))
