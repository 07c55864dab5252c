import keras
import numpy as np
import pytest

from keras_transformer.training import TransformerSchedule


@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_is_the_papers_formula_with_steps_from_one(scale):
    schedule = TransformerSchedule(512, warmup_steps=4000, scale=scale)
    for step in (1, 2, 3999, 4000, 4001, 100_000):
        expected = scale * 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        # Keras calls the first step 0.
        actual = float(schedule(np.int64(step - 1)))
        assert actual == pytest.approx(expected, rel=1e-6)


def test_cools_down_to_zero_in_a_straight_line():
    paper = TransformerSchedule(64, warmup_steps=10)
    schedule = TransformerSchedule(
        64, warmup_steps=10, cooldown_steps=4, total_steps=100
    )
    shares = [float(schedule(step) / paper(step)) for step in range(94, 103)]
    np.testing.assert_allclose(
        shares, [1, 1, 1, 0.75, 0.5, 0.25, 0, 0, 0], atol=1e-6
    )
    assert float(schedule(5)) == float(paper(5))


@pytest.mark.parametrize("total_steps", [None, 3])
def test_a_cool_down_must_fit_into_the_run(total_steps):
    with pytest.raises(ValueError, match="cooldown_steps=4"):
        TransformerSchedule(8, cooldown_steps=4, total_steps=total_steps)


def test_the_first_update_moves_the_weights():
    assert float(TransformerSchedule(64)(0)) > 0


def test_reloads_inside_an_optimizer():
    schedule = TransformerSchedule(
        64, warmup_steps=10, scale=2.0, cooldown_steps=5, total_steps=50
    )
    optimizer = keras.optimizers.Adam(schedule)
    config = keras.saving.serialize_keras_object(optimizer)
    again = keras.saving.deserialize_keras_object(config)
    assert again._learning_rate.get_config() == schedule.get_config()


@pytest.mark.parametrize("name", ["hidden_dim", "warmup_steps", "scale"])
def test_bad_arguments_are_named(name):
    with pytest.raises(ValueError, match=f"{name}=0"):
        TransformerSchedule(**{"hidden_dim": 8, name: 0})
