"""Where the time of one update goes: milliseconds by kind of operation.

usage: python -m benchmarks.training_profile [--size 3x256] [--system ours]
                                             [--dtype mixed_bfloat16]

Trains on the batches of `training.py` under TensorFlow's profiler, with one
operation at a time on all cores, so that times add up.
"""

import argparse
import collections
import tempfile
import time
from pathlib import Path

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from benchmarks import training_systems

SYSTEMS = ["ours", "keras", "keras_hub"]
MULTIPLICATIONS = ("MatMul", "Einsum")
SHOWN = 12


def profile(run):
    """Seconds of a run by the clock, and of each kind of operation in it."""
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        begin = time.perf_counter()
        run()
        seconds = time.perf_counter() - begin
        tf.profiler.experimental.stop()
        (path,) = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
    kinds = collections.Counter()
    for plane in space.planes:
        names = plane.event_metadata
        for event in (e for line in plane.lines for e in line.events):
            # An operation is "name:kind"; "a::b" is the runtime's own work.
            name, _, kind = names[event.metadata_id].name.rpartition(":")
            if name and not name.endswith(":") and " " not in kind:
                kinds[kind] += event.duration_ps / 1e12
    return seconds, kinds


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--size", choices=training_systems.SIZES, default="3x256"
    )
    parser.add_argument("--system", choices=SYSTEMS, default="ours")
    parser.add_argument(
        "--dtype", choices=training_systems.DTYPES, default="float32"
    )
    options = parser.parse_args()
    tf.config.threading.set_inter_op_parallelism_threads(1)

    batches = training_systems.make_batches(quick=False)
    run = training_systems.MAKERS[options.system](
        training_systems.SIZES[options.size],
        batches,
        options.dtype == "mixed_bfloat16",
    )
    for _ in range(3):
        run()
    seconds, kinds = profile(run)
    multiplying = sum(
        value
        for kind, value in kinds.items()
        if any(name in kind for name in MULTIPLICATIONS)
    )
    print(f"{len(batches)} updates: {1000 * seconds:,.0f} ms")
    print(f"multiplications: {multiplying / seconds:.0%}")
    for kind, value in kinds.most_common(SHOWN):
        print(f"{1000 * value:8,.0f} ms  {kind}")


if __name__ == "__main__":
    main()
