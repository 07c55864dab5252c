"""Curves: of a training run, of the learning rate, of positions."""

import numpy as np

from keras_transformer.plots.files import write_figure


def learning_curve(history, path):
    """Draws loss and BLEU, or else chrF, over a run's updates into a PNG.

    Args:
        history: The rows of a run's `metrics.csv`, dictionaries, of numbers
            or of text as `csv.DictReader` gives them.
        path: The file to write.
    """
    from matplotlib.figure import Figure

    def column(name):
        values = [row.get(name) for row in history]
        return [None if x in (None, "") else float(x) for x in values]

    steps = column("step")
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    losses = figure.add_subplot()
    for name, label in (("loss", "training"), ("val_loss", "development")):
        values = column(name)
        if any(value is not None for value in values):
            losses.plot(steps, values, marker=".", label=f"{label} loss")
    losses.set_xlabel("updates")
    losses.set_ylabel("loss (smoothed cross-entropy)")
    losses.set_ylim(bottom=0)
    losses.grid(alpha=0.3)
    # Sentences of one word have no BLEU.
    score = "bleu" if any(column("bleu")) else "chrf"
    values = column(score)
    lines = losses.get_lines()
    if any(value is not None for value in values):
        label = {"bleu": "BLEU", "chrf": "chrF"}[score]
        right = losses.twinx()
        lines += right.plot(
            steps, values, "C2.--", label=f"development {label}"
        )
        right.set_ylabel(label)
        right.set_ylim(bottom=0)
    figure.legend(handles=lines, loc="outside upper center", ncols=3)
    write_figure(figure, path)


def schedule(schedule, path, steps=20_000):
    """Draws the learning rate over updates.

    Args:
        schedule: A `TransformerSchedule`, or any function of the number of
            an update.
        path: The file to write.
        steps: Number of updates to draw.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.add_subplot()
    # One at a time: not every schedule takes an array.
    updates = np.unique(np.linspace(0, steps - 1, 500).astype("int32"))
    axes.plot(updates + 1, [float(schedule(update)) for update in updates])
    axes.set_xlabel("updates")
    axes.set_ylabel("learning rate")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    write_figure(figure, path)


def positions(hidden_dim, path, length=100, kind="sinusoidal"):
    """Draws the waves that tell positions: a row each.

    Args:
        hidden_dim: Width of the encoding.
        path: The file to write.
        length: Number of positions.
        kind: `"sinusoidal"` or `"concatenated"`.
    """
    from matplotlib.figure import Figure

    from keras_transformer.layers.arguments import check_choice
    from keras_transformer.layers.positions import sinusoids

    check_choice(("sinusoidal", "concatenated"), kind=kind)
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    waves = np.asarray(sinusoids(np.arange(length), hidden_dim, kind))
    image = axes.imshow(waves, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    axes.set_xlabel("dimension")
    axes.set_ylabel("position")
    figure.colorbar(image, ax=axes)
    write_figure(figure, path)
