"""Batches keep their budget, lose nothing, and can be gone on with."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.batching import BatchPlan, Examples, make_batches
from keras_transformer.data import numbers
from keras_transformer.tokenizer import END, START, Tokenizer

PAIRS = numbers("train", amount=3_000)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train((side for pair in PAIRS for side in pair), 300)


def random_examples(rng, lengths, num_shards=1):
    """Examples of random ids; also returns them as a list of pairs."""
    lengths = np.asarray(lengths)
    shards, pairs = [], []
    for part in np.array_split(lengths, num_shards):
        sides = [
            [rng.integers(4, 99, length) for length in part[:, side]]
            for side in (0, 1)
        ]
        flat = np.concatenate([np.zeros(0, int), *sides[0], *sides[1]])
        shards.append((flat.astype(np.uint16), part))
        pairs += [(s.tolist(), t.tolist()) for s, t in zip(*sides)]
    return Examples(shards), pairs


def natural_lengths(rng, number):
    """Spread as in Tatoeba and Europarl: log-ratios deviate by 0.18."""
    source = rng.gamma(2.0, 6.0, number).astype(int)
    target = (source * rng.lognormal(0.0, 0.18, number)).astype(int)
    return np.stack([source, target], axis=1) + 1


def unpack(batch):
    """Returns the pairs of a batch, and checks the three arrays' layout."""
    inputs, targets = batch
    pairs = []
    for source, before, wanted in zip(
        np.array(inputs["source_ids"]),
        np.array(inputs["target_ids"]),
        np.array(targets),
    ):
        source, before, wanted = (
            row[: np.flatnonzero(row).max(initial=-1) + 1].tolist()
            for row in (source, before, wanted)
        )
        assert source[-1] == END
        assert before[0] == START
        if not wanted:  # a row that fills up
            assert (source, before) == ([END], [START])
            continue
        assert wanted[-1] == END
        assert before[1:] == wanted[:-1]
        pairs.append((source[:-1], before[1:]))
    return pairs


def same(first, second):
    return all(
        np.array_equal(a, b)
        for a, b in zip(tf.nest.flatten(first), tf.nest.flatten(second))
    )


def test_a_batch_has_the_form_that_the_model_expects(tokenizer):
    pairs = [("two", "zwei"), ("three", "drei"), ("", "x")]
    dataset = make_batches(pairs, tokenizer, shuffle=False)
    assert isinstance(dataset, tf.data.Dataset)
    inputs, targets = next(iter(dataset))
    assert {**inputs, "targets": targets}.keys() == {
        "source_ids",
        "target_ids",
        "targets",
    }
    for tensor in tf.nest.flatten((inputs, targets)):
        assert tensor.dtype == tf.int32
    for row, (source, target) in enumerate(pairs):
        source, target = tokenizer.tokenize(source), tokenizer.tokenize(target)
        for found, expected in (
            (inputs["source_ids"], [*source, 3]),
            (inputs["target_ids"], [2, *target]),
            (targets, [*target, 3]),
        ):
            found = found[row].numpy().tolist()
            assert found[: len(expected)] == expected
            assert not any(found[len(expected) :])


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1
    ),
    tokens_per_batch=st.integers(41 * 3, 600),
    num_replicas=st.integers(1, 3),
    num_shards=st.integers(1, 3),
    max_buckets=st.integers(1, 9),
)
def test_each_pair_comes_once_an_epoch_within_the_budget(
    lengths, tokens_per_batch, num_replicas, num_shards, max_buckets
):
    rng = np.random.default_rng(0)
    examples, pairs = random_examples(rng, lengths, num_shards)
    plan = BatchPlan(
        examples,
        tokens_per_batch=tokens_per_batch,
        num_replicas=num_replicas,
        max_buckets=max_buckets,
    )
    for epoch in (0, 1):
        batches = list(plan.epoch(epoch))
        assert len(batches) == plan.steps_per_epoch
        found = [pair for batch in batches for pair in unpack(batch)]
        assert sorted(found) == sorted(pairs)
        for inputs, _ in batches:
            for ids in inputs.values():
                assert ids.size <= tokens_per_batch
                assert len(ids) % num_replicas == 0
        shapes = {
            (*inputs["source_ids"].shape, targets.shape[1])
            for inputs, targets in batches
        }
        assert shapes == set(plan.batch_shapes)


def test_cells_are_mostly_real(rng):
    examples, _ = random_examples(rng, natural_lengths(rng, 60_000))
    plan = BatchPlan(examples, tokens_per_batch=4096)
    cells = real = 0
    for inputs, targets in plan.epoch(0):
        for ids in (inputs["source_ids"], targets):
            cells += ids.size
            real += np.count_nonzero(ids)
    assert real / cells == pytest.approx(plan.real_share)
    assert plan.real_share > 0.9
    assert len(plan.batch_shapes) <= 64
    # Most batches use most of the budget.
    fill = [rows * max(shape) for rows, *shape in plan.batch_shapes]
    assert np.mean(fill) > 0.8 * 4096


def test_a_seed_gives_the_same_batches_and_each_epoch_others(tokenizer):
    def epochs(seed):
        dataset = make_batches(PAIRS, tokenizer, 1024, seed=seed)
        return [list(dataset) for _ in range(2)]

    first, second, other = epochs(5), epochs(5), epochs(6)
    for epoch in (0, 1):
        assert all(map(same, first[epoch], second[epoch]))
        assert len(first[epoch]) == len(second[epoch])
    assert sum(map(same, first[0], first[1])) < len(first[0]) / 10
    assert sum(map(same, first[0], other[0])) < len(first[0]) / 10
    # Not only the batches' order changes: pairs meet other pairs.
    firsts = {tuple(sorted(map(str, unpack(batch)))) for batch in first[0]}
    seconds = {tuple(sorted(map(str, unpack(batch)))) for batch in first[1]}
    assert len(firsts & seconds) < len(firsts) / 10


def test_without_shuffle_nothing_changes(tokenizer):
    dataset = make_batches(PAIRS, tokenizer, 1024, shuffle=False)
    assert all(map(same, list(dataset), list(dataset)))


@pytest.mark.parametrize("seen", [1, 7, "epoch", "epoch + 3", "2 epochs"])
def test_a_resumed_run_sees_exactly_the_rest(tokenizer, seen):
    whole = make_batches(PAIRS, tokenizer, 1024, seed=3)
    steps = len(whole)
    seen = {"epoch": steps, "epoch + 3": steps + 3, "2 epochs": 2 * steps}.get(
        seen, seen
    )
    batches = [batch for _ in range(3) for batch in whole]
    resumed = make_batches(PAIRS, tokenizer, 1024, seed=3, initial_step=seen)
    rest = []
    while len(rest) < len(batches) - seen:
        a_pass = list(resumed)
        assert len(a_pass) == len(resumed) == steps  # `fit` relies on it
        rest += a_pass
    assert all(map(same, batches[seen:], rest))


def test_repeat_goes_through_the_epochs(tokenizer):
    whole = make_batches(PAIRS, tokenizer, 1024)
    batches = [batch for _ in range(2) for batch in whole]
    repeated = make_batches(PAIRS, tokenizer, 1024).repeat(2)
    assert all(map(same, batches, repeated))
    resumed = make_batches(PAIRS, tokenizer, 1024, initial_step=5).repeat(2)
    assert all(map(same, batches[5:], resumed))


def test_workers_share_each_batch(tokenizer):
    settings = {"tokens_per_batch": 1024, "num_replicas": 4}
    whole = make_batches(PAIRS, tokenizer, **settings)
    workers = [
        make_batches(PAIRS, tokenizer, **settings, shard=(index, 2))
        for index in range(2)
    ]
    for batch, *parts in zip(whole, *workers, strict=True):
        joined = tf.nest.map_structure(lambda *x: tf.concat(x, 0), *parts)
        assert same(batch, joined)
        assert len({len(part[1]) for part in parts}) == 1


MIRRORED = """
import tensorflow as tf
from keras_transformer.batching import make_batches
from keras_transformer.data import numbers
from keras_transformer.tokenizer import Tokenizer

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
pairs = numbers("train", amount=501)
tokenizer = Tokenizer.train((side for pair in pairs for side in pair), 300)

def batches():
    return make_batches(pairs, tokenizer, 512, num_replicas=2, seed=1)

whole, shared = batches(), strategy.experimental_distribute_dataset(batches())
for _ in range(2):  # epochs
    steps = 0
    for batch, parts in zip(whole, shared, strict=True):
        ids = [parts[0]["source_ids"], parts[0]["target_ids"], parts[1]]
        for tensor, part in zip(tf.nest.flatten(batch), ids, strict=True):
            halves = strategy.experimental_local_results(part)
            assert halves[0].shape == halves[1].shape
            tf.debugging.assert_equal(tensor, tf.concat(halves, 0))
        steps += 1
    assert steps == len(whole) > 5
print("same")
"""


@pytest.mark.slow
def test_replicas_get_equal_parts_of_the_same_batches():
    """In a process of its own: logical devices are set before all else."""
    run = subprocess.run(
        [sys.executable, "-c", MIRRORED],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.stdout.strip() == "same", run.stderr


def test_two_vocabularies_serve_the_two_sides(tokenizer):
    german = Tokenizer.train((german for _, german in PAIRS), 290)
    batch = next(iter(make_batches(PAIRS[:5], (tokenizer, german))))
    found = [
        (tokenizer.detokenize(source), german.detokenize(target))
        for source, target in unpack(batch)
    ]
    assert sorted(found) == sorted(PAIRS[:5])


def test_pairs_may_come_in_any_form(tokenizer):
    expected = list(make_batches(PAIRS, tokenizer, 1024))
    for form in (iter(PAIRS), lambda: iter(PAIRS)):
        assert all(map(same, expected, make_batches(form, tokenizer, 1024)))
    batch = next(iter(make_batches("numbers:0-50", tokenizer)))
    assert len(unpack(batch)) > 40


def test_long_pairs_are_left_out_where_asked(rng):
    examples, pairs = random_examples(rng, [(3, 3), (9, 3), (3, 9), (4, 4)])
    plan = BatchPlan(examples, tokens_per_batch=40, max_length=8)
    assert plan.num_left_out == 2
    found = [pair for batch in plan.epoch(0) for pair in unpack(batch)]
    assert sorted(found) == sorted([pairs[0], pairs[3]])


def test_fit_traces_once_for_all_buckets(tokenizer):
    dataset = make_batches(PAIRS, tokenizer, 512)
    assert len({tuple(targets.shape) for _, targets in dataset}) > 4
    traces = []

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.embedding = keras.layers.Embedding(300, 300)

        def call(self, inputs):
            traces.append(1)
            return self.embedding(inputs["target_ids"])

    model = Model()
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    model.build({"source_ids": (None, None), "target_ids": (None, None)})
    traces.clear()
    model.fit(dataset, epochs=2, verbose=0)
    assert len(traces) <= 2  # fit's own symbolic call, and one trace
    assert int(model.optimizer.iterations) == 2 * len(dataset)


def test_the_spec_is_open_and_the_length_known(tokenizer):
    dataset = make_batches(PAIRS, tokenizer, 512)
    for spec in tf.nest.flatten(dataset.element_spec):
        assert spec == tf.TensorSpec((None, None), tf.int32)
    assert len(dataset) == len(list(dataset))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pairs": []}, "at least one pair"),
        ({"pairs": PAIRS, "max_length": 0}, r"none within .* 3,000 longer"),
        ({"pairs": PAIRS, "tokens_per_batch": 5}, "hold the longest pair"),
        ({"pairs": PAIRS, "num_replicas": 0}, "at least 1"),
        ({"pairs": PAIRS, "shard": (1, 2)}, "divides `num_replicas`"),
        ({"pairs": PAIRS, "shard": (2, 2), "num_replicas": 2}, "`shard` must"),
        ({"pairs": PAIRS, "initial_step": -1}, "at least 0"),
        ({"pairs": PAIRS, "tokenizer": None}, "must be a Tokenizer"),
        ({"pairs": [("a", "b"), ("c",)]}, "as pair 2"),
    ],
)
def test_bad_arguments_get_a_sentence(tokenizer, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_batches(**{"tokenizer": tokenizer, **arguments})
