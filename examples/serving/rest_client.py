"""Translates over TF Serving's REST interface, with the standard library.

python rest_client.py "A sentence." "Another one."
python rest_client.py --signature translate_nbest "A sentence."
python rest_client.py < lines.txt
"""

import argparse
import http.client
import json
import sys
from urllib.parse import urlsplit


class Client:
    """One connection to a server.

    Args:
        url: Where the server is, as in `http://localhost:8501`.
        model: Name of the model.
        timeout: Seconds to wait for an answer.
    """

    def __init__(self, url, model, timeout=60):
        address = urlsplit(url)
        connection = {
            "http": http.client.HTTPConnection,
            "https": http.client.HTTPSConnection,
        }.get(address.scheme)
        if connection is None or not address.hostname:
            raise ValueError(
                f"`url` must begin with http:// or https://. Received: {url!r}."
            )
        self._connection = connection(
            address.hostname, address.port, timeout=timeout
        )
        self._path = f"{address.path.rstrip('/')}/v1/models/{model}:predict"

    def predict(self, signature="serving_default", **inputs):
        """Sends lists of strings, one for each input.

        Returns:
            The outputs by name, or the output itself where there is only one.
        """
        body = json.dumps({"signature_name": signature, "inputs": inputs})
        self._connection.request(
            "POST",
            self._path,
            body.encode(),
            {"Content-Type": "application/json"},
        )
        response = self._connection.getresponse()
        answer = response.read().decode()
        if response.status != 200:
            raise OSError(f"The server said {response.status}: {answer}")
        return json.loads(answer)["outputs"]

    def translate(self, sentences, signature="serving_default"):
        """A translation for each sentence."""
        return self.predict(signature, text=sentences)["translation"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", nargs="*", help="or lines of stdin")
    parser.add_argument("--url", default="http://localhost:8501")
    parser.add_argument("--model", default="en-de", help="its name (en-de)")
    parser.add_argument(
        "--signature",
        default="serving_default",
        choices=("serving_default", "translate_greedy", "translate_nbest"),
    )
    args = parser.parse_args()
    sentences = args.sentences or sys.stdin.read().splitlines()
    try:
        client = Client(args.url, args.model)
        for found in client.translate(sentences, args.signature):
            print(found if isinstance(found, str) else "\t".join(found))
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(f"rest_client: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
