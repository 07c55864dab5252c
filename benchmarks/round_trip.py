"""Does every line of the real corpora come back exactly?

    python -m benchmarks.round_trip FOLDER [--quick]

Tokenises and detokenises each line, in Python and inside the graph, with a
vocabulary learned from Multi30k alone, so that most lines are new to it.
"""

import argparse
import os
import sys
import time
from itertools import islice

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

CORPORA = {
    "Multi30k": [
        f"multi30k-en-de/{split}.en.gz,multi30k-en-de/{split}.de.gz"
        for split in ("train", "val", "test_2016_flickr")
    ],
    "Tatoeba": [
        f"tatoeba-en-de/{split}.tsv.gz"
        for split in (
            "train-direct",
            "train-extra",
            "train-pivot",
            "dev",
            "test-v2020-07-28",
        )
    ],
    "newstest": [
        "newstest-en-de/newstest2013.en.gz,newstest-en-de/newstest2013.de.gz"
    ],
    "Europarl": ["europarl-en-de/train.tsv.gz"],
}


def main():
    import tensorflow as tf

    from keras_transformer.data import read_pairs
    from keras_transformer.tokenizer import Tokenizer

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="folder of the corpora, named as here")
    parser.add_argument("--quick", action="store_true", help="2,000 pairs each")
    args = parser.parse_args()
    os.chdir(args.data)
    limit = 2_000 if args.quick else None

    def sentences(corpus):
        for pair in islice(read_pairs(CORPORA[corpus]), limit):
            yield from pair

    tokenizer = Tokenizer.train(sentences("Multi30k"), 4_000)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def in_graph(lines):
        ids = tokenizer.tokenize(lines)
        return ids.flat_values, tokenizer.detokenize(ids)

    failed = 0
    print("| corpus | sentences | Python | graph | ids differ | seconds |")
    print("|---|---|---|---|---|---|")
    for corpus in CORPORA:
        start, total, wrong = time.perf_counter(), 0, [0, 0, 0]
        lines = sentences(corpus)
        while some := list(islice(lines, 10_000)):
            total += len(some)
            ids = tokenizer.tokenize(some)
            flat, back = in_graph(some)
            wrong[0] += sum(
                a != b for a, b in zip(tokenizer.detokenize(ids), some)
            )
            wrong[1] += sum(a != b.encode() for a, b in zip(back.numpy(), some))
            wrong[2] += [i for row in ids for i in row] != flat.numpy().tolist()
        failed += sum(wrong)
        seconds = time.perf_counter() - start
        print(
            f"| {corpus} | {total:,} | {1 - wrong[0] / total:.4%} "
            f"| {1 - wrong[1] / total:.4%} "
            f"| {'yes' if wrong[2] else 'no'} | {seconds:.0f} |",
            flush=True,
        )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
