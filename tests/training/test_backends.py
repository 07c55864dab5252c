"""On other backends the base class is a `keras.Model`, and the rest works."""

import importlib.util

import numpy as np
import pytest

from . import processes


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("backends")
    found = {}
    for backend in ("tensorflow", "jax", "torch"):
        if importlib.util.find_spec(backend):
            path = folder / f"{backend}.npz"
            processes.wait(
                processes.start(
                    "backend_worker.py", path, KERAS_BACKEND=backend
                )
            )
            found[backend] = dict(np.load(path))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_trains_as_tensorflow_does(results, backend):
    if backend not in results:
        pytest.skip(f"{backend} is not installed")
    assert results[backend].keys() == results["tensorflow"].keys()
    for name, expected in results["tensorflow"].items():
        np.testing.assert_allclose(
            results[backend][name], expected, rtol=1e-4, atol=1e-5
        )
