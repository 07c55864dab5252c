"""A server that is told to stop answers first; a busy one mixes nothing up."""

import contextlib
import http.client
import random
import signal
import threading
import time

import pytest

from tests.serving.toy import Server, ask

PATH = "/v1/models/toy:predict"


class Clients:
    """Threads that ask until they are told to stop, and check each answer."""

    def __init__(self, server, number):
        self.server = server
        self.answered = 0
        self.wrong = []
        self.refused = []
        self.asked_to_stop = None
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, args=(seed,))
            for seed in range(number)
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def stop(self):
        self.asked_to_stop = self.asked_to_stop or time.monotonic()
        for thread in self._threads:
            thread.join()

    def _work(self, seed):
        rng = random.Random(seed)
        connection = self.server.connect()
        with contextlib.closing(connection):
            while self.asked_to_stop is None:
                self._ask(connection, rng)

    def _ask(self, connection, rng):
        lengths = [rng.choice((5, 30, 200)) for _ in range(rng.randint(1, 4))]
        texts = ["".join(rng.choices("abcdä ", k=n)) for n in lengths]
        start = time.monotonic()
        try:
            status, answer = ask(connection, "POST", PATH, {"inputs": texts})
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            with self._lock:
                self.refused.append((start, error))
            time.sleep(0.01)
            return
        expected = [text[::-1] for text in texts]
        with self._lock:
            self.answered += 1
            if status != 200 or answer["outputs"]["translation"] != expected:
                self.wrong.append((texts, status, answer))


@pytest.mark.slow
def test_no_answer_goes_to_the_wrong_client(server):
    before = _calls(server)
    with Clients(server, 8) as clients:
        time.sleep(5)
    assert clients.answered > 100
    assert clients.wrong == []
    assert clients.refused == []
    # Some were joined; how many is up to the machine.
    assert 0 < _calls(server) - before < clients.answered


@pytest.mark.slow
def test_stopping_under_load_answers_all_that_came_before(toy_folder):
    with Server(toy_folder) as server, Clients(server, 8) as clients:
        # One that takes much longer than the others.
        slow = []
        body = {"signature_name": "loop", "inputs": [900_000]}
        thread = threading.Thread(
            target=lambda: slow.append(server.ask("POST", PATH, body))
        )
        thread.start()
        time.sleep(1)
        assert slow == []
        told = time.monotonic()
        code = server.stop(signal.SIGTERM)
        clients.stop()
        thread.join()
    assert code == 0
    assert "Every request has its answer" in server.said
    assert clients.answered > 5
    assert clients.wrong == []
    assert [error for start, error in clients.refused if start < told] == []
    assert clients.refused  # so it went on asking, and the server was gone
    assert slow == [(200, {"outputs": [900_000]})]


@pytest.mark.slow
def test_ctrl_c_ends_well(toy_folder):
    with Server(toy_folder) as server:
        assert server.stop(signal.SIGINT) == 0
    assert "Every request has its answer" in server.said


@pytest.mark.slow
def test_a_second_ctrl_c_ends_at_once(toy_folder):
    def ask_in_vain():
        body = {"signature_name": "loop", "inputs": [2**31 - 1]}
        with contextlib.suppress(OSError, http.client.HTTPException):
            server.ask("POST", PATH, body)

    with Server(toy_folder) as server:
        thread = threading.Thread(target=ask_in_vain)
        thread.start()
        while _metric(server, "keras_transformer_queue_rows") < 1:
            time.sleep(0.05)
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert server.stop(signal.SIGINT) == 130
        thread.join()
    assert "Stopped at once." in server.said


def _calls(server):
    """Calls of the model, of one request or of several that were joined."""
    return _metric(
        server,
        'keras_transformer_batch_rows_count{signature="serving_default"}',
    )


def _metric(server, name):
    _, page = server.ask("GET", "/monitoring/prometheus/metrics")
    lines = dict(x.rsplit(" ", 1) for x in page.splitlines())
    return int(lines.get(name, 0))
