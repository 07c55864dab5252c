"""Claims about training on two devices; see test_two_devices.py.

usage: python -m tests.training.two_devices_worker OUTPUT.json
"""

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training import (
    Adam,
    DistributedModel,
    ReduceFirst,
    SmoothedCrossentropy,
    TokenAccuracy,
    TransformerSchedule,
)
from tests.training.bigram import Halves, flat_weights

CLAIMS = {}
STRATEGIES = {"one": tf.distribute.get_strategy()}  # "two" comes in main


def claim(function):
    CLAIMS[function.__name__] = function
    return function


class ClippedSGD(ReduceFirst, keras.optimizers.SGD):
    pass


def outputs_as_loss(y_true, y_pred):
    return y_pred


def linear_model(dropout=0.0, width=64, dtype=None):
    inputs = keras.Input((width,))
    hidden = keras.layers.Dropout(dropout, seed=5)(inputs)
    dense = keras.layers.Dense(
        1, use_bias=False, kernel_initializer="zeros", dtype=dtype
    )
    return DistributedModel(inputs, dense(hidden))


def averaged_masks(num_updates):
    """What dropout let through, averaged over a row on each device."""
    with STRATEGIES["two"].scope():
        model = linear_model(dropout=0.5)
        model.compile(keras.optimizers.SGD(1.0), outputs_as_loss)
    steps, before = [], np.zeros(64)
    rows = np.ones((2, 64), "float32"), np.zeros((2, 1), "float32")
    for _ in range(num_updates):
        model.fit(*rows, batch_size=2, verbose=0)
        steps.append(before - flat_weights(model))
        before = flat_weights(model)
    return np.array(steps)


@claim
def each_device_drops_other_units():
    (mask,) = averaged_masks(1)
    # 0 or 2 where both devices agree, and 1 where they do not.
    assert set(mask) == {0.0, 1.0, 2.0}, mask
    assert 15 < np.sum(mask == 1) < 49, mask


@claim
def each_update_drops_other_units_and_the_same_again_in_another_run():
    first, again = averaged_masks(3), averaged_masks(3)
    assert (first == again).all()
    assert (first[0] != first[1]).any()
    assert (first[1] != first[2]).any()


@claim
def an_infinity_on_either_device_skips_the_update_on_both():
    for bad_row in (0, 1):
        with STRATEGIES["two"].scope():
            model = linear_model(width=4, dtype="mixed_float16")
            model.dtype_policy = "mixed_float16"
            model.compile(Adam(0.1), "mse")
        assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
        rows = np.ones((2, 4), "float32"), np.ones((2, 1), "float32")
        bad = rows[0].copy()
        bad[bad_row] = 1e30  # infinite in half precision
        model.fit(bad, rows[1], batch_size=2, verbose=0)
        assert not flat_weights(model).any(), flat_weights(model)
        assert model.optimizer.dynamic_scale.numpy() == 2.0**14
        assert model.optimizer.iterations.numpy() == 0
        model.fit(*rows, batch_size=2, verbose=0)
        np.testing.assert_allclose(flat_weights(model), 0.1, rtol=1e-3)
        assert model.optimizer.iterations.numpy() == 1


@claim
def gradients_are_clipped_after_their_sum():
    """Two rows whose gradients cancel, but for a rest below the limit."""
    rows = np.array([[10.0] * 4, [-9.99] * 4], "float32")
    for optimizer in (ClippedSGD, Adam):
        weights = []
        for strategy in STRATEGIES.values():
            with strategy.scope():
                model = linear_model(width=4)
                model.compile(
                    optimizer(1.0, global_clipnorm=0.1), outputs_as_loss
                )
            model.fit(rows, np.zeros((2, 1)), batch_size=2, verbose=0)
            weights.append(flat_weights(model))
        np.testing.assert_allclose(weights[1], weights[0], rtol=1e-4)
    with STRATEGIES["two"].scope():
        model = linear_model(width=4)
        model.compile(ClippedSGD(1.0, global_clipnorm=0.1), outputs_as_loss)
    model.fit(rows, np.zeros((2, 1)), batch_size=2, verbose=0)
    np.testing.assert_allclose(flat_weights(model), -0.005, rtol=1e-2)


@claim
def an_optimizer_that_would_clip_each_device_is_refused():
    with STRATEGIES["two"].scope():
        model = linear_model(width=4)
        optimizer = keras.optimizers.SGD(1.0, clipnorm=0.5)
    with pytest.raises(ValueError, match=r"'clipnorm': 0\.5"):
        model.compile(optimizer, "mse")


@claim
def an_optimizer_from_outside_the_scope_is_refused():
    with STRATEGIES["two"].scope():
        model = linear_model(width=4)
    with pytest.raises(ValueError, match="optimizer=outsider"):
        model.compile(keras.optimizers.SGD(1.0, name="outsider"), "mse")


@claim
def a_stock_loss_is_a_mean_over_rows_however_they_split():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(17, 4)), rng.normal(size=(17, 1))
    results = []
    for strategy in STRATEGIES.values():
        for accumulation_steps in (1, 2):
            with strategy.scope():
                model = linear_model(width=4)
                model.compile(
                    keras.optimizers.SGD(0.1),
                    "mse",
                    accumulation_steps=accumulation_steps,
                )
            logs = model.fit(
                x, y, batch_size=5, epochs=2, shuffle=False, verbose=0
            ).history
            results.append([*flat_weights(model), *logs["loss"]])
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-5)


@claim
def consistency_is_a_mean_over_the_tokens_of_all_devices():
    rng = np.random.default_rng(0)
    ids, targets = rng.integers(1, 11, (2, 17, 6)).astype("int32")
    targets[:5, 2:] = 0
    results = []
    for strategy in STRATEGIES.values():
        with strategy.scope():
            keras.utils.set_random_seed(1)
            model = Halves()
            model.compile(
                keras.optimizers.SGD(0.5),
                SmoothedCrossentropy(0.1),
                consistency=5.0,
            )
        logs = model.fit(
            ids, targets, batch_size=5, shuffle=False, verbose=0
        ).history
        results.append([*flat_weights(model), *logs["loss"]])
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-6)


@claim
def losses_that_devices_do_not_add_up_to_are_refused():
    cross_entropy = keras.losses.SparseCategoricalCrossentropy
    for losses in (
        [cross_entropy(from_logits=True, reduction="sum")],
        [cross_entropy(from_logits=True, ignore_class=0)],
        [SmoothedCrossentropy(), "mse"],
    ):
        with STRATEGIES["two"].scope():
            inputs = keras.Input((4,))
            outputs = [keras.layers.Dense(3)(inputs) for _ in losses]
            model = DistributedModel(inputs, outputs)
            with pytest.raises(ValueError, match="replicas=2"):
                model.compile(Adam(), losses)
            model.compile(Adam(), [SmoothedCrossentropy() for _ in losses])


@claim
def a_model_that_computes_its_own_loss_may_take_a_sum():
    class Own(DistributedModel):
        def __init__(self):
            inputs = keras.Input((4,))
            super().__init__(inputs, keras.layers.Dense(1)(inputs))

        def compute_loss(self, *args, **kwargs):
            return super().compute_loss(*args, **kwargs) / 2

    with STRATEGIES["two"].scope():
        model = Own()
        model.compile(Adam(), keras.losses.MeanSquaredError(reduction="sum"))
    model.fit(np.ones((2, 4)), np.ones((2, 1)), batch_size=2, verbose=0)


@claim
def a_stock_loss_under_a_mask_is_refused():
    ids = np.array([[1, 2, 0], [3, 0, 0]])
    with STRATEGIES["two"].scope():
        inputs = keras.Input((None,), dtype="int32")
        hidden = keras.layers.Embedding(9, 8, mask_zero=True)(inputs)
        model = DistributedModel(inputs, keras.layers.Dense(9)(hidden))
        model.compile(
            Adam(),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
    with pytest.raises(ValueError, match="replicas=2.*its mask"):
        model.fit(ids, ids, batch_size=2, verbose=0)


@claim
def stock_features_of_keras_work():
    rng = np.random.default_rng(0)
    ids = rng.integers(1, 9, (11, 5)).astype("int32")
    folder = Path(tempfile.mkdtemp())

    def run(backup, stop_after=None):
        class Stop(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                if epoch == stop_after:
                    raise KeyboardInterrupt

        keras.utils.set_random_seed(1)
        with STRATEGIES["two"].scope():
            inputs = keras.Input((None,), dtype="int32")
            hidden = keras.layers.Embedding(9, 8)(inputs)
            hidden = keras.layers.Dropout(0.3)(hidden)
            model = DistributedModel(inputs, keras.layers.Dense(9)(hidden))
            model.compile(
                Adam(TransformerSchedule(8, 5)),
                SmoothedCrossentropy(),
                metrics=[TokenAccuracy()],
                steps_per_execution=2,
            )
        history = model.fit(
            ids,
            ids,
            batch_size=4,
            epochs=4,
            shuffle=False,
            verbose=0,
            validation_data=(ids, ids),
            callbacks=[
                keras.callbacks.BackupAndRestore(folder / backup),
                keras.callbacks.ModelCheckpoint(folder / "last.keras"),
                Stop(),
            ],
        ).history
        return model, history

    model, history = run("straight")
    logs = model.evaluate(ids, ids, verbose=0, return_dict=True)
    np.testing.assert_allclose(logs["loss"], history["val_loss"][-1], rtol=1e-5)
    predicted = model.predict(ids, batch_size=4, verbose=0)
    np.testing.assert_allclose(predicted, model(ids), atol=1e-6)
    last = keras.saving.load_model(folder / "last.keras")
    np.testing.assert_array_equal(flat_weights(last), flat_weights(model))

    with pytest.raises(KeyboardInterrupt):
        run("resumed", stop_after=2)
    resumed, _ = run("resumed")
    np.testing.assert_array_equal(flat_weights(resumed), flat_weights(model))


def main(output):
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )
    STRATEGIES["two"] = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    results = {}
    for name, function in CLAIMS.items():
        try:
            function()
            results[name] = "holds"
        except BaseException:  # pytest.raises fails with one of its own
            results[name] = traceback.format_exc()
    Path(output).write_text(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
