"""The command line: a verb each for what the package does.

A verb is a module of this package with two functions: `add_parser(verbs)` adds
its arguments, `run(args)` does it. Libraries that take long to import are
imported where a verb runs.
"""

import argparse
import errno
import importlib
import io
import os
import sys
import warnings

import keras_transformer

VERBS = (
    "prepare",
    "train",
    "translate",
    "evaluate",
    "export",
    "attention",
    "serve",
)


def main(argv=None):
    """Runs one command; returns its exit code."""
    if sys.stdout is None:  # closed by who started us
        sys.stdout = io.StringIO()
    if sys.stderr is None:  # the same; also C++ writes there
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stderr = os.fdopen(2, "w")
    args = _parser().parse_args(argv)
    # TensorFlow reports on its devices at import; errors still show.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            _module(args.verb).run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        goes_on = args.verb in ("prepare", "train")
        advice = " The same command goes on from here." if goes_on else ""
        print(f"Stopped.{advice}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Who reads our output has enough. What is left of it goes nowhere, or
        # Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError) as error:
        print(f"{args.verb}: {_sentence(error)}", file=sys.stderr)
        return 2
    except Exception as error:
        if type(error).__name__ != "ResourceExhaustedError":
            raise
        advice = "Give a smaller beam, or shorter texts."
        if args.verb == "train":
            advice = (
                "Give more `--accumulation-steps`: the same updates in less "
                "memory."
            )
        print(
            f"{args.verb}: The memory is not enough for this. {advice}",
            file=sys.stderr,
        )
        return 2
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="keras-transformer",
        description='The Transformer of "Attention Is All You Need".',
    )
    parser.add_argument(
        "--version", action="version", version=keras_transformer.__version__
    )
    verbs = parser.add_subparsers(dest="verb", metavar="verb", required=True)
    for name in VERBS:
        _module(name).add_parser(verbs)
    return parser


def _module(verb):
    return importlib.import_module(f"{__name__}.{verb}")


# Keras and TensorFlow import these wherever they are installed, for functions
# that no verb calls, and it takes them long.
_NOT_NEEDED = ("jax", "matplotlib", "pandas")


def import_tensorflow():
    """Sooner, and without the lines on devices that it prints at each start."""
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_XLA_FLAGS", _keep_compiled())
    hidden = [name for name in _NOT_NEEDED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        import tensorflow  # noqa: F401
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        for name in hidden:
            del sys.modules[name]


def _keep_compiled():
    """A flag for XLA: what it compiles is kept for the next start.

    In a folder for this kind of processor and this TensorFlow, as it is the
    processor's own code.
    """
    import hashlib
    import platform
    from importlib import metadata

    try:
        with open("/proc/cpuinfo") as file:
            kind = next(line for line in file if line.startswith("flags"))
    except (OSError, StopIteration):
        kind = platform.processor()
    kind = f"{platform.machine()} {metadata.version('tensorflow')} {kind}"
    kind = hashlib.sha256(kind.encode()).hexdigest()
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(caches, "keras_transformer", f"xla-{kind[:8]}")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return ""
    return f"--tf_xla_persistent_cache_directory='{folder}'"


def _show_warning(message, *where):
    print(" ".join(str(message).split()), file=sys.stderr)


def _sentence(error):
    if isinstance(error, OSError) and error.errno:
        where = f": {error.filename}" if error.filename else ""
        advice = {
            errno.ENOSPC: ". Free some space and start again.",
        }.get(error.errno, ".")
        return f"{os.strerror(error.errno)}{where}{advice}"
    return " ".join(str(error).split())
