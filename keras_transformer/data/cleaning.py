"""Which training pairs are left out, by stated rules, with counts."""

from collections import Counter
from hashlib import blake2b


def fingerprint(text):
    """Returns 8 bytes of a hash as an integer, the same on every machine."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


class Cleaner:
    """Names the first rule that a pair breaks, and counts.

    The rules, in order:

    - `empty`: a side is blank.
    - `too_long`: a side has more than `max_characters`.
    - `ratio`: a side has more than `max_ratio` times the characters of the
      other plus ten. The ten let short pairs vary: "Hi." and "Grüß Gott!".
    - `held_out`: a side also stands in dev or test. One side is enough, as
      the same sentence with another translation gives the answer away too.
    - `duplicate`: the same pair came before.

    Characters rather than words, so that the rules hold for languages that
    do not space their words.

    Args:
        held_out: Sentences of dev and test, from both sides.
        max_characters: Longest side.
        max_ratio: Largest ratio of the sides.

    >>> cleaner = Cleaner()
    >>> list(cleaner.clean([("Hi.", "Hallo."), ("Hi.", "Hallo."), ("", "?")]))
    [('Hi.', 'Hallo.')]
    >>> dict(cleaner.counts)
    {'kept': 1, 'duplicate': 1, 'empty': 1}
    """

    RULES = ("empty", "too_long", "ratio", "held_out", "duplicate")

    def __init__(self, held_out=(), max_characters=2000, max_ratio=3.0):
        if max_characters < 1 or max_ratio < 1:
            raise ValueError(
                "`max_characters` and `max_ratio` must be at least 1. "
                f"Received: max_characters={max_characters}, "
                f"max_ratio={max_ratio}."
            )
        self.max_characters = max_characters
        self.max_ratio = max_ratio
        self.counts = Counter()
        self._held_out = {fingerprint(sentence) for sentence in held_out}

    def fault(self, source, target):
        """Returns the broken rule's name, or None; knows no duplicates."""
        if not source.strip() or not target.strip():
            return "empty"
        shorter, longer = sorted((len(source), len(target)))
        if longer > self.max_characters:
            return "too_long"
        if longer > self.max_ratio * (shorter + 10):
            return "ratio"
        if self._held_out and (
            fingerprint(source) in self._held_out
            or fingerprint(target) in self._held_out
        ):
            return "held_out"
        return None

    def clean(self, pairs):
        """Yields the pairs that keep all rules.

        Remembers a hash of each pair. `prepare` finds duplicates on disk
        instead, for corpora of any size.
        """
        seen = set()
        for source, target in pairs:
            fault = self.fault(source, target)
            if fault is None:
                pair = pair_fingerprint(source, target)
                if pair in seen:
                    fault = "duplicate"
                seen.add(pair)
            self.counts[fault or "kept"] += 1
            if fault is None:
                yield source, target


def pair_fingerprint(source, target):
    # The length keeps ("ab", "c") and ("a", "bc") apart.
    return fingerprint(f"{len(source)} {source}{target}")
