"""Trees are read, cleaned and split as the treebanks' users do it."""

import tarfile

import pytest
from treebank.trees import (
    Leaf,
    Tree,
    clean,
    parse_trees,
    read_documents,
    split_documents,
)


def read(text):
    return clean(next(parse_trees(text)))


def test_empty_elements_go_and_take_their_phrases_along():
    tree = read(
        "(TOP (VP (VBD reported) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))) (. .))"
    )
    assert str(tree) == "(TOP (VP (VBD reported)) (. .))"


def test_functional_tags_are_cut_off_phrases_but_not_off_words():
    tree = read("( (S (NP-SBJ=2 (-LRB- -LRB-) (PRP$ my)) (VP-TPC-1 (VB go))) )")
    assert str(tree) == "(TOP (S (NP (-LRB- -LRB-) (PRP$ my)) (VP (VB go))))"


@pytest.mark.parametrize("root", ["", "ROOT", "TOP", "S1"])
def test_every_treebanks_root_becomes_one(root):
    assert str(read(f"({root} (NP (NN cat)))")) == "(TOP (NP (NN cat)))"


def test_a_tree_without_a_root_gets_one():
    assert str(read("(NP (NN cat))")) == "(TOP (NP (NN cat)))"


def test_nested_phrases_over_several_lines_are_one_tree():
    text = "(S\n  (NP (NP (DT the)\n (NN cat)) (PP (IN of)\n (NP (NN x)))))"
    (tree,) = parse_trees(text)
    assert [leaf.word for leaf in tree.leaves()] == ["the", "cat", "of", "x"]
    inner = Tree("NP", (Leaf("DT", "the"), Leaf("NN", "cat")))
    assert tree.children[0].children[0] == inner


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("(S (NP (NN a))", "1 brackets still open"),
        ("(S (NN a)))", "a bracket closed that was not open"),
        ("word (S (NN a))", "'word' outside of all brackets"),
        ("(S word (NN a))", "mixes words and trees"),
    ],
)
def test_wrong_brackets_are_named_with_their_line(text, what):
    with pytest.raises(ValueError, match=what) as error:
        list(parse_trees("\n\n" + text, "wsj_0001"))
    assert "line 3 of wsj_0001" in str(error.value)


def write_documents(folder):
    folder.mkdir()
    for name in "abcdefghij":
        (folder / f"{name}.ptb").write_text(f"( (NP (NN {name})) )\n" * 2)
    (folder / "hidden.ptb").write_text("( (NP (DT __) (NN ___)) )")
    (folder / "notes.txt").write_text("no trees (")


def test_a_folder_and_its_archive_read_the_same(tmp_path):
    folder = tmp_path / "trees"
    write_documents(folder)
    with tarfile.open(tmp_path / "trees.tar.xz", "w:xz") as archive:
        archive.add(folder, "trees")
    documents = read_documents(folder)
    assert documents == read_documents(tmp_path / "trees.tar.xz")
    assert [str(tree) for tree in documents["a"]] == ["(TOP (NP (NN a)))"] * 2


def test_trees_of_hidden_words_are_left_out(tmp_path):
    write_documents(tmp_path / "trees")
    assert read_documents(tmp_path / "trees")["hidden"] == []


def test_a_folder_without_trees_is_named(tmp_path):
    with pytest.raises(ValueError, match="which has none"):
        read_documents(tmp_path)
    with pytest.raises(FileNotFoundError, match="neither"):
        read_documents(tmp_path / "nothing")


def test_a_document_belongs_to_one_split_for_good():
    documents = {f"d{i}": [i] for i in range(40)}
    splits = split_documents(documents)
    assert [len(splits[s]) for s in ("train", "dev", "test")] == [32, 4, 4]
    together = [name for split in splits.values() for name in split]
    assert sorted(together) == sorted(documents)
    again = split_documents(dict(reversed(documents.items())))
    assert again == splits
