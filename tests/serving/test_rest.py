"""The server answers as TF Serving documents it."""

import base64
import contextlib
import gzip
import json
import time

import pytest

STATUS = {
    "model_version_status": [
        {
            "version": "7",
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
    ]
}
METRICS = ("GET", "/monitoring/prometheus/metrics")


@pytest.mark.parametrize("path", ["toy", "toy/versions/7", "toy/versions/07"])
def test_status(server, path):
    assert server.ask("GET", f"/v1/models/{path}") == (200, STATUS)


@pytest.mark.parametrize("path", ["toy", "toy/versions/7"])
def test_metadata_names_inputs_and_outputs(server, path):
    status, answer = server.ask("GET", f"/v1/models/{path}/metadata")
    assert status == 200
    assert answer["model_spec"] == {
        "name": "toy",
        "signature_name": "",
        "version": "7",
    }
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    nbest = signatures["translate_nbest"]
    assert nbest["method_name"] == "tensorflow/serving/predict"
    assert nbest["inputs"]["text"] == {
        "name": "translate_nbest_text:0",
        "dtype": "DT_STRING",
        "tensor_shape": {
            "dim": [{"size": "-1", "name": ""}],
            "unknown_rank": False,
        },
    }
    sizes = [
        d["size"] for d in nbest["outputs"]["score"]["tensor_shape"]["dim"]
    ]
    assert sizes == ["-1", "3"]


def test_rows_in_rows_out(server):
    assert server.predict(instances=["abc", "äö"]) == (
        200,
        {
            "predictions": [
                {"translation": "cba", "score": -0.3},
                {"translation": "öä", "score": -0.2},
            ]
        },
    )


def test_columns_in_columns_out(server):
    expected = {"outputs": {"translation": ["cba"], "score": [-0.3]}}
    assert server.predict(inputs=["abc"]) == (200, expected)
    assert server.predict(inputs={"text": ["abc"]}) == (200, expected)


def test_named_rows(server):
    rows = [{"text": "ab"}, {"text": "c"}]
    status, answer = server.predict(instances=rows)
    assert status == 200
    assert [row["translation"] for row in answer["predictions"]] == ["ba", "c"]


def test_one_output_comes_without_its_name(server):
    asked = {"signature_name": "loop"}
    assert server.predict(instances=[3, 5], **asked) == (
        200,
        {"predictions": [3, 5]},
    )
    assert server.predict(inputs=[3], **asked) == (200, {"outputs": [3]})


def test_a_version_can_be_named(server):
    path = "/v1/models/toy/versions/7:predict"
    status, answer = server.ask("POST", path, {"instances": ["ab"]})
    assert (status, answer["predictions"][0]["translation"]) == (200, "ba")


def test_lists_of_several_dimensions_and_all_types(server):
    row = {
        "float": 1,
        "double": [1, 0.5],
        "whole": -3,
        "flag": True,
        "picture": {"b64": base64.b64encode(b"\xff\x00a").decode()},
    }
    expected = {
        "float": 0.2,  # and not 0.20000000298
        "double": [0.2, 0.1],
        "whole": -2,
        "flag": False,
        "picture_bytes": row["picture"],
    }
    asked = {"signature_name": "types", "instances": [row]}
    assert server.predict(**asked) == (200, {"predictions": [expected]})


def test_base64_without_its_padding_is_read(server):
    text = base64.b64encode(b"abcd").decode().rstrip("=")
    status, answer = server.predict(inputs={"text": [{"b64": text}]})
    assert (status, answer["outputs"]["translation"]) == (200, ["dcba"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t\n",
        "a\0b",
        "\x01\x7f\u200f",
        "🙂👨‍👩‍👧",
        "שלום عليكم",
        "▁</s>",
        '\\"{}',
    ],
)
def test_strange_texts_come_through_unchanged(server, text):
    status, answer = server.predict(instances=[text, "abc"])
    assert status == 200
    translations = [row["translation"] for row in answer["predictions"]]
    assert translations == [text[::-1], "cba"]


def test_bytes_that_are_no_text_reach_the_model(server):
    text = base64.b64encode(b"a\xff\xfeb").decode()
    status, answer = server.predict(inputs={"text": [{"b64": text}]})
    assert status == 200
    assert answer["outputs"]["translation"] == ["b\ufffd\ufffda"]


def test_columns_may_be_empty(server):
    answer = {"outputs": {"translation": [], "score": []}}
    assert server.predict(inputs=[]) == (200, answer)


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/v1/models/other", 404, "any versions of model other"),
        ("GET", "/v1/models/toy/versions/8", 404, "version 8 of model toy"),
        ("GET", "/v1/models/other/metadata", 404, "any versions"),
        ("GET", "/v1/models/toy/labels/new", 400, "version label: new"),
        ("GET", "/v1/models", 400, "Missing model name"),
        ("GET", "/v1/models/toy:predict", 400, "Malformed request: GET"),
        ("GET", "/v1/things", 400, "Malformed request: GET /v1/things"),
        ("PUT", "/v1/models/toy:predict", 400, "Malformed request: PUT"),
        ("POST", "/v1/models/toy:guess", 400, "Malformed request: POST"),
        ("POST", "/v1/models/toy/versions/x:predict", 400, "Malformed"),
        ("GET", "/elsewhere", 404, "Not Found"),
    ],
)
def test_addresses_that_are_not_there(server, method, path, status, words):
    answered, answer = server.ask(method, path, {})
    assert answered == status
    assert list(answer) == ["error"]
    assert words in answer["error"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("other", "Servable not found for request: Latest(other)"),
        ("toy/versions/8", "Servable not found for request: Specific(toy, 8)"),
    ],
)
def test_unknown_models_do_not_predict(server, path, words):
    body = {"instances": ["a"]}
    answer = server.ask("POST", f"/v1/models/{path}:predict", body)
    assert answer == (404, {"error": words})


@pytest.mark.parametrize("verb", ["classify", "regress"])
def test_classify_and_regress_are_refused(server, verb):
    body = {"examples": [{"text": "a"}]}
    status, answer = server.ask("POST", f"/v1/models/toy:{verb}", body)
    assert status == 400
    assert f"tensorflow/serving/{verb}" in answer["error"]


BAD_BODIES = {
    "no body": (b"", "JSON Parse error: The document is empty"),
    "no JSON": (b'{"instances": [', "JSON Parse error"),
    "Python": (b"instances = [1]", "JSON Parse error"),
    "nested without end": (b"[" * 9999, "JSON Parse error"),
    "a number without end": (b"9" * 9999, "JSON Parse error"),
    "no UTF-8": (b'{"instances": ["a\xff"]}', "UTF-8"),
    "half a character": (b'{"instances": ["\\ud83d"]}', "surrogate"),
    "a list": (b"[1]", "Is not object"),
    **{
        f"lists {depth} deep": (b"[" * depth + b"]" * depth, "JSON ")
        for depth in range(900, 1000, 7)
    },
    "no inputs": (b"{}", "Missing 'inputs' or 'instances' key"),
    "both": (b'{"instances": ["a"], "inputs": ["a"]}', "only one of"),
    "no rows": (b'{"instances": []}', "No values in 'instances'"),
    "rows that are none": (b'{"instances": "a"}', "to be an list/array"),
    "a number for a text": (b'{"instances": [5]}', "expected type: string"),
    "true for a text": (b'{"inputs": [true]}', "Type: True is not of"),
    "null for a text": (b'{"inputs": [null]}', "Type: Null is not of"),
    "an unknown name": (b'{"instances": [{"x": "a"}]}', "have keys: text"),
    "a mix of rows": (b'{"instances": ["a", {"text": "a"}]}', "got object"),
    "a missing input": (b'{"inputs": {"x": ["a"]}}', "Missing named input"),
    "a scalar": (b'{"inputs": "a"}', "must have shape [?]"),
    "a list too deep": (b'{"instances": [["a"]]}', "must have shape [?]"),
    "a ragged list": (b'{"instances": ["a", ["b"]]}', "Encountered list"),
    "no base64": (b'{"instances": [{"b64": "?"}]}', "base64"),
    "base64 and more": (b'{"inputs": [{"b64": "YQ", "x": 1}]}', "base64"),
    "a signature of no text": (
        b'{"signature_name": 5, "instances": ["a"]}',
        "must be a string value",
    ),
    "an unknown signature": (
        b'{"signature_name": "x", "instances": ["a"]}',
        'Serving signature name: "x" not found in signature def',
    ),
    "a signature without inputs": (
        b'{"signature_name": "nothing", "inputs": {}}',
        "Failed to get input map for signature",
    ),
    "half a character for a signature": (
        b'{"signature_name": "\\ud83d", "instances": ["a"]}',
        "not found in signature def",
    ),
    "half a character for a name": (
        b'{"instances": [{"\\ud83d": "a"}]}',
        "have keys: text",
    ),
    "one of two inputs": (
        b'{"signature_name": "attention", "instances": ["a"]}',
        "translation",
    ),
    "uneven inputs": (
        b'{"signature_name": "attention", '
        b'"inputs": {"text": ["a"], "translation": []}}',
        "as many of both",
    ),
    "uneven inputs of a signature that is joined": (
        b'{"signature_name": "types", "inputs": {"float": [1, 2], "double": '
        b'[[1, 2]], "whole": [1], "flag": [true], "picture": ["a"]}}',
        "equal 0th-dimension size",
    ),
    "too large a number": (
        b'{"signature_name": "loop", "instances": [2147483648]}',
        "expected type: int32",
    ),
    "a decimal for a whole number": (
        b'{"signature_name": "loop", "instances": [1.5]}',
        "expected type: int32",
    ),
    "what the model refuses": (
        b'{"signature_name": "refuse", "instances": ["a bad one"]}',
        "no bad texts",
    ),
    "too many items": (
        json.dumps({"instances": ["a"] * 51}).encode(),
        "50 items. Received: 51",
    ),
    "too long a text": (
        json.dumps({"instances": ["a", "ä" * 501]}).encode(),
        "500 characters. Received: 501 in text, item 1",
    ),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_bad_requests_get_400_and_a_sentence(server, name):
    body, words = BAD_BODIES[name]
    status, answer = server.ask("POST", "/v1/models/toy:predict", body)
    assert status == 400
    assert list(answer) == ["error"]
    assert words in answer["error"]
    assert "Traceback" not in answer["error"]


@pytest.mark.parametrize("size", [20_001, 300_000])
def test_too_large_a_body_gets_413(server, size):
    body = json.dumps({"instances": ["a" * size]})
    status, answer = server.ask("POST", "/v1/models/toy:predict", body)
    assert (status, list(answer)) == (413, ["error"])


def test_too_large_an_answer_is_refused(server):
    inputs = {"text": ["a " * 250], "translation": ["b " * 250]}
    status, answer = server.predict(signature_name="attention", inputs=inputs)
    assert status == 400
    assert "An answer may hold 20000 values" in answer["error"]


def test_who_comes_to_a_full_queue_may_come_again(server):
    body = json.dumps({"signature_name": "loop", "inputs": [100_000] * 50})
    connections = [server.connect() for _ in range(4)]
    for connection in connections:
        connection.request("POST", "/v1/models/toy:predict", body)
    while "\nkeras_transformer_queue_rows 200" not in server.ask(*METRICS)[1]:
        time.sleep(0.01)
    late = server.connect()
    late.request("POST", "/v1/models/toy:predict", '{"instances": ["a"]}')
    response = late.getresponse()
    assert response.status == 503
    assert response.headers["Retry-After"] == "1"
    assert "The queue has room for 200 rows" in response.read().decode()
    for connection in (late, *connections):
        if connection is not late:
            assert connection.getresponse().status == 200
        connection.close()


def send(server, body, encoding):
    headers = {"Content-Encoding": encoding}
    connection = server.connect()
    with contextlib.closing(connection):
        connection.request("POST", "/v1/models/toy:predict", body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def test_gzipped_bodies_are_read(server):
    packed = gzip.compress(json.dumps({"instances": ["abc"]}).encode())
    status, answer = send(server, packed, "gzip")
    assert status == 200
    assert answer["predictions"][0]["translation"] == "cba"
    bomb = gzip.compress(json.dumps({"instances": ["a" * 10**6]}).encode())
    for body, encoding, expected in (
        (b"{}", "gzip", (400, "must be gzip")),
        (packed[:-5], "gzip", (400, "must be whole")),
        (packed, "br", (400, "Received: br")),
        (bomb, "gzip", (413, "may hold 20000 bytes")),
    ):
        status, answer = send(server, body, encoding)
        assert status == expected[0]
        assert expected[1] in answer["error"]


def test_the_largest_text_is_answered(server):
    status, answer = server.predict(instances=["ä" * 500])
    assert status == 200
    assert answer["predictions"][0]["translation"] == "ä" * 500


def counted(server, status):
    """How many requests the metrics count with a status."""
    _, page = server.ask(*METRICS)
    name = ":tensorflow:serving:request_count"
    start = f'{name}{{model_name="toy",status="{status}"}} '
    lines = [line for line in page.splitlines() if line.startswith(start)]
    return int(lines[0].split()[-1]) if lines else 0


def test_metrics_count_what_happened(server):
    before = [counted(server, "OK"), counted(server, "INVALID_ARGUMENT")]
    server.predict(instances=["a"])
    server.predict(instances=["a"])
    server.predict(instances=[5])
    after = [counted(server, "OK"), counted(server, "INVALID_ARGUMENT")]
    assert after == [before[0] + 2, before[1] + 1]


def test_a_client_that_goes_away_is_let_go(server):
    before = counted(server, "CANCELLED")
    body = json.dumps({"signature_name": "loop", "inputs": [200_000]})
    connection = server.connect()
    connection.request("POST", "/v1/models/toy:predict", body)
    for _ in range(1000):
        if "queue_rows 1" in server.ask(*METRICS)[1]:
            break
    connection.close()
    for _ in range(1000):
        if "queue_rows 0" in server.ask(*METRICS)[1]:
            break
    assert counted(server, "CANCELLED") == before + 1


def test_a_body_that_does_not_come_is_not_waited_for(server):
    connection = server.connect()
    connection.putrequest("POST", "/v1/models/toy:predict")
    connection.putheader("Content-Length", "100")
    connection.endheaders(b'{"inst')
    answer = connection.getresponse()
    assert answer.status == 408
    assert b"within 2 seconds" in answer.read()


def test_the_page_loads_nothing_from_elsewhere(server):
    for path in ("/", "/page.css", "/page.js", "/icon.svg"):
        status, text = server.ask("GET", path)
        assert status == 200
        text = text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text
