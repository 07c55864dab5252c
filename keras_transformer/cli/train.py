"""`keras-transformer train`: a run folder with a translator in it."""

import argparse
import os

from keras_transformer.cli import import_tensorflow
from keras_transformer.cli.flags import SOURCES, WrappedDescription
from keras_transformer.cli.output import describe_scores


def add_parser(verbs):
    parser = verbs.add_parser(
        "train",
        help="train a translator, or go on with a run that was stopped",
        description="Trains a translator into a run folder. Without arguments "
        "it learns the built-in numbers in words in a few minutes. Stopped by "
        "Ctrl-C or in any other way, the same command goes on.",
        epilog=SOURCES
        + "\nEvery flag is a line of the settings file, and wins "
        "over it. The run folder\nkeeps a copy with all values.",
        formatter_class=WrappedDescription,
        argument_default=argparse.SUPPRESS,
    )
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


def run(args):
    import_tensorflow()
    from keras_transformer.runs.settings import read_settings
    from keras_transformer.runs.training import Stopped, train

    given = dict(vars(args))
    for name in ("verb", "run_folder", "settings"):
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
    name = os.path.basename(data.rstrip("/"))
    if not os.path.isdir(data):
        name = name.split(".")[0].split(":")[0]
    if not name.strip("."):  # `.` and the like
        name = os.path.basename(os.path.abspath(data))
    return os.path.join("runs", name)


def _report_training(result, folder):
    for name, scores in result["scores"].items():
        if scores:
            what = "test" if name == "test" else f"{name} weights, dev"
            print(
                f"{what}: {scores['sentences']:,} sentences, beam 4: "
                f"{describe_scores(scores)}, {scores['exact']:.1%} exact"
            )
    for source, reference, text in result["samples"]:
        verdict = "right" if text == reference else f"should be {reference}"
        print(f"  {source} -> {text} ({verdict})")
    print(f"Wrote {folder}. It translates with its {result['use']} weights.")
