"""Arguments that several verbs have, and what their help says."""

import argparse
import textwrap

from keras_transformer.cli import import_tensorflow

SOURCES = """\
a source is one of
  train.en,train.de           parallel files, one sentence a line
  train.tsv                   source<TAB>target
  tfds:wmt14_translate/de-en  a TFDS translation dataset; a split of your own
                              by tfds:NAME@SPLIT
  numbers                     numbers in words, English to German, built in;
                              another range by numbers:0-9999
Files may be gzipped (.gz).
"""


class WrappedDescription(argparse.RawDescriptionHelpFormatter):
    """Wraps a description, and leaves the lines after the flags as they are."""

    def _fill_text(self, text, width, indent):
        if "\n" in text:
            return super()._fill_text(text, width, indent)
        return textwrap.fill(
            text, width, initial_indent=indent, subsequent_indent=indent
        )


def add_model_flag(parser):
    parser.add_argument(
        "--model",
        metavar="FOLDER",
        help="a run folder, a saved translator or an exported model (English "
        "to German, which ships)",
    )


def check_arguments(*texts):
    """Raises where an argument is no UTF-8, and Python had to make do."""
    for text in texts:
        try:
            (text or "").encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"Texts must be UTF-8. Received: {text!r:.80}, with a byte "
                f"that is not, as character {error.start + 1}. Convert it "
                "with: iconv -f latin1 -t utf-8"
            ) from None


def load_translator(args):
    """The translator that `--model` names."""
    import_tensorflow()
    from keras_transformer.translator import load
    from keras_transformer.workers import share_cores

    share_cores()
    return load(args.model)


def add_search_flags(parser):
    parser.add_argument(
        "--beam-size",
        type=int,
        metavar="N",
        help="hypotheses kept open; 1 is greedy search (4, or as many as "
        "results are asked for)",
    )
    parser.add_argument(
        "--length-penalty",
        type=float,
        metavar="X",
        help="alpha of the paper's length penalty (the model's own, which is "
        "0.6 if it was not trained or exported with another)",
    )
    parser.add_argument(
        "--max-extra-length",
        type=int,
        default=50,
        metavar="N",
        help="pieces that a translation may be longer than its source (50)",
    )


def add_compile_flag(parser):
    parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        help="whether XLA compiles the search, in seconds for each of a few "
        "lengths (tried where it may pay: for thousands of sentences)",
    )


def beam_size(args, num_results=1):
    """What is given, or the paper's 4, or more if there are more results."""
    return max(4, num_results) if args.beam_size is None else args.beam_size
