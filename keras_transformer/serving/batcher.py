"""Joins the rows of concurrent requests into one call of the model."""

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from keras_transformer.serving.rest import RestError, bad_request


class Queue:
    """The rows of all signatures that wait for a model or are in one.

    Args:
        max_rows: Most rows at a time. A request that would not fit is refused
            with 503.
        num_threads: Most calls of models at the same time.
    """

    def __init__(self, max_rows, num_threads=16):
        self.rows = 0
        self._max_rows = max_rows
        self._threads = ThreadPoolExecutor(num_threads, "model")

    def enter(self, rows):
        if self.rows and self.rows + rows > self._max_rows:
            raise RestError(
                503,
                f"The queue has room for {self._max_rows} rows. Received: "
                f"{rows} more than the {self.rows} that wait. Try again in a "
                "moment.",
            )
        self.rows += rows

    def leave(self, rows):
        self.rows -= rows

    async def run(self, function, *args):
        """Calls a function in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, function, *args)


class Batcher:
    """Calls one signature for many clients.

    Rows wait in lanes, one for each class of length. The rows of a lane make
    calls together, so no short text waits for a long one. In a lane the
    requests take turns, so one of many rows holds up nobody.

    Args:
        signature: A `Signature`.
        queue: A `Queue`, shared by all signatures.
        max_batch: Most rows in a call.
        max_wait: Seconds to wait for other requests before a call.
        observe: A function that is told the number of rows of each call.
        num_calls: Most calls for a lane at the same time.
    """

    def __init__(
        self, signature, queue, max_batch, max_wait, observe, num_calls=1
    ):
        self._signature = signature
        self._queue = queue
        self._max_batch = max_batch
        self._max_wait = max_wait
        self._observe = observe
        self._num_calls = num_calls
        self._lanes = {}
        self._alone = asyncio.Semaphore(2)

    async def __call__(self, inputs):
        """The outputs for the inputs of one request."""
        counts = {
            name: len(array) if array.ndim else 1
            for name, array in inputs.items()
        }
        rows = max(counts.values())
        if self._signature.joins and len(set(counts.values())) > 1:
            raise bad_request(
                "Input tensors must have equal 0th-dimension size. Received: "
                f"{counts}. Send as many of each."
            )
        self._queue.enter(rows)
        call = None
        try:
            if self._signature.joins and rows:
                return await self._joined(inputs, rows)
            await self._alone.acquire()
            call = asyncio.create_task(self._call(inputs, rows))
            call.add_done_callback(lambda call: self._end_alone(call, rows))
            return await asyncio.shield(call)
        finally:
            if call is None:
                self._queue.leave(rows)

    def _end_alone(self, call, rows):
        """Only now: a thread runs on, also when its client is gone."""
        self._alone.release()
        self._queue.leave(rows)
        if not call.cancelled():
            call.exception()  # nobody may be left to hear of it

    async def _joined(self, inputs, count):
        request = _Request(inputs, count)
        for length_class, rows in _by_length(inputs, count).items():
            lane = self._lanes.setdefault(length_class, _Lane())
            lane.waiting.append((request, rows))
            if len(lane.tasks) < self._num_calls:
                lane.tasks.add(asyncio.create_task(self._work(lane)))
        return await request.answer

    async def _work(self, lane):
        while lane.waiting:
            # Also after a call: who just got an answer may ask again.
            if lane.num_rows() < self._max_batch:
                await asyncio.sleep(self._max_wait)
            batch = lane.take(self._max_batch)
            if batch:
                await self._run(batch)
        lane.tasks.remove(asyncio.current_task())

    async def _run(self, batch):
        """One call for parts of several requests."""
        try:
            inputs = {
                name: np.concatenate(
                    [request.inputs[name][rows] for request, rows in batch]
                )
                for name in self._signature.inputs
            }
            count = sum(len(rows) for _, rows in batch)
            outputs = await self._call(inputs, count)
        except Exception as error:
            if len(batch) == 1:
                batch[0][0].fail(error)
                return
            # Only the request that is to blame shall suffer.
            for part in batch:
                await self._run([part])
            return
        start = 0
        for request, rows in batch:
            end = start + len(rows)
            request.put(rows, {k: v[start:end] for k, v in outputs.items()})
            start = end

    async def _call(self, inputs, rows):
        self._observe(rows)
        outputs = await self._queue.run(self._signature, inputs)
        if self._signature.joins:
            for name, array in outputs.items():
                if len(array) != rows:
                    raise RestError(
                        500,
                        f"Output {name} must have a row for each row of the "
                        f"inputs. Received: {len(array)} for {rows}.",
                    )
        return outputs


class _Lane:
    """Parts of requests that wait, and the tasks that work on them."""

    def __init__(self):
        self.waiting = deque()
        self.tasks = set()

    def num_rows(self):
        return sum(len(rows) for _, rows in self.waiting)

    def take(self, room):
        """The next batch: as many rows of each request as of the others."""
        batch = []
        while self.waiting and room:
            share = max(1, room // len(self.waiting))
            request, rows = self.waiting.popleft()
            if request.answer.done():  # failed, or its client is gone
                continue
            if len(rows) > share:
                self.waiting.append((request, rows[share:]))
            batch.append((request, rows[:share]))
            room -= len(rows[:share])
        return batch


class _Request:
    """Inputs of one client, and the outputs as they come in."""

    def __init__(self, inputs, count):
        self.inputs = inputs
        self.answer = asyncio.get_running_loop().create_future()
        self._outputs = {}
        self._count = self._missing = count

    def put(self, rows, outputs):
        for name, array in outputs.items():
            if name not in self._outputs:
                shape = (self._count, *array.shape[1:])
                self._outputs[name] = np.empty(shape, array.dtype)
            self._outputs[name][rows] = array
        self._missing -= len(rows)
        if not self._missing and not self.answer.done():
            self.answer.set_result(self._outputs)

    def fail(self, error):
        if not self.answer.done():
            self.answer.set_exception(error)


def _by_length(inputs, count):
    """Row numbers by class of length: up to 127 bytes, 511, 2047 ..."""
    lengths = np.zeros(count, np.int64)
    for array in inputs.values():
        if array.dtype == object:
            flat = array.reshape(count, -1)
            lengths += [sum(map(len, row)) for row in flat]
    lanes = {}
    for row, length in enumerate(lengths.tolist()):
        length_class = ((length >> 7).bit_length() + 1) // 2
        lanes.setdefault(length_class, []).append(row)
    return {key: np.array(rows) for key, rows in lanes.items()}
