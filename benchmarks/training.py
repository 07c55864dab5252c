"""Training speed beside peers: target tokens a second, and peak memory.

usage: python -m benchmarks.training [--quick] [--sizes 3x256 …] [--rounds N]
                                     [--dtype mixed_bfloat16]

Each system trains in a process of its own, on the same padded batches, and
they take turns, so that a slow minute of the machine is shared by all. The
last lines are rows for RESULTS.md. `--quick` only shows that it runs. Rows
are no result where other processes took part of the machine: it is measured,
and said.

What each system is:
    ours           Transformer, our Adam and loss, plain `fit`
    torch          nn.Transformer, eager, fused Adam, label smoothing 0.1,
                   without its dropout inside of attention and feed-forward
                   and without its last norms, which the others lack
    torch.compile  the same model, compiled, shapes dynamic
    keras_hub      KerasHub's TransformerEncoder and TransformerDecoder, stock
                   `fit` and Adam, stock cross-entropy (no label smoothing);
                   its dropout is that of attention weights, too
    keras          keras.layers.MultiHeadAttention, otherwise as keras_hub
    matmul_tf, matmul_torch
                   the best rate of a large matrix multiplication

All have tied embeddings, dropout 0.1 on embeddings and sub-layers, ReLU and
post-norm. PyTorch and KerasHub have biases in attention. The share of the
matrix-multiply rate counts the multiplications of the model alone, three
times the forward pass, padding included. With `--dtype mixed_bfloat16` weights
stay in float32 and multiplications are in bfloat16: Keras' policy for the Keras
systems, `torch.autocast` for PyTorch, and the rate is that of bfloat16.
"""

import argparse
import datetime
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

from benchmarks.training_systems import (
    DTYPES,
    MAKERS,
    MATMUL_FLOPS,
    SIZES,
    make_batches,
    matmul_flops,
)

ROOT = Path(__file__).resolve().parents[1]
SYSTEMS = ["ours", "torch", "torch.compile", "keras_hub", "keras"]
PROBES = ["matmul_tf", "matmul_torch"]
QUIET = 0.05  # share of the machine that other processes may take


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
        command = [sys.executable, "-m", "benchmarks.training"]
        command += ["--serve", name, "--sizes", size, "--dtype", dtype]
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
        f"`python -m benchmarks.training {' '.join(arguments)}`. "
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
