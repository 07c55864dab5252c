"""Training speed beside peers: target tokens a second, and peak memory.

usage: python benchmarks/training.py [--quick] [--sizes 3x256 …] [--rounds N]
                                     [--dtype mixed_bfloat16]

Each system trains in a process of its own, on the same padded batches, and
they take turns, so that a slow minute of the machine is shared by all. The
last lines are rows for RESULTS.md. `--quick` only shows that it runs. Rows
are no result where other processes took part of the machine: it is measured,
and said.

What each system is:
    ours           Transformer, our Adam and loss, plain `fit`
    torch          nn.Transformer, eager, fused Adam, label smoothing 0.1
    torch.compile  the same model, compiled, shapes dynamic
    keras_hub      KerasHub's TransformerEncoder and TransformerDecoder, stock
                   `fit` and Adam, stock cross-entropy (no label smoothing)
    keras          keras.layers.MultiHeadAttention, otherwise as keras_hub
    matmul_tf, matmul_torch
                   the best rate of a large matrix multiplication

All have tied embeddings, dropout 0.1, ReLU and post-norm. The share of the
matrix-multiply rate counts the multiplications of the model alone, three
times the forward pass, padding included. With `--dtype mixed_bfloat16` weights
stay in float32 and multiplications are in bfloat16: Keras' policy for the Keras
systems, `torch.autocast` for PyTorch, and the rate is that of bfloat16.
"""

import argparse
import datetime
import itertools
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SIZES = {
    "4x128": {"num_layers": 4, "hidden_dim": 128, "num_heads": 4},
    "3x256": {"num_layers": 3, "hidden_dim": 256, "num_heads": 4},
    "6x512": {"num_layers": 6, "hidden_dim": 512, "num_heads": 8},
}
SYSTEMS = ["ours", "torch", "torch.compile", "keras_hub", "keras"]
PROBES = ["matmul_tf", "matmul_torch"]
DTYPES = ["float32", "mixed_bfloat16"]
VOCABULARY_SIZE = 8000
DROPOUT = 0.1
SHAPES = [(128, 20), (64, 40), (160, 16)]  # rows, length: 2560 places each
QUIET = 0.05  # share of the machine that other processes may take
QUICK_SHAPES = [(8, 10), (4, 20)]


def make_batches(quick):
    """Source, target and label ids; about a tenth of each is padding."""
    rng = np.random.default_rng(0)
    batches = []
    for rows, length in QUICK_SHAPES if quick else SHAPES:
        ids = rng.integers(4, VOCABULARY_SIZE, (2, rows, length + 1))
        lengths = rng.integers(int(0.8 * length), length + 1, (2, rows, 1))
        ids *= np.arange(length + 1) < lengths + 1
        source, target = ids.astype("int32")
        labels = target[:, 1:] * (target[:, 1:] > 0)
        batches.append((source[:, 1:], target[:, :-1], labels))
    return batches


def matmul_flops(size, batches):
    """Of all multiplications in one pass over the batches, with gradients."""
    width, inner = size["hidden_dim"], 4 * size["hidden_dim"]
    total = 0
    for source, _, _ in batches:
        rows, length = source.shape
        places = rows * length
        attention = 4 * width * width + 2 * length * width
        feed_forward = 2 * width * inner
        layer = 3 * attention + 2 * feed_forward  # encoder and decoder
        per_place = size["num_layers"] * layer + width * VOCABULARY_SIZE
        total += 3 * 2 * places * per_place
    return total


# The systems. Each maker returns a function that trains on all batches once.


def make_ours(size, batches, mixed):
    from keras_transformer.model import Transformer
    from keras_transformer.training import (
        Adam,
        SmoothedCrossentropy,
        TransformerSchedule,
    )

    set_policy(mixed)
    model = Transformer(
        VOCABULARY_SIZE,
        **size,
        intermediate_dim=4 * size["hidden_dim"],
        dropout=DROPOUT,
    )
    model.compile(
        Adam(TransformerSchedule(size["hidden_dim"])),
        SmoothedCrossentropy(0.1),
    )
    return keras_runner(model, batches)


def make_keras(size, batches, mixed):
    import keras

    class Attention(keras.layers.Layer):
        """Attention, residual and norm, as the Keras examples write them."""

        def __init__(self, causal=False):
            super().__init__()
            self.causal = causal
            self.attention = keras.layers.MultiHeadAttention(
                size["num_heads"], size["hidden_dim"] // size["num_heads"]
            )
            self.dropout = keras.layers.Dropout(DROPOUT)
            self.norm = keras.layers.LayerNormalization(epsilon=1e-6)

        def call(self, x, memory, memory_mask):
            update = self.attention(
                x,
                memory,
                attention_mask=memory_mask[:, None, :],
                use_causal_mask=self.causal,
            )
            return self.norm(x + self.dropout(update))

    def feed_forward(x):
        inner = keras.layers.Dense(4 * size["hidden_dim"], activation="relu")
        outer = keras.layers.Dense(size["hidden_dim"])
        update = keras.layers.Dropout(DROPOUT)(outer(inner(x)))
        return keras.layers.LayerNormalization(epsilon=1e-6)(x + update)

    def encoder(x, mask):
        return feed_forward(Attention()(x, x, mask))

    def decoder(x, memory, mask, memory_mask):
        x = Attention(causal=True)(x, x, mask)
        return feed_forward(Attention()(x, memory, memory_mask))

    return stock_keras(size, batches, mixed, encoder, decoder)


def make_keras_hub(size, batches, mixed):
    import keras_hub

    settings = {
        "intermediate_dim": 4 * size["hidden_dim"],
        "num_heads": size["num_heads"],
        "dropout": DROPOUT,
    }

    def encoder(x, mask):
        layer = keras_hub.layers.TransformerEncoder(**settings)
        return layer(x, padding_mask=mask)

    def decoder(x, memory, mask, memory_mask):
        layer = keras_hub.layers.TransformerDecoder(**settings)
        return layer(
            x,
            memory,
            decoder_padding_mask=mask,
            encoder_padding_mask=memory_mask,
        )

    return stock_keras(size, batches, mixed, encoder, decoder)


def stock_keras(size, batches, mixed, encoder, decoder):
    """A model of the given layers, trained as the Keras guides do."""
    import keras
    import keras_hub

    set_policy(mixed)
    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    embedding = keras.layers.ReversibleEmbedding(
        VOCABULARY_SIZE, size["hidden_dim"]
    )
    positions = keras_hub.layers.SinePositionEncoding()

    def embed(ids):
        x = embedding(ids)
        return keras.layers.Dropout(DROPOUT)(x + positions(x))

    source_mask = keras.ops.not_equal(source_ids, 0)
    target_mask = keras.ops.not_equal(target_ids, 0)
    memory = embed(source_ids)
    for _ in range(size["num_layers"]):
        memory = encoder(memory, source_mask)
    x = embed(target_ids)
    for _ in range(size["num_layers"]):
        x = decoder(x, memory, target_mask, source_mask)
    model = keras.Model(
        {"source_ids": source_ids, "target_ids": target_ids},
        embedding(x, reverse=True),
    )
    model.compile(
        keras.optimizers.Adam(1e-4, beta_2=0.98, epsilon=1e-9),
        keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=0
        ),
    )
    return keras_runner(model, batches)


def set_policy(mixed):
    import keras

    keras.config.set_dtype_policy("mixed_bfloat16" if mixed else "float32")


def keras_runner(model, batches):
    import tensorflow as tf

    spec = tf.TensorSpec((None, None), tf.int32)
    names = {"source_ids": spec, "target_ids": spec}
    dataset = tf.data.Dataset.from_generator(
        lambda: (
            ({"source_ids": source, "target_ids": target}, labels)
            for source, target, labels in itertools.cycle(batches)
        ),
        output_signature=(names, spec),
    ).prefetch(2)
    dataset = dataset.apply(
        tf.data.experimental.assert_cardinality(
            tf.data.experimental.INFINITE_CARDINALITY
        )
    )
    # For all Keras systems alike: with tf.data's tuner on, most calls of `fit`
    # here lasted exactly 2.56, 5.12 or 20.48 seconds.
    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = dataset.with_options(options)

    def run():
        # Keras makes a new iterator here, which starts with the first batch.
        model.fit(dataset, steps_per_epoch=len(batches), verbose=0)

    return run


def make_torch(size, batches, mixed, compiled=False):
    import math

    import torch

    torch.set_num_threads(os.cpu_count())
    width = size["hidden_dim"]

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(VOCABULARY_SIZE, width)
            torch.nn.init.normal_(self.embedding.weight, std=width**-0.5)
            self.dropout = torch.nn.Dropout(DROPOUT)
            self.transformer = torch.nn.Transformer(
                width,
                size["num_heads"],
                size["num_layers"],
                size["num_layers"],
                4 * width,
                DROPOUT,
                batch_first=True,
            )
            angles = torch.arange(100)[:, None] / 10000 ** (
                torch.arange(0, width, 2) / width
            )
            signal = torch.stack([angles.sin(), angles.cos()], -1)
            self.register_buffer("signal", signal.flatten(1))

        def embed(self, ids):
            x = self.embedding(ids) * math.sqrt(width)
            return self.dropout(x + self.signal[: ids.shape[1]])

        def forward(self, source, target):
            length = target.shape[1]
            future = torch.ones(length, length, dtype=torch.bool).triu(1)
            x = self.transformer(
                self.embed(source),
                self.embed(target),
                tgt_mask=future,
                src_key_padding_mask=source == 0,
                tgt_key_padding_mask=target == 0,
                memory_key_padding_mask=source == 0,
            )
            return x @ self.embedding.weight.T

    model = Model().train()
    parameters = model.parameters()
    optimizer = torch.optim.Adam(
        parameters, 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    forward = torch.compile(model, dynamic=True) if compiled else model
    tensors = [[torch.tensor(x).long() for x in batch] for batch in batches]

    def run():
        for source, target, labels in tensors:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                logits = forward(source, target)
            loss = torch.nn.functional.cross_entropy(
                logits.float().flatten(0, 1),
                labels.flatten(),
                ignore_index=0,
                label_smoothing=0.1,
            )
            loss.backward()
            optimizer.step()

    return run


def make_matmul_tf(size, batches, mixed):
    import tensorflow as tf

    x = tf.random.normal((2048, 2048))
    x = tf.cast(x, tf.bfloat16 if mixed else tf.float32)
    multiply = tf.function(lambda x: tf.matmul(x, x))
    return lambda: multiply(x)


def make_matmul_torch(size, batches, mixed):
    import torch

    torch.set_num_threads(os.cpu_count())
    x = torch.randn(2048, 2048)
    x = x.to(torch.bfloat16 if mixed else torch.float32)
    return lambda: x @ x


MATMUL_FLOPS = 2 * 2048**3

MAKERS = {
    "ours": make_ours,
    "torch": make_torch,
    "torch.compile": lambda *a: make_torch(*a, compiled=True),
    "keras_hub": make_keras_hub,
    "keras": make_keras,
    "matmul_tf": make_matmul_tf,
    "matmul_torch": make_matmul_torch,
}


# One process for each system, which does a round when told to.


def serve(system, size, mixed, quick):
    batches = make_batches(quick)
    begin = time.perf_counter()
    run = MAKERS[system](SIZES[size], batches, mixed)
    for _ in range(3):  # compile, and then again with known shapes
        run()
    reply(warm_up=time.perf_counter() - begin)
    for line in sys.stdin:
        if line.strip() == "quit":
            break
        repeats = int(line)
        begin = time.perf_counter()
        for _ in range(repeats):
            run()
        reply(seconds=(time.perf_counter() - begin) / repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    reply(peak_megabytes=peak)


def reply(**values):
    print("@@" + json.dumps(values), flush=True)


def busy_seconds():
    """CPU time that the whole machine has spent working."""
    fields = Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    user, nice, system, _, _, irq, soft_irq, steal = map(int, fields[:8])
    ticks = user + nice + system + irq + soft_irq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


def process_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class System:
    def __init__(self, name, size, dtype, quick):
        command = [sys.executable, __file__, "--serve", name, "--sizes", size]
        command += ["--dtype", dtype]
        self.name, self.seconds, self.failure = name, [], None
        self.disturbance = []  # share of the machine that others took
        self.process = subprocess.Popen(
            command + (["--quick"] if quick else []),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.warm_up = self.read("warm_up")

    def read(self, key):
        for line in self.process.stdout:
            if line.startswith("@@"):
                return json.loads(line[2:])[key]
        self.failure = self.process.stderr.read().strip().splitlines()[-1:]
        return None

    def ask(self, text, key):
        if self.failure is None:
            self.process.stdin.write(f"{text}\n")
            self.process.stdin.flush()
            return self.read(key)
        return None

    def do_round(self, repeats):
        if self.failure is not None:
            return
        pid, begin = self.process.pid, time.perf_counter()
        others = busy_seconds() - process_seconds(pid)
        seconds = self.ask(repeats, "seconds")
        if seconds is None:
            return
        others = busy_seconds() - process_seconds(pid) - others
        capacity = (time.perf_counter() - begin) * os.cpu_count()
        self.seconds.append(seconds)
        self.disturbance.append(max(0.0, others / capacity))

    def close(self):
        peak = self.ask("quit", "peak_megabytes")
        self.process.kill()
        self.process.wait()
        return peak


def measure(size, names, dtype, rounds, quick):
    """Starts all, lets them take turns, and returns a row for each."""
    systems = []
    for name in names + PROBES:
        print(f"{size}: starting {name} …", file=sys.stderr, flush=True)
        systems.append(System(name, size, dtype, quick))
    for number in range(rounds):
        for system in systems:
            print(
                f"{size}: round {number + 1} of {rounds}, {system.name} …",
                file=sys.stderr,
                flush=True,
            )
            system.do_round(5 if system.name in PROBES else 1)
    peaks = {system.name: system.close() for system in systems}

    batches = make_batches(quick)
    tokens = sum(int((labels > 0).sum()) for _, _, labels in batches)
    rate = max(
        MATMUL_FLOPS / min(system.seconds)
        for system in systems
        if system.name in PROBES and system.seconds
    )
    speeds = {s.name: [tokens / t for t in s.seconds] for s in systems}
    eager = speeds.get("torch")
    rows = []
    for system in systems[: len(names)]:
        if system.failure is not None:
            rows.append([size, system.name, "failed", *"-----"])
            print(f"{system.name}: {system.failure}", file=sys.stderr)
            continue
        speed = statistics.median(speeds[system.name])
        flops = matmul_flops(SIZES[size], batches) * speed / tokens
        rows.append(
            [
                size,
                system.name,
                f"{speed:,.0f}",
                f"{min(speeds[system.name]):,.0f}–"
                f"{max(speeds[system.name]):,.0f}",
                f"{speed / statistics.median(eager):.2f}" if eager else "-",
                f"{flops / rate:.0%}",
                f"{peaks[system.name]:,.0f}",
                f"{system.warm_up:.0f}",
            ]
        )
    print(f"{size}: best matrix multiply {rate / 1e9:.0f} GFLOP/s")
    return rows, max(x for system in systems for x in system.disturbance)


def print_rows(rows, disturbance, arguments):
    commit = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
    ).stdout.strip()
    peers = ("tensorflow", "keras", "torch", "keras-hub")
    print(
        f"\n{datetime.date.today()}, commit {commit or 'unknown'}, "
        f"{platform.processor() or platform.machine()}, "
        f"{os.cpu_count()} cores. "
        f"`python benchmarks/training.py {' '.join(arguments)}`. "
        + ", ".join(f"{peer} {version(peer)}" for peer in peers)
        + "\n"
    )
    print(f"Other processes took up to {disturbance:.0%} of the machine.\n")
    if "--quick" in arguments or disturbance > QUIET:
        # Seen: PyTorch 40 times slower beside a busy neighbour, because its
        # threads wait for each other; TensorFlow's hardly slower at all.
        print(
            "NOT A RESULT: "
            + ("a quick run. " if "--quick" in arguments else "")
            + ("the machine was busy. " if disturbance > QUIET else "")
            + "Do not compare these rows.\n"
        )
    names = "size,system,target tokens/s,range,× eager PyTorch"
    names += ",share of matmul,peak MB,warm-up s"
    table = [names.split(","), ["---"] * 8, *rows]
    for row in table:
        print("| " + " | ".join(row) + " |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--sizes", nargs="+", choices=SIZES)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS)
    parser.add_argument("--dtype", choices=DTYPES, default=DTYPES[0])
    parser.add_argument("--serve", choices=MAKERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        mixed = options.dtype == "mixed_bfloat16"
        return serve(options.serve, options.sizes[0], mixed, options.quick)
    sizes = options.sizes or (["4x128"] if options.quick else list(SIZES))
    rounds = options.rounds or (1 if options.quick else 7)
    rows, disturbance = [], 0.0
    for size in sizes:
        new_rows, others = measure(
            size,
            options.systems or SYSTEMS,
            options.dtype,
            rounds,
            options.quick,
        )
        rows += new_rows
        disturbance = max(disturbance, others)
    print_rows(rows, disturbance, sys.argv[1:])


if __name__ == "__main__":
    main()
