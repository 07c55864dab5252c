"""`keras-transformer export`: a SavedModel for TF Serving."""

import json
from pathlib import Path

from keras_transformer.cli.flags import (
    add_search_flags,
    beam_size,
    load_translator,
)
from keras_transformer.cli.output import describe_scores


def add_parser(verbs):
    parser = verbs.add_parser(
        "export",
        help="write a SavedModel that TF Serving serves",
        description="Writes DIR/NAME/VERSION, a SavedModel that takes text and "
        "gives text, for TF Serving and for all that runs TensorFlow.",
    )
    parser.add_argument(
        "model",
        nargs="?",
        help="a run folder, a saved translator or an exported model (English "
        "to German, which ships)",
    )
    parser.add_argument(
        "--to", required=True, metavar="DIR", help="folder of all models"
    )
    parser.add_argument("--name", help="name of the model (that of its folder)")
    for flag, text in (
        ("version", "number of the version (the next one)"),
        ("num-results", "translations in an n-best list (as the beam)"),
        ("max-source-length", "pieces to cut a text to (the model's own)"),
    ):
        parser.add_argument(f"--{flag}", type=int, metavar="N", help=text)
    parser.add_argument(
        "--weights",
        choices=("float32", "float16", "int8"),
        default="float32",
        help="how to store them; float16 takes half the space, int8 a quarter "
        "(float32)",
    )
    parser.add_argument(
        "--samples",
        metavar="FILE",
        help="sentences, a line each, of which the first 20 warm servers up "
        "and the first 5 are shown as examples (some of the run's)",
    )
    add_search_flags(parser)
    parser.add_argument(
        "--compile",
        action="store_true",
        help="let XLA compile the search; TF Serving then needs "
        "--xla_cpu_compilation_enabled",
    )


def run(args):
    translator = load_translator(args)
    import tensorflow as tf

    from keras_transformer.data.sources import read_lines
    from keras_transformer.export import export_saved_model
    from keras_transformer.translator.loading import shipped_model

    tf.get_logger().setLevel("ERROR")
    print("Writing the graphs, for up to half a minute ...", flush=True)
    model = Path(args.model) if args.model else shipped_model()
    samples, origin = _history(model)
    if args.samples:
        lines = map(str.strip, read_lines(args.samples))
        samples = [line for line in lines if line]
    folder = export_saved_model(
        translator,
        args.to,
        name=args.name or _name(model),
        version=args.version,
        weights=args.weights,
        beam_size=beam_size(args, args.num_results or 1),
        length_penalty=args.length_penalty,
        num_results=args.num_results,
        max_source_length=args.max_source_length,
        max_extra_length=args.max_extra_length,
        jit_compile=args.compile,
        samples=samples,
        origin=origin,
    )
    print(f"Wrote {folder}. Next: keras-transformer serve {folder}")


def _name(folder):
    """The folder's name, or that of the model if it is a version."""
    from keras_transformer.translator.loading import EXTRA

    folder = folder.resolve()
    is_version = folder.name.isdecimal() and (folder / EXTRA).is_dir()
    return (folder.parent if is_version else folder).name


def _history(folder):
    """Some sentences, and where the model comes from, as far as is known."""
    from keras_transformer.translator.loading import EXTRA, exported_versions

    if versions := exported_versions(folder):
        folder = folder / str(max(versions))
    if (folder / EXTRA / "metadata.json").is_file():
        about = json.loads(
            (folder / EXTRA / "metadata.json").read_text("utf-8")
        )
        return about["samples"], about["origin"]
    if not (folder / "result.json").is_file():
        return None, None
    result = json.loads((folder / "result.json").read_text("utf-8"))
    updates = f"{result['step']:,}"
    if result["use"] == "best" and "best_step" in result:
        updates += f", with the best weights, after {result['best_step']:,}"
    origin = {
        "run": folder.resolve().name,
        "updates": updates,
        "minutes of training": result["minutes"],
    }
    if scores := result["scores"].get("test"):
        origin[f"test set of {scores['sentences']:,} sentences"] = (
            describe_scores(scores)
        )
    return [source for source, *_ in result["samples"]], origin
