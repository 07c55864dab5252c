"""Flags of a run that takes seconds, on the built-in numbers."""

TINY = [
    "--train",
    "numbers:0-999",
    "--dev",
    "numbers:0-999",
    "--vocabulary-size=300",
    "--num-layers=1",
    "--hidden-dim=16",
    "--num-heads=2",
    "--intermediate-dim=16",
    "--dropout=0.1",
    "--tokens-per-batch=512",
    "--warmup-steps=10",
    "--validation-sentences=4",
    "--validate-every=4",
    "--average-last=3",
]
