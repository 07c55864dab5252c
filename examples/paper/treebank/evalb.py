"""Labelled bracketing F1 by the rules of EVALB with COLLINS.prm.

As its README describes them:

- words with the tags `,` `:` ` `` ` `''` `.` and `-NONE-` are taken out of both
  trees, and brackets with no word left do not count;
- `TOP` does not count; the tags of words do not either;
- functional tags are cut off: "NP-SBJ" is "NP", "NP=2" is "NP";
- ADVP and PRT are the same label;
- of n equal brackets over the same words in the gold tree and m in the other,
  the smaller number match, so that unary chains count as what they are;
- a tree whose words differ from the gold tree's is an error and counts for
  nothing, nor does an empty one, which is skipped. Both are reported.

Recall, precision and F1 are over the brackets of all sentences together.
"""

from collections import Counter
from dataclasses import dataclass

from treebank.trees import Leaf, bare_label

DELETED = frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."})
SAME = {"PRT": "ADVP"}


@dataclass(frozen=True)
class Scores:
    """What EVALB prints in its summary.

    Attributes:
        sentences: Number of pairs.
        errors: Pairs with different words.
        skipped: Pairs whose second tree is empty.
        matched: Brackets that are in both trees.
        gold: Brackets of the gold trees, errors and skipped left out.
        test: Brackets of the other trees, likewise.
        complete: Pairs whose brackets all match.
    """

    sentences: int = 0
    errors: int = 0
    skipped: int = 0
    matched: int = 0
    gold: int = 0
    test: int = 0
    complete: int = 0

    def __add__(self, other):
        return Scores(*map(sum, zip(vars(self).values(), vars(other).values())))

    @property
    def recall(self):
        return 100 * self.matched / self.gold if self.gold else 0.0

    @property
    def precision(self):
        return 100 * self.matched / self.test if self.test else 0.0

    @property
    def f1(self):
        total = self.gold + self.test
        return 200 * self.matched / total if total else 0.0

    @property
    def exact(self):
        """Share of valid pairs whose brackets all match."""
        valid = self.sentences - self.errors - self.skipped
        return 100 * self.complete / valid if valid else 0.0

    def __str__(self):
        return (
            f"F1 {self.f1:.2f} (precision {self.precision:.2f}, recall "
            f"{self.recall:.2f}), {self.exact:.1f}% exact, "
            f"{self.sentences:,} sentences, {self.errors} errors, "
            f"{self.skipped} skipped"
        )


def score(gold_trees, test_trees):
    """Scores of trees beside gold trees.

    Args:
        gold_trees: The right trees.
        test_trees: As many, in the same order; `None` for no tree.
    """
    gold_trees, test_trees = list(gold_trees), list(test_trees)
    if len(gold_trees) != len(test_trees):
        raise ValueError(
            "There must be one tree for each gold tree. Received: "
            f"{len(gold_trees)} gold trees, {len(test_trees)} others."
        )
    pairs = zip(gold_trees, test_trees)
    return sum((score_pair(*pair) for pair in pairs), Scores())


def score_pair(gold, test):
    """The scores of one pair."""
    gold_words, gold_brackets = brackets(gold)
    test_words, test_brackets = brackets(test) if test else ([], Counter())
    if not test_words:
        return Scores(sentences=1, skipped=1)
    if gold_words != test_words:
        return Scores(sentences=1, errors=1)
    matched = (gold_brackets & test_brackets).total()
    return Scores(
        sentences=1,
        matched=matched,
        gold=gold_brackets.total(),
        test=test_brackets.total(),
        complete=int(gold_brackets == test_brackets),
    )


def brackets(tree):
    """Words that count, and how often each (label, start, end) occurs."""
    words, found = [], Counter()

    def walk(node):
        if isinstance(node, Leaf):
            if node.tag not in DELETED:
                words.append(node.word)
            return
        start = len(words)
        for child in node.children:
            walk(child)
        label = bare_label(node.label)
        if len(words) > start and label not in DELETED:
            found[SAME.get(label, label), start, len(words)] += 1

    walk(tree)
    return words, found
