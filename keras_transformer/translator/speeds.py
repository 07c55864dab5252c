"""Two speeds: a graph for all sizes, and what XLA compiles for a few.

The graph takes batches of any size and lets finished sentences go. A program of
XLA has fixed sizes, takes seconds to make for each, and loses no time between
operations. Which one is faster depends on the model and the machine, so that
both are tried where there are enough sentences to gain from it.
"""

import time
from collections import defaultdict

from keras_transformer.translator.batches import rows_by_length

# The sizes that are compiled: up to so many sentences, by powers of two, and
# lengths in such strides.
ROWS, STRIDE = 32, 8
# Batches of one length that make a try worth its seconds.
ENOUGH = 64


class Speeds:
    """Chooses batches and who runs them, by the clock."""

    def __init__(self):
        self._num_seen = defaultdict(int)
        # By length and by whether it was compiled.
        self._seconds = defaultdict(lambda: {False: [], True: []})

    def groups(
        self,
        lengths,
        tokens_per_batch,
        without,
        longest,
        jit_compile=None,
        num_workers=1,
    ):
        """Yields lists of batches: rows that share one, and a size or None.

        A batch with a size, rows and length, is for the compiled program.
        Whoever iterates runs the batches of a group, several at a time, before
        asking for the next group: the clock runs meanwhile.

        Args:
            lengths: Of all sources.
            tokens_per_batch: Most tokens in a batch for the graph.
            without: Rows to leave out.
            longest: The greatest length that a source may have.
            jit_compile: Whether to compile; by default where it pays.
            num_workers: Number of batches that run at a time.
        """
        by_length = defaultdict(list)
        for row in set(range(len(lengths))).difference(without):
            strides = -(-lengths[row] // STRIDE)
            by_length[min(strides * STRIDE, longest)].append(row)
        for length, rows in by_length.items():
            self._num_seen[length] += len(rows)
        fixed = {
            length: rows
            for length, rows in by_length.items()
            if (self._may_pay(length) if jit_compile is None else jit_compile)
        }
        without = set(without).union(*fixed.values())
        batches = rows_by_length(lengths, tokens_per_batch, without)
        if group := [(rows, None) for rows in batches]:
            yield group
        for length, rows in fixed.items():
            while rows:
                compiled = jit_compile or self._is_compiled_next(length)
                count = ROWS if compiled else max(1, tokens_per_batch // length)
                is_try = jit_compile is None and not self._is_known(length)
                some = rows[: num_workers * count] if is_try else rows
                rows = rows[len(some) :]
                group = [
                    some[begin : begin + count]
                    for begin in range(0, len(some), count)
                ]
                begin = time.perf_counter()
                yield [
                    (of, (_power_of_two(len(of)), length) if compiled else None)
                    for of in group
                ]
                if is_try and len(some) == num_workers * count:
                    self._seconds[length][compiled].append(
                        (time.perf_counter() - begin) / len(some)
                    )

    def _may_pay(self, length):
        """Whether to compile was not tried yet, or is faster."""
        return self._num_seen[length] >= ENOUGH * ROWS and (
            not self._is_known(length) or self._is_compiled_next(length)
        )

    def _is_known(self, length):
        """Two groups of each show which is faster: a first one is slow."""
        return all(len(self._seconds[length][x]) >= 2 for x in (False, True))

    def _is_compiled_next(self, length):
        graph, compiled = (self._seconds[length][x] for x in (False, True))
        if len(graph) < 2:
            return False
        return len(compiled) < 2 or min(compiled) < min(graph)


def _power_of_two(count):
    """The least one that is as large."""
    return 1 << (count - 1).bit_length()
