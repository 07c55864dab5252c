"""Penn-style trees: read from files and archives, cleaned, split by document.

A tree is `Tree(label, children)`; its leaves are `Leaf(tag, word)`.
"""

import re
import tarfile
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

ROOT = "TOP"
ROOTS = ("", "TOP", "ROOT", "S1")  # what treebanks call the outermost bracket
EMPTY = "-NONE-"
SUFFIXES = (".tree", ".ptb", ".mrg", ".prd")


class Leaf(NamedTuple):
    tag: str
    word: str

    def __str__(self):
        return f"({self.tag} {self.word})"


class Tree(NamedTuple):
    label: str
    children: tuple

    def __str__(self):
        return f"({self.label} {' '.join(map(str, self.children))})"

    def leaves(self):
        for child in self.children:
            if isinstance(child, Leaf):
                yield child
            else:
                yield from child.leaves()


def parse_trees(text, name="text"):
    """Yields the trees of a text in brackets, as they are written there.

    >>> print(next(parse_trees("( (S (NP-SBJ (PRP I)) (VP (VBP am))) )")))
    ( (S (NP-SBJ (PRP I)) (VP (VBP am))))
    """
    stack = []  # one (label, children) for each bracket that is open
    for match in re.finditer(r"\(\s*([^\s()]*)|\)|[^\s()]+", text):
        token = match[0]
        if token[0] == "(":
            stack.append((match[1], []))
        elif token != ")":
            if not stack:
                _fail(name, text, match, f"{token!r} outside of all brackets")
            stack[-1][1].append(token)
        else:
            if not stack:
                _fail(name, text, match, "a bracket closed that was not open")
            label, children = stack.pop()
            node = _node(label, children)
            if node is None:
                _fail(name, text, match, f"({label} ...) mixes words and trees")
            if stack:
                stack[-1][1].append(node)
            else:
                yield node
    if stack:
        _fail(name, text, None, f"{len(stack)} brackets still open at its end")


def _node(label, children):
    words = [child for child in children if isinstance(child, str)]
    if not words:
        return Tree(label, tuple(children))
    # A word with a space in it occurs; a leaf is one word all the same.
    return Leaf(label, "".join(words)) if words == children else None


def _fail(name, text, match, what):
    line = text[: match.start() if match else None].count("\n") + 1
    raise ValueError(
        f"Brackets must pair up. Received: {what}, in line {line:,} of {name}. "
        "Mend the file, or leave it out."
    )


def clean(tree):
    """Without empty elements and functional tags, under one root.

    A phrase that dominates nothing but empty elements goes with them. Labels
    end before the first "-" or "=": "NP-SBJ-1" is "NP". Tags of words stay.

    >>> trace = "(ROOT (S (NP-SBJ (-NONE- *)) (VP=2 (VB go))))"
    >>> print(clean(next(parse_trees(trace))))
    (TOP (S (VP (VB go))))
    """
    children = tree.children if tree.label in ROOTS else (tree,)
    kept = [_clean_node(child) for child in children]
    return Tree(ROOT, tuple(child for child in kept if child is not None))


def _clean_node(node):
    if isinstance(node, Leaf):
        return None if node.tag == EMPTY else node
    kept = [_clean_node(child) for child in node.children]
    kept = tuple(child for child in kept if child is not None)
    return Tree(bare_label(node.label), kept) if kept else None


def bare_label(label):
    """ "NP-SBJ=2" is "NP"; "-LRB-" stays."""
    return re.match(r"[^-=]*", label)[0] or label


def read_documents(path):
    """Reads a folder or a tar archive: `{document: [cleaned trees]}`.

    Trees without a word are left out, and trees in which more than half of the
    words are underscores: a text that may not be given away.
    """
    documents = {}
    for name, text in sorted(_read_texts(Path(path))):
        trees = [clean(tree) for tree in parse_trees(text, name)]
        # Files of the same name in several folders are one document.
        documents.setdefault(name, []).extend(filter(_has_words, trees))
    if not any(documents.values()):
        raise ValueError(
            "`trees` must be a folder or a tar archive with trees in files "
            f"named {', '.join('*' + s for s in SUFFIXES)}. Received: {path}, "
            "which has none."
        )
    return documents


def _has_words(tree):
    hidden = [set(leaf.word) == {"_"} for leaf in tree.leaves()]
    return bool(hidden) and sum(hidden) <= len(hidden) / 2


def _read_texts(path):
    if path.is_dir():
        for file in path.rglob("*"):
            if file.suffix in SUFFIXES:
                yield file.stem, file.read_text("utf-8")
        return
    if not path.is_file() or not tarfile.is_tarfile(path):
        raise FileNotFoundError(
            "`trees` must name folders or tar archives. Received: "
            f"{path}, which is neither."
        )
    with tarfile.open(path) as archive:
        for member in archive:
            file = Path(member.name)
            if member.isfile() and file.suffix in SUFFIXES:
                yield file.stem, archive.extractfile(member).read().decode()


def split_documents(documents, share=0.1):
    """Whole documents to train, dev and test, by a hash of their names.

    Args:
        documents: `{name: trees}`.
        share: Share of documents for dev, and the same for test.

    Returns:
        `{"train": {name: trees}, "dev": ..., "test": ...}`.
    """
    names = sorted(
        documents, key=lambda name: blake2b(name.encode()).hexdigest()
    )
    count = max(1, round(share * len(names)))
    if len(names) < 3:
        raise ValueError(
            "There must be a document each for train, dev and test. Received: "
            f"{len(names)} documents. Give each its own file."
        )
    chosen = {
        "test": names[:count],
        "dev": names[count : 2 * count],
        "train": names[2 * count :],
    }
    return {
        split: {name: documents[name] for name in sorted(chosen[split])}
        for split in ("train", "dev", "test")
    }
