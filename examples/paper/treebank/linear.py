"""Trees as sentences of bracket words, and back again from any output.

Brackets carry their label at both ends, as in Vinyals et al. (2015), whom the
paper follows. A bracket is one word in letters, so that it is one piece of the
vocabulary: capitals open, small letters close. A word of the sentence is
written as its tag, with one capital: to write the right tag the model has to
look at the right word, and so learns where it is. With `tags=False` all words
are the same dot, as in Vinyals et al.

    (TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))
    S NP Dt Nn np VP Vbz vp . s
    S NP . . np VP . vp . s

The words are put back from the input. So are their tags, which count for
nothing but to find punctuation: what the model writes for them is not read.
"""

from treebank.trees import ROOT, Leaf, Tree

# What treebanks write for brackets in the text.
ESCAPES = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
    "``": '"',
    "''": '"',
}


def sentence(tree):
    """The words of a tree, with spaces between: what the model reads."""
    words = (leaf.word for leaf in tree.leaves())
    return " ".join(ESCAPES.get(word, word) for word in words)


def linearise(tree, tags=True):
    """The brackets of a tree as text: what the model writes. No root.

    Args:
        tree: A cleaned tree.
        tags: Whether words are written as their tags, or all as dots.
    """
    return " ".join(
        token for child in tree.children for token in _tokens(child, tags)
    )


def _tokens(node, tags):
    if isinstance(node, Leaf):
        yield _word(node.tag) if tags else "."
        return
    yield node.label.upper()
    for child in node.children:
        yield from _tokens(child, tags)
    yield node.label.lower()


def _word(tag):
    """The tag as a word that neither opens nor closes: "Nn", "Lrb", ","."""
    if not any(map(str.isalpha, tag)):
        return tag
    word = tag.strip("-").replace("$", "s").title()  # letters: one piece
    return f"{word}x" if word.isupper() else word


def _kind(token):
    if token.isupper():
        return "open"
    return "close" if token.islower() else "word"


def is_balanced(text, num_words):
    """Whether a text is the linearisation of a tree of so many words."""
    open_labels, seen = [], 0
    for token in text.split():
        kind = _kind(token)
        if kind == "word":
            seen += 1
        elif kind == "open":
            open_labels.append(token)
        elif not open_labels or open_labels.pop() != token.upper():
            return False
    return not open_labels and seen == num_words


def build(text, leaves):
    """A tree from any text, over exactly the given leaves.

    What does not fit is repaired, from left to right:

    - a closing bracket closes the innermost open phrase of its label, and all
      phrases inside of it; if there is none it is left out;
    - a word too many is left out;
    - at the end all phrases that are open are closed, and words that are left
      over join the last phrase below the root, or the root if that ends in a
      word;
    - phrases without a word vanish.

    Args:
        text: What the model wrote.
        leaves: The leaves of the tree; their tags are not looked at.
    """
    leaves = list(leaves)
    root = (ROOT, [])
    stack, used = [root], 0
    for token in text.split():
        kind = _kind(token)
        if kind == "word":
            if used < len(leaves):
                stack[-1][1].append(leaves[used])
                used += 1
        elif kind == "open":
            phrase = (token, [])
            stack[-1][1].append(phrase)
            stack.append(phrase)
        else:
            depth = _innermost(stack, token.upper())
            del stack[depth:]
    ends_in_phrase = root[1] and not isinstance(root[1][-1], Leaf)
    last = root[1][-1] if ends_in_phrase else root
    last[1].extend(leaves[used:])
    return _frozen(root)


def _innermost(stack, label):
    """Where the innermost open phrase of a label is; past the end if none."""
    for depth in range(len(stack) - 1, 0, -1):
        if stack[depth][0] == label:
            return depth
    return len(stack)


def _frozen(phrase):
    label, children = phrase
    kept = []
    for child in children:
        if not isinstance(child, Leaf):
            child = _frozen(child)
            if not child.children:
                continue
        kept.append(child)
    return Tree(label, tuple(kept))


def right_branching(leaves, outer, inner):
    """Every word opens a phrase that reaches to the end of the sentence.

    Args:
        leaves: The leaves; final punctuation joins the outermost phrase.
        outer: Label of the outermost phrase.
        inner: Label of all others.
    """
    leaves = list(leaves)
    end = []
    while len(leaves) > 1 and not any(map(str.isalnum, leaves[-1].word)):
        end.insert(0, leaves.pop())
    tree = leaves[-1]
    for leaf in leaves[-2:0:-1]:
        tree = Tree(inner, (leaf, tree))
    inside = (leaves[0], tree) if len(leaves) > 1 else (tree,)
    return Tree(ROOT, (Tree(outer, (*inside, *end)),))
