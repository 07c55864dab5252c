"""Writes the folder that TF Serving takes a model from."""

import datetime
import json
import os
import re
import shutil
from importlib import metadata
from pathlib import Path

import tensorflow as tf

import keras_transformer
from keras_transformer.export.card import model_card
from keras_transformer.export.signatures import Signatures
from keras_transformer.export.warm_up import write_warm_up
from keras_transformer.layers import arguments
from keras_transformer.tokenizer import Tokenizer
from keras_transformer.translator.loading import EXTRA, exported_versions
from keras_transformer.translator.stored_weights import WEIGHT_DTYPES

# Sentences that are kept, and how much of each warms a server up: requests
# must fit into what the signatures take.
MAX_SAMPLES, MAX_CHARACTERS = 20, 200


def export_saved_model(
    translator,
    path,
    name="translator",
    version=None,
    weights="float32",
    beam_size=4,
    length_penalty=None,
    num_results=None,
    max_source_length=None,
    max_extra_length=50,
    tokens_per_batch=4096,
    jit_compile=False,
    samples=None,
    origin=None,
):
    """Writes `path/name/version/`: TF Serving serves it, `load` reads it.

    Args:
        translator: A `Translator`.
        path: Folder of all models.
        name: Name of this one.
        version: Its number. Defaults to one more than the greatest there.
        weights: How the weights are stored: in `"float32"`; in `"float16"`,
            which takes half the space; or in `"int8"`, which takes a quarter,
            where each row of a matrix has a scale of its own.
        beam_size: Number of hypotheses kept open.
        length_penalty: α in the paper. Defaults to the translator's own.
        num_results: Number of translations that `translate_nbest` gives.
            Defaults to `beam_size`.
        max_source_length: Texts are cut to so many pieces. Defaults to the
            translator's own.
        max_extra_length: How many tokens longer than its source a translation
            may grow.
        tokens_per_batch: Most tokens at once: of sources, and of what their
            translations may grow to. More take more memory.
        jit_compile: Whether XLA compiles the searches. TF Serving runs such a
            model only with a flag.
        samples: Some sentences, as examples and for the requests that warm a
            server up; the first 20 are taken. Those default to pieces of the
            vocabulary in a row.
        origin: A dictionary of what the model was made from, for its card.

    Returns:
        The folder that was written.
    """
    if num_results is None:
        num_results = beam_size
    if length_penalty is None:
        length_penalty = translator.length_penalty
    arguments.check_choice(WEIGHT_DTYPES, weights=weights)
    arguments.check_sizes(
        beam_size=beam_size,
        num_results=num_results,
        max_extra_length=max_extra_length,
        tokens_per_batch=tokens_per_batch,
    )
    arguments.check_number(length_penalty=length_penalty)
    arguments.check_sizes(
        optional=True, version=version, max_source_length=max_source_length
    )
    if num_results > beam_size:
        raise ValueError(
            "`num_results` cannot exceed `beam_size`. Received: "
            f"num_results={num_results}, beam_size={beam_size}. "
            "Widen the beam."
        )
    settings = {
        "weights": weights,
        "beam_size": beam_size,
        "length_penalty": length_penalty,
        "num_results": num_results,
        "max_source_length": _max_source_length(translator, max_source_length),
        "max_extra_length": max_extra_length,
        "tokens_per_batch": tokens_per_batch,
        "jit_compile": jit_compile,
    }
    folder = _version_folder(Path(path), name, version)
    beside = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        functions = _write_saved_model(beside, translator, settings)
        about = {
            "name": name,
            "version": int(folder.name),
            **_circumstances(),
            "origin": origin,
            "parameters": translator.model.count_params(),
            "settings": settings,
            "samples": list(samples or ())[:MAX_SAMPLES],
        }
        _write_extras(beside, translator, about, functions)
        os.rename(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def _write_saved_model(folder, translator, settings):
    """Returns the signatures' functions, by name."""
    signatures = Signatures(translator, **settings)
    functions = signatures.functions()
    tf.saved_model.save(signatures, str(folder), signatures=functions)
    return functions


def _write_extras(folder, translator, about, functions):
    """What is not TensorFlow's: for `load`, for servers and for readers."""
    extra = folder / EXTRA
    extra.mkdir()
    tokenizers = {"tokenizer.model": translator.source_tokenizer}
    if not isinstance(translator.tokenizer, Tokenizer):
        tokenizers = {
            "source.model": translator.source_tokenizer,
            "target.model": translator.target_tokenizer,
        }
    for file, tokenizer in tokenizers.items():
        tokenizer.save(extra / file)
    about = {
        **about,
        "tokenizers": list(tokenizers),
        "max_source_length": translator.max_source_length,
        "model": translator.model.get_config(),
    }
    (extra / "metadata.json").write_text(
        json.dumps(about, indent=2, ensure_ascii=False), "utf-8"
    )
    (folder / "README.md").write_text(model_card(about, functions), "utf-8")
    samples = about["samples"] or _samples(translator.source_tokenizer)
    write_warm_up(
        extra / "tf_serving_warmup_requests",
        about["name"],
        functions,
        [sample[:MAX_CHARACTERS] for sample in samples],
    )


def _circumstances():
    """When this is, and with which packages."""
    now = datetime.datetime.now(datetime.UTC)
    packages = ("tensorflow", "tensorflow-text", "keras")
    return {
        "made": now.isoformat(timespec="seconds"),
        "made_with": {
            # Also in a clone that is not installed.
            "keras-transformer-layers": keras_transformer.__version__,
            **{name: metadata.version(name) for name in packages},
        },
    }


def _version_folder(path, name, version):
    if not re.fullmatch(r"[\w-][\w.-]*", name):
        raise ValueError(
            "`name` must be letters, digits, dots, hyphens and underscores, as "
            f"it is part of addresses. Received: name={name!r}. Rename it."
        )
    taken = exported_versions(path / name)
    if version in taken:
        raise FileExistsError(
            f"A version is never written twice. Received: version={version}, "
            f"which is in {path / name}. Leave it out for the next one."
        )
    if version is None:
        version = max(taken, default=0) + 1
    return path / name / str(version)


def _max_source_length(translator, given):
    positions = translator.model.source_positions
    # One more position is for the end.
    if given and positions.kind == "learned" and given >= positions.max_length:
        raise ValueError(
            "`max_source_length` must be less than the number of positions "
            f"that the model has learned. Received: max_source_length={given}, "
            f"max_length={positions.max_length}. Leave it out."
        )
    return given or translator.max_source_length


def _samples(tokenizer):
    """A short and a longer row of pieces, which come after the bytes."""
    ids = list(range(4 + 256, tokenizer.vocabulary_size))
    return [tokenizer.detokenize(ids[:8]), tokenizer.detokenize(ids[:40])]
