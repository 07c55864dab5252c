"""Table 1 of the paper, measured: what a layer costs as it grows.

    python examples/paper/table1.py            four minutes
    python examples/paper/table1.py --quick    a minute

Runs self-attention, restricted self-attention, an LSTM and a convolution over
lengths of 16 to 4096 and widths of 64 to 1024, forward, one sequence at a time;
narrow self-attention up to 16384. Each case has a process of its own, which
tells the kernel's figure for its greatest memory. Prints tables of time and
memory and the exponents of length and width fitted to them, beside the paper's,
and draws them. Cases that are measured already are read from the folder, so
that it can be stopped.
"""

import argparse
import json
import multiprocessing
import statistics
import time
from pathlib import Path

import numpy as np

LENGTHS = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
WIDTHS = [64, 128, 256, 512, 1024]
LONGER = [8192, 16384]  # for narrow self-attention, whose term rules late
HEAD = 64  # width of a head, as in the paper: more width is more heads
WINDOW = 16  # neighbours on each side that restricted attention sees
KERNEL = 3

# The paper's complexity: exponents of length and of width.
LAYERS = {
    "self-attention": ("n²·d", 2, 1),
    "restricted self-attention": ("r·n·d", 1, 1),
    "recurrent (LSTM)": ("n·d²", 1, 2),
    "convolutional": ("k·n·d²", 1, 2),
}


def multiplications(layer, length, width):
    """What the paper counts, and what the layer's own projections add."""
    if layer == "self-attention":
        return 2 * length**2 * width, 4 * length * width**2
    if layer == "restricted self-attention":
        seen = min(2 * WINDOW + 1, length)
        return 2 * seen * length * width, 4 * length * width**2
    if layer == "recurrent (LSTM)":
        return 8 * length * width**2, 0
    return KERNEL * length * width**2, 0


def make_layer(layer, width):
    """A layer and the way it is called."""
    import keras

    from keras_transformer.layers import MultiHeadAttention

    if layer == "recurrent (LSTM)":
        return keras.layers.LSTM(width, return_sequences=True)
    if layer == "convolutional":
        return keras.layers.Conv1D(width, KERNEL, padding="same")
    window = WINDOW if layer == "restricted self-attention" else None
    attention = MultiHeadAttention(
        num_heads=width // HEAD, key_dim=HEAD, attention_window=window
    )
    return lambda x: attention(x, x)


def measure(pipe, case, repeats):
    """In a process of its own: milliseconds and megabytes of one case."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(2)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    length, width = case["length"], case["width"]
    layer = make_layer(case["layer"], width)
    shape = (case["batch"], length, width)
    # Compiled for any length, as layers are in training.
    run = tf.function(
        layer, input_signature=[tf.TensorSpec((None, None, width))]
    )
    run(tf.zeros((1, 16, width))).numpy()  # makes weights, code and threads
    x = tf.random.stateless_normal(shape, (1, 2))
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget earlier peaks
    run(x).numpy()
    megabytes = (memory("VmHWM") - before) / 1024
    times = []
    begin = time.perf_counter()
    while len(times) < 3 or (
        len(times) < repeats and time.perf_counter() - begin < 5
    ):
        start = time.perf_counter()
        run(x).numpy()
        times.append(1000 * (time.perf_counter() - start))
    pipe.send(
        {
            **case,
            "milliseconds": statistics.median(times),
            "megabytes": max(0.0, megabytes),
            "runs": len(times),
        }
    )


def memory(field):
    """Kilobytes, from the kernel."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise OSError(f"The kernel must tell {field}. This needs Linux.")


def run_cases(cases, path, repeats):
    """Measures what the file does not have yet, a process for each case."""
    done = {}
    if path.is_file():
        for line in path.read_text().splitlines():
            row = json.loads(line)
            done[key(row)] = row
    # A server imports TensorFlow once; each case is a fresh copy of it.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["keras_transformer.layers"])
    for number, case in enumerate(cases, start=1):
        if key(case) in done:
            continue
        ours, theirs = context.Pipe()
        process = context.Process(target=measure, args=(theirs, case, repeats))
        process.start()
        theirs.close()
        try:
            row = ours.recv()
        except EOFError:
            process.join()
            raise RuntimeError(
                f"A case ended without a result: {case}. Its process ended "
                f"with code {process.exitcode}; was there enough memory?"
            ) from None
        process.join()
        done[key(row)] = row
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(
            f"{number} of {len(cases)}: {row['layer']}, batch {row['batch']}, "
            f"length {row['length']}, width {row['width']}: "
            f"{row['milliseconds']:.2f} ms, {row['megabytes']:.1f} MB",
            flush=True,
        )
    return [done[key(case)] for case in cases]


def key(case):
    return case["layer"], case["batch"], case["length"], case["width"]


def exponent(rows, axis, figure):
    """The slope of the figure over an axis, both as logarithms."""
    # Below a megabyte, what the kernel tells is mostly its own pages.
    least = 1.0 if figure == "megabytes" else 0.0
    points = [(row[axis], row[figure]) for row in rows if row[figure] > least]
    if len({x for x, _ in points}) < 3:
        return None
    x, y = np.log(np.array(points, float)).T
    return float(np.polyfit(x, y, 1)[0])


def fit(rows, lengths, widths):
    """Exponents of each layer, over cases where the paper's term rules.

    Its term rules where it is at least 0.8 of all multiplications: for
    attention where the length is 8 times the width or more, or else the
    projections, which the paper leaves out, rule instead. Restricted attention
    has no such cases. Over lengths, cases take ten times as long as the
    shortest: below, what it costs to start a layer shows.
    """
    fits = []
    for layer, (formula, *paper) in LAYERS.items():
        mine = [r for r in rows if r["layer"] == layer and r["batch"] == 1]
        width = WIDTHS[0] if layer == "self-attention" else max(widths)
        of_width = [r for r in mine if r["width"] == width]
        least = 0
        if min(lengths) == LENGTHS[0]:
            least = 10 * of_width[0]["milliseconds"]
        along_length = [
            r
            for r in of_width
            if rules(r, layer) and r["milliseconds"] >= least
        ]
        along_width = [
            r for r in mine if r["length"] == max(lengths) and rules(r, layer)
        ]
        if layer == "recurrent (LSTM)":
            along_width = along_width[-3:]  # below, a step's overhead rules
        fits.append(
            {
                "layer": layer,
                "formula": formula,
                "paper": paper,
                "length": [
                    exponent(along_length, "length", "milliseconds"),
                    exponent(along_length, "length", "megabytes"),
                ],
                "width": [exponent(along_width, "width", "milliseconds")],
                "over": (span(along_length, "length"), width),
                "over_width": (span(along_width, "width"), max(lengths)),
            }
        )
    return fits


def rules(row, layer):
    if layer == "restricted self-attention":
        return row["length"] >= 8 * WINDOW
    term, rest = multiplications(layer, row["length"], row["width"])
    return term >= 0.8 * (term + rest)


def span(rows, axis):
    values = sorted(row[axis] for row in rows)
    return f"{values[0]} to {values[-1]}" if values else "none"


def report(rows, fits, lengths, widths):
    lines = []
    for figure in ("milliseconds", "megabytes"):
        lines += [
            f"| {figure} of one sequence | width "
            + "".join(f"| n={length} " for length in lengths)
            + "|",
            "|---|---" + "|---" * len(lengths) + "|",
        ]
        for layer in LAYERS:
            for width in widths:
                found = {
                    row["length"]: row[figure]
                    for row in rows
                    if row["layer"] == layer
                    and row["width"] == width
                    and row["batch"] == 1
                }
                cells = "".join(
                    f"| {short(found.get(length))} " for length in lengths
                )
                lines.append(f"| {layer} | {width} {cells}|")
        lines.append("")
    lines += [
        "| layer | paper | time ~ n^ | paper | memory ~ n^ | fitted over | "
        "time ~ d^ | paper | fitted over |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for f in fits:
        lines.append(
            f"| {f['layer']} | {f['formula']} | {short(f['length'][0])} "
            f"| {f['paper'][0]} | {short(f['length'][1])} "
            f"| n={f['over'][0]}, d={f['over'][1]} | {short(f['width'][0])} "
            f"| {f['paper'][1]} | d={f['over_width'][0]}, "
            f"n={f['over_width'][1]} |"
        )
    return "\n".join([*lines, "", *sequential(rows, max(lengths))])


def sequential(rows, length):
    """How long a position takes, alone and 32 sequences at once."""
    lines = [
        f"| microseconds a position, n={min(length, 512)} | width | 1 sequence "
        "| 32 at once | 32 times the work takes |",
        "|---|---|---|---|---|",
    ]
    for layer in LAYERS:
        many = [r for r in rows if r["layer"] == layer and r["batch"] == 32]
        for row in many:
            (one,) = (
                r
                for r in rows
                if key(r) == (layer, 1, row["length"], row["width"])
            )
            a, b = (1000 * r["milliseconds"] / r["length"] for r in (one, row))
            lines.append(
                f"| {layer} | {row['width']} | {short(a)} | {short(b)} "
                f"| {b / a:.1f}× |"
            )
    return lines


def short(value):
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def draw(rows, fits, path):
    """Time and memory over the length, time over the width."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    panels = figure.subplots(1, 3)
    rows = [row for row in rows if row["batch"] == 1]
    widths = sorted({row["width"] for row in rows})
    longest = max(r["length"] for r in rows if r["width"] == widths[-1])
    plans = (
        ("length", "milliseconds", "width", widths[0], "length n"),
        ("length", "megabytes", "width", widths[0], "length n"),
        ("width", "milliseconds", "length", longest, "width d"),
    )
    for axes, (axis, figure_name, other, value, label) in zip(panels, plans):
        for color, layer in enumerate(LAYERS):
            points = sorted(
                (row[axis], row[figure_name])
                for row in rows
                if row["layer"] == layer
                and row[other] == value
                and row[figure_name] > 0
            )
            if points:
                axes.plot(*zip(*points), f"C{color}.-", label=layer)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel(label)
        axes.set_ylabel(f"{figure_name}, {other} {value}")
        axes.grid(alpha=0.3)
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=4,
    )
    figure.savefig(path, dpi=110)


def all_cases(lengths, widths):
    cases = [
        {"layer": layer, "batch": 1, "length": length, "width": width}
        for layer in LAYERS
        for width in widths
        for length in lengths
    ]
    length = min(max(lengths), 512)
    cases += [
        {"layer": layer, "batch": 32, "length": length, "width": width}
        for layer in LAYERS
        for width in widths
        if width <= 256
    ]
    if max(lengths) == LENGTHS[-1]:
        cases += [
            {
                "layer": "self-attention",
                "batch": 1,
                "length": length,
                "width": WIDTHS[0],
            }
            for length in LONGER
        ]
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default="runs/table1", help="to write to")
    parser.add_argument("--quick", action="store_true", help="few small cases")
    args = parser.parse_args()
    if args.quick and args.folder == parser.get_default("folder"):
        args.folder += "-quick"
    folder = Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    lengths, widths = (LENGTHS, WIDTHS)
    if args.quick:
        lengths, widths = [512, 1024, 2048], [64]
    rows = run_cases(
        all_cases(lengths, widths),
        folder / "cases.jsonl",
        repeats=5 if args.quick else 15,
    )
    fits = fit(rows, lengths, widths)
    text = report(rows, fits, lengths, widths)
    print("\n" + text)
    (folder / "table1.md").write_text(text + "\n")
    draw(rows, fits, folder / "table1.png")
    print(f"\nWrote {folder}: table1.md, table1.png and cases.jsonl.")


if __name__ == "__main__":
    main()
