"""The Transformer of "Attention Is All You Need" for Keras 3."""

import importlib
import os
import sys

__version__ = "0.1.0"

# The public names and where they live, in the order of a sentence's way.
_HOMES = {
    "Tokenizer": "tokenizer",
    "make_batches": "batching",
    "prepare": "batching",
    "layers": "layers",
    "DistributedModel": "training",
    "SmoothedCrossentropy": "training",
    "TransformerSchedule": "training",
    "Adam": "training",
    "Muon": "training",
    "TokenAccuracy": "training",
    "Perplexity": "training",
    "Transformer": "model",
    "Translator": "translator",
    "load": "translator",
    "plots": "plots",
    "train": "runs.training",
    "export_saved_model": "export",
}

__all__ = list(_HOMES)


def __getattr__(name):
    """Imports a name when it is asked for: TensorFlow takes seconds."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    value = module if name == _HOMES[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted([*globals(), *__all__])


# `keras.saving.load_model` finds our layers once this package is imported. The
# command line alone does without: its `--help` is there at once.
_installed = os.path.basename(sys.argv[0]) == "keras-transformer"
_by_name = f"{__name__}.cli" in sys.orig_argv  # python -m keras_transformer.cli
if not (_installed or _by_name):
    importlib.import_module(f"{__name__}.model")
