"""`keras-transformer translate`: a line in, a line out."""

import json
import os
import queue
import sys
import threading
import warnings

from keras_transformer.cli.flags import (
    add_compile_flag,
    add_model_flag,
    add_search_flags,
    beam_size,
    check_arguments,
    load_translator,
)
from keras_transformer.cli.output import open_output
from keras_transformer.cli.progress import progress_bar

# Lines that are translated together, at first and at most: the first results
# come soon, and later batches are full.
FIRST_CHUNK, LARGEST_CHUNK = 32, 1024


def add_parser(verbs):
    parser = verbs.add_parser(
        "translate",
        help="translate sentences, a file, or a pipe",
        description="Translates its arguments, or the lines of a file or of "
        "standard input: a line in, a line out, in order and as they come.",
    )
    parser.add_argument("sentences", nargs="*", help="sentences to translate")
    add_model_flag(parser)
    parser.add_argument(
        "--file",
        metavar="FILE",
        help="translate the lines of this file; it may be gzipped (.gz)",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="write here, not to standard output"
    )
    _add_format_flags(parser)
    add_search_flags(parser)
    add_compile_flag(parser)
    _add_constraint_flags(parser)
    _add_sampling_flags(parser)


def _add_format_flags(parser):
    group = parser.add_argument_group("what is printed")
    group.add_argument(
        "--n-best",
        type=int,
        default=1,
        metavar="N",
        help="N lines for each line, best first",
    )
    group.add_argument(
        "--scores",
        action="store_true",
        help="put the score and a tab before each line",
    )
    group.add_argument(
        "--alignments",
        action="store_true",
        help="put a tab and pairs of words, source-target from 0 as in "
        "0-0 1-2, after each line",
    )
    group.add_argument(
        "--json",
        action="store_true",
        help="a line of JSON for each line: source, text, score, tokens; with "
        "--n-best also alternatives, with --alignments also alignment",
    )


def _add_constraint_flags(parser):
    group = parser.add_argument_group("what translations must be like")
    group.add_argument(
        "--prefix", metavar="TEXT", help="what each translation begins with"
    )
    group.add_argument(
        "--min-length",
        type=int,
        default=0,
        metavar="N",
        help="pieces before a translation may end (0)",
    )
    group.add_argument(
        "--no-repeat-ngram-size",
        type=int,
        default=0,
        metavar="N",
        help="no N pieces in a row come twice in it",
    )


def _add_sampling_flags(parser):
    group = parser.add_argument_group(
        "random translations, by any of the first three"
    )
    group.add_argument(
        "--temperature",
        type=float,
        metavar="X",
        help="below 1 likely pieces become likelier (1.0)",
    )
    group.add_argument(
        "--top-k",
        type=int,
        metavar="N",
        help="draw from the N likeliest pieces only",
    )
    group.add_argument(
        "--top-p",
        type=float,
        metavar="X",
        help="draw from the likeliest pieces with this probability together",
    )
    group.add_argument(
        "--seed", type=int, metavar="N", help="the same draws each time"
    )


def run(args):
    check_arguments(*args.sentences, args.prefix)
    chunks = _chunks_of(args)
    options = {
        "beam_size": beam_size(args, args.n_best),
        "num_results": args.n_best,
        "attention": args.alignments,
        "jit_compile": args.compile,
    }
    for name in (
        *("length_penalty", "prefix", "min_length", "max_extra_length"),
        *("no_repeat_ngram_size", "temperature", "top_k", "top_p", "seed"),
    ):
        options[name] = getattr(args, name)
    num_lines = num_split = 0
    shown = args.output is not None or not sys.stdout.isatty()
    with open_output(args.output) as file:
        translator = load_translator(args)
        with progress_bar("lines", shown) as advance:
            for sentences in chunks:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # they are counted below
                    results = translator.translate(
                        sentences, **options, progress=advance
                    )
                for sentence, result in zip(sentences, results):
                    for row in _rows(sentence, result, args):
                        print(row, file=file)
                file.flush()
                num_lines += len(results)
                num_split += sum(bool(result.parts) for result in results)
    if num_split:
        print(
            f"{num_split:,} of {num_lines:,} lines were longer than the "
            f"{translator.max_source_length} pieces that the model was trained "
            "for, and were translated in parts.",
            file=sys.stderr,
        )
    if args.output:
        print(f"Wrote {args.output}, {num_lines:,} lines translated.")


def _chunks_of(args):
    """Lists of sentences, as they come."""
    from keras_transformer.data.sources import decode_lines, read_lines

    if args.sentences and args.file:
        raise ValueError(
            "Sentences come from the arguments or from a file. Received: "
            f"--file {args.file} and {len(args.sentences)} sentences. "
            "Leave one out."
        )
    if args.sentences:
        return [args.sentences]
    if args.file:
        return _chunks(read_lines(args.file))
    if sys.stdin is None:
        raise ValueError(
            "There must be sentences to translate. Received: none, and no "
            "standard input. Give them as arguments, or by --file."
        )
    if sys.stdin.isatty():
        print("Type sentences, one a line. Ctrl-D ends.", file=sys.stderr)
    # A file object of its own: at a Ctrl-C the thread that waits for the next
    # line would keep Python from closing its own.
    stdin = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    return _chunks(decode_lines(stdin, "standard input"))


def _chunks(lines):
    """The lines that are there, at least one, so that no result waits."""
    waiting = queue.Queue(LARGEST_CHUNK)
    end = object()

    def read():
        try:
            for line in lines:
                waiting.put(line)
            waiting.put(end)
        except Exception as error:
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    size = FIRST_CHUNK
    while True:
        chunk = [waiting.get()]
        while len(chunk) < size and not waiting.empty():
            chunk.append(waiting.get())
        last = chunk[-1]
        if isinstance(last, str):
            yield chunk
            size = min(2 * size, LARGEST_CHUNK)
            continue
        if chunk[:-1]:
            yield chunk[:-1]
        if last is end:
            return
        raise last


def _rows(sentence, result, args):
    """The lines to print for one sentence."""
    if args.json:
        row = {"source": sentence, **_fields(result, args)}
        if args.n_best > 1:
            row["alternatives"] = [
                _fields(other, args) for other in result.alternatives
            ]
        if result.parts:
            row["parts"] = [part.text for part in result.parts]
        return [json.dumps(row, ensure_ascii=False)]
    rows = [_columns(r, args) for r in (result, *result.alternatives)]
    # As many for each sentence, that one can count.
    return rows + [""] * (args.n_best - len(rows))


def _fields(result, args):
    fields = {
        "text": result.text,
        "score": result.score,
        "tokens": result.tokens,
    }
    if args.alignments:
        fields["alignment"] = result.alignment or []
    return fields


def _columns(result, args):
    # A translation may hold a line break; a line in is a line out.
    text = " ".join(result.text.splitlines())
    if not (args.scores or args.alignments):
        return text
    columns = [text.replace("\t", " ")]
    if args.scores:
        columns.insert(0, f"{result.score:.4f}")
    if args.alignments:
        columns.append(" ".join(f"{s}-{t}" for s, t in result.alignment or ()))
    return "\t".join(columns)
