"""`DistributedModel` is a `keras.Model`, whichever way it is made."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training import (
    Adam,
    DistributedModel,
    SmoothedCrossentropy,
)

from .bigram import bigram_layers, compiled, direct, flat_weights


@keras.saving.register_keras_serializable(package="tests")
class FunctionalSubclass(DistributedModel):
    """As `Transformer` is made."""

    def __init__(self, dropout=0.0, **kwargs):
        inputs = outputs = keras.Input((None,), dtype="int32")
        for layer in bigram_layers(dropout):
            outputs = layer(outputs)
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self.dropout = dropout

    def get_config(self):
        return {"dropout": self.dropout, "name": self.name}


@keras.saving.register_keras_serializable(package="tests")
class SubclassOfFunctionalSubclass(FunctionalSubclass):
    pass


@keras.saving.register_keras_serializable(package="tests")
class CallSubclass(DistributedModel):
    """As a user may make one, with a `call`."""

    def __init__(self, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.dropout = dropout
        self.parts = bigram_layers(dropout)

    def call(self, ids, training=None):
        embedding, dropout, output = self.parts
        return output(dropout(embedding(ids), training=training))

    def build(self, shape):
        embedding, _, output = self.parts
        embedding.build(shape)
        output.build((*shape, 8))
        self.built = True

    def get_config(self):
        return {"dropout": self.dropout, "name": self.name}


MAKERS = [
    FunctionalSubclass,
    CallSubclass,
    direct,
    SubclassOfFunctionalSubclass,
    CallSubclass,
    FunctionalSubclass,
]


@pytest.mark.parametrize("accumulation_steps", [1, 2])
def test_all_ways_to_make_a_model_live_side_by_side(data, accumulation_steps):
    """Functional models must not make the others functional, nor back."""
    results = []
    for make in MAKERS:
        keras.utils.set_random_seed(3)
        model = compiled(make(), accumulation_steps=accumulation_steps)
        assert isinstance(model, DistributedModel)
        model.fit(*data, batch_size=5, epochs=2, shuffle=False, verbose=0)
        assert len(model.layers) == (3 if "call" in vars(type(model)) else 4)
        results.append(flat_weights(model))
    for weights in results[1:]:
        np.testing.assert_allclose(weights, results[0], atol=1e-6)


@pytest.mark.parametrize(
    "make", [FunctionalSubclass, CallSubclass, direct], ids=lambda m: m.__name__
)
def test_reloads_compiled_and_goes_on_the_same(data, make, reloaded):
    keras.utils.set_random_seed(3)
    model = compiled(
        make(), accumulation_steps=3, steps_per_execution=2, consistency=4.0
    )
    model.fit(*data, batch_size=4, shuffle=False, verbose=0)
    again = reloaded(model)
    assert again.consistency == 4.0
    assert type(again) is type(model)
    assert again.accumulation_steps == 3
    assert again.steps_per_execution == 2
    for m in (model, again):
        m.fit(*data, batch_size=4, shuffle=False, verbose=0)
    np.testing.assert_array_equal(flat_weights(again), flat_weights(model))
    assert int(again.optimizer.iterations) == 6


@pytest.mark.parametrize("make", [FunctionalSubclass, direct])
def test_clones(data, make):
    model = make()
    clone = keras.models.clone_model(model)
    # Of a functional subclass Keras makes a plain functional model.
    assert isinstance(clone, DistributedModel) or make is not direct
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(clone(data[0]), model(data[0]))


@pytest.mark.parametrize("loss_name", ["tokens", "rows"])
@pytest.mark.parametrize("accumulation_steps", [1, 4, 20])
def test_micro_batches_do_not_change_the_update(
    data, loss_name, accumulation_steps
):
    """20 micro-batches of 12 rows: some are empty."""
    loss = {
        "tokens": SmoothedCrossentropy(0.1),
        "rows": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    }[loss_name]
    weights = []
    for steps in (1, accumulation_steps):
        keras.utils.set_random_seed(3)
        inputs = keras.Input((None,), dtype="int32")
        hidden = keras.layers.Embedding(11, 8)(inputs)
        outputs = keras.layers.Dense(11, kernel_regularizer="l2")(hidden)
        model = DistributedModel(inputs, outputs)
        model.compile(keras.optimizers.SGD(0.5), loss, accumulation_steps=steps)
        history = model.fit(
            *data, batch_size=12, epochs=3, shuffle=False, verbose=0
        )
        weights.append(flat_weights(model))
        weights.append(history.history["loss"])
    np.testing.assert_allclose(weights[2], weights[0], atol=1e-6)
    np.testing.assert_allclose(weights[3], weights[1], rtol=1e-5)


def test_trains_as_stock_keras_does_with_a_stock_loss(data):
    """On whole batches and one device nothing of ours may be seen."""
    weights = []
    for model_class in (DistributedModel, keras.Model):
        keras.utils.set_random_seed(3)
        inputs = keras.Input((None,), dtype="int32")
        hidden = keras.layers.Embedding(11, 8)(inputs)
        model = model_class(inputs, keras.layers.Dense(11)(hidden))
        model.compile(
            keras.optimizers.SGD(0.5, momentum=0.5),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            weighted_metrics=["accuracy"],
        )
        history = model.fit(
            *data,
            sample_weight=np.linspace(0, 1, 72).reshape(12, 6),
            batch_size=4,
            epochs=2,
            validation_split=0.25,
            shuffle=False,
            verbose=0,
        )
        logs = [history.history[k] for k in sorted(history.history)]
        weights.append((flat_weights(model), np.array(logs)))
    for ours, theirs in zip(*weights):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_dataset_of_unknown_length_adds_no_update(data):
    """Stock Keras counts one update for the batch that is not there."""
    spec = tf.TensorSpec((None, None), tf.int32)
    batches = tf.data.Dataset.from_generator(
        lambda: [data] * 3, output_signature=(spec, spec)
    )
    model = compiled(direct())
    model.fit(batches, epochs=2, verbose=0)
    assert int(model.optimizer.iterations) == 6


@pytest.mark.parametrize("accumulation_steps", [1, 3])
def test_sample_weights_choose_rows(data, accumulation_steps):
    """Rows of weight 0 are as good as absent."""
    ids, targets = data
    weights = []
    for rows, sample_weight in (
        (slice(6), None),
        (slice(12), np.repeat([1.0, 0.0], 6)),
    ):
        keras.utils.set_random_seed(3)
        model = compiled(direct(), accumulation_steps=accumulation_steps)
        model.fit(
            ids[rows],
            targets[rows],
            sample_weight=sample_weight,
            batch_size=12,
            epochs=3,
            shuffle=False,
            verbose=0,
        )
        weights.append(flat_weights(model))
    np.testing.assert_allclose(*weights, atol=1e-6)


def test_a_model_without_build_is_built_by_fit(data):
    class Unbuilt(DistributedModel):
        def __init__(self):
            super().__init__()
            self.parts = bigram_layers()

        def call(self, ids):
            for part in self.parts:
                ids = part(ids)
            return ids

    model = compiled(Unbuilt())
    first, *_, last = model.fit(*data, epochs=9, verbose=0).history["loss"]
    assert last < first


def test_data_may_come_from_generators_and_datasets_of_keras(data):
    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return data

    for batches in (Batches(), (data for _ in range(3))):
        model = compiled(direct())
        model.fit(batches, verbose=0)
        assert int(model.optimizer.iterations) == 3


def test_ordinary_features_of_keras_work(data, tmp_path):
    model = compiled(direct(0.1))
    history = model.fit(
        *data,
        batch_size=5,
        epochs=3,
        validation_data=data,
        verbose=0,
        callbacks=[
            keras.callbacks.ModelCheckpoint(
                tmp_path / "best.keras", save_best_only=True
            ),
            keras.callbacks.CSVLogger(tmp_path / "logs.csv"),
            keras.callbacks.EarlyStopping(patience=5),
        ],
    ).history
    assert set(history) == {
        *("loss", "token_accuracy", "perplexity"),
        *("val_loss", "val_token_accuracy", "val_perplexity"),
    }
    best = keras.saving.load_model(tmp_path / "best.keras")
    logs = best.evaluate(*data, batch_size=5, verbose=0, return_dict=True)
    assert logs["loss"] == pytest.approx(min(history["val_loss"]), rel=1e-5)
    predicted = best.predict(data[0], batch_size=5, verbose=0)
    np.testing.assert_allclose(predicted, best(data[0]), atol=1e-6)
    on_batch = best.test_on_batch(*data, return_dict=True)
    assert on_batch["loss"] == pytest.approx(logs["loss"], rel=1e-5)
    best.train_on_batch(*data)
    assert best.test_on_batch(*data, return_dict=True)["loss"] < logs["loss"]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_an_interrupted_run_ends_with_the_same_weights(data, tmp_path, dropout):
    def run(backup, stop_after=None):
        class Stop(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                if epoch == stop_after:
                    raise KeyboardInterrupt

        keras.utils.set_random_seed(3)
        model = compiled(direct(dropout), steps_per_execution=2)
        model.fit(
            *data,
            batch_size=4,
            epochs=4,
            shuffle=False,
            verbose=0,
            callbacks=[keras.callbacks.BackupAndRestore(backup), Stop()],
        )
        return flat_weights(model)

    expected = run(tmp_path / "straight")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "resumed", stop_after=2)
    np.testing.assert_array_equal(run(tmp_path / "resumed"), expected)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("accumulation_steps", [1, 3])
def test_mixed_precision_learns(data, policy, accumulation_steps):
    keras.config.set_dtype_policy(policy)
    try:
        model = compiled(direct(), accumulation_steps=accumulation_steps)
    finally:
        keras.config.set_dtype_policy("float32")
    losses = model.fit(*data, epochs=20, verbose=0).history["loss"]
    assert losses[-1] < losses[0] - 0.1


def test_runs_eagerly_too(data):
    model = compiled(direct(), run_eagerly=True, accumulation_steps=2)
    model.fit(*data, batch_size=5, verbose=0)
    assert int(model.optimizer.iterations) == 3


def test_losses_of_several_outputs_count_their_own_tokens(data):
    ids, targets = data
    inputs = keras.Input((None,), dtype="int32")
    hidden = keras.layers.Embedding(11, 8)(inputs)
    outputs = {name: keras.layers.Dense(11, name=name)(hidden) for name in "ab"}
    model = DistributedModel(inputs, outputs)
    losses = {name: SmoothedCrossentropy(0.0) for name in "ab"}
    model.compile(Adam(), losses)
    y = {"a": targets, "b": ids}
    logs = model.evaluate(ids, y, verbose=0, return_dict=True)
    y_pred = model(ids)
    expected = sum(float(losses[n](y[n], y_pred[n])) for n in "ab")
    assert logs["loss"] == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match="accumulation_steps=2"):
        model.compile(Adam(), losses, accumulation_steps=2)


@pytest.mark.parametrize(
    "loss",
    [
        [SmoothedCrossentropy()],
        keras.losses.SparseCategoricalCrossentropy(reduction="sum"),
        keras.losses.SparseCategoricalCrossentropy(ignore_class=0),
    ],
)
def test_losses_that_parts_do_not_add_up_to_are_refused(loss):
    model = direct()
    with pytest.raises(ValueError, match="accumulation_steps=2"):
        model.compile(Adam(), loss, accumulation_steps=2)
    model.compile(Adam(), loss)


def test_a_stock_loss_under_a_mask_is_refused_where_batches_split(data):
    inputs = keras.Input((None,), dtype="int32")
    hidden = keras.layers.Embedding(11, 8, mask_zero=True)(inputs)
    model = DistributedModel(inputs, keras.layers.Dense(11)(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(Adam(), loss)
    model.fit(*data, verbose=0)
    model.compile(Adam(), loss, accumulation_steps=2)
    with pytest.raises(ValueError, match="accumulation_steps=2.*its mask"):
        model.fit(*data, verbose=0)
    model.compile(Adam(), SmoothedCrossentropy(), accumulation_steps=2)
    model.fit(*data, verbose=0)


@pytest.mark.parametrize("accumulation_steps", [1, 2])
def test_optional_inputs_may_be_absent(accumulation_steps):
    class Sum(keras.layers.Layer):
        def call(self, a, b=None):
            return a if b is None else a + b

    a, b = keras.Input((4,)), keras.Input((4,), optional=True)
    outputs = keras.layers.Dense(1)(Sum()(a, b))
    model = DistributedModel({"a": a, "b": b}, outputs)
    model.compile("sgd", "mse", accumulation_steps=accumulation_steps)
    inputs = {"a": np.ones((8, 4)), "b": None}
    model.fit(inputs, np.ones((8, 1)), batch_size=4, verbose=0)
    assert int(model.optimizer.iterations) == 2


@pytest.mark.parametrize("value", [0, -1, 2.0, None])
def test_bad_accumulation_steps_are_named(value):
    with pytest.raises(ValueError, match=f"accumulation_steps={value!r}"):
        compiled(direct(), accumulation_steps=value)


def test_xla_is_for_those_who_ask(data):
    model = compiled(direct())
    assert model.jit_compile is False
    assert compiled(direct(), jit_compile=True).jit_compile is True
    with pytest.raises(ValueError, match="cannot be compiled by XLA"):
        compiled(direct(), jit_compile=True, accumulation_steps=2)


@pytest.mark.parametrize("consistency", [0.0, 2.0])
def test_one_output_may_have_a_name(data, consistency):
    ids, targets = data
    results = []
    for name in (None, "logits"):
        keras.utils.set_random_seed(1)
        model = direct()
        if name:
            model = DistributedModel(model.inputs, {name: model.outputs[0]})
            targets = {name: targets}
        compiled(model, consistency=consistency).fit(
            ids, targets, batch_size=4, shuffle=False, verbose=0
        )
        results.append(flat_weights(model))
    np.testing.assert_allclose(*results, rtol=1e-5)


def test_several_targets_need_several_losses(data):
    ids, targets = data
    inputs = keras.Input((None,), dtype="int32")
    outputs = [layer(inputs) for layer in (direct(), direct())]
    model = DistributedModel(inputs, outputs)
    model.compile("sgd", SmoothedCrossentropy())
    with pytest.raises(ValueError, match="2 targets.*list or a dictionary"):
        model.fit(ids, [targets, targets], verbose=0)
    model.compile("sgd", [SmoothedCrossentropy(), SmoothedCrossentropy()])
    model.fit(ids, [targets, targets], verbose=0)


@pytest.mark.parametrize("loss", ["smoothed", "mse"])
def test_double_precision_learns(data, loss):
    ids, targets = data
    for configure in (keras.config.set_floatx, keras.config.set_dtype_policy):
        configure("float64")
    try:
        model = direct(dropout=0.1)
        if loss == "smoothed":
            model.compile("sgd", SmoothedCrossentropy(), consistency=2.0)
        else:
            model.compile("sgd", "mse")
            targets = np.ones((12, 6, 11))
        before = flat_weights(model)
        model.fit(ids, targets, batch_size=4, verbose=0)
        assert flat_weights(model).dtype == "float64"
        assert np.abs(flat_weights(model) - before).max() > 1e-4
    finally:
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")
