import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training import (
    Adam,
    SmoothedCrossentropy,
    TransformerSchedule,
)

from . import reference

RATE = 0.01


@pytest.fixture
def batches(rng):
    """Three batches in which tokens repeat, and the last are padding."""
    ids = rng.integers(1, 5, (3, 4, 6))
    targets = rng.integers(1, 13, (3, 4, 6))
    targets[:, ::2, 4:] = 0
    return list(zip(ids, targets))


@pytest.fixture(params=["tied", "untied"])
def weights(request, rng):
    shape = (1 if request.param == "tied" else 2, 13, 5)
    return list(rng.normal(size=shape))


def train(optimizer, weights, batches):
    """The bigram model of reference.py, with sparse embedding gradients."""
    variables = [keras.Variable(w) for w in weights]
    loss = SmoothedCrossentropy(0.1)
    optimizer.build(variables)

    @tf.function
    def step(ids, targets):
        with tf.GradientTape() as tape:
            hidden = tf.gather(variables[0].value, ids)
            value = loss(
                targets,
                tf.matmul(
                    tf.reshape(hidden, (-1, 5)),
                    variables[-1].value,
                    transpose_b=True,
                )[None],
            )
        gradients = tape.gradient(value, [v.value for v in variables])
        if len(variables) == 2:
            assert isinstance(gradients[0], tf.IndexedSlices)
        optimizer.apply(gradients, variables)
        return value

    losses = [
        step(tf.constant(ids), tf.reshape(targets, (1, -1)))
        for ids, targets in batches
    ]
    return np.array(losses), [v.numpy() for v in variables]


def test_three_steps_agree_with_numpy(weights, batches):
    losses, trained = train(Adam(RATE), weights, batches)
    optimizer = reference.Adam(RATE)
    expected = [w.copy() for w in weights]
    for (ids, targets), loss in zip(batches, losses):
        value, gradients = reference.bigram_gradients(expected, ids, targets)
        optimizer.apply(gradients, expected)
        assert loss == pytest.approx(value, rel=1e-5)
    for actual, wanted in zip(trained, expected):
        np.testing.assert_allclose(actual, wanted, atol=1e-5)


def test_three_steps_agree_with_pytorch(weights, batches):
    torch = pytest.importorskip("torch")
    theirs = [torch.tensor(w, requires_grad=True) for w in weights]
    optimizer = torch.optim.Adam(theirs, RATE, betas=(0.9, 0.98), eps=1e-9)
    # The same ε over all labels, as PyTorch spreads it.
    smoothing = 0.1 * 13 / 12
    for ids, targets in batches:
        optimizer.zero_grad()
        logits = theirs[0][torch.tensor(ids)] @ theirs[-1].T
        torch.nn.functional.cross_entropy(
            logits.flatten(0, 1),
            torch.tensor(targets).flatten(),
            ignore_index=0,
            label_smoothing=smoothing,
        ).backward()
        optimizer.step()
    _, trained = train(Adam(RATE), weights, batches)
    for actual, wanted in zip(trained, theirs):
        np.testing.assert_allclose(actual, wanted.detach(), atol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"amsgrad": True},
        {"weight_decay": 0.1},
        {"global_clipnorm": 0.01},
        {"clipnorm": 0.01},
        {"clipvalue": 0.001},
        {"epsilon": 0.1},
    ],
)
def test_is_keras_adam_on_dense_gradients(rng, settings):
    settings = {"beta_2": 0.98, "epsilon": 1e-9, **settings}
    values = [rng.normal(size=(5, 3)), rng.normal(size=4)]
    schedule = TransformerSchedule(8, warmup_steps=2)
    pairs = [
        (optimizer(schedule, **settings), [keras.Variable(v) for v in values])
        for optimizer in (Adam, keras.optimizers.Adam)
    ]
    for _ in range(4):
        gradients = [tf.constant(rng.normal(size=v.shape)) for v in values]
        for optimizer, variables in pairs:
            optimizer.apply(
                [tf.cast(g, "float32") for g in gradients], variables
            )
    for ours, theirs in zip(pairs[0][1], pairs[1][1]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        assert not np.allclose(ours, values[0 if ours.ndim == 2 else 1])


def test_state_moves_to_another_optimizer(rng):
    """A resumed run goes on as if it had not stopped."""
    gradients = [tf.constant(rng.normal(size=3), "float32") for _ in range(4)]
    straight, resumed = keras.Variable(np.ones(3)), keras.Variable(np.ones(3))
    one, two, three = (Adam(TransformerSchedule(4, 2)) for _ in range(3))
    for gradient in gradients:
        one.apply([gradient], [straight])
    for gradient in gradients[:2]:
        two.apply([gradient], [resumed])
    store = {}
    two.save_own_variables(store)
    three.build([resumed])
    three.load_own_variables(store)
    for gradient in gradients[2:]:
        three.apply([gradient], [resumed])
    np.testing.assert_array_equal(resumed.numpy(), straight.numpy())


def test_has_the_papers_settings_and_reloads_with_others():
    config = Adam().get_config()
    assert (config["beta_1"], config["beta_2"]) == (0.9, 0.98)
    assert config["epsilon"] == 1e-9
    optimizer = Adam(
        TransformerSchedule(64), beta_2=0.9, global_clipnorm=1.0, name="mine"
    )
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(optimizer)
    )
    assert type(again) is Adam
    assert again.get_config() == optimizer.get_config()
