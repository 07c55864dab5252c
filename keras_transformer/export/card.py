"""The model card: what a model is, what it takes, and what made it."""

TEMPLATE = """\
# {name}, version {version}

A Transformer that translates text, as a TensorFlow SavedModel: strings in,
strings out, tokenizer and search inside.

| | |
|---|---|
{rows}

A blank text gives an empty translation with score 0. A longer text than the
limit is cut there. Bytes that are no UTF-8 are read as U+FFFD.

## Signatures

`n` is the number of texts, `?` a length that depends on them.

| signature | inputs | outputs |
|---|---|---|
{signatures}

## Serve it

In the folder above this one, which holds all versions:

```bash
docker run --rm -p 8501:8501 -e MODEL_NAME={name} -e TF_ENABLE_ONEDNN_OPTS=0 \\
    -v "$PWD:/models/{name}:ro" tensorflow/serving:{made_with[tensorflow]} \\
    --tensorflow_intra_op_parallelism=1
curl -d '{{"inputs": ["…"]}}' localhost:8501/v1/models/{name}:predict
```
"""


def model_card(about, functions):
    """The card's text.

    Args:
        about: What stands in `metadata.json`.
        functions: The signatures' concrete functions, by name.
    """
    model, settings = about["model"], about["settings"]
    decoder_layers = model["num_decoder_layers"] or model["num_layers"]
    rows = {
        "made": about["made"],
        "made with": _listed(about["made_with"]),
        **(about["origin"] or {}),
        "parameters": f"{about['parameters']:,}, as {settings['weights']}",
        "layers": f"{model['num_layers']} + {decoder_layers} of "
        f"{model['hidden_dim']}, {model['num_heads']} heads",
        "search": f"beam of {settings['beam_size']}, length penalty "
        f"{settings['length_penalty']}",
        "longest text": f"{settings['max_source_length']} pieces",
        "longest translation": f"{settings['max_extra_length']} pieces more "
        "than its text",
    }
    return TEMPLATE.format(
        **about,
        rows="\n".join(_row(*row) for row in rows.items()),
        signatures="\n".join(
            f"| `{name}` | {_tensors(_inputs(function))} "
            f"| {_tensors(function.structured_outputs)} |"
            for name, function in functions.items()
        ),
    )


def _row(name, text):
    text = str(text).replace("|", r"\|")  # a bar would begin another cell
    return f"| {name} | {text} |"


def _inputs(function):
    specs, _ = function.structured_input_signature
    return {spec.name: spec for spec in specs}


def _tensors(specs):
    """`name` type [shape] of each."""
    return ", ".join(
        f"`{name}` {spec.dtype.name} [{', '.join(_sizes(spec.shape))}]"
        for name, spec in specs.items()
    )


def _sizes(shape):
    rest = ("?" if size is None else str(size) for size in shape[1:])
    return ["n", *rest]


def _listed(versions):
    return ", ".join(f"{name} {number}" for name, number in versions.items())
