"""`keras-transformer serve`: a server and a page for trying a model out."""

import dataclasses
import json
import os
import shlex
from functools import partial

from keras_transformer.cli import import_tensorflow
from keras_transformer.serving.limits import Limits


def add_parser(verbs):
    parser = verbs.add_parser(
        "serve",
        help="try a model out in the browser, or as TF Serving would serve it",
        description="Serves a model on this machine: a page to translate with, "
        "and the REST interface of TF Serving. For production, give what "
        "`export` wrote to TF Serving itself.",
    )
    parser.add_argument(
        "model",
        nargs="?",
        help="what `export` wrote, a run folder, or a saved translator "
        "(English to German, which ships)",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen at (127.0.0.1: this machine only)",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8501,
        metavar="N",
        help="port to listen at; 0 takes a free one (8501)",
    )
    for field in dataclasses.fields(Limits):
        kind = type(field.default)
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=kind,
            default=field.default,
            metavar="X" if kind is float else "N",
            help=f"{field.metadata['help']} ({field.default:,})",
        )


def run(args):
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"`serve` needs starlette and uvicorn. Received: {error}. "
            "Install them with: pip install starlette uvicorn"
        ) from None
    # oneDNN keeps a program for each shape that it meets, and a server meets
    # ever new ones: without it, memory stays flat.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    import_tensorflow()
    from keras_transformer.serving.servable import load_servable
    from keras_transformer.serving.server import bind, serve
    from keras_transformer.translator.loading import shipped_model
    from keras_transformer.workers import share_cores

    share_cores()
    names = [field.name for field in dataclasses.fields(Limits)]
    limits = Limits(**{name: getattr(args, name) for name in names})
    with bind(args.host, args.port) as listener:
        say = partial(print, flush=True)
        model = args.model or shipped_model()
        say(f"Loading {model} ...")
        servable = load_servable(model, say)
        servable.warm_up()
        host, port = listener.getsockname()[:2]
        if ":" in host:
            host = f"[{host}]"
        address = f"http://{host}:{port}"
        announce = partial(_announce, servable, address)
        if not serve(servable, listener, limits, announce):
            print("Stopped at once.", flush=True)
            os._exit(130)  # Python would wait for calls of the model
    print("Stopped. Every request has its answer.")


def _announce(servable, address):
    body = {"instances": servable.examples[:1] or ["..."]}
    body = shlex.quote(json.dumps(body, ensure_ascii=False))
    print(
        f"Serving {servable.name}, version {servable.version}:\n"
        f"  page     {address}/\n"
        f"  REST     curl {address}/v1/models/{servable.name}:predict "
        f"-d {body}\n"
        f"  metrics  {address}/monitoring/prometheus/metrics\n"
        "This is for trying out. Production belongs to TF Serving, which "
        "takes what `keras-transformer export` writes.\n"
        "Ctrl-C stops it, after the last answer.",
        flush=True,
    )
