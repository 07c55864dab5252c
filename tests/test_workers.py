"""Several batches at a time give what one after the other gives."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from keras_transformer import workers
from keras_transformer.threads import in_threads, num_cores
from keras_transformer.translator import translator as module
from tests.untrained import untrained


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_item_comes_once_with_its_own_result(count):
    done = dict(in_threads(lambda x: x * x, range(20), count))
    assert done == {x: x * x for x in range(20)}


def test_items_run_at_the_same_time():
    barrier = threading.Barrier(3, timeout=10)
    assert len(list(in_threads(lambda _: barrier.wait(), range(6), 3))) == 6


def test_an_error_reaches_the_caller_and_stops_what_has_not_begun():
    begun = []

    def fail_at_first(item):
        begun.append(item)
        time.sleep(0.01)
        raise KeyError(item)

    with pytest.raises(KeyError):
        list(in_threads(fail_at_first, range(1000), 2))
    assert len(begun) < 1000


@pytest.mark.parametrize(
    ("sentences", "settings"),
    [
        (["one", "two hundred and six", "", "nine " * 9] * 100, {}),
        (["one", "six"] * 48, {"jit_compile": True}),
    ],
)
def test_translations_are_those_of_one_worker(monkeypatch, sentences, settings):
    translator = untrained()
    told = []
    results = {}
    for count in (1, 3):
        monkeypatch.setattr(module, "num_workers", lambda count=count: count)
        results[count] = translator.translate(
            sentences,
            beam_size=2,
            max_extra_length=5,
            progress=told.append,
            **settings,
        )
    assert sum(told) == 2 * len(sentences)
    for one, several in zip(results[1], results[3]):
        assert one.text == several.text
        assert one.score == pytest.approx(several.score, abs=1e-5)


def test_cores_are_counted_on_systems_that_know_no_affinity(monkeypatch):
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    assert num_cores() == 6


def test_cores_are_shared_in_a_process_of_its_own():
    program = (
        "import tensorflow as tf; from keras_transformer import workers; "
        "workers.share_cores(); tf.constant(1) + 1; workers.share_cores(); "
        "print(tf.config.threading.get_intra_op_parallelism_threads())"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    assert int(answer.stdout) == num_cores() // workers.num_workers() >= 1
