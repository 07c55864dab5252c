"""Measures the model that ships, and writes what depends on it.

    python -m benchmarks.shipped_model \
        --test "Tatoeba Challenge=tatoeba/test-v2020-07-28.tsv.gz"

It translates the 200 sentences in tests/sentences and every test set that is
named, and prints the scores.

    python -m benchmarks.shipped_model --test … --write --run-folder runs/first

It then also writes the translations that the tests compare with, the marked
parts of the model's card and of the README, and the pictures in docs/: for a
new version. The run is one of those that trained the model. Where Chromium is
missing, the picture of the page stays as it is.
"""

import argparse
import re
from pathlib import Path

from benchmarks.pictures import draw_attention, draw_curve, draw_page
from keras_transformer import evaluation, load
from keras_transformer.data import read_pairs
from keras_transformer.translator.loading import shipped_model

ROOT = Path(__file__).parents[1]
CARD = ROOT / "saved_models" / "README.md"
README = ROOT / "README.md"
PICTURES = ROOT / "docs" / "pictures"
EVERYDAY = ROOT / "tests" / "sentences" / "everyday.tsv"
EVERYDAY_NAME = "200 everyday sentences of our own"
# Of the sentences with which a server is warmed up all are recorded, and so
# many of the others.
RECORDED, ALSO_RECORDED = "recorded.tsv", 30
CURVE = """\
This one is of the longest run for the model that ships, from the weights of a
first one on. BLEU is that of greedy search on some development sentences; a
beam, and the runs that followed, do better."""
DRAWN = "The children are playing in the garden."


def main():
    args = parse_arguments()
    if args.write and args.run_folder:  # first, since it may be the wrong one
        draw_curve(Path(args.run_folder), PICTURES / "learning_curve.png")
    model = shipped_model()
    translator = load()
    pairs = list(read_pairs(str(EVERYDAY)))
    texts = translate(translator, pairs)
    tests = {EVERYDAY_NAME: (pairs, texts)}
    for name, source in args.test:
        test = list(read_pairs(source, split="test"))
        tests[name] = (test, translate(translator, test))
    scores = score_table(tests)
    print(scores)
    if not args.write:
        return

    recorded = record(translator, model, pairs)
    rewrite(CARD, "scores", scores)
    rewrite(CARD, "samples", sample_table(pairs, texts))
    rewrite(README, "scores", scores)
    rewrite(README, "answer", f"It answers `{recorded[0][1]}`.")
    draw_attention(translator, DRAWN, PICTURES / "attention.png")
    draw_page(model, DRAWN, PICTURES / "page.png")
    if args.run_folder:
        rewrite(README, "curve", CURVE)
    print("Wrote the card, the README, what is recorded, and the pictures.")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--test",
        nargs="+",
        default=[],
        type=lambda text: text.split("=", 1),
        metavar="NAME=SOURCE",
        help="test sets; the tables have a row for each, and no other rows",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the card, the README, what is recorded, and the pictures",
    )
    parser.add_argument(
        "--run-folder",
        metavar="FOLDER",
        help="a run that trained the model, for its learning curve",
    )
    return parser.parse_args()


def translate(translator, pairs):
    results = translator.translate([source for source, _ in pairs])
    return [" ".join(result.text.splitlines()) for result in results]


def score_table(tests):
    """BLEU and chrF of each test set, as Markdown, with their signatures."""
    rows = ["| test set | sentences | BLEU | chrF |", "|---|---|---|---|"]
    for name, (pairs, texts) in tests.items():
        references = [target for _, target in pairs]
        bleu = evaluation.bleu(texts, references)
        chrf = evaluation.chrf(texts, references)
        rows.append(
            f"| {name} | {len(pairs):,} | {bleu.value:.2f} | {chrf.value:.2f} |"
        )
    return "\n".join(
        [
            *rows,
            "",
            f"BLEU is `{bleu.signature}`, chrF is `{chrf.signature}`.",
        ]
    )


def sample_table(pairs, texts):
    """One translation of each tenth, from the best to the worst."""
    rows = []
    for (source, target), text in zip(pairs, texts):
        value = evaluation.chrf([text], [target]).value
        rows.append((value, source, text, target))
    rows.sort(key=lambda row: row[0], reverse=True)
    tenth = len(rows) // 10
    return "\n".join(
        [
            "| chrF | English | its German | how we would say it |",
            "|---|---|---|---|",
            *(
                f"| {value:.0f} | {source} | {text} | {target} |"
                for value, source, text, target in rows[tenth // 2 :: tenth]
            ),
        ]
    )


def record(translator, model, pairs):
    """Writes and returns the sentences that must not change."""
    sources = (model / "samples.en").read_text("utf-8").splitlines()
    sources += [source for source, _ in pairs[:ALSO_RECORDED]]
    results = translator.translate(sources)
    rows = [(source, result.text) for source, result in zip(sources, results)]
    (model / RECORDED).write_text(
        "".join(f"{source}\t{text}\n" for source, text in rows), "utf-8"
    )
    return rows


def rewrite(path, name, text):
    """Puts a text between `<!-- name -->` and `<!-- /name -->`."""
    begin, end = f"<!-- {name} -->\n\n", f"\n\n<!-- /{name} -->"
    pattern = re.compile(f"(?<={begin}).*?(?={end})", re.S)
    page, found = pattern.subn(lambda _: text, path.read_text("utf-8"))
    if found != 1:
        raise ValueError(
            f"A page must have one part of each name. Received: {path} with "
            f"{found} parts named {name!r}. Put {begin!r} and {end!r} in it."
        )
    path.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
