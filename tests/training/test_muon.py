import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Transformer
from keras_transformer.training import Adam, Muon, TransformerSchedule

from . import reference

RATE = 0.01


def steps(optimizer, values, gradients, dtype="float32"):
    """The values after a step with each of the gradients."""
    variables = [keras.Variable(value, dtype=dtype) for value in values]
    optimizer.build(variables)
    for step in gradients:
        optimizer.apply([tf.constant(g, dtype) for g in step], variables)
    return [variable.numpy() for variable in variables]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_three_steps_agree_with_singular_values(rng, shape, dtype):
    values = [rng.normal(size=shape)]
    gradients = rng.normal(size=(3, 1, *shape))
    expected = [value.copy() for value in values]
    optimizer = reference.Muon(RATE)
    for step in gradients:
        optimizer.apply(step, expected)
    actual = steps(Muon(RATE), values, gradients, dtype)
    np.testing.assert_allclose(actual[0], expected[0], atol=2e-5)
    assert np.abs(expected[0] - values[0]).max() > 1e-3


def test_is_keras_muon(rng):
    settings = {"weight_decay": 0.1, "adam_weight_decay": 0.2}
    theirs = keras.optimizers.Muon(
        RATE, adam_beta_2=0.98, epsilon=1e-9, **settings
    )
    values = [rng.normal(size=(5, 3)), rng.normal(size=4)]
    gradients = [[rng.normal(size=v.shape) for v in values] for _ in range(3)]
    expected = steps(theirs, values, gradients)
    actual = steps(Muon(RATE, **settings), values, gradients)
    for ours, wanted in zip(actual, expected):
        np.testing.assert_allclose(ours, wanted, atol=1e-5)


def test_vectors_move_as_with_adam(rng):
    values = [rng.normal(size=4)]
    gradients = rng.normal(size=(3, 1, 4))
    np.testing.assert_allclose(
        steps(Muon(RATE), values, gradients)[0],
        steps(Adam(RATE), values, gradients)[0],
        atol=1e-6,
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_direction_moves_about_as_far(rng, dtype):
    # Singular values up to a thousand times apart, in a matrix as large as in
    # real models: sums of squares in half precision would be far off.
    left, _, right = np.linalg.svd(rng.normal(size=(256, 1024)), False)
    gradient = left * np.geomspace(1.0, 1e-3, 256) @ right
    optimizer = Muon(RATE, newton_schulz_dtype=dtype)
    moved = optimizer.zeropower_via_newtonschulz5(
        tf.constant(gradient, "float32"), 5
    )
    assert moved.dtype == tf.float32
    sizes = np.linalg.svd(moved, compute_uv=False)
    assert sizes.max() < 1.4
    assert np.median(sizes) > 0.6


@pytest.mark.parametrize("separate", [False, True])
def test_embeddings_positions_and_vectors_are_left_to_adam(separate):
    model = Transformer(
        20,
        num_layers=1,
        hidden_dim=8,
        num_heads=2,
        intermediate_dim=16,
        position_encoding="learned",
        max_length=10,
        share_embeddings=not separate,
        tie_output=not separate,
    )
    optimizer = Muon(RATE)
    optimizer.build(model.trainable_variables)
    by_adam = {
        variable.path
        for variable, velocity in zip(
            model.trainable_variables, optimizer.adam_velocities
        )
        if velocity is not None
    }
    vectors = {v.path for v in model.trainable_variables if v.ndim == 1}
    tables = {
        v.path
        for v in model.trainable_variables
        if 20 in v.shape or v.path.endswith("positions")
    }
    assert by_adam == vectors | tables
    assert len(tables) == (5 if separate else 3)


def test_reloads_with_its_settings():
    optimizer = Muon(
        TransformerSchedule(64), momentum=0.9, newton_schulz_dtype="bfloat16"
    )
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(optimizer)
    )
    assert type(again) is Muon
    assert again.get_config() == optimizer.get_config()
