"""Draws a tree beside the right one, with the brackets that differ in red."""

from matplotlib.figure import Figure

from treebank.evalb import brackets
from treebank.trees import Leaf, bare_label

WRONG, RIGHT, WORD = "#c0392b", "#1f4e79", "#222222"


def draw(tree, gold, path, title):
    """Writes a PNG: the tree above, the gold tree below.

    Args:
        tree: What the model found.
        gold: What is right.
        path: The file to write.
        title: A line above.
    """
    width = max(6.0, 0.62 * len(list(gold.leaves())))
    heights = [_height(tree) - 1, _height(gold) - 1]
    figure = Figure(
        figsize=(width, 0.42 * sum(heights) + 1.6), layout="constrained"
    )
    panels = figure.subplots(2, 1, height_ratios=heights)
    for axes, drawn, other, name in (
        (panels[0], tree, gold, "the model"),
        (panels[1], gold, tree, "the treebank"),
    ):
        _draw(axes, drawn, brackets(other)[1])
        axes.set_title(name, loc="left", fontsize=9, color="#666666")
    figure.suptitle(title, fontsize=10, parse_math=False)
    figure.savefig(path, dpi=110)


def _draw(axes, tree, right):
    """Draws a tree; `right` counts the brackets that are good."""
    left, right = [0], right.copy()
    words = [0]  # how many words that count are drawn

    def place(node, depth):
        """Draws a node below its parent, and returns where."""
        if isinstance(node, Leaf):
            x = left[0]
            left[0] += 1
            words[0] += bool(brackets(node)[0])
            axes.text(x, -depth, node.tag, **_style(WORD, 6.5))
            axes.text(x, -depth - 0.55, node.word, **_style(WORD, 7.5))
            return x
        start = words[0]
        points = [(place(child, depth + 1), child) for child in node.children]
        x = (points[0][0] + points[-1][0]) / 2
        counted = brackets(node)[1]
        label = bare_label(node.label)
        span = (
            ("ADVP" if label == "PRT" else label),
            start,
            words[0],
        )
        good = not counted or right[span] > 0 or label == "TOP"
        right[span] -= 1
        for child_x, _ in points:
            axes.plot(
                (x, child_x),
                (-depth - 0.28, -depth - 0.72),
                color="#aaaaaa",
                linewidth=0.8,
                zorder=0,
            )
        axes.text(
            x, -depth, node.label, **_style(RIGHT if good else WRONG, 8, "bold")
        )
        return x

    for child in tree.children:
        place(child, 0)
    axes.set_xlim(-0.8, left[0] - 0.2)
    axes.set_ylim(0.9 - _height(tree), 0.6)
    axes.set_axis_off()


def _style(color, size, weight="normal"):
    return {
        "color": color,
        "fontsize": size,
        "fontweight": weight,
        "ha": "center",
        "va": "center",
        "parse_math": False,
    }


def _height(node):
    if isinstance(node, Leaf):
        return 1
    return 1 + max(map(_height, node.children))
