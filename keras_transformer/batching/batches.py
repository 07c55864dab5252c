"""Batches of a token budget: planned in NumPy, delivered as tf.data.

The lengths of all pairs are known beforehand, so the whole epoch is planned
from them: which pairs share a batch follows from `(seed, epoch)` alone. Any
batch of any epoch can be named by its number, and going on after a stop is
starting at another number.
"""

from itertools import count, islice, pairwise

import numpy as np

from keras_transformer.batching.examples import (
    Examples,
    tokenize_pairs,
    tokenizer_pair,
)
from keras_transformer.data import read_pairs
from keras_transformer.tokenizer import END, START


def make_batches(
    pairs,
    tokenizer=None,
    tokens_per_batch=25_000,
    max_length=None,
    num_replicas=1,
    shuffle=True,
    seed=0,
    initial_step=0,
    shard=(0, 1),
):
    """Returns batches for `fit`, as many tokens in each as the budget allows.

    Each element is `({"source_ids", "target_ids"}, targets)`, int32
    `(batch, length)`: source pieces and end; start and target pieces; target
    pieces and end. Padding is 0 and carries no weight in the loss. Shapes
    come from a few buckets, under one `element_spec` of `(None, None)`, so a
    model is traced once.

    Going over the dataset again gives the next epoch in another order.

    Args:
        pairs: `Examples` of a prepared folder, or what `read_pairs` takes:
            an iterable of `(source, target)`, a function that returns one,
            a source such as `"train.en,train.de"`. These are tokenised into
            memory, about 2 bytes a token; use `prepare` for large corpora.
        tokenizer: A `Tokenizer`, or a tuple of two, for source and target.
            Not needed for `Examples`.
        tokens_per_batch: Most cells, padding included, of the sources of a
            batch and of its targets.
        max_length: Pairs with a side of more pieces are left out.
        num_replicas: Batch sizes are multiples of this. Where pairs are
            missing, rows without targets fill up; they weigh nothing.
        shuffle: Whether to shuffle pairs and batches, anew for each epoch.
        seed: Of the shuffle. The same seed gives the same batches.
        initial_step: Number of batches already seen, over all epochs. A
            pass begins after them and is as long as an epoch.
        shard: `(index, count)`: read only this worker's rows of each batch.

    Returns:
        A `tf.data.Dataset` of one epoch.
    """
    if not isinstance(pairs, Examples):
        shards = [tokenize_pairs(read_pairs(pairs), tokenizer_pair(tokenizer))]
        pairs = Examples(shards)
    plan = BatchPlan(
        pairs,
        tokens_per_batch=tokens_per_batch,
        max_length=max_length,
        num_replicas=num_replicas,
        shuffle=shuffle,
        seed=seed,
    )
    return plan.dataset(initial_step=initial_step, shard=shard)


class BatchPlan:
    """Decides which pairs share a batch.

    Buckets are rectangles in the plane of source and target length. The same
    buckets serve all epochs, so an epoch always has `steps_per_epoch` batches
    of the same shapes; what changes is who meets whom, and when.

    Args:
        examples: The `Examples`. The others are as in `make_batches`.
        max_buckets: More buckets waste less padding and make more shapes.
    """

    def __init__(
        self,
        examples,
        tokens_per_batch=25_000,
        max_length=None,
        num_replicas=1,
        max_buckets=32,
        shuffle=True,
        seed=0,
    ):
        self.examples = examples
        self.num_replicas = num_replicas
        self.shuffle = shuffle
        self.seed = seed
        # One more on each side: the end of the source, the start or the end
        # of the target.
        lengths = examples.lengths + 1
        rows = np.arange(len(lengths))
        if max_length is not None:
            rows = rows[(examples.lengths <= max_length).all(axis=1)]
        self.num_left_out = len(lengths) - len(rows)
        lengths = lengths[rows]
        self._check(lengths, tokens_per_batch)

        # Both lengths in one number: `np.unique` sorts that much faster.
        shapes, members, counts = np.unique(
            lengths[:, 0].astype(np.int64) << 32 | lengths[:, 1],
            return_inverse=True,
            return_counts=True,
        )
        shapes = np.stack([shapes >> 32, shapes & 0xFFFFFFFF], axis=1)
        buckets = _cut(
            shapes, counts, tokens_per_batch, num_replicas, max_buckets
        )
        bucket_of_shape = np.empty(len(shapes), np.int32)
        for index, bucket in enumerate(buckets):
            bucket_of_shape[bucket] = index
        bucket_of_row = bucket_of_shape[members]
        # Rows in the order of their buckets; a batch is a slice of this.
        self._rows = rows[np.argsort(bucket_of_row, kind="stable")]
        self._bucket_sizes = np.bincount(bucket_of_row)
        self.bucket_shapes = np.array(
            [shapes[bucket].max(axis=0) for bucket in buckets]
        )
        self._batches = _slice(
            self._bucket_sizes,
            self.bucket_shapes,
            tokens_per_batch,
            num_replicas,
        )
        cells = sum(
            size * self.bucket_shapes[bucket].sum()
            for bucket, _, _, size in self._batches
        )
        source_tokens, target_tokens = lengths.sum(axis=0, dtype=np.int64)
        self.real_share = float((source_tokens + target_tokens) / cells)
        self.target_tokens_per_batch = float(target_tokens / len(self._batches))

    @property
    def steps_per_epoch(self):
        return len(self._batches)

    @property
    def batch_shapes(self):
        """The distinct `(batch, source_length, target_length)`."""
        return sorted(
            {
                (size, *map(int, self.bucket_shapes[bucket]))
                for bucket, _, _, size in self._batches
            }
        )

    def epoch(self, number, first_step=0, shard=(0, 1)):
        """Yields the batches of an epoch as NumPy arrays.

        Args:
            number: Which epoch, from 0.
            first_step: Batches of this epoch to leave out, as seen before.
            shard: `(index, count)`, as in `make_batches`.
        """
        rows, order = self._order(number)
        for index in order[first_step:]:
            yield self._assemble(rows, *self._batches[index], *shard)

    def dataset(self, initial_step=0, shard=(0, 1)):
        """Returns the `tf.data.Dataset`; see `make_batches`."""
        import tensorflow as tf

        worker, num_workers = shard
        if not 0 <= worker < num_workers or self.num_replicas % num_workers:
            raise ValueError(
                "`shard` must be (index, count) with a count that divides "
                f"`num_replicas`. Received: shard={shard}, "
                f"num_replicas={self.num_replicas}."
            )
        if initial_step < 0:
            raise ValueError(
                "`initial_step` must be at least 0. "
                f"Received: initial_step={initial_step}."
            )
        first_epoch, first_step = divmod(initial_step, self.steps_per_epoch)
        epochs = count(first_epoch)

        def next_pass():
            number = next(epochs)
            yield from self.epoch(number, first_step, shard)
            # `fit` takes the length of its first pass for that of all.
            yield from islice(self.epoch(number + 1, 0, shard), first_step)

        ids = tf.TensorSpec((None, None), tf.int32)
        inputs = {"source_ids": ids, "target_ids": ids}
        dataset = tf.data.Dataset.from_generator(
            next_pass, output_signature=(inputs, ids)
        ).apply(tf.data.experimental.assert_cardinality(self.steps_per_epoch))
        options = tf.data.Options()
        # There is nothing to tune, and with the tuner on some calls of `fit`
        # were seen to last exactly 2.56, 5.12 or 20.48 seconds.
        options.autotune.enabled = False
        policy = tf.data.experimental.AutoShardPolicy
        options.experimental_distribute.auto_shard_policy = (
            policy.DATA if num_workers == 1 else policy.OFF
        )
        return dataset.prefetch(8).with_options(options)

    def _order(self, epoch):
        """Returns the rows, grouped by bucket, and the order of batches."""
        if not self.shuffle:
            return self._rows, np.arange(self.steps_per_epoch)
        generator = np.random.default_rng((self.seed, epoch))
        rows = self._rows.copy()
        for bucket in np.split(rows, np.cumsum(self._bucket_sizes)[:-1]):
            generator.shuffle(bucket)  # a view of `rows`
        return rows, generator.permutation(self.steps_per_epoch)

    def _assemble(self, rows, bucket, start, stop, size, worker, num_workers):
        share = size // num_workers
        rows = rows[start:stop][worker * share : (worker + 1) * share]
        number, real = len(rows), np.arange(len(rows))
        source_width, target_width = self.bucket_shapes[bucket]
        source_ids = np.zeros((share, source_width), np.int32)
        target_ids = np.zeros((share, target_width), np.int32)
        targets = np.zeros((share, target_width), np.int32)

        # Rows beyond `number` fill up. Their source is empty but for its
        # end, so that no attention is without a key; they have no targets,
        # so that they weigh nothing.
        source_ids[:number] = self.examples.gather(rows, 0, source_width)
        source_ids[real, self.examples.lengths[rows, 0]] = END
        source_ids[number:, 0] = END
        targets[:number] = self.examples.gather(rows, 1, target_width)
        target_ids[:, 0] = START
        target_ids[:, 1:] = targets[:, :-1]
        targets[real, self.examples.lengths[rows, 1]] = END
        return {"source_ids": source_ids, "target_ids": target_ids}, targets

    def _check(self, lengths, tokens_per_batch):
        if self.num_replicas < 1:
            raise ValueError(
                "`num_replicas` must be at least 1. "
                f"Received: num_replicas={self.num_replicas}."
            )
        if not len(lengths):
            raise ValueError(
                "`pairs` must hold at least one pair. Received: none"
                + (
                    f" within `max_length`, {self.num_left_out:,} longer."
                    if self.num_left_out
                    else "."
                )
            )
        needed = int(lengths.max()) * self.num_replicas
        if tokens_per_batch < needed:
            raise ValueError(
                "`tokens_per_batch` must hold the longest pair once for each "
                f"replica, {needed:,} tokens. Received: "
                f"tokens_per_batch={tokens_per_batch}. Raise it, or leave "
                "long pairs out by `max_length`."
            )


def _capacity(shape, tokens_per_batch, num_replicas):
    """Rows of one batch: what the budget holds, a multiple of replicas."""
    rows = tokens_per_batch // shape.max(axis=-1)
    return rows - rows % num_replicas


def _slice(sizes, shapes, tokens_per_batch, num_replicas):
    """Shares each bucket out evenly, so that no batch is a small remainder.

    Returns:
        List of `(bucket, start, stop, size)`. `stop - start` pairs fill
        `size` rows but for fewer than `num_replicas`.
    """
    batches, first = [], 0
    for bucket, size in enumerate(sizes.tolist()):
        capacity = int(
            _capacity(shapes[bucket], tokens_per_batch, num_replicas)
        )
        groups = -(-size // num_replicas)
        num_batches = -(-groups * num_replicas // capacity)
        edges = np.arange(num_batches + 1) * groups // num_batches
        for start, stop in pairwise(edges):
            rows = int(stop - start) * num_replicas
            begin = first + int(start) * num_replicas
            batches.append(
                (bucket, begin, min(begin + rows, first + size), rows)
            )
        first += size
    return batches


def _cut(shapes, counts, tokens_per_batch, num_replicas, max_buckets):
    """Cuts the plane of lengths into rectangles with little padding.

    Starts with one bucket for all and makes the cut that saves the most
    cells, again and again, as long as both halves fill a batch.

    Args:
        shapes: Distinct `(source_length, target_length)`.
        counts: Number of pairs of each.

    Returns:
        List of index arrays into `shapes`.
    """

    def best_cut(bucket):
        best = 0, None, None
        for side in (0, 1):
            order = bucket[np.argsort(shapes[bucket, side], kind="stable")]
            sizes, pairs = shapes[order], counts[order]
            below = _grow(sizes, pairs)
            above = _grow(sizes[::-1], pairs[::-1])
            cost, enough = (np.zeros(len(order) - 1) for _ in range(2))
            for (number, shape), cut in (
                (below, slice(None, -1)),
                (above, slice(-2, None, -1)),
            ):
                number, shape = number[cut], shape[cut]
                cost += number * shape.sum(axis=1)
                enough += number >= _capacity(
                    shape, tokens_per_batch, num_replicas
                )
            whole = below[0][-1] * below[1][-1].sum()
            # Equal lengths on the cut side stay together.
            allowed = (enough == 2) & (np.diff(sizes[:, side]) > 0)
            saved = np.where(allowed, whole - cost, 0)
            if saved.size and saved.max() > best[0]:
                place = int(saved.argmax()) + 1
                best = float(saved.max()), order[:place], order[place:]
        return best

    buckets = [np.arange(len(shapes))]
    cuts = [best_cut(buckets[0])]
    # A cut that saves less than a thousandth is not worth another shape.
    least = 1e-3 * (counts @ shapes.sum(axis=1))
    while len(buckets) < max_buckets:
        index = max(range(len(cuts)), key=lambda i: cuts[i][0])
        saved, *halves = cuts[index]
        if saved <= least:
            break
        buckets[index : index + 1] = halves
        cuts[index : index + 1] = map(best_cut, halves)
    return buckets


def _grow(sizes, pairs):
    """Running number of pairs and running largest shape."""
    return np.cumsum(pairs), np.maximum.accumulate(sizes)
