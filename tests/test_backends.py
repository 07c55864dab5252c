"""The same weights give the same outputs on all three backends."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import backend_outputs

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_agrees_with_tensorflow(tmp_path, backend):
    pytest.importorskip(backend, reason=f"pip install {backend} to compare")
    path = tmp_path / "outputs.npz"
    subprocess.run(
        [sys.executable, "-m", "tests.backend_outputs", str(path)],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": backend},
        check=True,
        timeout=300,
    )
    expected, computed = backend_outputs.outputs(), np.load(path)
    assert set(computed) == set(expected)
    for name, array in expected.items():
        assert np.abs(array).max() > 0.1, name
        np.testing.assert_allclose(computed[name], array, atol=1e-4)
