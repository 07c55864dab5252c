"""The examples in docstrings are true."""

import doctest
import importlib
import pkgutil

import pytest

import keras_transformer

MODULES = [
    module.name
    for module in pkgutil.walk_packages(
        keras_transformer.__path__, "keras_transformer."
    )
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
