"""A probabilistic grammar read off trees, and its likeliest parse (CKY).

The classical parser to stand beside: rules are counted in the training trees,
long ones are cut in two with the memory of one sibling, and rare words are
known by their shape alone.
"""

from collections import Counter, defaultdict
from itertools import product

import numpy as np

from treebank.trees import ROOT, Leaf, Tree

RARE = 2  # words that occur no more often are rare


class Grammar:
    """Counts rules in trees, and parses the words of others.

    Symbols are labels ("NP"), tags of words ("tag NN"), and what is left of a
    phrase after a child ("NP after DT").

    Args:
        trees: Cleaned trees.
    """

    def __init__(self, trees):
        counts = Counter(leaf.word for tree in trees for leaf in tree.leaves())
        self._known = {word for word, n in counts.items() if n > RARE}
        rules = Counter(rule for tree in trees for rule in self._rules(tree))
        totals = Counter()
        for (parent, *_), count in rules.items():
            totals[parent] += count
        self._names = sorted(totals)
        ids = {name: i for i, name in enumerate(self._names)}
        self._top = ids[ROOT]
        self._words = defaultdict(dict)  # word or shape -> {tag: log prob.}
        unary, binary, rare = {}, [], Counter()
        for (parent, *children), count in rules.items():
            chance = np.log(count / totals[parent])
            if parent.startswith("tag "):
                self._words[children[0]][ids[parent]] = chance
                if children[0].startswith("rare "):
                    rare[ids[parent]] += count / totals[parent]
            elif len(children) == 1:
                unary[ids[parent], ids[children[0]]] = chance
            else:
                binary.append((ids[parent], *map(ids.get, children), chance))
        # For words that are like none: any rare word, or any word at all.
        self._rare = {tag: np.log(chance) for tag, chance in rare.items()} or {
            tag: 0.0 for tags in self._words.values() for tag in tags
        }
        self._binary = Rules(binary)
        self._chains, chances = _closure(unary)
        self._unary = Rules((p, c, c, x) for (p, c), x in chances.items())

    def parse(self, leaves):
        """The likeliest tree over the words, or a flat one if none fits."""
        leaves = list(leaves)
        n = len(leaves)
        shape = (n, n + 1, len(self._names))
        # Log-probabilities by words and binary rules, and after unary rules.
        base, full = (np.full(shape, -np.inf, np.float32) for _ in range(2))
        for start, leaf in enumerate(leaves):
            for tag, chance in self._tags(leaf.word).items():
                base[start, start + 1, tag] = chance
            self._apply_unary(base, full, start, start + 1)
        for length in range(2, n + 1):
            for start in range(n - length + 1):
                end = start + length
                totals = self._totals(full, start, end, slice(None))
                base[start, end, self._binary.parents] = np.maximum.reduceat(
                    totals.max(axis=0), self._binary.starts
                )
                self._apply_unary(base, full, start, end)
        if not np.isfinite(full[0, n, self._top]):
            return Tree(ROOT, (Tree("S", tuple(leaves)),))
        (tree,) = self._build(base, full, leaves, self._top, 0, n)
        return tree

    def _totals(self, full, start, end, which):
        """Log-probabilities of splits and rules, `(splits, rules)`."""
        rules, middles = self._binary, np.arange(start + 1, end)
        return (
            full[start, middles][:, rules.left[which]]
            + full[middles, end][:, rules.right[which]]
            + rules.chances[which]
        )

    def _apply_unary(self, base, full, start, end):
        rules, cell = self._unary, full[start, end]
        cell[:] = base[start, end]
        totals = base[start, end][rules.left] + rules.chances
        best = np.maximum.reduceat(totals, rules.starts)
        cell[rules.parents] = np.maximum(cell[rules.parents], best)

    def _build(self, base, full, leaves, symbol, start, end):
        """The nodes that a symbol stands for: one, or the rest of a phrase."""
        if full[start, end, symbol] > base[start, end, symbol]:
            rules = self._unary.of(symbol)
            children = self._unary.left[rules]
            totals = base[start, end][children] + self._unary.chances[rules]
            child = children[totals.argmax()]
            nodes = self._build_base(base, full, leaves, child, start, end)
            for label in self._chains[symbol, child][::-1]:
                nodes = [Tree(self._names[label], tuple(nodes))]
            return nodes
        return self._build_base(base, full, leaves, symbol, start, end)

    def _build_base(self, base, full, leaves, symbol, start, end):
        if end - start == 1:
            return [leaves[start]]
        rules = self._binary.of(symbol)
        totals = self._totals(full, start, end, rules)
        split, rule = np.unravel_index(totals.argmax(), totals.shape)
        rule, middle = rules.start + rule, start + 1 + split
        left, right = self._binary.left[rule], self._binary.right[rule]
        nodes = [
            *self._build(base, full, leaves, left, start, middle),
            *self._build(base, full, leaves, right, middle, end),
        ]
        name = self._names[symbol]
        return nodes if " after " in name else [Tree(name, tuple(nodes))]

    # Counting

    def _rules(self, tree):
        """Yields (parent, children): all rules that a tree uses."""
        names = [_name(child) for child in tree.children]
        if len(names) == 1:
            yield tree.label, names[0]
        parent = tree.label
        for name in names[:-2]:
            rest = f"{tree.label} after {name}"
            yield parent, name, rest
            parent = rest
        if len(names) > 1:
            yield parent, names[-2], names[-1]
        for child in tree.children:
            if isinstance(child, Leaf):
                yield _name(child), self._key(child.word)
            else:
                yield from self._rules(child)

    def _key(self, word):
        """The word, or the shape of a rare one."""
        if word in self._known:
            return word
        marks = (
            ("A", word[0].isupper()),
            ("1", any(map(str.isdigit, word))),
            ("-", "-" in word[1:]),
        )
        shape = "".join(mark for mark, holds in marks if holds)
        return f"rare {shape} {word[-2:].lower()}"

    def _tags(self, word):
        """Log-probabilities of a word, by tag."""
        key = self._key(word)
        return self._words.get(key, self._rare)


class Rules:
    """Rules as arrays; those of one parent stand together.

    Args:
        rules: Tuples of parent, left and right child, and log-probability.
    """

    def __init__(self, rules):
        parents, left, right, chances = zip(*sorted(rules))
        self.left, self.right = np.array(left), np.array(right)
        self.chances = np.array(chances, np.float32)
        # Where the stretch of each parent begins.
        self.parents, self.starts = np.unique(parents, return_index=True)
        self._ends = [*self.starts[1:], len(parents)]

    def of(self, parent):
        """The stretch of one parent."""
        place = np.searchsorted(self.parents, parent)
        return slice(self.starts[place], self._ends[place])


def _name(node):
    return f"tag {node.tag}" if isinstance(node, Leaf) else node.label


def _closure(unary):
    """The likeliest chain of unary rules between any two symbols.

    Returns:
        `{(first, last): labels}` without the last, and their chances.
    """
    chances = {pair: c for pair, c in unary.items() if pair[0] != pair[1]}
    chains = {pair: (pair[0],) for pair in chances}
    for middle in sorted({parent for parent, _ in unary}):
        before = [pair for pair in chances if pair[1] == middle]
        after = [pair for pair in chances if pair[0] == middle]
        for first, second in product(before, after):
            pair = first[0], second[1]
            chance = chances[first] + chances[second]
            if pair[0] != pair[1] and chance > chances.get(pair, -np.inf):
                chances[pair] = chance
                chains[pair] = chains[first] + chains[second]
    return chains, chances
