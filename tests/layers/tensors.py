"""Tensors for tests of layers: made, and compared."""

import numpy as np
from keras import ops


def normal(rng, *shape):
    return ops.convert_to_tensor(rng.normal(size=shape).astype("float32"))


def close(actual, expected, atol=1e-5):
    np.testing.assert_allclose(
        np.asarray(actual), np.asarray(expected), atol=atol, rtol=0
    )
