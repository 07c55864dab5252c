import keras
import numpy as np
import pytest

from keras_transformer.runs.checkpoints import Checkpoints


def variables(value):
    return [
        keras.Variable(np.full((2, 3), value, "float32"), name="matrix"),
        keras.Variable(np.int64(value), name="step", dtype="int64"),
    ]


def values(variables):
    return [np.asarray(variable).tolist() for variable in variables]


def test_the_newest_is_restored_with_its_state(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (10, 20):
        checkpoints.write(step, variables(step), {"step": step})
    restored = variables(0)
    assert checkpoints.restore(restored) == {"step": 20}
    assert values(restored) == values(variables(20))
    assert Checkpoints(tmp_path / "none", keep=3).restore(restored) is None


def test_only_the_last_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (10, 20, 30):
        checkpoints.write(step, variables(step), {})
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["step-00000020.npz", "step-00000030.npz"]


def test_averages_are_the_mean_of_the_files(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (1, 10, 20, 60):
        checkpoints.write(step, variables(step), {})
    checkpoints.write(61, variables(1000), {}, stopped=True)
    matrix, _ = checkpoints.averages(variables(0))
    np.testing.assert_allclose(matrix, np.full((2, 3), 30.0))


def test_a_stopped_one_serves_to_go_on_and_then_goes(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    checkpoints.write(10, variables(10), {"step": 10})
    checkpoints.write(13, variables(13), {"step": 13}, stopped=True)
    assert checkpoints.restore(variables(0)) == {"step": 13}
    checkpoints.write(20, variables(20), {"step": 20})
    assert not list(tmp_path.glob("stopped*"))


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_one_is_named_and_the_one_before_is_used(tmp_path, damage):
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (10, 20):
        checkpoints.write(step, variables(step), {"step": step})
    path = tmp_path / "step-00000020.npz"
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[data.index(b"\x00\x00\xa0\x41")] ^= 0xFF  # within the matrix
    path.write_bytes({"cut": data[:-40], "empty": b"", "flip": data}[damage])
    said, restored = [], variables(0)
    assert checkpoints.restore(restored, warn=said.append) == {"step": 10}
    assert values(restored) == values(variables(10))
    assert "step-00000020.npz is damaged" in said[0]


def test_a_run_does_not_begin_anew_over_damaged_ones(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    checkpoints.write(10, variables(10), {"step": 10})
    (tmp_path / "step-00000010.npz").write_bytes(b"no zip file")
    for _ in range(2):  # the second time, too
        with pytest.raises(ValueError, match="all 1 are damaged"):
            checkpoints.restore(variables(0), warn=lambda text: None)


def test_one_of_another_model_is_not_damaged(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    checkpoints.write(10, variables(10), {"step": 10})
    matrix, number = variables(0)
    for others in (
        [keras.Variable(np.zeros((3, 3))), number],
        [number, matrix],
    ):
        with pytest.raises(ValueError, match="the model it began with"):
            checkpoints.restore(others)
    assert checkpoints.restore(variables(0)) == {"step": 10}


def test_a_damaged_one_is_not_averaged(tmp_path):
    checkpoints, warnings = Checkpoints(tmp_path, keep=3), []
    for step, number in ((1, 2.0), (2, 4.0), (3, 6.0)):
        checkpoints.write(step, variables(number), {})
    (tmp_path / "step-00000002.npz").write_bytes(b"no zip file")
    averages = checkpoints.averages(variables(0.0), warnings.append)
    assert averages[0].flat[0] == 4.0
    assert "step-00000002.npz is damaged" in warnings[0]


def test_a_leftover_of_a_killed_writer_is_not_taken(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    checkpoints.write(10, variables(10), {"step": 10})
    (tmp_path / "step-00000020.npz.partial").write_bytes(b"half of it")
    assert checkpoints.restore(variables(0)) == {"step": 10}
