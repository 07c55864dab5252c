"""The same weights from any number of devices, processes and micro-batches."""

import numpy as np
import pytest

from . import processes

WAYS = [
    (optimizer, f"{accumulation_steps}-{steps_per_execution}")
    for optimizer in ("Adam", "Muon")
    for accumulation_steps in (1, 4)
    for steps_per_execution in (1, 4)
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What each kind of training wrote, by the names of equality_worker."""
    folder = tmp_path_factory.mktemp("equality")
    script = "equality_worker.py"
    names = ["single", "mirrored", "worker0", "worker1"]
    paths = {name: folder / f"{name}.npz" for name in names}
    # Two at a time: the machine may have two cores.
    processes.wait(
        processes.start(script, "single", paths["single"]),
        processes.start(script, "mirrored", paths["mirrored"]),
    )
    processes.wait(
        *processes.start_workers(
            script,
            ("workers", paths["worker0"]),
            ("workers", paths["worker1"]),
        )
    )
    return {name: dict(np.load(path)) for name, path in paths.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "way"), WAYS)
@pytest.mark.parametrize("kind", ["single", "mirrored", "worker0", "worker1"])
def test_every_way_of_training_ends_with_the_same_weights(
    trained, kind, optimizer, way
):
    expected, actual = trained["single"], trained[kind]
    np.testing.assert_allclose(
        actual[f"weights-{optimizer}-{way}"],
        expected[f"weights-{optimizer}-1-1"],
        atol=1e-5,
    )
    np.testing.assert_allclose(
        actual[f"logs-{optimizer}-{way}"],
        expected[f"logs-{optimizer}-1-1"],
        rtol=1e-5,
    )


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["Adam", "Muon"])
def test_the_weights_that_are_compared_have_moved(trained, optimizer):
    # By ten thousand times the bound and more.
    from .equality_worker import make_model

    before = np.concatenate([w.ravel() for w in make_model().get_weights()])
    after = trained["single"][f"weights-{optimizer}-1-1"]
    assert np.abs(after - before).max() > 0.05
