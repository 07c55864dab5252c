"""A small grammar of English: makes trees up where there is no treebank."""

import random

from treebank.trees import clean, parse_trees

# Each phrase may become one of these. Words and tags are in small letters
# below; -SBJ and the empty subject are there to be stripped.
PHRASES = {
    "S": [("NP-SBJ", "VP", "."), ("PP", ",", "NP-SBJ", "VP", ".")],
    "NP": [("PRP",), ("DT", "NN"), ("DT", "JJ", "NN"), ("NP", "PP")],
    "NP-SBJ": [("PRP",), ("DT", "NN"), ("DT", "JJ", "NN")],
    "VP": [
        ("VBD",),
        ("VBD", "NP"),
        ("VBD", "NP", "PP"),
        ("VBD", "SBAR"),
        ("VBD", "S-PRP"),
    ],
    "PP": [("IN", "NP")],
    "SBAR": [("that", "S-NOM")],
    "S-NOM": [("NP-SBJ", "VP")],
    "S-PRP": [("empty", "TO")],
    "TO": [("to", "VP-INF")],
    "VP-INF": [("VB", "NP")],
}
WORDS = {
    "PRP": "she he it they we",
    "DT": "the a every",
    "NN": "cat dog house river teacher letter garden train",
    "JJ": "old small green quiet",
    "VBD": "saw knew found wanted forgot",
    "VB": "see find visit paint",
    "IN": "with near under after",
    ".": ".",
    ",": ",",
}


def make_documents(num_documents=50, num_trees=40, seed=1):
    """`{document: [cleaned trees]}`, the same for the same seed."""
    rng = random.Random(seed)
    return {
        f"made-{i:03d}": [
            clean(next(parse_trees(f"({_phrase('S', rng)})")))
            for _ in range(num_trees)
        ]
        for i in range(num_documents)
    }


def _phrase(name, rng, depth=0):
    if name in WORDS:
        return f"({name} {rng.choice(WORDS[name].split())})"
    if name == "that":
        return "(IN that)"
    if name == "to":
        return "(TO to)"
    if name == "empty":
        return "(NP-SBJ (-NONE- *PRO*))"
    # The deeper, the likelier the first and shortest choice.
    choices = PHRASES[name]
    parts = choices[0] if rng.random() < depth / 8 else rng.choice(choices)
    inside = " ".join(_phrase(part, rng, depth + 1) for part in parts)
    label = {"TO": "VP", "VP-INF": "VP"}.get(name, name)
    return f"({label} {inside})"
