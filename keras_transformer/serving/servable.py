"""What is served: the signatures of a SavedModel."""

import contextlib
import json
import logging
import re
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the ops of tokenizers
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer.files import reading
from keras_transformer.serving.rest import RestError
from keras_transformer.translator.loading import exported_versions

# The HTTP status that TF Serving gives to TensorFlow's errors; 500 for others.
STATUS = {
    tf.errors.INVALID_ARGUMENT: 400,
    tf.errors.FAILED_PRECONDITION: 400,
    tf.errors.OUT_OF_RANGE: 400,
    tf.errors.RESOURCE_EXHAUSTED: 429,
    tf.errors.UNIMPLEMENTED: 501,
    tf.errors.UNAVAILABLE: 503,
}


class Signature:
    """One function of a SavedModel, on arrays.

    Args:
        model: What `tf.saved_model.load` returns.
        name: Name of one of its signatures.

    Attributes:
        inputs: A `tf.TensorSpec` for each input.
        outputs: The same for each output.
    """

    def __init__(self, model, name):
        self._model = model  # a function alone does not keep its variables
        self._function = model.signatures[name]
        self.inputs = self._function.structured_input_signature[1]
        self.outputs = self._function.structured_outputs

    def __call__(self, arrays):
        tensors = {
            name: tf.constant(arrays[name], spec.dtype)
            for name, spec in self.inputs.items()
        }
        try:
            outputs = self._function(**tensors)
            return {name: np.array(outputs[name]) for name in sorted(outputs)}
        except tf.errors.OpError as error:
            status = STATUS.get(error.error_code, 500)
            raise RestError(status, _sentence(error)) from None

    @cached_property
    def joins(self):
        """Whether rows of several requests may go into one call.

        Not if shapes depend on the batch: padding to the longest row would
        show in a neighbour's answer.
        """
        return all(
            spec.shape.rank
            and spec.shape[0] is None
            and spec.shape[1:].is_fully_defined()
            for spec in (*self.inputs.values(), *self.outputs.values())
        )


@dataclass(frozen=True)
class Servable:
    """One version of a model.

    Attributes:
        name: What addresses call it.
        version: Its number.
        signatures: A `Signature` for each name.
        definitions: The same as JSON has them, for the metadata.
        examples: Some sentences to try.
        max_source_length: How many pieces of a text it reads, if known.
    """

    name: str
    version: int
    signatures: dict
    definitions: dict
    examples: list
    max_source_length: int | None = None

    def warm_up(self):
        """Calls each signature of texts once: first calls take longer."""
        for signature in self.signatures.values():
            if all(
                spec.dtype == tf.string and spec.shape.rank == 1
                for spec in signature.inputs.values()
            ):
                text = np.array([b"1"], object)
                with contextlib.suppress(RestError):
                    signature(dict.fromkeys(signature.inputs, text))


def load_servable(path, say=print):
    """Loads what a folder holds.

    Args:
        path: A SavedModel; a folder of its versions, of which the greatest is
            taken; a folder of one such folder; or anything that
            `keras_transformer.load` takes, which is exported first.
        say: A function that is told what takes its time.
    """
    path = Path(path).resolve()
    folder = _find_version(path)
    if folder is not None:
        return _load_saved_model(folder, _examples(folder))
    # A SavedModel is served without these.
    from keras_transformer.export import export_saved_model
    from keras_transformer.translator import load

    translator = load(path)
    say("Exporting it, as for TF Serving. Export once to start faster.")
    with tempfile.TemporaryDirectory() as models:
        name = re.sub(r"[^\w.-]", "_", path.name).lstrip(".")
        folder = export_saved_model(translator, models, name=name)
        return _load_saved_model(folder, _examples(path))


def _find_version(path):
    """The folder of a SavedModel in `path`, or None."""
    if (path / "saved_model.pb").is_file():
        return path
    versions = _versions(path)
    if versions:
        return versions[-1]
    folders = [child for child in sorted(path.glob("*")) if _versions(child)]
    if len(folders) > 1:
        names = ", ".join(folder.name for folder in folders)
        raise ValueError(
            f"The folder must hold one model. Received: {path} with {names}. "
            "Give one of these."
        )
    return _versions(folders[0])[-1] if folders else None


def _versions(folder):
    """Folders of the versions of a model, the greatest last."""
    found = [folder / str(n) for n in sorted(exported_versions(folder))]
    return [child for child in found if (child / "saved_model.pb").is_file()]


def _load_saved_model(folder, examples):
    numbered = folder.name.isdecimal()
    with (
        reading(folder, tf.errors.OpError),
        _no_warnings(),  # of gradients, which nobody asks for here
    ):
        model = tf.saved_model.load(str(folder))
    servable = Servable(
        name=folder.parent.name if numbered else folder.name,
        version=int(folder.name) if numbered else 1,
        signatures={name: Signature(model, name) for name in model.signatures},
        definitions=_definitions(folder),
        examples=examples,
        max_source_length=_read(
            folder / "assets.extra" / "metadata.json",
            lambda about: about["settings"]["max_source_length"],
        ),
    )
    if not servable.signatures:
        raise ValueError(
            "A SavedModel must have signatures to be served. Received: "
            f"{folder} without. Export it with `keras-transformer export`."
        )
    return servable


@contextlib.contextmanager
def _no_warnings():
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _definitions(folder):
    model = saved_model_pb2.SavedModel()
    model.ParseFromString((folder / "saved_model.pb").read_bytes())
    return {
        name: json_format.MessageToDict(
            definition,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )
        for name, definition in model.meta_graphs[0].signature_def.items()
    }


def _examples(folder):
    """Sentences that the exporter or the training run kept."""
    found = _read(
        folder / "assets.extra" / "metadata.json",
        lambda about: about["samples"][:5],
    )
    if found is None:
        found = _read(
            folder / "result.json",
            lambda result: [source for source, *_ in result["samples"][:5]],
        )
    return found or []


def _read(path, choose):
    """What a JSON file says of something, or None."""
    try:
        return choose(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _sentence(error):
    """What an error says, without the place in the graph."""
    lines = [
        line
        for line in error.message.splitlines()
        if line.strip()
        and not line.startswith(("Graph execution error", "Detected at node"))
        and "stack traces unavailable" not in line
        and "[[{{" not in line
    ]
    return re.sub(r"\s*\[Op:\w+\]", "", " ".join(lines)).strip()
