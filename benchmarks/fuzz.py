"""Does any text break an exported model, or change its neighbour's answer?

    python -m benchmarks.fuzz MODEL/1 [--texts 5000] [--seed 0]

Sends random texts, some at a time, to one signature after the other: bytes,
characters of all scripts, words with something broken in them, names of pieces,
one thing over and over, up to 100,000 characters. Every answer must be UTF-8
with finite numbers. One text of each batch is asked for once more, alone: the
answer must be the same. What fails is printed, and the exit code is 1.
"""

import argparse
import os
import sys
import time
from collections import Counter

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401

from benchmarks.side_by_side import origin

WORDS = (
    "one two-hundred Häuser ▁ </s> <s> <pad> <unk> <0x00> . ,, !? 1e9".split()
)
SPACES = [*" \t\n\r\x00\x1b", "\u00a0", "\u2028", "\u200b", ""]
SCRIPTS = [0x20, 0x400, 0x590, 0x600, 0x900, 0x4E00, 0x1F600, 0xE000, 0x10FF00]
LENGTHS = [1, 3, 10, 40, 200, 2000]
LARGEST_BATCH = 60


def random_text(rng):
    """Bytes of one of several kinds."""
    length = rng.choice(LENGTHS, p=[0.2, 0.2, 0.2, 0.2, 0.15, 0.05])
    kind = rng.choice(["bytes", "any", "script", "words", "broken", "repeated"])
    if kind == "bytes":
        return rng.bytes(length)
    if kind == "any":
        points = rng.integers(0, 0x110000, length)
        return "".join(map(chr, points)).encode(errors="surrogatepass")
    if kind == "script":
        start = rng.choice(SCRIPTS)
        points = rng.integers(start, start + 200, length)
        return "".join(map(chr, points)).encode()
    if kind == "repeated":
        return random_text(rng)[: rng.integers(1, 50)] * length
    words = rng.choice(WORDS, length)
    text = "".join(word + rng.choice(SPACES) for word in words).encode()
    if kind == "words":
        return text
    bad = np.frombuffer(text, np.uint8).copy()
    places = rng.integers(0, bad.size, 1 + bad.size // 20)
    bad[places] = rng.integers(0, 256, places.size)
    return bad.tobytes()


def faults(outputs):
    """What is wrong with an answer, if anything."""
    for name, value in outputs.items():
        value = value.numpy()
        if value.dtype != object:
            if not np.isfinite(value).all():
                yield f"{name} is not finite"
            continue
        for text in value.ravel():
            try:
                text.decode()
            except UnicodeDecodeError:
                yield f"{name} is no UTF-8: {text!r:.80}"


def differences(alone, together, row):
    """In which outputs a text alone differs from itself among others."""
    for name, value in alone.items():
        one, other = value.numpy()[0], together[name].numpy()[row]
        if value.dtype == tf.string:
            # Pieces of the shorter texts of a batch are padded.
            if np.shape(one) == np.shape(other) and np.any(one != other):
                yield f"{name}: {one!r:.80} alone, {other!r:.80} among others"
        elif np.ndim(one) < 2 and not np.allclose(one, other, 1e-3, 1e-3):
            yield f"{name}: {one} alone, {other} among others"


class Fuzzer:
    """Calls signatures and counts what happens."""

    def __init__(self, folder, rng):
        self._signatures = tf.saved_model.load(folder).signatures
        self._rng = rng
        self.counts = {name: Counter() for name in self._signatures}
        self.seconds = Counter()
        self.slowest = Counter()

    def try_texts(self, texts):
        """Sends one batch to the signature that had the fewest texts."""
        name = min(self.counts, key=lambda name: self.counts[name]["texts"])
        others = self._rng.permutation(np.array(texts, object)).tolist()
        row = self._rng.integers(len(texts))
        start = time.monotonic()
        together = self._call(name, texts, others)
        seconds = time.monotonic() - start
        self.seconds[name] += seconds
        self.slowest[name] = max(self.slowest[name], seconds)
        self.counts[name]["texts"] += len(texts)
        if together is None:
            return
        found = list(faults(together))
        alone = self._call(name, texts[row : row + 1], others[row : row + 1])
        if alone is not None:
            found += differences(alone, together, row)
        self.counts[name]["faults"] += len(found)
        for fault in found:
            print(f"{name}: {fault}. Text {row}: {texts[row]!r:.200}")

    def _call(self, name, texts, others):
        function = self._signatures[name]
        inputs = {
            "text": tf.constant(texts, tf.string, [len(texts)]),
            "translation": tf.constant(others, tf.string, [len(others)]),
        }
        wanted = function.structured_input_signature[1]
        try:
            return function(**{key: inputs[key] for key in wanted})
        except tf.errors.InvalidArgumentError as error:
            if "Send fewer texts" not in error.message:
                raise
            self.counts[name]["refused"] += 1
            return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder of one exported version")
    parser.add_argument("--texts", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    fuzzer = Fuzzer(args.model, rng)
    left = args.texts
    while left:
        count = min(left, int(rng.integers(1, LARGEST_BATCH)))
        fuzzer.try_texts([random_text(rng) for _ in range(count)])
        left -= count
        print(f"\r{args.texts - left:,} texts", end="", file=sys.stderr)
    print(f"\n{origin('tensorflow', 'tensorflow-text')}\n")
    print(f"`python -m benchmarks.fuzz {' '.join(sys.argv[1:])}`\n")
    print(
        "| signature | texts | faults | refused batches | s | slowest batch s |"
    )
    print("|---|---|---|---|---|---|")
    for name, counts in fuzzer.counts.items():
        print(
            f"| {name} | {counts['texts']:,} | {counts['faults']} "
            f"| {counts['refused']} | {fuzzer.seconds[name]:.0f} "
            f"| {fuzzer.slowest[name]:.1f} |"
        )
    return int(any(counts["faults"] for counts in fuzzer.counts.values()))


if __name__ == "__main__":
    sys.exit(main())
