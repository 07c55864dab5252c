"""Installs `keras_transformer`, the Transformer of 2017 as Keras layers."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
SERVE = ["starlette>=0.40", "uvicorn>=0.30"]  # keras-transformer serve
NOTEBOOK = ["jupytext>=1.16", "nbclient>=0.10", "ipykernel>=6"]  # examples/

# `keras-transformer` on PyPI is another project with the same import name.
setup(
    name="keras-transformer-layers",
    version="0.1.0",
    description="'Attention Is All You Need' as reusable Keras 3 layers",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",  # as keras and tensorflow have it
    # The model that ships stands at the top of the repository, and inside of
    # an installed package.
    packages=[
        *find_packages(include=["keras_transformer", "keras_transformer.*"]),
        "keras_transformer.saved_models",
    ],
    package_dir={"keras_transformer.saved_models": "saved_models"},
    package_data={
        "keras_transformer.plots": ["*.html"],
        "keras_transformer.saved_models": ["**/*"],
        "keras_transformer.serving": ["page/*"],
    },
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
    ],
    extras_require={
        "serve": SERVE,
        "notebook": NOTEBOOK,
        "test": [
            "pytest>=8",
            "hypothesis>=6",
            "pyyaml>=6",
            "tensorflow-serving-api>=2.21,<2.22",  # with grpcio
            *SERVE,
            *NOTEBOOK,
        ],
        "docs": ["mkdocs-material>=9.6", "mkdocstrings[python]>=0.29"],
        "dev": ["ruff==0.17.4", "pre-commit>=3.5"],
    },
    entry_points={
        "console_scripts": ["keras-transformer = keras_transformer.cli:main"]
    },
)
