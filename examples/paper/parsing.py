"""Constituency parsing as translation: section 6.3 of the paper, in small.

    python examples/paper/parsing.py --quick
    python examples/paper/parsing.py --trees craft.tar.xz gum.tar.xz

Reads Penn-style trees, or makes some up with a small grammar if none are
given, and splits them by document. A tree becomes a sentence of brackets (see
treebank/linear.py), so that parsing is translation: `prepare` and `train` are
those of every other run, in the settings of parsing.toml. Held-out documents
are parsed by beam search, brackets that do not fit are repaired by a stated
rule, and EVALB's labelled F1 is computed, beside two baselines. Three trees
are drawn. Stopped in any way, the same command goes on.
"""

import argparse
import re
import sys
import time
from collections import Counter
from pathlib import Path

from treebank import evalb, linear, pcfg, pictures
from treebank.grammar import make_documents
from treebank.trees import read_documents, split_documents

HERE = Path(__file__).parent
QUICK = {  # settings that learn the made-up grammar in less than a minute
    "num_layers": 2,
    "hidden_dim": 64,
    "intermediate_dim": 256,
    "dropout": 0.0,
    "tokens_per_batch": 2048,
    "warmup_steps": 60,
    "learning_rate_scale": 0.5,
    "validate_every": 80,
    "validation_sentences": 20,
    "average_last": 1,
    "steps": 320,
}


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--trees", nargs="+", metavar="PATH", help="folders or tar archives")
    add("--folder", default="runs/parsing", help="where to write")
    add("--minutes", type=float, default=60, help="of training")
    add("--steps", type=int, help="updates to train for, instead of minutes")
    add("--max-words", type=int, default=40, help="longest tree to train on")
    add("--vocabulary-size", type=int, default=8000, help="pieces of words")
    add("--beam-size", type=int, default=21, help="the paper's is 21")
    add("--length-penalty", type=float, default=0.3, help="the paper's is 0.3")
    add("--max-extra-length", type=int, default=300, help="the paper's is 300")
    add("--sentences", type=int, help="most held-out sentences a treebank")
    add("--settings", default=HERE / "parsing.toml", help="of the training")
    add(
        "--leaves",
        choices=("tags", "dots"),
        default="tags",
        help="what words become: see treebank/linear.py",
    )
    add("--no-pcfg", action="store_true", help="leave that baseline out")
    add("--quick", action="store_true", help="few steps, for a look")
    args = parser.parse_args()
    if args.quick and args.sentences is None:
        args.sentences = 60
    if args.quick and args.folder == parser.get_default("folder"):
        args.folder += "-quick"
    return args


def main():
    args = arguments()
    folder = Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    splits = read_splits(args.trees)
    report_splits(splits, args.max_words)
    translator = learn(folder, splits, args)

    parsers = baselines(splits, args)
    scores, examples = [], []
    for bank, trees in held_out(splits["test"], args):
        found = {"Transformer": parse(translator, bank, trees, args)}
        for name, parser in parsers.items():
            found[name] = [parser(list(tree.leaves())) for tree in trees]
        for name, guesses in found.items():
            pairs = list(zip(trees, guesses))
            few = [p for p in pairs if num_words(p[0]) <= args.max_words]
            scores.append((bank, name, evalb_of(few), evalb_of(pairs)))
        examples += zip(trees, found["Transformer"])
    report(scores, folder, args.max_words)
    draw(examples, folder)
    print(f"Wrote {folder}: run/ is the trained model, tree-*.png three trees.")


def read_splits(paths):
    """`{split: {treebank: [trees]}}`, whole documents in each."""
    if paths:
        banks = {name_of(path): read_documents(path) for path in paths}
    else:
        banks = {"made up": make_documents()}
    splits = {"train": {}, "dev": {}, "test": {}}
    for bank, documents in banks.items():
        for split, chosen in split_documents(documents).items():
            trees = [tree for each in chosen.values() for tree in each]
            splits[split][bank] = trees
            print(f"{bank}, {split}: {len(chosen)} documents")
    # Headings come again and again: none that is tested is trained on.
    held_out = {
        linear.sentence(tree)
        for split in ("dev", "test")
        for trees in splits[split].values()
        for tree in trees
    }
    for bank, trees in splits["train"].items():
        splits["train"][bank] = [
            tree for tree in trees if linear.sentence(tree) not in held_out
        ]
    return splits


def name_of(path):
    return Path(path).name.split(".")[0]


def short(banks, max_words):
    """The trees of all treebanks that are not longer."""
    return [
        tree
        for trees in banks.values()
        for tree in trees
        if num_words(tree) <= max_words
    ]


def num_words(tree):
    return sum(1 for _ in tree.leaves())


def report_splits(splits, max_words):
    for split, banks in splits.items():
        total = sum(map(len, banks.values()))
        print(
            f"{split}: {total:,} trees, {len(short(banks, max_words)):,} of at "
            f"most {max_words} words"
        )


def learn(folder, splits, args):
    """Prepares and trains as any run, and loads the result."""
    from keras_transformer import load, prepare, train
    from keras_transformer.runs.settings import read_settings
    from keras_transformer.runs.training import Stopped

    pairs = {
        split: [
            (
                linear.sentence(tree),
                linear.linearise(tree, args.leaves == "tags"),
            )
            for tree in short(splits[split], args.max_words)
        ]
        for split in ("train", "dev")
    }
    files = {}
    for split, lines in pairs.items():
        path = files[split] = folder / f"{split}.tsv"
        text = "".join(f"{source}\t{target}\n" for source, target in lines)
        # The same text stays the same file, so that a run can go on.
        if not path.is_file() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    data = folder / "data"
    prepare(
        data,
        train=[str(files["train"])],
        dev=[str(files["dev"])],
        tokenizer=tokenizers(pairs["train"], args),
        clean=False,  # a short sentence with many brackets is no error
        tokens_per_batch=4096,
    )
    flags = {"data": str(data)}
    limit = {"steps": args.steps} if args.steps else {"minutes": args.minutes}
    flags.update(QUICK if args.quick else limit)
    try:
        train(read_settings(args.settings, flags), folder / "run")
    except Stopped:
        print(f"Saved in {folder}. The same command goes on.")
        sys.exit(130)
    translator = load(folder / "run")
    # Sinusoids go on: a longer sentence is parsed whole, not in parts.
    translator.max_source_length = 10_000
    return translator


def tokenizers(pairs, args):
    """BPE for words; for brackets a vocabulary with each as one piece."""
    size = 500 if args.quick else args.vocabulary_size
    words = largest_tokenizer((source for source, _ in pairs), size)
    names = sorted({name for _, target in pairs for name in target.split()})
    # At the begin of a sentence there is no space before a bracket.
    brackets = largest_tokenizer(
        [text for name in names for text in (name, f" {name}")], 2000
    )
    pieces = [len(brackets.tokenize(f" {name}")) for name in names]
    print(
        f"vocabulary: {words.vocabulary_size:,} pieces for words, "
        f"{brackets.vocabulary_size} for {len(names)} brackets, "
        f"{sum(n == 1 for n in pieces)} of which are one piece"
    )
    return words, brackets


def largest_tokenizer(sentences, vocabulary_size):
    """A tokenizer of so many pieces, or of as many as the text allows."""
    from keras_transformer import Tokenizer

    sentences = list(sentences)
    try:
        return Tokenizer.train(sentences, vocabulary_size)
    except ValueError as error:
        most = re.search(r"at most ([\d,]+)", str(error))
        if most is None:
            raise
        return Tokenizer.train(sentences, int(most[1].replace(",", "")))


def held_out(banks, args):
    """Each treebank's test set, all of it or evenly chosen sentences."""
    for bank, trees in banks.items():
        count = min(len(trees), args.sentences or len(trees))
        yield bank, [trees[i * len(trees) // count] for i in range(count)]


def parse(translator, bank, trees, args):
    """Trees as the model finds them, repaired where they need it."""
    start = time.monotonic()
    results = translator.translate(
        [linear.sentence(tree) for tree in trees],
        beam_size=args.beam_size,
        length_penalty=args.length_penalty,
        max_extra_length=args.max_extra_length,
        tokens_per_batch=256,  # times the beam
    )
    seconds = time.monotonic() - start
    balanced, found = 0, []
    for tree, result in zip(trees, results):
        leaves = list(tree.leaves())
        balanced += linear.is_balanced(result.text, len(leaves))
        found.append(linear.build(result.text, leaves))
    print(
        f"{bank}: {len(trees):,} sentences parsed in {seconds:.0f} seconds "
        f"with a beam of {args.beam_size}, {balanced / len(trees):.1%} of "
        "them balanced and complete before repair"
    )
    return found


def baselines(splits, args):
    """Functions of leaves, learned from the same trees."""
    trees = short(splits["train"], args.max_words)
    outer = Counter(tree.children[0].label for tree in trees if phrase(tree))
    outer = outer.most_common(1)[0][0]
    dev = short(splits["dev"], args.max_words)
    labels = {label for tree in dev for label, *_ in evalb.brackets(tree)[1]}

    def right_branching(label):
        return lambda leaves: linear.right_branching(leaves, outer, label)

    def quality(label):
        parser = right_branching(label)
        return evalb.score(dev, [parser(tree.leaves()) for tree in dev]).f1

    inner = max(sorted(labels), key=quality)
    found = {f"right-branching, {outer} and {inner}": right_branching(inner)}
    if not args.no_pcfg:
        found["PCFG of the same trees"] = pcfg.Grammar(trees).parse
    return found


def phrase(tree):
    """Whether the root has a phrase first, not a word."""
    return hasattr(tree.children[0], "label")


def evalb_of(pairs):
    return evalb.score(*zip(*pairs)) if pairs else evalb.Scores()


def report(scores, folder, max_words):
    """Prints a table and keeps it with all figures."""
    lines = [
        f"| treebank | parser | F1, at most {max_words} words | precision "
        "| recall | exact | sentences | F1, all lengths | sentences |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for bank, name, few, every in scores:
        lines.append(
            f"| {bank} | {name} | {few.f1:.1f} | {few.precision:.1f} "
            f"| {few.recall:.1f} | {few.exact:.1f}% | {few.sentences:,} "
            f"| {every.f1:.1f} | {every.sentences:,} |"
        )
        if every.errors or every.skipped:
            print(f"{bank}, {name}: {every}")
    print("\n" + "\n".join(lines) + "\n")
    (folder / "scores.md").write_text("\n".join(lines) + "\n")


def draw(examples, folder, count=3, words=(8, 22)):
    """Three trees of middle length: the best, the middle and the worst."""
    fitting = [
        (evalb.score_pair(gold, found).f1, gold, found)
        for gold, found in examples
        if words[0] <= num_words(gold) <= words[1]
    ] or [(evalb.score_pair(*pair).f1, *pair) for pair in examples]
    fitting.sort(key=lambda example: example[0])
    for number in range(count):
        place = round((len(fitting) - 1) * (1 - number / (count - 1)))
        f1, gold, found = fitting[place]
        pictures.draw(
            found,
            gold,
            folder / f"tree-{number + 1}.png",
            f"{('best', 'middle', 'worst')[number]} of {len(fitting):,} "
            f"held-out sentences of {words[0]} to {words[1]} words: "
            f"F1 {f1:.0f}",
        )


if __name__ == "__main__":
    main()
