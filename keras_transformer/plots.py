"""Pictures: learning curves."""

from pathlib import Path


def learning_curve(history, path):
    """Draws loss and BLEU over the updates of a run into a PNG file.

    Args:
        history: The rows of a run's `metrics.csv`, dictionaries.
        path: The file to write.
    """
    from matplotlib.figure import Figure

    steps = [row["step"] for row in history]
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    losses = figure.add_subplot()
    for name, label in (("loss", "training"), ("val_loss", "development")):
        values = [row.get(name) for row in history]
        if any(value is not None for value in values):
            losses.plot(steps, values, marker=".", label=f"{label} loss")
    losses.set_xlabel("updates")
    losses.set_ylabel("loss (smoothed cross-entropy)")
    losses.set_ylim(bottom=0)
    losses.grid(alpha=0.3)
    scores = [row.get("bleu") for row in history]
    if any(score is not None for score in scores):
        right = losses.twinx()
        right.plot(steps, scores, "C2.--", label="development BLEU")
        right.set_ylabel("BLEU")
        right.set_ylim(0, 100)
        right.legend(loc="upper right")
    losses.legend(loc="upper left")
    figure.savefig(Path(path), dpi=120)
