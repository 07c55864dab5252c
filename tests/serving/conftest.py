"""One server for all tests that do not stop it."""

import pytest

from tests.serving.toy import Server, write_toy


@pytest.fixture(scope="session")
def toy_folder(tmp_path_factory):
    return write_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def server(toy_folder):
    flags = ("--max-body-bytes", "20000", "--max-items", "50")
    flags += ("--max-seconds", "2", "--max-queue", "200")
    flags += ("--max-answer-values", "20000")
    with Server(toy_folder, *flags, "--max-characters", "500") as server:
        yield server
