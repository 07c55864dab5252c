"""`keras-transformer prepare`: a corpus to shards, once."""

from pathlib import Path

from keras_transformer.cli import import_tensorflow
from keras_transformer.cli.flags import SOURCES, WrappedDescription


def add_parser(verbs):
    parser = verbs.add_parser(
        "prepare",
        help="clean and tokenise a corpus, once, for training",
        description="Learns a vocabulary, tokenises on all cores and writes a "
        "folder of shards. Stopped and started again, it goes on.",
        epilog=SOURCES,
        formatter_class=WrappedDescription,
    )
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
            help=f"{name} pairs, never cleaned; training pairs that share a "
            "side with one are left out",
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
        "--tokenizer",
        nargs="+",
        metavar="MODEL",
        help="folder of a trained model whose vocabulary to take, or its file "
        "or two; nothing is learned then, whatever the three flags above say",
    )
    parser.add_argument(
        "--merge-dropout",
        type=float,
        default=0.0,
        metavar="P",
        help="share of BPE's merges left out by chance in training pairs, so "
        "that a small corpus teaches more about rare words (0; often 0.1)",
    )
    parser.add_argument(
        "--copies",
        type=int,
        default=1,
        metavar="N",
        help="how often to write each training pair, with other merges left "
        "out each time (1)",
    )
    parser.add_argument(
        "--no-clean",
        action="store_true",
        help="keep all pairs: empty, repeated, overlong, uneven ones, and "
        "those that share a side with dev or test",
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
        help="how many times as long as the other plus ten characters a side "
        "may be (3.0)",
    )
    parser.add_argument(
        "--tokens-per-batch",
        type=int,
        default=25_000,
        metavar="N",
        help="budget for which to report how full batches are (25000)",
    )


def run(args):
    from keras_transformer.batching.prepared import prepare
    from keras_transformer.data import is_numbers

    sources = {"train": args.train, "dev": args.dev, "test": args.test}
    if not args.train:
        sources = {
            split: given or ["numbers"] for split, given in sources.items()
        }
    numbers_only = all(map(is_numbers, sources["train"]))
    size = args.vocabulary_size
    if size is None:
        size = 512 if numbers_only else 32_000
    prepared = prepare(
        args.output,
        **sources,
        vocabulary_size=size,
        kind=args.kind,
        shared_vocabulary=not args.separate_vocabularies,
        clean=not args.no_clean,
        max_characters=args.max_characters,
        max_ratio=args.max_ratio,
        swap=args.swap,
        tokens_per_batch=args.tokens_per_batch,
        tokenizer=_tokenizer(args.tokenizer),
        merge_dropout=args.merge_dropout,
        copies=args.copies,
    )
    _report(prepared)


def _tokenizer(paths):
    """What is there: nothing, one for both languages, or one each."""
    from keras_transformer.tokenizer import Tokenizer

    if not paths:
        return None
    if len(paths) == 1 and Path(paths[0]).is_dir():
        import_tensorflow()
        from keras_transformer.translator import load

        return load(paths[0]).tokenizer
    tokenizers = tuple(Tokenizer.load(path) for path in paths)
    return tokenizers[0] if len(tokenizers) == 1 else tokenizers


def _report(prepared):
    copies = prepared.manifest["settings"].get("copies", 1)
    for split, counts in prepared.manifest["splits"].items():
        times = copies if split == "train" else 1
        print(
            f"{split}: {counts['pairs'] // times:,} of "
            f"{counts['pairs_read']:,} pairs, "
            + (f"{times} times each, " if times > 1 else "")
            + f"{counts['source_tokens']:,} source and "
            f"{counts['target_tokens']:,} target tokens"
        )
        for rule, number in counts["pairs_dropped"].items():
            if number:
                print(f"  {number:,} dropped: {rule.replace('_', ' ')}")
    batches = prepared.manifest["batches"]
    budget, share = batches["tokens_per_batch"], batches["real_token_share"]
    if share is None:
        print(f"No pair fits into batches of {budget:,} tokens.")
    else:
        print(
            f"Batches of {budget:,} tokens are {share:.1%} real; distinct "
            f"shapes: {batches['distinct_shapes']}."
        )
    print(
        f"Wrote {prepared.folder}. Next: keras-transformer train "
        f"{prepared.folder}"
    )
