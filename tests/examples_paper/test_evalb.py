"""Scores follow EVALB's README, with the parameters of COLLINS.prm."""

import pytest
from treebank.evalb import score, score_pair
from treebank.trees import parse_trees

# The README's own example of a tree.
MONDAY = (
    "(TOP (S (INTJ (RB No)) (, ,) (NP (PRP it)) (VP (VBD was) (RB n't) "
    "(NP (NNP Black) (NNP Monday))) (. .)))"
)


def read(text):
    return next(parse_trees(text))


def scores(gold, test):
    return score_pair(read(gold), read(test))


def test_a_perfect_tree_matches_all_but_the_root():
    found = scores(MONDAY, MONDAY)
    # S, INTJ, NP, VP, NP; TOP and the tags of words do not count.
    assert (found.matched, found.gold, found.test) == (5, 5, 5)
    assert (found.recall, found.precision, found.f1) == (100, 100, 100)
    assert found.exact == 100


def test_labels_count():
    found = scores("(S (A (P this)) (B (Q is)))", "(S (C (P this)) (B (Q is)))")
    assert (found.matched, found.gold, found.test) == (2, 3, 3)
    assert found.f1 == pytest.approx(200 / 3)
    assert found.exact == 0


def test_tags_of_words_do_not_count():
    found = scores("(S (A (P this)) (Q is))", "(S (A (X this)) (Y is))")
    assert found.f1 == 100


def test_recall_and_precision_take_their_own_brackets():
    gold = "(S (A (P a) (P b)) (B (P c)))"
    test = "(S (P a) (P b) (P c))"
    found = scores(gold, test)
    assert found.recall == pytest.approx(100 / 3)
    assert found.precision == 100


def test_punctuation_is_taken_out_before_spans_are_compared():
    gold = "(S (NP (NN a) (, ,)) (VP (VB b)) (. .))"
    test = "(S (NP (NN a)) (, ,) (VP (VB b) (. .)))"
    found = scores(gold, test)
    assert (found.matched, found.gold, found.test) == (3, 3, 3)
    assert found.exact == 100


@pytest.mark.parametrize("tag", [",", ":", "``", "''", "."])
def test_a_phrase_of_punctuation_alone_does_not_count(tag):
    gold = f"(S (NP (NN a)) (PRN ({tag} x)))"
    found = scores(gold, f"(S (NP (NN a)) ({tag} x))")
    assert (found.matched, found.gold, found.test) == (2, 2, 2)


def test_brackets_of_the_text_are_words_that_count():
    gold = "(S (NP (-LRB- -LRB-) (NN a)))"
    found = scores(gold, "(S (-LRB- -LRB-) (NP (NN a)))")
    assert found.matched == 1


def test_traces_go_with_the_phrases_above_them():
    gold = "(S (VP (VBD reported) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))) (. .))"
    found = scores(gold, "(S (VP (VBD reported)) (. .))")
    assert (found.matched, found.gold, found.test) == (2, 2, 2)


def test_functional_tags_are_cut_off():
    found = scores(
        "(S (NP-SBJ (NN a)) (NP=2 (NN b)))", "(S (NP (NN a)) (NP (NN b)))"
    )
    assert found.f1 == 100


def test_adverbs_and_particles_are_one_label():
    found = scores("(S (PRT (RP up)))", "(S (ADVP (RP up)))")
    assert found.f1 == 100


@pytest.mark.parametrize(
    ("gold", "test", "recall", "precision"),
    [(1, 2, 100, 50), (2, 1, 50, 100), (2, 2, 100, 100), (3, 2, 200 / 3, 100)],
)
def test_unary_chains_of_one_label_match_as_often_as_both_have_it(
    gold, test, recall, precision
):
    def chain(count):
        return (
            "(TOP " + "(NP " * count + "(DT the) (NN man)" + ")" * (count + 1)
        )

    found = scores(chain(gold), chain(test))
    assert found.recall == pytest.approx(recall)
    assert found.precision == pytest.approx(precision)


def test_the_order_in_a_unary_chain_does_not_count():
    found = scores("(S (VP (VB go)))", "(VP (S (VB go)))")
    assert found.f1 == 100


def test_other_words_or_another_number_of_them_are_an_error():
    gold = "(S (NP (NN a)) (VP (VB b)))"
    for test in ("(S (NP (NN a)))", "(S (NP (NN a)) (VP (VB c)))"):
        found = scores(gold, test)
        assert (found.errors, found.gold, found.test) == (1, 0, 0)


def test_a_word_tagged_as_punctuation_on_one_side_is_an_error():
    found = scores("(S (NN a) (: -))", "(S (NN a) (HYPH -))")
    assert found.errors == 1


def test_no_tree_and_an_empty_one_are_skipped():
    gold = read("(S (NP (NN a)))")
    assert score_pair(gold, None).skipped == 1
    assert score_pair(gold, read("(S (. .))")).skipped == 1


def test_brackets_of_all_sentences_count_together():
    gold = [read("(S (A (P a) (P b)))"), read(MONDAY), read("(S (P a))")]
    test = [read("(S (P a) (P b))"), read(MONDAY), read("(S (P a) (P b))")]
    found = score(gold, test)
    assert (found.sentences, found.errors, found.skipped) == (3, 1, 0)
    # 1 of 2 and 1, then 5 of 5 and 5; the error counts for nothing.
    assert (found.matched, found.gold, found.test) == (6, 7, 6)
    assert found.f1 == pytest.approx(200 * 6 / 13)
    assert found.exact == 50
    with pytest.raises(ValueError, match="one tree for each gold tree"):
        score(gold, test[:2])


def test_nothing_at_all_scores_nothing():
    assert score([], []).f1 == 0
