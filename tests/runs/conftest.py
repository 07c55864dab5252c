import pytest

from keras_transformer import cli

from .tiny import TINY


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A run of twelve steps that nobody stopped."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    assert (
        cli.main(["train", "--run-folder", str(folder), *TINY, "--steps=12"])
        == 0
    )
    return folder
