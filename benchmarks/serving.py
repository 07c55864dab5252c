"""Does a busy server mix requests up, and how many does it answer?

    python -m benchmarks.serving RUN_FOLDER [--source SOURCE] [--seconds 60]

Clients send one to four texts of mixed lengths at a time, as fast as they get
answers, and compare each with what the same server said before when it was
asked for that text alone. The same weights stand behind

- `keras-transformer serve`, which joins the texts of several clients;
- a loop: one call of the SavedModel for each text, one at a time;
- CTranslate2, one call for each request;
- CTranslate2, with the texts of several clients joined as in the first.

HTTP, JSON and limits are the same code for all. Turn by turn they work for a
part of the time. Memory is that of the server's process.
"""

import argparse
import http.client
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks.side_by_side import origin
from keras_transformer.data import read_pairs

CANDIDATES = ("serve", "loop", "ctranslate2", "ctranslate2-joined")
BEAM_SIZE, LENGTH_PENALTY = 4, 0.6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a run folder or a saved translator")
    parser.add_argument(
        "--source", default="numbers", help="texts, as for `prepare` (numbers)"
    )
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=CANDIDATES)
    parser.add_argument("--serve", choices=CANDIDATES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve_candidate(args.serve, Path(args.model))
    # Told to stop, it takes its servers along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    pairs = read_pairs(args.source, split="test")
    texts = [source for source, _ in islice(pairs, args.texts)]
    with tempfile.TemporaryDirectory() as folder:
        write_models(args.model, Path(folder))
        servers, loads = {}, {}
        try:
            for name in args.only:
                servers[name] = Server(name, folder)
                loads[name] = Load(servers[name], texts)
            for _ in range(args.turns):
                for load in loads.values():
                    load.run(args.clients, args.seconds / args.turns)
        finally:
            for server in servers.values():
                server.process.terminate()
    report(loads, args)


def write_models(model, folder):
    """Writes the SavedModel and CTranslate2's model."""
    from benchmarks.ctranslate2_model import write_ctranslate2_model
    from keras_transformer.export import export_saved_model
    from keras_transformer.translator import load

    translator = load(model)
    export_saved_model(
        translator,
        folder,
        name="model",
        beam_size=BEAM_SIZE,
        length_penalty=LENGTH_PENALTY,
    )
    write_ctranslate2_model(translator.model, folder / "ctranslate2")


class Server:
    """One candidate in a process of its own."""

    def __init__(self, name, folder):
        if name == "serve":
            script = Path(sys.executable).with_name("keras-transformer")
            command = [script, "serve", "--port", "0"]
        else:
            command = [sys.executable, "-m", "benchmarks.serving"]
            command += ["--serve", name]
        self.process = subprocess.Popen(
            [*command, f"{folder}/model"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for line in self.process.stdout:
            if "http://" in line:
                start = line.index("http://") + len("http://")
                self.address = line[start:].split("/")[0].strip()
                break
        else:
            raise SystemExit(f"{name} did not start")

    def connect(self):
        return http.client.HTTPConnection(self.address, timeout=300)

    def megabytes(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(x for x in status.splitlines() if x.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


def ask(connection, texts):
    """The translations of one request."""
    body = json.dumps({"inputs": texts})
    connection.request("POST", "/v1/models/model:predict", body)
    response = connection.getresponse()
    answer = json.loads(response.read())
    if response.status != 200:
        raise RuntimeError(answer["error"])
    return answer["outputs"]["translation"]


class Load:
    """What clients of one server see.

    Args:
        server: A `Server`.
        texts: What they ask for.
    """

    def __init__(self, server, texts):
        self._server = server
        connection = server.connect()
        self._known = {text: ask(connection, [text])[0] for text in texts}
        self.seconds = 0.0
        self.milliseconds, self.megabytes = [], []
        self.texts = self.wrong = self.errors = 0

    def run(self, clients, seconds):
        start = time.perf_counter()
        threads = [
            threading.Thread(target=self._client, args=(start + seconds,))
            for _ in range(clients)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self.megabytes.append(self._server.megabytes())
            time.sleep(0.5)
        self.seconds += time.perf_counter() - start

    def _client(self, end):
        rng = random.Random()
        connection = self._server.connect()
        texts = list(self._known)
        while (start := time.perf_counter()) < end:
            asked = rng.choices(texts, k=rng.randint(1, 4))
            try:
                answers = ask(connection, asked)
            except Exception as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
                self.errors += 1
                connection.close()
                continue
            self.milliseconds.append(1000 * (time.perf_counter() - start))
            self.texts += len(asked)
            self.wrong += answers != [self._known[text] for text in asked]


def report(loads, args):
    print(
        f"{args.clients} clients, {args.seconds:g} s each in {args.turns} "
        f"turns, {args.texts} texts of {args.source}, beam {BEAM_SIZE}\n\n"
        "| server | requests/s | texts/s | median ms | 90% | 99% | longest | "
        "errors | other than alone | MB after a third | MB at the end |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for name, load in loads.items():
        cuts = statistics.quantiles(load.milliseconds, n=100)
        memory = load.megabytes
        row = [
            f"{len(load.milliseconds) / load.seconds:.1f}",
            f"{load.texts / load.seconds:.1f}",
            *(f"{cuts[share - 1]:.0f}" for share in (50, 90, 99)),
            f"{max(load.milliseconds):.0f}",
            load.errors,
            load.wrong,
            f"{memory[len(memory) // 3]:.0f}",
            f"{memory[-1]:.0f}",
        ]
        print(f"| {name} | {' | '.join(map(str, row))} |")
    print(f"\n{origin('tensorflow', 'ctranslate2', 'starlette', 'uvicorn')}")


def serve_candidate(name, folder):
    """Serves another model than the SavedModel, or in another way."""
    from keras_transformer import workers
    from keras_transformer.serving.servable import Servable, load_servable
    from keras_transformer.serving.server import bind, serve

    workers.share_cores()  # as the command line does
    if name == "loop":
        signature = Loop(load_servable(folder).signatures["serving_default"])
    else:
        signature = CTranslate2(folder, joins=name.endswith("joined"))
    servable = Servable("model", 1, {"serving_default": signature}, {}, [])
    with bind("127.0.0.1", 0) as listener:
        address = "{}:{}".format(*listener.getsockname())
        serve(
            servable,
            listener,
            ready=lambda: print(f"http://{address}", flush=True),
        )


class Loop:
    """A signature that is called for one text after the other."""

    joins = False

    def __init__(self, signature):
        self.inputs = signature.inputs
        self._signature = signature
        self._lock = threading.Lock()

    def __call__(self, arrays):
        import numpy as np

        texts = arrays["text"]
        with self._lock:
            found = [
                self._signature({"text": texts[i : i + 1]})
                for i in range(len(texts))
            ]
        return {
            name: np.concatenate([one[name] for one in found])
            for name in found[0]
        }


class CTranslate2:
    """The same weights in CTranslate2, with the interface of a signature."""

    def __init__(self, folder, joins):
        import ctranslate2
        import tensorflow as tf

        from keras_transformer.translator import load

        self.inputs = {"text": tf.TensorSpec([None], tf.string)}
        self.joins = joins
        ours = load(folder)
        self._source = ours.source_tokenizer
        self._target = ours.target_tokenizer
        self._translator = ctranslate2.Translator(
            str(folder.parent / "ctranslate2"),
            inter_threads=1 if joins else 2,
            intra_threads=2 if joins else 1,
        )

    def __call__(self, arrays):
        import numpy as np

        from benchmarks.ctranslate2_model import words

        texts = [text.decode() for text in arrays["text"]]
        results = self._translator.translate_batch(
            words(self._source.tokenize(texts, add_end=True)),
            beam_size=BEAM_SIZE,
            length_penalty=LENGTH_PENALTY,
            max_decoding_length=512,
        )
        found = [
            self._target.detokenize(list(map(int, result.hypotheses[0])))
            for result in results
        ]
        scores = [len(result.hypotheses[0]) for result in results]
        return {
            "translation": np.array([x.encode() for x in found], object),
            "score": np.array(scores, np.float32),
        }


if __name__ == "__main__":
    main()
