"""Requests that TF Serving runs before it reports a model as ready."""

import tensorflow as tf


def write_warm_up(path, name, functions, texts):
    """Writes one request for each signature, as TF Serving reads them.

    The file is a TFRecord of `tensorflow.serving.PredictionLog` messages. Their
    few fields are written here by number, so that nobody needs the package of
    TF Serving's protocols to export a model.

    Args:
        path: The file.
        name: Name of the model.
        functions: The signatures, by name.
        texts: What to put into every input.
    """
    with tf.io.TFRecordWriter(str(path)) as file:
        for signature, function in functions.items():
            model = {1: name.encode(), 3: signature.encode()}  # ModelSpec
            fields = [(1, _message(model.items()))]  # PredictRequest
            # An attention of many long texts would be refused for its size.
            given = texts[:1] if signature == "attention" else texts
            tensor = tf.make_tensor_proto(given, tf.string).SerializeToString()
            for spec in function.structured_input_signature[0]:
                entry = {1: spec.name.encode(), 2: tensor}  # an input's entry
                fields.append((2, _message(entry.items())))
            log = _message([(1, _message(fields))])  # PredictLog
            file.write(_message([(6, log)]))  # PredictionLog


def _message(fields):
    """A protocol buffer of fields that are bytes: (number, value)."""
    return b"".join(
        bytes([number << 3 | 2]) + _varint(len(value)) + value
        for number, value in fields
    )


def _varint(number):
    """Seven bits a byte, the lowest first; the last has no eighth bit."""
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])
