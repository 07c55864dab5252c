"""TF Serving's JSON: tensors out of a request's rows or columns, and back.

Words that clients may look for in an error are TF Serving's own.
"""

import base64
import binascii
import json
import zlib

import numpy as np


class RestError(Exception):
    """A refusal: an HTTP status and a sentence."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def bad_request(message):
    return RestError(400, message)


def too_large(limit):
    return RestError(
        413,
        f"A body may hold {limit} bytes. Received: more. Send fewer or "
        "shorter texts.",
    )


def unpack(body, encoding, limit):
    """The body of a request; gzip is undone, as by TF Serving.

    Args:
        body: Bytes.
        encoding: The request's Content-Encoding.
        limit: Most bytes that it may unpack to.
    """
    if encoding.lower() == "identity":
        return body
    if encoding.lower() != "gzip":
        raise bad_request(
            "The Content-Encoding must be gzip, or none. Received: "
            f"{encoding}. Send the body as it is."
        )
    stream = zlib.decompressobj(wbits=31)
    try:
        unpacked = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise bad_request(
            f"A body sent as gzip must be gzip. Received: other bytes ({error})"
            ". Leave Content-Encoding out, or compress it."
        ) from None
    if len(unpacked) > limit:
        raise too_large(limit)
    if not stream.eof:
        raise bad_request(
            "A body sent as gzip must be whole. Received: its first "
            f"{len(body)} bytes. Send it again."
        )
    return unpacked


def parse(body):
    """The JSON object that a request carries."""
    if not body.strip():
        raise bad_request("JSON Parse error: The document is empty")
    try:
        request = json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise bad_request(
            "JSON Parse error: The text must be UTF-8. Received: a byte that "
            f"is not, at offset: {error.start}. Send other bytes as "
            '{"b64": "..."}.'
        ) from None
    except json.JSONDecodeError as error:
        raise bad_request(
            f"JSON Parse error: {error.msg} at offset: {error.pos}"
        ) from None
    except (RecursionError, ValueError) as error:
        # Lists in lists without end, numbers of thousands of digits.
        raise bad_request(f"JSON Parse error: {error}") from None
    if not isinstance(request, dict):
        raise bad_request(f"JSON Value: {_shown(request)} Is not object")
    return request


def signature_name(request):
    """The signature that a request asks for."""
    name = request.get("signature_name", "")
    if not isinstance(name, str):
        raise bad_request(
            f"JSON Value: {_shown(name)} not formatted correctly. "
            "'signature_name' key must be a string value."
        )
    return name or "serving_default"


def read_inputs(request, specs):
    """The input tensors of a request.

    Args:
        request: What `parse` returns.
        specs: A `tf.TensorSpec` for each name of an input.

    Returns:
        A dictionary of arrays, and whether they came as rows.
    """
    if not specs:
        raise bad_request("Failed to get input map for signature: it has none")
    if "instances" in request and "inputs" in request:
        raise bad_request(
            "Not formatted correctly expecting only one of 'inputs' or "
            "'instances' keys to exist. Received: both."
        )
    if "instances" in request:
        columns = _columns(request["instances"], specs)
    elif "inputs" in request:
        columns = request["inputs"]
        if not isinstance(columns, dict) or _is_base64(columns):
            columns = {_only_name(specs, "inputs"): columns}
    else:
        raise bad_request("Missing 'inputs' or 'instances' key")
    missing = [name for name in specs if name not in columns]
    if missing:
        raise bad_request(
            f"Missing named input: {missing[0]} in 'inputs' object."
        )
    arrays = {
        name: _array(columns[name], spec, name) for name, spec in specs.items()
    }
    return arrays, "instances" in request


def _columns(rows, specs):
    """Turns rows into columns."""
    if not isinstance(rows, list):
        raise bad_request("Expecting 'instances' to be an list/array")
    if not rows:
        raise bad_request("No values in 'instances' array")
    if not _is_named(rows[0]):
        name = _only_name(specs, "instances")
        for index, row in enumerate(rows):
            if _is_named(row):
                raise bad_request(
                    "Expecting value/list but got object at item "
                    f"{index} of input list"
                )
        return {name: rows}
    for index, row in enumerate(rows):
        if not _is_named(row) or set(row) != set(specs):
            raise bad_request(
                f"Failed to process element: {index} of 'instances' list. "
                f"JSON Value: {_shown(row)} must be an object and must only "
                f"have keys: {','.join(sorted(specs))}"
            )
    return {name: [row[name] for row in rows] for name in specs}


def _only_name(specs, key):
    if len(specs) > 1:
        raise bad_request(
            f"{key} is a plain value/list, but expecting objects as multiple "
            f"input tensors required: {','.join(sorted(specs))}"
        )
    return next(iter(specs))


def _array(value, spec, name):
    shape = _shape(value)
    if not spec.shape.is_compatible_with(shape):
        raise bad_request(
            f"Input {name} must have shape {_dims(spec.shape)}. Received: "
            f"{_dims(shape)}."
        )
    flat = []
    _flatten(value, shape, 0, _READERS[_kind(spec.dtype)], spec.dtype, flat)
    kind = object if spec.dtype.name == "string" else spec.dtype.as_numpy_dtype
    return np.array(flat, kind).reshape(shape)


def _shape(value):
    """The shape that the first of each list's items tells."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return shape


def _flatten(value, shape, level, read, dtype, flat):
    if not isinstance(value, list):
        if level != len(shape):
            raise bad_request(
                f"JSON Value: {_shown(value)} found at incorrect level: "
                f"{level} in the JSON DOM. Expected at level: {len(shape)}"
            )
        flat.append(read(value, dtype))
    elif level >= len(shape) or len(value) != shape[level]:
        expected = shape[level] if level < len(shape) else "no list"
        raise bad_request(
            f"Encountered list at unexpected size: {len(value)} at level: "
            f"{level} expected size: {expected}"
        )
    else:
        for item in value:
            _flatten(item, shape, level + 1, read, dtype, flat)


def _read_string(value, dtype):
    if _is_base64(value):
        text = value["b64"]
        try:
            padded = text + "=" * (-len(text) % 4)
            return base64.b64decode(padded, validate=True)
        except (binascii.Error, ValueError):
            raise bad_request("Unable to base64 decode") from None
    if isinstance(value, dict):
        raise bad_request(
            f"JSON Value: {_shown(value)} not formatted correctly for base64 "
            "data"
        )
    if not isinstance(value, str):
        raise _wrong_type(value, dtype)
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise bad_request(
            "JSON Parse error: The surrogate pair in string is invalid."
        ) from None


def _read_float(value, dtype):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong_type(value, dtype)
    # A whole number must fit in the digits, any other in the range.
    digits = np.finfo(dtype.as_numpy_dtype).nmant + 1
    largest = 2**digits - 1 if isinstance(value, int) else dtype.max
    if largest < abs(value) < float("inf"):
        raise bad_request(
            f"Cannot convert JSON value: {_shown(value)} to {dtype.name} "
            "without loss of precision."
        )
    return value


def _read_integer(value, dtype):
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(value, dtype)
    if not dtype.min <= value <= dtype.max:
        raise _wrong_type(value, dtype)
    return value


def _read_bool(value, dtype):
    if not isinstance(value, bool):
        raise _wrong_type(value, dtype)
    return value


def _read_nothing(value, dtype):
    raise RestError(
        501, f"Conversion of JSON Value: {_shown(value)} to type: {dtype.name}"
    )


_READERS = {
    "string": _read_string,
    "float": _read_float,
    "integer": _read_integer,
    "bool": _read_bool,
    "other": _read_nothing,
}


def _kind(dtype):
    if dtype.name in ("string", "bool"):
        return dtype.name
    if dtype.is_floating:
        return "float"
    return "integer" if dtype.is_integer else "other"


def write_outputs(arrays, as_rows):
    """The body of an answer.

    Args:
        arrays: A dictionary of arrays, one for each output.
        as_rows: Whether the request came as rows, and the answer goes so.
    """
    columns = {
        name: _values(array, name.endswith("_bytes"))
        for name, array in arrays.items()
    }
    alone = next(iter(columns.values())) if len(columns) == 1 else None
    if not as_rows:
        answer = {"outputs": columns if alone is None else alone}
    else:
        _check_rows(arrays)
        rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
        answer = {"predictions": rows if alone is None else alone}
    return json.dumps(answer, ensure_ascii=False).encode("utf-8")


def _check_rows(arrays):
    sizes = {array.shape[:1] for array in arrays.values()}
    if len(sizes) > 1 or () in sizes:
        shapes = ", ".join(
            f"{name} {_dims(array.shape)}" for name, array in arrays.items()
        )
        raise bad_request(
            "Outputs must have one row for each of the 'instances'. Received: "
            f"outputs with inconsistent batch size: {shapes}. Use 'inputs'."
        )


def _values(array, as_bytes):
    """Nested lists of what JSON can write."""
    if array.dtype == object:
        write = _base64_object if as_bytes else _text
        flat = np.empty(array.size, object)
        flat[:] = [write(value) for value in array.ravel()]
        return flat.reshape(array.shape).tolist()
    if array.dtype == np.float32:
        # The shortest digits that read as the same number: 0.2 is not to
        # become 0.20000000298.
        array = array.astype("U32").astype(np.float64)
    return array.tolist()


def _text(value):
    return value.decode("utf-8", "replace")


def _base64_object(value):
    return {"b64": base64.b64encode(value).decode("ascii")}


def _is_base64(value):
    return (
        isinstance(value, dict)
        and list(value) == ["b64"]
        and isinstance(value["b64"], str)
    )


def _is_named(value):
    return isinstance(value, dict) and not _is_base64(value)


def _wrong_type(value, dtype):
    return bad_request(
        f"JSON Value: {_shown(value)} Type: {_json_type(value)} is not of "
        f"expected type: {dtype.name}"
    )


def _json_type(value):
    names = {type(None): "Null", dict: "Object", list: "Array", str: "String"}
    if isinstance(value, bool):
        return str(value)
    return names.get(type(value), "Number")


def _shown(value, longest=100):
    """A value as in the request, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except RecursionError:
        return "(lists in lists without end)"
    return text if len(text) <= longest else text[:longest] + "..."


def _dims(shape):
    return "[" + ",".join("?" if d is None else str(d) for d in shape) + "]"
