"""Installs `keras_transformer`, the Transformer of 2017 as Keras layers."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent

# `keras-transformer` on PyPI is another project with the same import name.
setup(
    name="keras-transformer-layers",
    version="0.1.0",
    description="'Attention Is All You Need' as reusable Keras 3 layers",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(
        include=["keras_transformer", "keras_transformer.*"]
    ),
    install_requires=[
        "tensorflow>=2.21,<2.22",
        "tensorflow-text>=2.21,<2.22",
        "keras>=3.15.1,<3.16",
        "tensorflow-datasets>=4.9.10",
        "importlib_resources",  # tensorflow-datasets imports it undeclared
        "sentencepiece>=0.2.1",
        "sacrebleu>=2.4",
        "rich>=13",
        "matplotlib>=3.8",
        "tensorboard>=2.20",
        "tomli>=2; python_version < '3.11'",
    ],
    extras_require={
        "test": ["pytest>=8", "hypothesis>=6"],
        "dev": ["ruff==0.17.4", "pre-commit>=3.5"],
    },
    entry_points={
        "console_scripts": ["keras-transformer = keras_transformer.cli:main"]
    },
)
