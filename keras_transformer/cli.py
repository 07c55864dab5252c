"""The command line: a verb each for what the package does.

A verb is a function that adds its arguments and a function that runs it.
Libraries that take long to import are imported where a verb runs.
"""

import argparse
import errno
import os
import sys


def main(argv=None):
    """Runs one command; returns its exit code."""
    args = _parser().parse_args(argv)
    # TensorFlow reports on its devices at import; errors still show.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        args.run(args)
    except KeyboardInterrupt:
        print("Stopped. The same command goes on from here.", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        print(f"{args.verb}: {_sentence(error)}", file=sys.stderr)
        return 2
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="keras-transformer",
        description='The Transformer of "Attention Is All You Need".',
    )
    verbs = parser.add_subparsers(dest="verb", metavar="verb", required=True)
    _add_prepare(verbs)
    _add_train(verbs)
    _add_translate(verbs)
    _add_evaluate(verbs)
    return parser


def _import_tensorflow():
    """Without the lines on devices that it prints at every start."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        import tensorflow  # noqa: F401
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _sentence(error):
    if isinstance(error, OSError) and error.errno:
        where = f": {error.filename}" if error.filename else ""
        advice = {
            errno.ENOSPC: ". Nothing is left behind; free some space and "
            "start again.",
        }.get(error.errno, ".")
        return f"{os.strerror(error.errno)}{where}{advice}"
    return " ".join(str(error).split())


SOURCES = """\
a source is one of
  train.en,train.de           parallel files, one sentence a line
  train.tsv                   source<TAB>target
  tfds:wmt14_translate/de-en  a TFDS translation dataset; a split of your own
                              by tfds:NAME@SPLIT
  numbers                     numbers in words, English to German, built in;
                              another range by numbers:0-9999
Files may be gzipped (.gz). Several sources are read one after the other.
"""


def _add_prepare(verbs):
    parser = verbs.add_parser(
        "prepare",
        help="clean and tokenise a corpus, once, for training",
        description="Learns a vocabulary, tokenises on all cores and writes a "
        "folder of shards. Stopped and started again, it goes on.",
        epilog=SOURCES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=_prepare)
    parser.add_argument("output", help="folder to make")
    parser.add_argument(
        "--train",
        nargs="+",
        metavar="SOURCE",
        help="training pairs; without it, numbers for train, dev and test",
    )
    for name in ("dev", "test"):
        parser.add_argument(
            f"--{name}",
            nargs="+",
            metavar="SOURCE",
            help=f"{name} pairs; left out of training, never cleaned",
        )
    parser.add_argument(
        "--swap", action="store_true", help="translate the other way"
    )
    parser.add_argument(
        "--vocabulary-size",
        type=int,
        metavar="N",
        help="number of pieces (32000; for numbers alone 512)",
    )
    parser.add_argument(
        "--kind",
        choices=("bpe", "unigram"),
        default="bpe",
        help="how pieces are chosen (bpe)",
    )
    parser.add_argument(
        "--separate-vocabularies",
        action="store_true",
        help="a vocabulary for each language; one for both if not given",
    )
    parser.add_argument(
        "--no-clean",
        action="store_true",
        help="keep all pairs: empty, repeated, overlong, uneven ones too",
    )
    parser.add_argument(
        "--max-characters",
        type=int,
        default=2000,
        metavar="N",
        help="longest side that cleaning keeps (2000)",
    )
    parser.add_argument(
        "--max-ratio",
        type=float,
        default=3.0,
        metavar="X",
        help="largest ratio of the sides that cleaning keeps (3.0)",
    )
    parser.add_argument(
        "--tokens-per-batch",
        type=int,
        default=25_000,
        metavar="N",
        help="budget for which to report how full batches are (25000)",
    )


def _prepare(args):
    from keras_transformer.batching.prepared import prepare

    sources = {"train": args.train, "dev": args.dev, "test": args.test}
    if not args.train:
        sources = {
            split: given or ["numbers"] for split, given in sources.items()
        }
    numbers_only = all(s.startswith("numbers") for s in sources["train"])
    prepared = prepare(
        args.output,
        **sources,
        vocabulary_size=args.vocabulary_size
        or (512 if numbers_only else 32_000),
        kind=args.kind,
        shared_vocabulary=not args.separate_vocabularies,
        clean=not args.no_clean,
        max_characters=args.max_characters,
        max_ratio=args.max_ratio,
        swap=args.swap,
        tokens_per_batch=args.tokens_per_batch,
    )
    _report(prepared)


def _report(prepared):
    for split, counts in prepared.manifest["splits"].items():
        print(
            f"{split}: {counts['pairs']:,} of {counts['pairs_read']:,} pairs, "
            f"{counts['source_tokens']:,} source and "
            f"{counts['target_tokens']:,} target tokens"
        )
        for rule, number in counts["pairs_dropped"].items():
            if number:
                print(f"  {number:,} dropped: {rule.replace('_', ' ')}")
    batches = prepared.manifest["batches"]
    print(
        f"Batches of {batches['tokens_per_batch']:,} tokens are "
        f"{batches['real_token_share']:.1%} real, in "
        f"{batches['distinct_shapes']} shapes."
    )
    print(
        f"Wrote {prepared.folder}. Next: keras-transformer train "
        f"{prepared.folder}"
    )


def _add_train(verbs):
    parser = verbs.add_parser(
        "train",
        help="train a translator, or go on with a run that was stopped",
        description="Trains a translator into a run folder. Without arguments "
        "it learns the built-in numbers in words in a few minutes. Stopped by "
        "Ctrl-C or in any other way, the same command goes on.",
        epilog=SOURCES
        + "\nEvery flag is a line of the settings file, and wins "
        "over it. The run folder\nkeeps a copy with all values.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    parser.set_defaults(run=_train)
    parser.add_argument(
        "data", nargs="?", help="folder that `prepare` made (numbers in words)"
    )
    parser.add_argument(
        "--run-folder",
        default=None,
        metavar="FOLDER",
        help="where to write, or what to go on with (runs/NAME)",
    )
    parser.add_argument(
        "--settings",
        default=None,
        metavar="FILE",
        help="TOML file; see settings.toml in any run folder",
    )
    for name, (kind, default, text) in _setting_flags().items():
        flag = f"--{name.replace('_', '-')}"
        shown = "" if default is None else f" ({default})"
        if kind is bool:
            parser.add_argument(
                flag, action=argparse.BooleanOptionalAction, help=text + shown
            )
        elif kind is tuple:
            parser.add_argument(
                flag, nargs="+", metavar="SOURCE", help=text + shown
            )
        else:
            metavar = {int: "N", float: "X", str: "NAME"}[kind]
            parser.add_argument(
                flag, type=kind, metavar=metavar, help=text + shown
            )


def _setting_flags():
    """Name, type, default and help of each setting that is a flag."""
    import dataclasses

    from keras_transformer.runs.settings import Settings

    flags = {}
    for field in dataclasses.fields(Settings):
        if field.name == "data":
            continue
        default = field.default
        if isinstance(default, tuple):
            default = " ".join(default) or None
        kind, text = field.metadata["kind"], field.metadata["help"]
        flags[field.name] = (kind, default, text.replace("%", "%%"))
    return flags


def _train(args):
    _import_tensorflow()
    from keras_transformer.runs.settings import read_settings
    from keras_transformer.runs.training import Stopped, train

    given = dict(vars(args))
    for name in ("verb", "run", "run_folder", "settings"):
        given.pop(name)
    settings = read_settings(args.settings, given)
    folder = args.run_folder or _run_folder(settings.data or settings.train[0])
    try:
        result = train(settings, folder)
    except Stopped:
        print(f"Saved in {folder}.")
        raise KeyboardInterrupt from None
    if result is not None:
        _report_training(result, folder)


def _run_folder(data):
    """`runs/` and the first word of the data's name."""
    name = os.path.basename(data.rstrip("/")).split(".")[0].split(":")[0]
    return os.path.join("runs", name)


def _report_training(result, folder):
    for name, scores in result["scores"].items():
        if scores:
            # Sentences of one word have no BLEU.
            bleu = f"BLEU {scores['bleu']:.2f}, " if scores["bleu"] else ""
            what = "test set" if name == "test" else f"{name} weights"
            print(
                f"{what}: {bleu}chrF {scores['chrf']:.2f}, "
                f"{scores['exact']:.1%} exact "
                f"(beam 4, {scores['signature']})"
            )
    for source, reference, text in result["samples"]:
        verdict = "right" if text == reference else f"should be {reference}"
        print(f"  {source} -> {text} ({verdict})")
    print(f"Wrote {folder}. It translates with its {result['use']} weights.")


def _add_search_flags(parser):
    parser.add_argument(
        "--model",
        required=True,
        metavar="FOLDER",
        help="a run folder, or a saved translator",
    )
    parser.add_argument(
        "--beam-size",
        type=int,
        default=4,
        metavar="N",
        help="hypotheses kept open; 1 is greedy search (4)",
    )
    parser.add_argument(
        "--length-penalty",
        type=float,
        default=0.6,
        metavar="X",
        help="alpha of the paper's length penalty (0.6)",
    )


def _add_translate(verbs):
    parser = verbs.add_parser(
        "translate",
        help="translate sentences, a file, or a pipe",
        description="Translates its arguments, or the lines of a file or of "
        "standard input: a line in, a line out.",
    )
    parser.set_defaults(run=_translate)
    parser.add_argument("sentences", nargs="*", help="sentences to translate")
    _add_search_flags(parser)
    parser.add_argument(
        "--file", metavar="FILE", help="translate the lines of this file"
    )
    parser.add_argument(
        "--scores",
        action="store_true",
        help="put the score and a tab before each line",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="a line of JSON for each: source, text, score, tokens",
    )


def _translate(args):
    import json

    if args.sentences:
        sentences = args.sentences
    elif args.file:
        with open(args.file, encoding="utf-8") as file:
            sentences = file.read().splitlines()
    else:
        sentences = sys.stdin.read().splitlines()
    _import_tensorflow()
    from keras_transformer.translator import load

    translator = load(args.model)
    results = translator.translate(
        sentences, args.beam_size, args.length_penalty
    )
    for sentence, result in zip(sentences, results):
        # A translation may hold a line break; a line in is a line out.
        text = " ".join(result.text.splitlines())
        if args.json:
            row = {"source": sentence, **vars(result)}
            print(json.dumps(row, ensure_ascii=False))
        elif args.scores:
            print(f"{result.score:.4f}\t{text}")
        else:
            print(text)


def _add_evaluate(verbs):
    parser = verbs.add_parser(
        "evaluate",
        help="BLEU and chrF on a test set",
        description="Translates the sources of a test set and compares with "
        "its references, by sacreBLEU.",
        epilog=SOURCES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=_evaluate)
    parser.add_argument("source", help="the test set, a source as below")
    _add_search_flags(parser)
    parser.add_argument(
        "--swap", action="store_true", help="translate the other way"
    )
    parser.add_argument(
        "--save", metavar="FILE", help="write the translations, a line each"
    )


def _evaluate(args):
    from keras_transformer.data import read_pairs

    pairs = list(read_pairs(args.source, split="test", swap=args.swap))
    _import_tensorflow()
    from keras_transformer import evaluation
    from keras_transformer.translator import load

    translator = load(args.model)
    results = translator.translate(
        [source for source, _ in pairs], args.beam_size, args.length_penalty
    )
    texts = [" ".join(result.text.splitlines()) for result in results]
    references = [target for _, target in pairs]
    if args.save:
        with open(args.save, "w", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in texts)
        print(f"Wrote {args.save}")
    print(f"{len(pairs):,} sentences")
    print(f"BLEU            {evaluation.bleu(texts, references)}")
    lowercase = evaluation.bleu(texts, references, lowercase=True)
    print(f"BLEU, lowercase {lowercase}")
    print(f"chrF            {evaluation.chrf(texts, references)}")
    exact = evaluation.exact_match(texts, references)
    print(f"exact           {exact:.1%}")


if __name__ == "__main__":
    sys.exit(main())
