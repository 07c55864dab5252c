"""What must hold on two devices, in a process that has two."""

import json

import pytest

from . import processes
from .two_devices_worker import CLAIMS


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("two_devices") / "results.json"
    processes.wait(processes.start("tests.training.two_devices_worker", path))
    return json.loads(path.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS)
def test_on_two_devices(results, claim):
    assert results[claim] == "holds", results[claim]
