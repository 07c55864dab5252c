"""What all tests share."""

import os

# Before TensorFlow is imported: quiet, and no GPU, so that numbers repeat.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np
import pytest


@pytest.fixture
def rng():
    keras.utils.set_random_seed(7)
    return np.random.default_rng(7)


@pytest.fixture
def reloaded(tmp_path):
    """Saves a model as `.keras` and loads it again."""

    def save_and_load(model):
        path = tmp_path / "model.keras"
        model.save(path)
        return keras.saving.load_model(path)

    return save_and_load
