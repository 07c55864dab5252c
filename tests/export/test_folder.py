"""The exported folder: what is in it, and what it says about itself."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import keras_transformer
from keras_transformer.export import export_saved_model
from keras_transformer.translator import load
from tests.export.conftest import SETTINGS, make_translator


def graph_of(folder):
    data = (folder / "saved_model.pb").read_bytes()
    return saved_model_pb2.SavedModel.FromString(data).meta_graphs[0].graph_def


def test_a_version_stands_in_the_folder_of_its_model(folder):
    assert (folder.parent.name, folder.name) == ("toy", "1")
    assert not list(folder.parent.glob("*.partial"))
    names = {path.name for path in folder.iterdir()}
    assert {"saved_model.pb", "variables", "assets.extra", "README.md"} <= names


def test_each_weight_is_stored_once_in_the_type_asked_for(folder, translator):
    stored = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
    shapes = stored.get_variable_to_shape_map()
    types = stored.get_variable_to_dtype_map()
    halves = [name for name, dtype in types.items() if dtype == tf.float16]
    assert sum(math.prod(shapes[name]) for name in halves) == (
        translator.model.count_params()
    )
    assert not [name for name, dtype in types.items() if dtype == tf.float32]


def test_eight_bits_are_served_as_they_are_loaded(
    tokenizer, sentences, tmp_path
):
    translator = make_translator(tokenizer)
    embedding = translator.model.weights[0]
    embedding.assign(embedding * (np.arange(300) > 5)[:, None])  # rows of 0
    folder = export_saved_model(
        translator, tmp_path, weights="int8", **SETTINGS
    )
    stored = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
    shapes = stored.get_variable_to_shape_map()
    types = stored.get_variable_to_dtype_map()
    eights = [name for name, dtype in types.items() if dtype == tf.int8]
    matrices = [w for w in translator.model.weights if len(w.shape) > 1]
    assert sum(math.prod(shapes[name]) for name in eights) == sum(
        math.prod(weight.shape) for weight in matrices
    )
    again = load(folder)
    for old, new in zip(translator.model.weights, again.model.weights):
        old, new = np.array(old), np.array(new)
        step = np.abs(old).max(-1, keepdims=True) / 127 * (old.ndim > 1)
        assert np.all(np.abs(old - new) <= 0.5001 * step)
    expected = again.translate(
        sentences[:20], max_extra_length=SETTINGS["max_extra_length"]
    )
    served = tf.saved_model.load(folder).signatures["serving_default"]
    found = served(text=tf.constant(sentences[:20]))
    assert [text.decode() for text in found["translation"].numpy()] == [
        translation.text for translation in expected
    ]
    np.testing.assert_allclose(
        found["score"], [t.score for t in expected], rtol=1e-5
    )


@pytest.mark.parametrize("weights", ["float16", "int8"])
def test_weights_that_are_no_numbers_are_refused(weights, tokenizer, tmp_path):
    translator = make_translator(tokenizer)
    weight = translator.model.weights[0]
    weight.assign(weight * np.nan)
    with pytest.raises(ValueError, match="must be numbers.*embedding"):
        export_saved_model(translator, tmp_path, weights=weights)


def test_the_graph_runs_without_xla(folder):
    operations = {
        node.op
        for function in graph_of(folder).library.function
        for node in function.node_def
    }
    assert "While" in operations
    assert not [name for name in operations if "Xla" in name]


def test_metadata_and_card_say_what_made_it(folder, translator):
    about = json.loads((folder / "assets.extra/metadata.json").read_text())
    assert about["parameters"] == translator.model.count_params()
    assert about["made_with"]["tensorflow"] == tf.__version__
    version = about["made_with"]["keras-transformer-layers"]
    assert version == keras_transformer.__version__
    assert about["settings"]["beam_size"] == 4
    card = (folder / "README.md").read_text()
    assert "# toy, version 1" in card
    for name in ("serving_default", "translate_nbest", "attention", "encode"):
        assert f"| `{name}` | `text` string [n]" in card
    assert "`attention` float32 [n, 2, 2, ?, ?]" in card


def test_loading_it_gives_the_translator_back(folder, translator):
    for path in (folder, folder.parent):
        again = load(path)
        assert again.max_source_length == translator.max_source_length
        assert again.length_penalty == translator.length_penalty
        assert again.tokenizer == translator.tokenizer
        assert again.model.get_config() == translator.model.get_config()
        for a, b in zip(again.model.weights, translator.model.weights):
            np.testing.assert_array_equal(a, b)


def test_wrong_arguments_are_named_before_anything_is_written(
    folder, translator, tmp_path
):
    for error, match, arguments in (
        (ValueError, "`weights` must be one of", {"weights": "int4"}),
        (ValueError, "`version` must be a whole", {"version": 0}),
        (ValueError, "`length_penalty` must be", {"length_penalty": "a"}),
        (ValueError, "`name` must be letters", {"name": "a/b"}),
        (ValueError, "`name` must be letters", {"name": ".."}),
        (ValueError, "num_results=5, beam_size=4", {"num_results": 5}),
    ):
        with pytest.raises(error, match=match):
            export_saved_model(translator, tmp_path, **arguments)
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileExistsError, match="version=1"):
        export_saved_model(
            translator, folder.parent.parent, name="toy", version=1
        )


def test_learned_positions_bound_the_length(tokenizer, tmp_path):
    translator = make_translator(
        tokenizer, position_encoding="learned", max_length=50
    )
    with pytest.raises(ValueError, match="max_length=50"):
        export_saved_model(translator, tmp_path, max_source_length=50)


def test_weights_too_large_for_half_precision_are_refused(tokenizer, tmp_path):
    translator = make_translator(tokenizer)
    weight = translator.model.weights[0]
    weight.assign(weight + 1e6)
    with pytest.raises(ValueError, match=r"fit into float16.*embedding"):
        export_saved_model(translator, tmp_path, weights="float16")
    assert not list(tmp_path.rglob("*.partial"))


def test_requests_that_warm_up_are_what_tf_serving_reads(
    folder, signatures, translator
):
    prediction_log_pb2 = pytest.importorskip(
        "tensorflow_serving.apis.prediction_log_pb2"
    )
    path = folder / "assets.extra" / "tf_serving_warmup_requests"
    served = {}
    for record in tf.data.TFRecordDataset(str(path)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        assert log.WhichOneof("log_type") == "predict_log"
        request = log.predict_log.request
        assert request.model_spec.name == "toy"
        # The official class would write the same.
        assert log.SerializeToString(deterministic=True) == record.numpy()
        inputs = {
            name: tf.constant(tf.make_ndarray(tensor))
            for name, tensor in request.inputs.items()
        }
        assert all(map(tf.size, inputs.values()))
        signatures[request.model_spec.signature_name](**inputs)
        served[request.model_spec.signature_name] = len(inputs["text"])
    assert served.keys() == set(signatures)
    # Many long texts at once would be more than `attention` answers.
    assert served.pop("attention") == 1
    assert min(served.values()) > 1
