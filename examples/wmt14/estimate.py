"""Computes how long the WMT14 recipes take, and what they send around.

    python examples/wmt14/estimate.py

Counts multiplications of one update from the shapes, and divides by what a
device really does: its peak times the share of the peak that is reached.
"""

TOKENS = 25_000  # of each side in a batch
LENGTH = 30  # of a sentence
VOCABULARY = 37_000
MODELS = {
    "base": {"width": 512, "inner": 2048, "layers": 6, "steps": 100_000},
    "big": {"width": 1024, "inner": 4096, "layers": 6, "steps": 300_000},
}
# Number, peak teraflop/s of each, and the share of the peak that is reached. Of
# the GPUs the peaks are from the makers' sheets, and the share is assumed: the
# paper's own hours are 26% (base) and 38% (big) of eight P100. Of the processor
# both are measured: benchmarks/RESULTS.md, 6x512.
DEVICES = {
    "8 x P100 (float32, the paper's)": (8, 10.6, 0.35),
    "8 x V100 (float16)": (8, 125.0, 0.35),
    "8 x A100 (bfloat16)": (8, 312.0, 0.35),
    "two cores of an AMD EPYC (float32)": (1, 0.206, 0.80),
    "two cores of an AMD EPYC (bfloat16)": (1, 0.417, 0.68),
}


def weights(width, inner, layers, **_):
    """Weights in matrices: what is multiplied, and what is sent."""
    attention = 4 * width**2
    feed_forward = 2 * width * inner
    stacks = layers * (3 * attention + 2 * feed_forward)
    return stacks, VOCABULARY * width


def flops_per_update(width, inner, layers, **_):
    """Two for each multiply-add, three passes: forward and twice backward."""
    attention = 4 * width**2
    feed_forward = 2 * width * inner
    # The scores and the sums of values; the decoder has two of each.
    scores = 2 * LENGTH * width
    encoder = layers * (attention + feed_forward + scores)
    decoder = layers * (2 * attention + feed_forward + 2 * scores)
    output = VOCABULARY * width
    return 6 * TOKENS * (encoder + decoder + output)


def main():
    print(f"Batches of {TOKENS:,} tokens a side:")
    for name, model in MODELS.items():
        flops = flops_per_update(**model)
        stacks, embedding = weights(**model)
        # A ring sends each gradient almost twice, four bytes a number.
        sent = 2 * 4 * (stacks + embedding) * 7 / 8
        print(
            f"\n{name}: {(stacks + embedding) / 1e6:.0f} million weights, "
            f"{flops / 1e12:.1f} teraflop an update, {sent / 1e6:.0f} MB sent "
            "and received by each of 8 devices in an update"
        )
        for device, (count, peak, share) in DEVICES.items():
            seconds = flops / (count * peak * 1e12 * share)
            hours = seconds * model["steps"] / 3600
            print(
                f"  {device}, {share:.0%} of the peak: {seconds:.2f} s an "
                f"update, {hours:,.1f} hours for {model['steps']:,} updates"
            )


if __name__ == "__main__":
    main()
