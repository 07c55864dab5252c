"""The examples run, with fewer steps than their readers give them."""

import importlib.util
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_layers_in_your_model(capsys):
    load_example("layers_in_your_model").main(steps=20)
    printed = capsys.readouterr().out
    assert "of new sentences judged rightly" in printed
    assert "of 100 lines continued rightly" in printed
