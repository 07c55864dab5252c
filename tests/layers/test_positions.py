import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import PositionalEncoding
from tests import reference


@pytest.mark.parametrize("width", [16, 7])
def test_agrees_with_the_formula(rng, width):
    x = rng.normal(size=(2, 50, width)).astype("float32")
    expected = x + reference.sinusoids(50, width)
    np.testing.assert_allclose(PositionalEncoding()(x), expected, atol=1e-6)


def test_concatenated_holds_the_same_numbers_sines_first(rng):
    x = np.zeros((1, 20, 8), "float32")
    interleaved = np.asarray(PositionalEncoding()(x))
    concatenated = np.asarray(PositionalEncoding("concatenated")(x))
    np.testing.assert_array_equal(concatenated[..., :4], interleaved[..., ::2])
    np.testing.assert_array_equal(concatenated[..., 4:], interleaved[..., 1::2])


def test_far_positions_are_as_right_as_near_ones():
    layer = PositionalEncoding()
    far = layer(np.zeros((1, 40, 32), "float32"), start_index=60_000)
    expected = reference.sinusoids(40, 32, start=60_000)
    np.testing.assert_allclose(far[0], expected, atol=3e-6)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_keeps_positions_apart(policy):
    # Past 256 bfloat16 has no room for odd positions: they must not be
    # rounded before the sine.
    layer = PositionalEncoding(dtype=policy)
    waves = ops.cast(layer(np.zeros((1, 600, 16))), "float32")[0]
    expected = reference.sinusoids(600, 16)
    np.testing.assert_allclose(waves, expected, atol=0.005)


@pytest.mark.parametrize("kind", ["sinusoidal", "concatenated", "learned"])
def test_a_start_index_continues_the_sequence(rng, kind):
    layer = PositionalEncoding(kind, max_length=12)
    x = rng.normal(size=(2, 10, 8)).astype("float32")
    whole = layer(x)
    rest = layer(x[:, 6:], start_index=6)
    np.testing.assert_array_equal(whole[:, 6:], rest)
    one = layer(x[:, 6:7], start_index=ops.convert_to_tensor(6))
    np.testing.assert_array_equal(whole[:, 6:7], one)
    one = layer(x[:, 6:7], start_index=np.int64(6))
    np.testing.assert_array_equal(whole[:, 6:7], one)
    if kind == "learned":
        with pytest.raises(ValueError, match="length=13, max_length=12"):
            layer(x, start_index=np.int64(3))


def test_learned_positions_are_a_trainable_table(rng):
    layer = PositionalEncoding("learned", max_length=12)
    x = rng.normal(size=(2, 10, 8)).astype("float32")
    output = layer(x)
    np.testing.assert_allclose(
        output - x, np.stack([layer.positions[:10]] * 2), atol=1e-6
    )
    assert len(layer.trainable_weights) == 1
    assert len(PositionalEncoding().trainable_weights) == 0


def test_drops_out_only_while_training(rng):
    layer = PositionalEncoding(dropout=0.5)
    x = np.ones((4, 10, 8), "float32")
    assert np.mean(np.asarray(layer(x, training=True)) == 0) > 0.3
    np.testing.assert_array_equal(layer(x), PositionalEncoding()(x))


def test_saves_and_reloads_the_same(rng, reloaded):
    model = keras.Sequential(
        [
            keras.Input((None, 8)),
            PositionalEncoding("learned", max_length=9, dropout=0.1, seed=4),
            PositionalEncoding(),
        ]
    )
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    again = reloaded(model)
    np.testing.assert_array_equal(model(x), again(x))
    assert again.layers[0].get_config() == model.layers[0].get_config()


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="`kind`.*kind='rotary'"):
        PositionalEncoding("rotary")
    with pytest.raises(ValueError, match="`max_length`.*max_length=None"):
        PositionalEncoding("learned")
    with pytest.raises(ValueError, match="`dropout`.*dropout=-0.1"):
        PositionalEncoding(dropout=-0.1)
    with pytest.raises(ValueError, match=r"inputs.shape=\(5, 8\)"):
        PositionalEncoding()(np.zeros((5, 8), "float32"))
    layer = PositionalEncoding("learned", max_length=4)
    with pytest.raises(ValueError, match="length=5, max_length=4"):
        layer(np.zeros((1, 5, 8), "float32"))
    with pytest.raises(ValueError, match="length=5, max_length=4"):
        layer(np.zeros((1, 1, 8), "float32"), start_index=4)
