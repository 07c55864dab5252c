"""What tests of training share."""

import pytest


@pytest.fixture
def data(rng):
    ids, targets = rng.integers(1, 11, (2, 12, 6)).astype("int32")
    targets[:5, 3:] = 0
    return ids, targets
