"""`keras-transformer evaluate`: how good a translator is."""

from contextlib import nullcontext

from keras_transformer.cli.flags import (
    SOURCES,
    WrappedDescription,
    add_compile_flag,
    add_model_flag,
    add_search_flags,
    beam_size,
    load_translator,
)
from keras_transformer.cli.output import open_output
from keras_transformer.cli.progress import progress_bar


def add_parser(verbs):
    parser = verbs.add_parser(
        "evaluate",
        help="BLEU and chrF on a test set",
        description="Translates the sources of a test set and compares with "
        "its references, by sacreBLEU.",
        epilog=SOURCES,
        formatter_class=WrappedDescription,
    )
    parser.add_argument("source", help="the test set, a source as below")
    add_model_flag(parser)
    add_search_flags(parser)
    add_compile_flag(parser)
    parser.add_argument(
        "--swap", action="store_true", help="translate the other way"
    )
    parser.add_argument(
        "--save", metavar="FILE", help="write the translations, a line each"
    )


def run(args):
    from keras_transformer.data import is_blank, read_pairs

    pairs = list(read_pairs(args.source, split="test", swap=args.swap))
    blank = [is_blank(*pair) for pair in pairs]
    if all(blank):
        raise ValueError(
            "A test set must have at least one pair. "
            f"Received: {args.source}, which is empty."
        )
    with open_output(args.save) if args.save else nullcontext() as file:
        translator = load_translator(args)
        texts = _translate(translator, [source for source, _ in pairs], args)
        if args.save:
            file.writelines(f"{text}\n" for text in texts)
    from keras_transformer import evaluation

    # Blank ones would count as right answers.
    texts = [x for x, skip in zip(texts, blank) if not skip]
    references = [b for (_, b), skip in zip(pairs, blank) if not skip]
    bleu = evaluation.bleu(texts, references)
    exact = evaluation.exact_match(texts, references)
    also = f", and {sum(blank):,} blank" if any(blank) else ""
    print(f"{len(texts):,} sentences{also}")
    too_short = exact and not bleu.value
    if too_short:
        print("BLEU    none: it needs sentences of four words")
    else:
        print(f"BLEU    {bleu}")
    print(f"chrF    {evaluation.chrf(texts, references)}")
    if not too_short:
        # Closest to the tokenised, lower-case BLEU of older papers.
        lower = evaluation.bleu(texts, references, lowercase=True)
        print(f"BLEU lc {lower}")
    print(f"exact   {exact:.1%}")
    if args.save:
        print(f"Wrote {args.save}")


def _translate(translator, sentences, args):
    with progress_bar("sentences", total=len(sentences)) as advance:
        results = translator.translate(
            sentences,
            beam_size(args),
            args.length_penalty,
            max_extra_length=args.max_extra_length,
            jit_compile=args.compile,
            progress=advance,
        )
    return [" ".join(result.text.splitlines()) for result in results]
