"""A module imports only from modules before it: text enters at `data`."""

import ast
import importlib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "keras_transformer"
STREET = [
    "threads",
    "files",
    "data",
    "tokenizer",
    "batching",
    "layers",
    "training",
    "model",
    "decoding",
    "workers",
    "translator",
    "evaluation",
    "plots",
    "runs",
    "export",
    "serving",
    "cli",
]


def house(path):
    """The module of the street that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_houses(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "keras_transformer":
                names = [f"keras_transformer.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            package, *rest = name.split(".")
            if package == "keras_transformer" and rest:
                yield rest[0]


def test_every_file_stands_on_the_street():
    houses = {house(path) for path in PACKAGE.rglob("*.py")}
    assert houses - {"__init__"} <= set(STREET)


def test_imports_go_one_way():
    for path in PACKAGE.rglob("*.py"):
        if house(path) == "__init__":
            continue
        own = STREET.index(house(path))
        for other in imported_houses(path):
            assert STREET.index(other) <= own, f"{path.name} imports {other}"


def test_layers_use_keras_alone():
    for path in (PACKAGE / "layers").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import tensorflow" not in text, path.name
        assert "import torch" not in text, path.name


def test_what_examples_and_benchmarks_import_is_there():
    """Also inside of functions, which no test may call."""
    for folder in ("examples", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if not isinstance(node, ast.ImportFrom):
                    continue
                if not (node.module or "").startswith("keras_transformer"):
                    continue
                module = importlib.import_module(node.module)
                for alias in node.names:
                    assert hasattr(module, alias.name), (
                        f"{path}: no {alias.name} in {node.module}"
                    )
