import pytest

from keras_transformer.batching import spool
from keras_transformer.data import numbers

from .corpora import PAIRS, write_tsv


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Works in an empty folder, with shards small enough to be several."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spool, "SHARD_PAIRS", 300)
    return tmp_path


@pytest.fixture
def corpus(here):
    dev, test = numbers("dev")[:50], numbers("test")[:40]
    train = [*PAIRS, ("", "leer"), PAIRS[0], dev[3], ("kurz", "x" * 99)]
    return {
        "train": write_tsv(here / "train.tsv", train),
        "dev": write_tsv(here / "dev.tsv", dev),
        "test": write_tsv(here / "test.tsv", [*test, ("", ""), test[0]]),
        "vocabulary_size": 300,
        "verbose": False,
    }
