"""The serving kit: settings that TF Serving takes, and clients that work."""

import importlib.util
import subprocess
import sys
from concurrent import futures
from pathlib import Path

import grpc
import pytest
import tensorflow as tf
import yaml
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
)
from tensorflow_serving.apis import (
    predict_pb2,
    prediction_service_pb2_grpc,
)
from tensorflow_serving.config import model_server_config_pb2

from tests.export.conftest import SETTINGS
from tests.export.test_signatures import call
from tests.serving.toy import Server

KIT = Path(__file__).parents[2] / "examples" / "serving"

# What TF Serving declares and does not put into its Python package.
SCHEMA = """
name: "kit.proto" package: "kit" syntax: "proto3"
message_type {
  name: "Int64Value" field { name: "value" number: 1 type: TYPE_INT64 }
}
message_type {
  name: "BatchingParameters"
  field { name: "max_batch_size" number: 1
          type: TYPE_MESSAGE type_name: ".kit.Int64Value" }
  field { name: "batch_timeout_micros" number: 2
          type: TYPE_MESSAGE type_name: ".kit.Int64Value" }
  field { name: "max_enqueued_batches" number: 3
          type: TYPE_MESSAGE type_name: ".kit.Int64Value" }
  field { name: "num_batch_threads" number: 4
          type: TYPE_MESSAGE type_name: ".kit.Int64Value" }
  field { name: "pad_variable_length_inputs" number: 7 type: TYPE_BOOL }
}
message_type {
  name: "PrometheusConfig"
  field { name: "enable" number: 1 type: TYPE_BOOL }
  field { name: "path" number: 2 type: TYPE_STRING }
}
message_type {
  name: "MonitoringConfig"
  field { name: "prometheus_config" number: 1
          type: TYPE_MESSAGE type_name: ".kit.PrometheusConfig" }
}
"""


POOL = descriptor_pool.DescriptorPool()
POOL.Add(text_format.Parse(SCHEMA, descriptor_pb2.FileDescriptorProto()))


def parse(text, name):
    """Reads protocol buffer text as the message of this name."""
    kind = message_factory.GetMessageClass(
        POOL.FindMessageTypeByName(f"kit.{name}")
    )
    return text_format.Parse(text, kind())


def read_yaml(name):
    return list(yaml.safe_load_all((KIT / name).read_text()))


def flags_of(arguments):
    return dict(argument.lstrip("-").split("=") for argument in arguments)


def test_the_model_server_takes_its_settings():
    config = text_format.Parse(
        (KIT / "models.config").read_text(),
        model_server_config_pb2.ModelServerConfig(),
    )
    (model,) = config.model_config_list.config
    assert model.base_path == f"/models/{model.name}"
    batching = parse(
        (KIT / "batching_parameters.txt").read_text(), "BatchingParameters"
    )
    assert batching.max_batch_size.value > 1
    assert not batching.pad_variable_length_inputs
    monitoring = parse(
        (KIT / "monitoring.config").read_text(), "MonitoringConfig"
    )
    (prometheus,) = read_yaml("prometheus.yml")
    (job,) = prometheus["scrape_configs"]
    assert job["metrics_path"] == monitoring.prometheus_config.path


def test_the_containers_find_their_settings():
    (compose,) = read_yaml("compose.yaml")
    serving = compose["services"]["serving"]
    mounted = dict(
        reversed(volume.removesuffix(":ro").rsplit(":", 1))
        for volume in serving["volumes"]
    )
    assert mounted["/config"] == "."
    assert "/models" in mounted
    flags = flags_of(serving["command"])
    paths = [value for value in flags.values() if value.startswith("/config/")]
    assert len(paths) == 3
    for path in paths:
        assert (KIT / Path(path).name).is_file()


def test_kubernetes_gets_the_same_settings():
    settings, service = read_yaml("kserve.yaml")
    for name, kind in (
        ("batching_parameters.txt", "BatchingParameters"),
        ("monitoring.config", "MonitoringConfig"),
    ):
        given = parse(settings["data"][name], kind)
        assert given == parse((KIT / name).read_text(), kind)
    model = service["spec"]["predictor"]["model"]
    (mount,) = model["volumeMounts"]
    files = [
        Path(value)
        for value in flags_of(model["args"]).values()
        if value.startswith("/")
    ]
    assert {str(path.parent) for path in files} == {mount["mountPath"]}
    assert {path.name for path in files} == set(settings["data"])


def load_client(name):
    spec = importlib.util.spec_from_file_location(name, KIT / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Client


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """TF Serving's gRPC interface, in front of loaded signatures."""

    def __init__(self, signatures):
        self._signatures = signatures

    def Predict(self, request, context):
        function = self._signatures.get(request.model_spec.signature_name)
        if function is None or request.model_spec.name != "toy":
            context.abort(grpc.StatusCode.NOT_FOUND, "there is no such model")
        outputs = function(
            **{
                name: tf.constant(tf.make_ndarray(tensor))
                for name, tensor in request.inputs.items()
            }
        )
        return predict_pb2.PredictResponse(
            outputs={
                name: tf.make_tensor_proto(value)
                for name, value in outputs.items()
            }
        )


def test_the_grpc_client_translates(signatures, sentences):
    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(signatures), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    make_client = load_client("grpc_client")
    try:
        client = make_client(f"127.0.0.1:{port}", "toy")
        expected = call(signatures, "serving_default", sentences[:5])
        found = client.translate(sentences[:5])
        assert found == expected["translation"].tolist()
        assert client.translate([]) == []
        found = client.predict(
            "score", text=sentences[:2], translation=sentences[:2]
        )
        assert found["log_probability"].shape == (2,)
        with pytest.raises(grpc.RpcError, match="no such model"):
            make_client(f"127.0.0.1:{port}", "other").translate(["one"])
    finally:
        server.stop(None)


@pytest.mark.slow
def test_the_rest_client_and_the_load_check_answers(
    folder, translator, sentences, tmp_path
):
    expected = translator.translate(
        sentences[:40], max_extra_length=SETTINGS["max_extra_length"]
    )
    texts = [t.text for t in expected]

    def run(script, *arguments, **kwargs):
        return subprocess.run(
            [sys.executable, KIT / f"{script}.py", *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            **kwargs,
        )

    with Server(folder) as server:
        address = ("--url", f"http://{server.address}", "--model", "toy")
        client = load_client("rest_client")(address[1], "toy")
        assert client.translate(sentences[:40]) == texts
        scores = client.predict(
            "score", text=sentences[:3], translation=sentences[:3]
        )
        assert len(scores) == 3

        done = run("rest_client", *address, input="\n".join(sentences[:3]))
        assert done.stdout.count("\n") >= 3
        done = run("rest_client", "--url", address[1], "one", "--model", "none")
        assert done.returncode == 2
        assert "404" in done.stderr
        assert "Traceback" not in done.stderr
        done = run("rest_client", "one", "--url", "ftp://x")
        assert done.returncode == 2

        known = tmp_path / "known.tsv"
        pairs = [
            (sentence, text)
            for sentence, text in zip(sentences, texts)
            if not set("\t\n") & set(text)
        ]
        assert len(pairs) > 10
        known.write_text("".join(f"{s}\t{t}\n" for s, t in pairs), "utf-8")
        limits = ("--requests", "40", "--seconds", "60", "--clients", "4")
        done = run("load", known, *address, *limits)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "40 requests" in done.stdout
        assert "0 errors, 0 wrong answers" in done.stdout

        known.write_text(f"{pairs[0][0]}\tsomething else\n", "utf-8")
        done = run("load", known, *address, *limits)
        assert done.returncode == 1
        assert "instead of 'something else'" in done.stdout
    done = run("load", known, *address, "--seconds", "1", "--requests", "3")
    assert done.returncode == 1
    assert "3 errors" in done.stdout
