"""How fast is the way from text to batches?

    python -m benchmarks.pipeline [--source SOURCE] [--quick]

First tokenising, in sentences a second: inside the graph and by the threads
of `prepare`, against the `sentencepiece` package with its own threads. Then
batching, in real tokens (source and target) a second:

- prepared shards through `make_batches`;
- a plain tf.data pipeline: lines, tokenised in the graph, `padded_batch`;
- PyTorch's DataLoader doing the same: lines, tokenised by `sentencepiece`,
  padded, in worker processes;
- PyTorch's DataLoader over the prepared shards, in the same batches.

The repeats of all are interleaved; medians count, ranges are shown.
"""

import argparse
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the ops

from keras_transformer.batching import BatchPlan, make_batches, prepare
from keras_transformer.data import read_pairs
from keras_transformer.tokenizer import END, START

CORES = 2
# Workers stay for all passes: their start is no part of what is measured.
WORKERS = {
    "num_workers": CORES,
    "persistent_workers": True,
    "prefetch_factor": 4,
    "multiprocessing_context": "forkserver",
}
TOKENS = 25_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--source",
        default="numbers",
        help="as for `keras-transformer prepare` (numbers)",
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--quick", action="store_true", help="20,000 pairs, two repeats"
    )
    args = parser.parse_args()
    if args.quick:
        args.repeats = 2
    limit = 20_000 if args.quick else 200_000
    pairs = list(islice(read_pairs(args.source), limit))
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(
            Path(folder, "prepared"),
            pairs,
            vocabulary_size=1_000 if args.quick else 8_000,
            clean=False,
            verbose=False,
        )
        sides = []
        for side in (0, 1):
            sides.append(Path(folder, f"side{side}.txt"))
            sides[-1].write_text("\n".join(pair[side] for pair in pairs))
        sentences = [side for pair in pairs for side in pair]
        print(
            f"{args.source}: {len(pairs):,} pairs, {CORES} cores, "
            f"{args.repeats} repeats, load {os.getloadavg()[0]:.1f}"
        )
        tokenizer = prepared.tokenizer
        compare(
            "sentences/s",
            {
                "in graph, tf.data map": lambda: in_graph(sentences, tokenizer),
                "threads of prepare": lambda: in_threads(sentences, tokenizer),
                "sentencepiece package": lambda: package(sentences, tokenizer),
            },
            args.repeats,
        )
        total = int((prepared.train.lengths + 1).sum())
        batches = {
            "prepared shards": make_batches(
                prepared.train, tokens_per_batch=TOKENS
            ),
            "tf.data on lines": tf_lines(sides, tokenizer),
        }
        try:
            import torch  # noqa: F401
        except ImportError:
            print("PyTorch is not installed: benchmarks/requirements.txt")
        else:
            batches["DataLoader on lines"] = torch_lines(pairs, tokenizer)
            batches["DataLoader on shards"] = torch_shards(prepared)
        # One pass over each gives the same tokens; nothing is done to them.
        contenders = {
            name: partial(run_through, dataset, total)
            for name, dataset in batches.items()
        }
        compare("tokens/s", contenders, args.repeats)
        plan = BatchPlan(prepared.train, TOKENS)
        start = time.perf_counter()
        real = sum(map(real_tokens, plan.epoch(0)))
        rate = real / (time.perf_counter() - start)
        print(
            f"\nNumPy alone assembles {rate:,.0f} tokens/s; what is lost from "
            "there is the hand-over to tf.data, which runs Python under its "
            f"lock. Cells are {plan.real_share:.1%} real."
        )


def compare(unit, contenders, repeats):
    """Runs all, again and again, and prints medians and ranges."""
    for run in contenders.values():
        run()  # warm up: traces, worker start, page cache
    rates = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            start = time.perf_counter()
            number = run()
            rates[name].append(number / (time.perf_counter() - start))
    print(f"\n| | {unit}, median | range |\n|---|---|---|")
    for name, found in rates.items():
        print(
            f"| {name} | {statistics.median(found):,.0f} "
            f"| {min(found):,.0f} to {max(found):,.0f} |"
        )


def in_graph(sentences, tokenizer):
    dataset = tf.data.Dataset.from_tensor_slices(sentences).batch(512)
    dataset = dataset.map(tokenizer.tokenize, num_parallel_calls=CORES)
    for _ in dataset.prefetch(8):
        pass
    return len(sentences)


def in_threads(sentences, tokenizer):
    parts = [sentences[i : i + 1000] for i in range(0, len(sentences), 1000)]
    with ThreadPoolExecutor(CORES) as pool:
        for _ in pool.map(tokenizer.tokenize, parts):
            pass
    return len(sentences)


def package(sentences, tokenizer):
    tokenizer._processor.encode(sentences, num_threads=CORES)
    return len(sentences)


def run_through(dataset, total):
    for _ in dataset:
        pass
    return total


def real_tokens(batch):
    inputs, targets = batch
    return np.count_nonzero(inputs["source_ids"]) + np.count_nonzero(targets)


def tf_lines(paths, tokenizer):
    lines = [tf.data.TextLineDataset(str(path)) for path in paths]
    dataset = tf.data.Dataset.zip(*lines).shuffle(10_000)

    def to_ids(source, target):
        source = tokenizer.tokenize(source, add_end=True)
        target = tokenizer.tokenize(target, add_start=True, add_end=True)
        inputs = {"source_ids": source, "target_ids": target[:-1]}
        return inputs, target[1:]

    dataset = dataset.map(to_ids, num_parallel_calls=CORES)
    return dataset.padded_batch(512).prefetch(8)


def torch_lines(pairs, tokenizer):
    from torch.utils.data import DataLoader

    return DataLoader(
        pairs,
        batch_size=512,
        shuffle=True,
        collate_fn=CollateText(tokenizer),
        **WORKERS,
    )


class CollateText:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, pairs):
        sources, targets = zip(*pairs)
        return collate(
            zip(
                self.tokenizer.tokenize(sources),
                self.tokenizer.tokenize(targets),
            )
        )


def torch_shards(prepared):
    from torch.utils.data import DataLoader

    plan = BatchPlan(prepared.train, TOKENS)
    rows, order = plan._order(0)
    return DataLoader(
        Rows(prepared.train),
        batch_sampler=[
            rows[plan._batches[i][1] : plan._batches[i][2]].tolist()
            for i in order
        ],
        collate_fn=collate,
        **WORKERS,
    )


class Rows:
    """The usual map-style dataset: one pair at a time."""

    def __init__(self, examples):
        self.ids = examples._ids
        self.lengths = examples.lengths
        self.starts = examples._starts
        self.first_rows = examples._first_rows

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, row):
        ids = self.ids[np.searchsorted(self.first_rows, row, "right") - 1]
        (source, target), (first, second) = self.starts[row], self.lengths[row]
        return ids[source : source + first], ids[target : target + second]


def collate(pairs):
    import torch

    sources, targets = zip(*pairs)
    source_ids = np.zeros((len(sources), longest(sources)), np.int32)
    target_ids = np.zeros((len(targets), longest(targets)), np.int32)
    wanted = np.zeros_like(target_ids)
    target_ids[:, 0] = START
    for row, (source, target) in enumerate(zip(sources, targets)):
        source_ids[row, : len(source)] = source
        source_ids[row, len(source)] = END
        target_ids[row, 1 : len(target) + 1] = target
        wanted[row, : len(target)] = target
        wanted[row, len(target)] = END
    inputs = {
        "source_ids": torch.from_numpy(source_ids),
        "target_ids": torch.from_numpy(target_ids),
    }
    return inputs, torch.from_numpy(wanted)


def longest(rows):
    return max(map(len, rows)) + 1


if __name__ == "__main__":
    main()
