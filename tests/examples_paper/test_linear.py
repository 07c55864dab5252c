"""A tree becomes text and comes back, and any text becomes a tree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from treebank.linear import (
    build,
    is_balanced,
    linearise,
    right_branching,
    sentence,
)
from treebank.trees import ROOT, Leaf, Tree, clean, parse_trees

LABELS = ("S", "NP", "VP", "PP", "SBAR", "X")
TAGS = ("NN", "DT", "VBD", "PRP$", ",", ".", "X", "-LRB-")

leaves = st.builds(
    Leaf, st.sampled_from(TAGS), st.text("abc", min_size=1, max_size=3)
)
phrases = st.recursive(
    leaves,
    lambda inside: st.builds(
        Tree,
        st.sampled_from(LABELS),
        st.lists(inside, min_size=1, max_size=4).map(tuple),
    ),
    max_leaves=12,
)
trees = st.lists(phrases, min_size=1, max_size=3).map(
    lambda children: Tree(ROOT, tuple(children))
)
tokens = st.sampled_from(
    [*LABELS, *(label.lower() for label in LABELS), ".", "Nn", ",", "Prp$"]
)


def read(text):
    return clean(next(parse_trees(text)))


CAT = read("(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))")


def test_the_example_of_the_documentation():
    assert sentence(CAT) == "the cat sleeps ."
    assert linearise(CAT) == "S NP Dt Nn np VP Vbz vp . s"
    assert linearise(CAT, tags=False) == "S NP . . np VP . vp . s"


def test_brackets_in_the_text_are_read_as_such():
    tree = read("( (NP (-LRB- -LRB-) (NN a) (-RRB- -RRB-)) )")
    assert sentence(tree) == "( a )"


@given(trees, st.booleans())
def test_a_tree_comes_back(tree, tags):
    text = linearise(tree, tags)
    words = list(tree.leaves())
    assert is_balanced(text, len(words))
    assert build(text, words) == tree


@given(st.lists(tokens, max_size=30), st.lists(leaves, min_size=1, max_size=8))
def test_any_text_becomes_a_tree_over_all_words(written, words):
    text = " ".join(written)
    tree = build(text, words)
    assert list(tree.leaves()) == words
    assert tree.label == ROOT
    # What is built is whole: it comes back unchanged.
    assert build(linearise(tree), words) == tree


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A closing bracket closes what is open inside of it.
        (
            "S NP . . VP . s .",
            "(TOP (S (NP (DT the) (NN cat) (VP (VBZ sleeps)))) (. .))",
        ),
        # One that nothing is open for is left out.
        (
            "S NP . . pp np VP . vp . s",
            "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))",
        ),
        # Words too many are left out, phrases without words vanish.
        (
            "S NP . . np VP . vp . . . NP . np s",
            "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))",
        ),
        # Words too few: the rest joins the last phrase below the root.
        (
            "S NP . . np VP",
            "(TOP (S (NP (DT the) (NN cat)) (VBZ sleeps) (. .)))",
        ),
        ("", "(TOP (DT the) (NN cat) (VBZ sleeps) (. .))"),
    ],
)
def test_repair_is_the_stated_one(text, expected):
    assert str(build(text, CAT.leaves())) == expected
    assert is_balanced(text, 4) is False


def test_right_branching_leaves_the_full_stop_outside():
    tree = right_branching(CAT.leaves(), "S", "VP")
    assert str(tree) == ("(TOP (S (DT the) (VP (NN cat) (VBZ sleeps)) (. .)))")
    word = [Leaf("UH", "Yes")]
    assert str(right_branching(word, "S", "VP")) == "(TOP (S (UH Yes)))"
