"""TF Serving's REST interface: paths and requests to answers."""

import asyncio
import json
import re
import time
from functools import partial

from starlette.requests import ClientDisconnect

from keras_transformer.serving import rest
from keras_transformer.serving.batcher import Batcher, Queue
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.rest import RestError, bad_request
from keras_transformer.workers import num_workers

VERSION = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
POST_PATH = re.compile(
    rf"/v1/models/(?P<name>[^/:]+){VERSION}:(?P<verb>classify|regress|predict)"
)
GET_PATH = re.compile(
    rf"/v1/models(?:/(?P<name>[^/:]+))?{VERSION}(?P<metadata>/metadata)?"
)

# TensorFlow's words for a status, which TF Serving counts by.
STATUS_WORDS = {
    200: "OK",
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    413: "OUT_OF_RANGE",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
}


class Api:
    """Answers for one model.

    Args:
        servable: A `Servable`.
        limits: `Limits`.
    """

    def __init__(self, servable, limits):
        self._servable = servable
        self._limits = limits
        self._queue = Queue(limits.max_queue)
        self.metrics = Metrics(lambda: self._queue.rows)
        self._batchers = {
            name: Batcher(
                signature,
                self._queue,
                limits.max_batch,
                limits.max_wait_ms / 1000,
                partial(self.metrics.batch_rows.add, signature=name),
                num_workers(),
            )
            for name, signature in servable.signatures.items()
        }

    async def answer(self, request):
        """The body that answers a Starlette request; or raises `RestError`."""
        status = 500
        try:
            body = await self._answer(request)
            status = 200
            return body
        except RestError as error:
            status = error.status
            raise
        finally:
            self.metrics.requests.add(
                model_name=self._servable.name,
                status=STATUS_WORDS.get(status, "INTERNAL"),
            )

    def describe(self):
        """What the page needs to know."""
        return to_json(
            {
                "model": self._servable.name,
                "version": self._servable.version,
                "signatures": sorted(self._servable.signatures),
                "examples": self._servable.examples,
                "max_characters": self._limits.max_characters,
                "max_source_length": self._servable.max_source_length,
            }
        )

    async def _answer(self, request):
        method, path = request.method, request.scope["path"]
        pattern = {"GET": GET_PATH, "POST": POST_PATH}.get(method)
        match = pattern and pattern.fullmatch(path)
        if not match:
            raise bad_request(f"Malformed request: {method} {path}")
        if method == "GET":
            return self._get(**match.groupdict())
        return await self._post(request, **match.groupdict())

    def _get(self, name, version, label, metadata):
        if name is None:
            raise bad_request("Missing model name in request.")
        if not self._is_known(name, version, label):
            which = "any versions" if version is None else f"version {version}"
            raise RestError(404, f"Could not find {which} of model {name}")
        number = str(self._servable.version)
        if metadata:
            spec = {"name": name, "signature_name": "", "version": number}
            definitions = {"signature_def": self._servable.definitions}
            return to_json(
                {"model_spec": spec, "metadata": {"signature_def": definitions}}
            )
        status = {"error_code": "OK", "error_message": ""}
        state = {"version": number, "state": "AVAILABLE", "status": status}
        return to_json({"model_version_status": [state]})

    async def _read_body(self, request):
        limits = self._limits
        try:
            return await asyncio.wait_for(
                _read_up_to(request, limits.max_body_bytes), limits.max_seconds
            )
        except TimeoutError:
            raise RestError(
                408,
                f"A body must come within {limits.max_seconds:g} seconds. "
                "Received: a part of it. Send it again.",
            ) from None

    async def _post(self, request, name, version, label, verb):
        start = time.perf_counter()
        body = await self._read_body(request)
        encoding = request.headers.get("content-encoding", "identity")
        body = rest.unpack(body, encoding, self._limits.max_body_bytes)
        parsed = rest.parse(body)
        if not self._is_known(name, version, label):
            which = f"Latest({name})"
            if version is not None:
                which = f"Specific({name}, {version})"
            raise RestError(404, f"Servable not found for request: {which}")
        if verb != "predict":
            raise bad_request(
                "The model must have a signature of method_name "
                f"tensorflow/serving/{verb}. Received: :{verb} for one that "
                "has none. Use :predict."
            )
        outputs, as_rows = await self._predict(request, parsed)
        answer = await self._write(outputs, as_rows)
        self.metrics.latency.add(
            1e6 * (time.perf_counter() - start),
            model_name=name,
            API="predict",
            entrypoint="REST",
        )
        return answer

    def _is_known(self, name, version, label):
        if label is not None:
            raise bad_request(f"Unrecognized servable version label: {label}")
        number = str(self._servable.version)
        is_version = version is None or version.lstrip("0") == number
        return name == self._servable.name and is_version

    async def _predict(self, request, parsed):
        name = rest.signature_name(parsed)
        if name not in self._batchers:
            raise bad_request(
                f'Serving signature name: "{name}" not found in signature def. '
                f"Use one of: {', '.join(sorted(self._batchers))}."
            )
        specs = self._servable.signatures[name].inputs
        inputs, as_rows = rest.read_inputs(parsed, specs)
        self._check_size(inputs)
        outputs = await _unless_gone(request, self._batchers[name](inputs))
        return outputs, as_rows

    def _check_size(self, inputs):
        limits = self._limits
        for name, array in inputs.items():
            if array.ndim and len(array) > limits.max_items:
                raise bad_request(
                    f"A request may hold {limits.max_items} items. Received: "
                    f"{len(array)} in {name}. Send them in several requests."
                )
            if array.dtype != object:
                continue
            for row, text in enumerate(array.ravel()):
                length = len(text.decode("utf-8", "replace"))
                if length > limits.max_characters:
                    raise bad_request(
                        f"A text may hold {limits.max_characters} characters. "
                        f"Received: {length} in {name}, item {row}. Split it "
                        "into sentences."
                    )

    async def _write(self, outputs, as_rows):
        size = sum(array.size for array in outputs.values())
        if size > self._limits.max_answer_values:
            raise bad_request(
                f"An answer may hold {self._limits.max_answer_values} values. "
                f"Received: {size} from the model. Send fewer texts, or "
                "shorter ones."
            )
        if size < 1000:
            return rest.write_outputs(outputs, as_rows)
        return await self._queue.run(rest.write_outputs, outputs, as_rows)


async def _read_up_to(request, limit):
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size <= limit:
                chunks.append(chunk)
            elif size > 16 * limit:
                break
    except ClientDisconnect:
        raise _gone() from None
    if size > limit:
        # What was read until here was thrown away: a client listens only
        # after it has sent all.
        raise rest.too_large(limit)
    return b"".join(chunks)


async def _unless_gone(request, work):
    """What `work` returns; cancelled if the client goes away before."""
    work = asyncio.ensure_future(work)
    disconnect = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait(
            {work, disconnect}, return_when=asyncio.FIRST_COMPLETED
        )
        if not work.done():
            raise _gone()
        return work.result()
    finally:
        work.cancel()
        disconnect.cancel()


def _gone():
    return RestError(499, "The client went away before its answer.")


def to_json(value):
    return json.dumps(value, indent=1).encode("ascii")
