"""A SavedModel that is a translator in all but quality, and a server for it."""

import http.client
import json
import os
import signal
import subprocess
import sys
from urllib.parse import urlsplit

import tensorflow as tf

NUM_LAYERS, NUM_HEADS, NUM_RESULTS = 2, 3, 3
MAX_WORDS = 30  # that attention reads


class Toy(tf.Module):
    """Turns texts around, letter by letter; the score is the length."""

    def translate(self, text):
        letters = tf.strings.unicode_split(text, "UTF-8")
        translation = tf.strings.reduce_join(letters[:, ::-1], axis=-1)
        length = tf.cast(letters.row_lengths(), tf.float32)
        return {"translation": translation, "score": -length / 10}

    def translate_nbest(self, text):
        best = self.translate(text)
        ranks = tf.range(NUM_RESULTS)
        marks = tf.constant(["", "?", "!"])
        return {
            "translation": best["translation"][:, None] + marks[None],
            "score": best["score"][:, None] - tf.cast(ranks, tf.float32)[None],
        }

    def attention(self, text, translation):
        tf.debugging.assert_equal(
            tf.size(text), tf.size(translation), "as many of both"
        )
        source = _words(text)[:, : MAX_WORDS + 1]
        target = _words(translation)
        shape = (
            tf.size(text),
            NUM_LAYERS,
            NUM_HEADS,
            tf.shape(target)[1],
            tf.shape(source)[1],
        )
        # Head h of layer l looks l + h words behind the word's own place.
        _, layer, head, row, column = tf.meshgrid(
            *map(tf.range, shape), indexing="ij"
        )
        looked_at = (row + layer + head) % shape[4]
        return {
            "source_pieces": source,
            "target_pieces": target,
            "source_length": tf.fill([tf.size(text)], shape[4]),
            "target_length": tf.fill([tf.size(text)], shape[3]),
            "attention": 0.2 / tf.cast(shape[4], tf.float32)
            + tf.where(looked_at == column, 0.8, 0.0),
        }

    def loop(self, turns):
        """Takes as long as it is asked to."""
        (done,) = tf.while_loop(
            lambda done: tf.reduce_any(done < turns),
            lambda done: (tf.minimum(done + 1, turns),),
            (tf.zeros_like(turns),),
        )
        return {"turns": done}

    def refuse(self, text):
        bad = tf.reduce_any(tf.strings.regex_full_match(text, ".*bad.*"))
        with tf.control_dependencies(
            [tf.debugging.assert_equal(bad, False, "no bad texts")]
        ):
            return {"text": tf.identity(text)}

    def types(self, float_, double, whole, flag, picture):
        return {
            "float": float_ / 5,
            "double": double / 5,
            "whole": whole + 1,
            "flag": tf.logical_not(flag),
            "picture_bytes": picture,
        }

    def nothing(self):
        return {"one": tf.constant([1])}


def _words(text):
    return tf.strings.split(text + " </s>", " ").to_tensor()


def write_toy(folder):
    """Writes the SavedModel to `folder/toy/7/`; returns `folder`."""
    toy = Toy()

    def function(method, **specs):
        return tf.function(
            method,
            input_signature=[
                tf.TensorSpec(shape, dtype, name)
                for name, (shape, dtype) in specs.items()
            ],
        )

    text = {"text": ([None], tf.string)}
    pair = {**text, "translation": ([None], tf.string)}
    signatures = {
        "serving_default": function(toy.translate, **text),
        "translate_nbest": function(toy.translate_nbest, **text),
        "attention": function(toy.attention, **pair),
        "loop": function(toy.loop, turns=([None], tf.int32)),
        "refuse": function(toy.refuse, **text),
        "nothing": function(toy.nothing),
        "types": function(
            toy.types,
            float=([None], tf.float32),
            double=([None, 2], tf.float64),
            whole=([None], tf.int8),
            flag=([None], tf.bool),
            picture=([None], tf.string),
        ),
    }
    tf.saved_model.save(toy, f"{folder}/toy/7", signatures=signatures)
    about = {"samples": [], "settings": {"max_source_length": MAX_WORDS}}
    extra = folder / "toy" / "7" / "assets.extra"
    extra.mkdir()
    (extra / "metadata.json").write_text(json.dumps(about))
    return folder


class Server:
    """`keras-transformer serve` in a process of its own.

    Args:
        model: What to serve.
        flags: More of the command.
    """

    def __init__(self, model, *flags):
        command = "-m keras_transformer.cli serve --port 0".split()
        self.process = subprocess.Popen(
            [sys.executable, *command, str(model), *flags],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if "Ctrl-C" in line:
                break
        assert "page" in self.said, self.said
        page = next(w for w in self.said.split() if w.startswith("http"))
        self.address = urlsplit(page).netloc

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self, number=signal.SIGTERM):
        """Asks it to stop; returns its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(30)
        self.said += self.process.stdout.read()
        return code

    def connect(self):
        return http.client.HTTPConnection(self.address, timeout=60)

    def ask(self, method, path, body=None):
        """Status and JSON, or text where it is none."""
        connection = self.connect()
        try:
            return ask(connection, method, path, body)
        finally:
            connection.close()

    def predict(self, **request):
        """Status and answer of a request for a prediction."""
        return self.ask("POST", "/v1/models/toy:predict", request)


def ask(connection, method, path, body=None):
    """The same on a connection that stays open."""
    if isinstance(body, dict):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    connection.request(method, path, body)
    response = connection.getresponse()
    text = response.read().decode()
    if response.headers["content-type"] == "application/json":
        return response.status, json.loads(text)
    return response.status, text
