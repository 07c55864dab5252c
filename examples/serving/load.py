"""Loads a server with many clients and checks every answer.

    python load.py known.tsv --clients 8 --seconds 60

Each line of `known.tsv` is a sentence, a tab and its translation. Clients send
some of them at a time, in a random order, until the time or the number of
requests is over. The exit code is 1 if a request failed or a translation was
another than the known one.
"""

import argparse
import http.client
import random
import sys
import threading
import time

from rest_client import Client


class Tally:
    """What all clients may still send, and what they have seen.

    Args:
        requests: Most requests of all clients together.
        seconds: Time after which none is sent.
    """

    def __init__(self, requests, seconds):
        self._lock = threading.Lock()
        self._requests_left = requests
        self._start = time.monotonic()
        self._end = self._start + seconds
        self.latencies = []
        self.num_sentences = 0
        self.wrong = []
        self.errors = []

    def may_send(self):
        with self._lock:
            if not self._requests_left or time.monotonic() > self._end:
                return False
            self._requests_left -= 1
            return True

    def add(self, seconds, pairs, translations):
        with self._lock:
            self.latencies.append(seconds)
            self.num_sentences += len(pairs)
            if len(pairs) != len(translations):
                self.errors.append(
                    f"{len(pairs)} texts, {len(translations)} translations"
                )
            self.wrong += [
                f"{sentence!r} gave {translation!r} instead of {known!r}"
                for (sentence, known), translation in zip(pairs, translations)
                if translation != known
            ]

    def add_error(self, error):
        with self._lock:
            self.errors.append(f"{type(error).__name__}: {error}")

    def report(self):
        seconds = time.monotonic() - self._start
        latencies = sorted(self.latencies)
        print(
            f"{len(latencies):,} requests with {self.num_sentences:,} "
            f"sentences in {seconds:.1f} s: {len(latencies) / seconds:.1f} "
            f"requests/s, {self.num_sentences / seconds:.1f} sentences/s"
        )
        if latencies:
            shown = (
                f"{name} {latencies[int(share * (len(latencies) - 1))]:.3f} s"
                for name, share in (
                    ("median", 0.5),
                    ("90%", 0.9),
                    ("99%", 0.99),
                    ("longest", 1.0),
                )
            )
            print(f"latency: {', '.join(shown)}")
        print(f"{len(self.errors):,} errors, {len(self.wrong):,} wrong answers")
        for line in self.errors[:3] + self.wrong[:3]:
            print(f"  {line}")


def read_known(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        known = [line.rstrip("\n").split("\t") for line in file]
    if not known or any(len(pair) != 2 for pair in known):
        raise ValueError(
            f"each line of {path} must be a sentence, a tab and a translation."
        )
    return known


def run_client(seed, args, known, tally):
    rng = random.Random(seed)
    client = Client(args.url, args.model, args.timeout)
    while tally.may_send():
        pairs = rng.choices(known, k=rng.randint(1, args.most_at_once))
        start = time.monotonic()
        try:
            translations = client.translate([text for text, _ in pairs])
        except (OSError, ValueError, http.client.HTTPException) as error:
            tally.add_error(error)
            client = Client(args.url, args.model, args.timeout)
        else:
            tally.add(time.monotonic() - start, pairs, translations)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("known", help="sentence<TAB>translation")
    parser.add_argument("--url", default="http://localhost:8501")
    parser.add_argument("--model", default="en-de", help="its name (en-de)")
    for name, default, text in (
        ("clients", 8, "at the same time"),
        ("seconds", 60, "time after which nothing is sent"),
        ("requests", 100_000, "most that are sent"),
        ("most-at-once", 8, "most sentences in a request"),
        ("timeout", 60, "seconds to wait for an answer"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{text} ({default})"
        )
    args = parser.parse_args()
    try:
        known = read_known(args.known)
        Client(args.url, args.model)
    except (OSError, ValueError) as error:
        print(f"load: {error}", file=sys.stderr)
        return 2
    tally = Tally(args.requests, args.seconds)
    clients = [
        threading.Thread(
            target=run_client, args=(seed, args, known, tally), daemon=True
        )
        for seed in range(args.clients)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    tally.report()
    return int(bool(tally.errors or tally.wrong or not tally.latencies))


if __name__ == "__main__":
    sys.exit(main())
