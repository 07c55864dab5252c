"""Pictures of the paper's parts, and what the heads of a model look at.

    python examples/paper/pictures.py                     a minute
    python examples/paper/pictures.py --model runs/mine   of another model

Writes PNG files into runs/pictures: the learning rate for several widths and
warm-ups, the sinusoids, and the heads of a trained model on sentences with a
pronoun. Verifies that a shift of positions is a linear map of the sinusoids,
and prints which heads look at the previous piece, at the next one and at the
end, over fifty sentences.
"""

import argparse
from pathlib import Path

import numpy as np

# The first is for the pictures of heads, the others have a pronoun too.
PRONOUNS = [
    "My sister lost her key because she was tired.",
    "The dog did not cross the street because it was too wide.",
    "Tom says that he has never seen the sea.",
]
SENTENCES = [
    *PRONOUNS,
    "The children are playing in the garden.",
    "I would like a cup of tea, please.",
    "Where is the nearest station?",
    "She is reading a book about the stars.",
    "He bought three apples and a loaf of bread.",
    "We have known each other for ten years.",
    "It rained all night, so we stayed at home.",
    "My grandmother makes the best soup in the world.",
    "Could you speak a little more slowly?",
    "What time does the last bus leave?",
    "If I had more time, I would learn to play the piano.",
    "They want to move to another city next summer.",
    "Nobody knows why the bridge was closed.",
    "The doctor told him to drink more water.",
    "I forgot to lock the door this morning.",
    "This is the house in which my father was born.",
    "The train arrives at half past seven.",
    "Do you know who wrote this letter?",
    "He opened the window and looked outside.",
    "There are more than twenty people in the room.",
    "She has been learning German for two years.",
    "Please give me the book that is on the table.",
    "The weather was so bad that we went home.",
    "I cannot remember where I put my glasses.",
    "He is taller than his older brother.",
    "You should have told me the truth.",
    "The cat is sleeping under the bed.",
    "I am looking forward to seeing you again.",
    "We need to buy milk, butter and eggs.",
    "The shop closes at six in the evening.",
    "Her brother works in a hospital.",
    "It is much colder today than it was yesterday.",
    "Why did you not come to the party?",
    "The man who lives next door is a teacher.",
    "I have never eaten anything like this.",
    "She closed the door without saying a word.",
    "Is there anything that I can do for you?",
    "Our neighbours have two small dogs.",
    "He gave her flowers on her birthday.",
    "The river is too deep to swim across.",
    "I think that it is going to rain.",
    "Tom and his wife live in a small village.",
    "The film was longer than I had expected.",
    "Can you tell me how to get to the museum?",
    "They were sitting in front of the fire.",
    "My mother can speak three languages.",
    "We arrived too late and missed the train.",
]


def draw_schedules(path):
    """The learning rate of section 5.3, as the paper's formula has it."""
    from matplotlib.figure import Figure

    from keras_transformer import TransformerSchedule

    steps = np.arange(20_000)
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for width, warmup in ((512, 4000), (512, 8000), (256, 4000), (1024, 4000)):
        schedule = TransformerSchedule(width, warmup_steps=warmup)
        rates = np.asarray(schedule(steps))
        peak = int(rates.argmax()) + 1  # the paper counts from 1
        if peak != warmup:
            raise AssertionError(f"the peak is at {peak}, not at {warmup}")
        axes.plot(
            steps + 1, rates, label=f"d_model {width}, warm-up {warmup:,}"
        )
        print(
            f"schedule, d_model {width}, warm-up {warmup}: greatest at step "
            f"{peak:,}, {rates.max():.2e}"
        )
    axes.set_xlabel("updates")
    axes.set_ylabel("learning rate")
    axes.set_xlim(0, len(steps))
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def shift_matrix(hidden_dim, shift):
    """The linear map M with PE(pos + shift) = M PE(pos), for every pos.

    Each pair (sin, cos) of one frequency turns by an angle of its own.
    """
    matrix = np.zeros((hidden_dim, hidden_dim))
    for i in range(0, hidden_dim, 2):
        angle = shift / 10000 ** (i / hidden_dim)
        matrix[i : i + 2, i : i + 2] = [
            [np.cos(angle), np.sin(angle)],
            [-np.sin(angle), np.cos(angle)],
        ]
    return matrix


def verify_positions(hidden_dim=64, length=512, shifts=(1, 5, 50, 200)):
    """Prints how far the layer's sinusoids are from turning linearly."""
    from keras_transformer.layers.positions import sinusoids

    waves = np.asarray(sinusoids(np.arange(length), hidden_dim), np.float64)
    for shift in shifts:
        turned = waves[:-shift] @ shift_matrix(hidden_dim, shift).T
        error = np.abs(turned - waves[shift:]).max()
        print(
            f"positions: PE(pos + {shift}) = M PE(pos) within {error:.1e}, "
            f"for {length - shift} positions of width {hidden_dim}"
        )
        if error > 1e-4:
            raise AssertionError(f"the sinusoids are off by {error}")


def draw_positions(path, hidden_dim=128, length=100):
    """The waves, some of them alone, and how alike two positions are."""
    from matplotlib.figure import Figure

    from keras_transformer.layers.positions import sinusoids

    waves = np.asarray(sinusoids(np.arange(length), hidden_dim))
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    image = left.imshow(waves, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    left.set_xlabel("dimension")
    left.set_ylabel("position")
    left.set_title("PE(pos)")
    figure.colorbar(image, ax=left)
    for dimension in (16, 24, 32, 48):
        middle.plot(waves[:, dimension], label=f"dimension {dimension}")
    middle.set_xlabel("position")
    middle.set_title("waves")
    middle.legend(fontsize=8, loc="lower right")
    middle.grid(alpha=0.3)
    image = right.imshow(waves @ waves.T / (hidden_dim / 2), cmap="viridis")
    right.set_xlabel("position")
    right.set_ylabel("position")
    right.set_title("PE(pos) · PE(pos'), of its greatest")
    figure.colorbar(image, ax=right)
    figure.savefig(path, dpi=120)


def draw_heads(translator, folder):
    """All heads of a layer beside each other, for three sentences."""
    from keras_transformer import plots

    for number, sentence in enumerate(PRONOUNS, start=1):
        translation = translator.translate(sentence).text
        maps = translator.attention(sentence, translation)
        print(f"attention: {sentence} -> {translation}")
        for kind, layer in (("encoder", -1), ("memory", -1)):
            weights, rows, columns = maps[kind]
            path = folder / f"attention-{number}-{kind}.png"
            plots.attention_heads(
                weights[layer],
                rows,
                columns,
                path,
                title=f"{kind}, layer {len(weights)}: {sentence}",
            )


def draw_pronoun(translator, path):
    """What each head of each encoder layer sees from the pronoun."""
    from matplotlib.figure import Figure

    sentence, pronoun = PRONOUNS[1], "it"
    weights, rows, columns = translator.attention(sentence, "x")["encoder"]
    words = [piece.replace("▁", "") for piece in rows]
    if pronoun not in words:
        print(f"No {path}: “{pronoun}” is not one piece in this vocabulary.")
        return
    place = words.index(pronoun)
    layers, heads = weights.shape[:2]
    figure = Figure(figsize=(8, 0.32 * layers * heads + 1.4))
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    table = weights[:, :, place].reshape(layers * heads, -1)
    image = axes.imshow(table, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(columns)), words, rotation=60, ha="right")
    axes.set_yticks(
        range(layers * heads),
        [f"layer {n + 1}, head {m + 1}" for n, m in np.ndindex(layers, heads)],
        fontsize=8,
    )
    for line in range(1, layers):
        axes.axhline(line * heads - 0.5, color="#888888", linewidth=0.8)
    axes.set_title(f"What “{pronoun}” looks at in the encoder", fontsize=11)
    figure.colorbar(image, ax=axes, label="weight")
    figure.savefig(path, dpi=120)


def head_table(translator, sentences):
    """Mean weight of each head on some places, over all positions.

    Returns:
        `{(kind, place): (shares, even)}`: floats, `(layers, heads)`, and the
        share that the place would get if weights were spread evenly.
    """
    totals, evens, counts = {}, {}, {}
    for sentence in sentences:
        for kind, (weights, rows, columns) in translator.attention(
            sentence
        ).items():
            shape = len(rows), len(columns)
            visible = np.ones(shape, bool)
            if kind == "decoder":
                visible = np.tril(visible)
            even = visible / visible.sum(axis=1, keepdims=True)
            for name, place in places(kind, *shape).items():
                where = kind, name
                total = (weights * place).sum(axis=(2, 3))
                totals[where] = totals.get(where, 0) + total
                evens[where] = evens.get(where, 0) + (even * place).sum()
                counts[where] = counts.get(where, 0) + len(rows)
    return {
        where: (totals[where] / counts[where], evens[where] / counts[where])
        for where in totals
    }


def places(kind, rows, columns):
    """Booleans, `(rows, columns)`: for each row, where the place is."""

    def beside(offset):
        return np.eye(rows, columns, k=offset, dtype=bool)

    first, end = np.zeros((2, rows, columns), bool)
    first[:, 0] = end[:, -1] = True
    if kind == "memory":
        return {"end of the source": end}
    if kind == "decoder":
        # A row writes a piece; on the diagonal is the one written before it.
        return {
            "last piece": beside(0),
            "last but one": beside(-1),
            "start": first,
        }
    return {
        "previous piece": beside(-1),
        "itself": beside(0),
        "next piece": beside(1),
        "end": end,
    }


def report_heads(found, least=0.4):
    """Lines of a table: the three heads that look most at each place."""
    lines = [
        "| attention | place | evenly spread | heads that look there most "
        "(share of their weight) |",
        "|---|---|---|---|",
    ]
    for (kind, name), (shares, even) in found.items():
        order = np.argsort(-shares, axis=None)[:3]
        best = [np.unravel_index(i, shares.shape) for i in order]
        heads = ", ".join(
            f"{n + 1}.{m + 1} ({shares[n, m]:.0%})" for n, m in best
        )
        lines.append(f"| {kind} | {name} | {even:.0%} | {heads} |")
    for kind in ("encoder", "decoder"):
        some = {
            name: shares > least
            for (k, name), (shares, _) in found.items()
            if k == kind
        }
        total = next(iter(some.values())).size
        counts = ", ".join(
            f"{name} {held.sum()}" for name, held in some.items()
        )
        lines.append(
            f"\n{kind}: of {total} heads so many give a place over "
            f"{least:.0%} of their weight: {counts}."
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--model", help="run folder or exported model (the one that ships)")
    add("--folder", default="runs/pictures", help="where to write")
    add("--sentences", type=int, default=len(SENTENCES), help="for the table")
    args = parser.parse_args()
    folder = Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    draw_schedules(folder / "schedule.png")
    verify_positions()
    draw_positions(folder / "positions.png")

    from keras_transformer import load

    translator = load(args.model)
    draw_heads(translator, folder)
    draw_pronoun(translator, folder / "pronoun.png")
    found = head_table(translator, SENTENCES[: args.sentences])
    text = report_heads(found)
    print(f"\nHeads as layer.head, over {args.sentences} sentences:\n\n{text}")
    (folder / "heads.md").write_text(text + "\n")
    print(
        f"\nWrote {folder}: schedule, positions, attention, pronoun, heads.md."
    )


if __name__ == "__main__":
    main()
