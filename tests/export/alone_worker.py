"""Calls every signature of a model in a process without our package.

python -I alone_worker.py FOLDER INPUTS.json OUTPUTS.pickle
"""

import importlib.abc
import json
import pickle
import sys


class Refuse(importlib.abc.MetaPathFinder):
    """Lets nobody import our package, nor what trains its vocabularies."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("keras_transformer", "sentencepiece"):
            raise ModuleNotFoundError(f"{name} is not to be had here")


def main(folder, inputs_path, outputs_path):
    sys.meta_path.insert(0, Refuse())
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    with open(inputs_path) as file:
        inputs = {name: tf.constant(x) for name, x in json.load(file).items()}
    outputs = {}
    for name, function in tf.saved_model.load(folder).signatures.items():
        _, wanted = function.structured_input_signature
        found = function(**{name: inputs[name] for name in wanted})
        outputs[name] = {key: value.numpy() for key, value in found.items()}
    with open(outputs_path, "wb") as file:
        pickle.dump(outputs, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
