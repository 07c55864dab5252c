"""Translates over TF Serving's gRPC interface.

pip install "tensorflow-serving-api==2.21.*"
python grpc_client.py "A sentence." "Another one."
python grpc_client.py < lines.txt
"""

import argparse
import sys

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


class Client:
    """One channel to a server.

    Args:
        address: Where the server is, as in `localhost:8500`.
        model: Name of the model.
        timeout: Seconds to wait for an answer.
    """

    def __init__(self, address, model, timeout=60):
        # Attention is larger than gRPC's own limit of 4 MB.
        channel = grpc.insecure_channel(
            address, [("grpc.max_receive_message_length", -1)]
        )
        self._service = prediction_service_pb2_grpc.PredictionServiceStub(
            channel
        )
        self._model = model
        self._timeout = timeout

    def predict(self, signature="serving_default", **inputs):
        """Sends lists of strings, one for each input; returns arrays."""
        request = predict_pb2.PredictRequest()
        request.model_spec.name = self._model
        request.model_spec.signature_name = signature
        for name, strings in inputs.items():
            request.inputs[name].CopyFrom(
                tf.make_tensor_proto(strings, tf.string, [len(strings)])
            )
        answer = self._service.Predict(request, self._timeout)
        return {
            name: tf.make_ndarray(tensor)
            for name, tensor in answer.outputs.items()
        }

    def translate(self, sentences, signature="serving_default"):
        """A translation for each sentence."""
        found = self.predict(signature, text=sentences)["translation"]
        return [translation.decode() for translation in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", nargs="*", help="or lines of stdin")
    parser.add_argument("--address", default="localhost:8500")
    parser.add_argument("--model", default="en-de", help="its name (en-de)")
    args = parser.parse_args()
    sentences = args.sentences or sys.stdin.read().splitlines()
    try:
        client = Client(args.address, args.model)
        print("\n".join(client.translate(sentences)))
    except grpc.RpcError as error:
        print(f"grpc_client: {error.details()}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
