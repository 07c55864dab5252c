"""Two speeds: a graph for all sizes, and what XLA compiles for a few.

The graph takes batches of any size and lets finished sentences go. A program of
XLA has fixed sizes, takes seconds to make for each, and loses no time between
operations. Which one is faster depends on the model and the machine, so that
both are tried where there are enough sentences to gain from it.
"""

import time
from collections import defaultdict

from keras_transformer.translator.batches import rows_by_length

# The sizes that are compiled: so many sentences, and lengths in such strides.
ROWS, STRIDE = 32, 8
# Batches of one size that make a try worth its seconds.
ENOUGH = 64


class Speeds:
    """Chooses batches and who runs them, by the clock."""

    def __init__(self):
        self._num_seen = defaultdict(int)
        self._seconds = defaultdict(lambda: {False: [], True: []})

    def batches(self, lengths, tokens_per_batch, without, jit_compile=None):
        """Yields rows that share a batch, longest first, and a size or None.

        A batch with a size is for the compiled program. Whoever iterates does
        the work before asking for the next batch: the clock runs meanwhile.

        Args:
            lengths: Of all sources.
            tokens_per_batch: Most tokens in a batch for the graph.
            without: Rows to leave out.
            jit_compile: Whether to compile; by default where it pays.
        """
        rows = set(range(len(lengths))).difference(without)
        sizes = defaultdict(list)
        for row in sorted(rows, key=lambda row: -lengths[row]):
            sizes[-(-lengths[row] // STRIDE) * STRIDE].append(row)
        for size, rows in sizes.items():
            self._num_seen[size] += len(rows)
        if jit_compile is None and not any(map(self._is_enough, sizes)):
            jit_compile = False
        if jit_compile is False:
            for some in rows_by_length(lengths, tokens_per_batch, without):
                yield some, None
            return
        for size, rows in sizes.items():
            while rows:
                compiled = jit_compile or self._is_compiled_faster(size)
                count = ROWS if compiled else max(1, tokens_per_batch // size)
                some, rows = rows[:count], rows[count:]
                begin = time.perf_counter()
                yield some, ((ROWS, size) if compiled else None)
                if len(some) == count:
                    self._seconds[size][compiled].append(
                        (time.perf_counter() - begin) / count
                    )

    def _is_enough(self, size):
        return self._num_seen[size] >= ENOUGH * ROWS

    def _is_compiled_faster(self, size):
        """As far as is known; two batches of each are needed to tell."""
        graph, compiled = (self._seconds[size][key] for key in (False, True))
        if not self._is_enough(size) or len(graph) < 2:
            return False
        return len(compiled) < 2 or min(compiled) < min(graph)
