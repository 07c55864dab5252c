"""Numbers about the server in Prometheus' text format.

What TF Serving measures too has TF Serving's name, so that one dashboard shows
both.
"""

from bisect import bisect_left

MICROSECONDS = tuple(
    scale * step for scale in (1e3, 1e4, 1e5, 1e6, 1e7) for step in (1, 2, 5)
)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Counter:
    """A number for each combination of labels."""

    kind = "counter"

    def __init__(self, name, text):
        self.name, self.text = name, text
        self.values = {}

    def add(self, amount=1, **labels):
        key = tuple(labels.items())
        self.values[key] = self.values.get(key, 0) + amount

    def lines(self):
        for labels, value in self.values.items():
            yield f"{self.name}{_braces(labels)} {value}"


class Gauge:
    """A number that is asked for when the page is read."""

    kind = "gauge"

    def __init__(self, name, text, read):
        self.name, self.text, self._read = name, text, read

    def lines(self):
        yield f"{self.name} {self._read()}"


class Histogram:
    """How often values were at most so large."""

    kind = "histogram"

    def __init__(self, name, text, bounds):
        self.name, self.text, self._bounds = name, text, bounds
        self._counts, self._sums = {}, {}

    def add(self, value, **labels):
        key = tuple(labels.items())
        counts = self._counts.setdefault(key, [0] * (len(self._bounds) + 1))
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[key] = self._sums.get(key, 0) + value

    def lines(self):
        for labels, counts in self._counts.items():
            total = 0
            for bound, count in zip((*self._bounds, "+Inf"), counts):
                total += count
                braces = _braces((*labels, ("le", bound)))
                yield f"{self.name}_bucket{braces} {total}"
            yield f"{self.name}_sum{_braces(labels)} {self._sums[labels]}"
            yield f"{self.name}_count{_braces(labels)} {total}"


class Metrics:
    """All that the server counts.

    Args:
        queue_rows: A function that returns the number of rows in the queue.
    """

    def __init__(self, queue_rows):
        self.requests = Counter(
            ":tensorflow:serving:request_count",
            "Requests by model and status.",
        )
        self.latency = Histogram(
            ":tensorflow:serving:request_latency",
            "Microseconds from a request to its answer.",
            MICROSECONDS,
        )
        self.batch_rows = Histogram(
            "keras_transformer_batch_rows",
            "Rows in a call of the model.",
            ROWS,
        )
        self._all = [
            self.requests,
            self.latency,
            self.batch_rows,
            Gauge(
                "keras_transformer_queue_rows",
                "Rows that wait for a model or are in one.",
                queue_rows,
            ),
        ]

    def text(self):
        """The page that Prometheus reads."""
        lines = []
        for metric in self._all:
            lines.append(f"# HELP {metric.name} {metric.text}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
            lines.extend(metric.lines())
        return "\n".join(lines) + "\n"


def _braces(labels):
    if not labels:
        return ""
    return "{" + ",".join(f'{k}="{_escaped(v)}"' for k, v in labels) + "}"


def _escaped(value):
    text = f"{value:g}" if isinstance(value, (int, float)) else str(value)
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
