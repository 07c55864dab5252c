"""Requests that come together make one call, and nobody pays for it."""

import asyncio
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from keras_transformer.serving.batcher import Batcher, Queue
from keras_transformer.serving.rest import RestError


class Model(SimpleNamespace):
    """A signature that remembers its calls: upper case of texts."""

    def __init__(self, joins=True, hold=None):
        super().__init__(inputs={"text": None}, joins=joins, calls=[])
        self.hold = hold or {}

    def __call__(self, arrays):
        texts = [text.decode() for text in arrays["text"]]
        self.calls.append(texts)
        for text in texts:
            if text in self.hold:
                assert self.hold[text].wait(10)
            if "bad" in text:
                raise RestError(400, text)
        return {"text": np.array([t.upper() for t in texts], object)}


def batcher(model, max_batch=8, max_queue=1000, num_calls=1):
    queue = Queue(max_queue)
    return Batcher(model, queue, max_batch, 0.01, lambda rows: None, num_calls)


def request(*texts):
    return {"text": np.array([text.encode() for text in texts], object)}


async def ask(batch, *texts):
    return list((await batch(request(*texts)))["text"])


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 20))


def test_requests_share_calls_and_get_their_own_answers():
    async def many():
        batch = batcher(model, max_batch=16)
        sent = [[f"{i}a", f"{i}b"] for i in range(40)]
        answers = await asyncio.gather(*(ask(batch, *texts) for texts in sent))
        assert answers == [[t.upper() for t in texts] for texts in sent]

    model = Model()
    run(many())
    assert len(model.calls) == 5  # of 80 rows, 16 at a time
    assert max(map(len, model.calls)) == 16


def test_a_large_request_lets_others_in_between():
    async def large_and_small():
        batch = batcher(model)
        large = asyncio.create_task(ask(batch, *texts))
        while not model.calls:
            await asyncio.sleep(0.001)
        small = asyncio.create_task(ask(batch, "small"))
        await asyncio.sleep(0)
        model.hold["0"].set()
        assert await small == ["SMALL"]
        assert await large == texts

    texts = [str(i) for i in range(80)]
    model = Model(hold={"0": threading.Event()})
    run(large_and_small())
    assert "small" in model.calls[1]


def test_several_calls_at_a_time_while_one_is_busy():
    async def three_times():
        batch = batcher(model, num_calls=2)
        held = asyncio.create_task(ask(batch, "held"))
        while not model.calls:
            await asyncio.sleep(0.001)
        assert await ask(batch, "first") == ["FIRST"]
        assert await ask(batch, "second") == ["SECOND"]
        assert not held.done()
        model.hold["held"].set()
        assert await held == ["HELD"]
        # Whoever worked before has gone, and nobody waits for them.
        assert await ask(batch, "third") == ["THIRD"]

    model = Model(hold={"held": threading.Event()})
    run(three_times())


def test_a_short_text_does_not_wait_for_a_long_one():
    async def long_and_short():
        batch = batcher(model)
        slow = asyncio.create_task(ask(batch, long))
        while not model.calls:
            await asyncio.sleep(0.001)
        assert await ask(batch, "short") == ["SHORT"]
        assert not slow.done()
        model.hold[long].set()
        assert await slow == [long.upper()]

    long = "x" * 1000
    model = Model(hold={long: threading.Event()})
    run(long_and_short())


def test_one_request_of_texts_of_all_lengths_keeps_its_order():
    async def mixed():
        return await ask(batcher(model), *texts)

    model = Model()
    texts = ["a", "b" * 300, "c", "d" * 5000, "e" * 200, "f"]
    assert run(mixed()) == [text.upper() for text in texts]
    assert ["a", "c", "f"] in model.calls


def test_a_refused_text_hurts_its_own_request_only():
    async def good_and_bad():
        batch = batcher(model)
        answers = await asyncio.gather(
            ask(batch, "one"),
            ask(batch, "bad"),
            ask(batch, "two", "three"),
            return_exceptions=True,
        )
        assert answers[0] == ["ONE"]
        assert isinstance(answers[1], RestError)
        assert answers[2] == ["TWO", "THREE"]

    model = Model()
    run(good_and_bad())
    assert len(model.calls[0]) == 4


def test_a_full_queue_refuses_and_then_takes_again():
    async def fill():
        batch = batcher(model, max_queue=3)
        first = asyncio.create_task(ask(batch, "hold", "a"))
        await asyncio.sleep(0)
        with pytest.raises(RestError) as refused:
            await ask(batch, "b", "c")
        assert refused.value.status == 503
        second = asyncio.create_task(ask(batch, "d"))
        await asyncio.sleep(0)
        model.hold["hold"].set()
        assert await first == ["HOLD", "A"]
        assert await second == ["D"]
        assert await ask(batch, "e", "f", "g") == ["E", "F", "G"]

    model = Model(hold={"hold": threading.Event()})
    run(fill())


def test_who_goes_away_costs_nothing_more():
    async def leave():
        batch = batcher(model)
        gone = asyncio.create_task(ask(batch, "gone"))
        stays = asyncio.create_task(ask(batch, "stays"))
        await asyncio.sleep(0)
        gone.cancel()
        assert await stays == ["STAYS"]
        assert await ask(batch, "a") == ["A"]

    model = Model()
    run(leave())
    assert all("gone" not in call for call in model.calls)


def test_signatures_of_padded_outputs_are_called_for_each_request():
    async def two():
        batch = batcher(model)
        await asyncio.gather(ask(batch, "a", "b"), ask(batch, "c"))

    model = Model(joins=False)
    run(two())
    assert sorted(model.calls) == [["a", "b"], ["c"]]


def test_a_call_of_its_own_keeps_its_place_when_its_client_is_gone():
    async def leave():
        batch = batcher(model)
        asked = [asyncio.create_task(ask(batch, text)) for text in "abcd"]
        while len(model.calls) < 2:
            await asyncio.sleep(0.001)
        for each in asked[:3]:  # two that run, and one that waits
            each.cancel()
        await asyncio.sleep(0.05)
        assert model.calls == [["a"], ["b"]]
        assert batch._queue.rows == 3
        model.hold["a"].set()
        assert await asked[3] == ["D"]
        model.hold["b"].set()
        while batch._queue.rows:
            await asyncio.sleep(0.001)
        assert model.calls == [["a"], ["b"], ["d"]]

    hold = {text: threading.Event() for text in "ab"}
    model = Model(joins=False, hold=hold)
    run(leave())
