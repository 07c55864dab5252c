"""Pictures: learning curves."""

from pathlib import Path


def learning_curve(history, path):
    """Draws loss and BLEU, or else chrF, over a run's updates into a PNG.

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
    # Sentences of one word have no BLEU.
    score = "bleu" if any(row.get("bleu") for row in history) else "chrf"
    values = [row.get(score) for row in history]
    lines = losses.get_lines()
    if any(value is not None for value in values):
        label = {"bleu": "BLEU", "chrf": "chrF"}[score]
        right = losses.twinx()
        lines += right.plot(
            steps, values, "C2.--", label=f"development {label}"
        )
        right.set_ylabel(label)
        right.set_ylim(0, 105)
    figure.legend(handles=lines, loc="outside upper center", ncols=3)
    figure.savefig(Path(path), dpi=120)
