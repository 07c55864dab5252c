"""The grammar that stands beside finds the likeliest tree."""

from treebank.grammar import make_documents
from treebank.pcfg import Grammar
from treebank.trees import Leaf, clean, parse_trees

TREES = [
    clean(next(parse_trees(text)))
    for text in (
        "(TOP (S (NP (PRP she)) (VP (VBD saw) (NP (DT the) (NN cat)))))",
        "(TOP (S (NP (PRP she)) (VP (VBD saw) (NP (DT the) (NN dog)))))",
        "(TOP (S (NP (DT the) (JJ old) (NN cat)) (VP (VBD saw))))",
    )
    * 3
]


def test_training_trees_are_found_again():
    grammar = Grammar(TREES)
    for tree in TREES:
        assert grammar.parse(tree.leaves()) == tree


def test_rules_combine_and_tags_are_found_by_the_words():
    words = "the old dog saw the cat".split()
    tree = Grammar(TREES).parse([Leaf("", word) for word in words])
    assert str(tree) == (
        "(TOP (S (NP ( the) ( old) ( dog)) (VP ( saw) (NP ( the) ( cat)))))"
    )


def test_what_no_rule_fits_becomes_flat():
    tree = Grammar(TREES).parse([Leaf("VBD", "saw"), Leaf("VBD", "saw")])
    assert str(tree) == "(TOP (S (VBD saw) (VBD saw)))"


def test_a_word_never_seen_takes_any_rare_words_tag():
    made = [tree for trees in make_documents(4, 20).values() for tree in trees]
    words = [Leaf("", word) for word in "she saw the Xylophones .".split()]
    assert list(Grammar(made).parse(words).leaves()) == words


def test_the_grammar_makes_the_same_trees_for_the_same_seed():
    assert make_documents(2, 3, seed=5) == make_documents(2, 3, seed=5)
    assert make_documents(2, 3, seed=5) != make_documents(2, 3, seed=6)
