"""What a server takes on."""

import dataclasses


def _limit(default, text):
    return dataclasses.field(default=default, metadata={"help": text})


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a server takes on; each says so in its help."""

    max_batch: int = _limit(32, "most texts in a call of the model")
    max_wait_ms: float = _limit(2.0, "milliseconds that a call waits for more")
    max_queue: int = _limit(1024, "most texts that may wait; 503 beyond")
    max_body_bytes: int = _limit(1_000_000, "largest request; 413 beyond")
    max_seconds: float = _limit(30.0, "longest wait for a body; 408 beyond")
    max_items: int = _limit(512, "most texts in a request; 400 beyond")
    max_characters: int = _limit(2_000, "longest text; 400 beyond")
    max_answer_values: int = _limit(
        1_000_000, "most numbers and texts in an answer; 400 beyond"
    )

    def __post_init__(self):
        for name, value in dataclasses.asdict(self).items():
            if value < 0 or (value == 0 and name != "max_wait_ms"):
                raise ValueError(
                    f"`{name}` must be greater than 0. Received: "
                    f"{name}={value}."
                )
