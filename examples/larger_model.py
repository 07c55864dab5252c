"""A trained model with more or wider layers, which begins where the old stood.

    python examples/larger_model.py runs/larger runs/mine --num-layers 6
    keras-transformer train corpus --start-from runs/larger …

Each new layer is a copy of the one below it whose last matrices are zero, and
so are the rows by which a wider feed-forward network adds its new units. They
add nothing to what is there, so that the larger model translates as before, and
learns from there. Layers can only be put in where they normalise before their
sub-layers (`normalize_first`).
"""

import argparse

import numpy as np

import keras_transformer as kt

# What each sub-layer adds comes out of these.
LAST = ("output_kernel", "output_bias", "narrow/kernel", "narrow/bias")


def main(
    output,
    folder,
    num_layers=None,
    num_decoder_layers=None,
    intermediate_dim=None,
):
    """Writes the model of `folder` in this size to `output`."""
    old = kt.load(folder)
    settings = old.model.get_config()
    stacks = (old.model.encoder_layers, old.model.decoder_layers)
    size = {
        "num_layers": num_layers or len(stacks[0]),
        "num_decoder_layers": num_decoder_layers or len(stacks[1]),
        "intermediate_dim": intermediate_dim or settings["intermediate_dim"],
    }
    is_deeper = tuple(size.values())[:2] != tuple(map(len, stacks))
    if is_deeper and not settings["normalize_first"]:
        raise ValueError(
            "Only a model with `normalize_first` can be made deeper. "
            f"Received: {folder}, which normalises after its sub-layers."
        )
    if size["intermediate_dim"] < settings["intermediate_dim"]:
        raise ValueError(
            "A larger model cannot have narrower layers. Received: "
            f"intermediate_dim={intermediate_dim}, where {folder} has "
            f"{settings['intermediate_dim']}. Give at least as many."
        )
    model = kt.Transformer.from_config(settings | size)
    copy_stack(stacks[0], model.encoder_layers)
    copy_stack(stacks[1], model.decoder_layers)
    for name in (
        "source_embedding",
        "target_embedding",
        "source_positions",
        "target_positions",
        "encoder_norm",
        "decoder_norm",
    ):
        if layer := getattr(model, name):
            layer.set_weights(getattr(old.model, name).get_weights())

    kt.Translator(
        model, old.tokenizer, old.max_source_length, old.length_penalty
    ).save(output)
    print(
        f"Wrote {output}, {model.count_params():,} parameters. Next: "
        f"keras-transformer train … --start-from {output}"
    )


def copy_stack(old, new):
    """Spreads the old layers evenly, each below its copies that add nothing."""
    if len(new) < len(old):
        raise ValueError(
            f"A model of {len(old)} layers cannot be made deeper by having "
            f"{len(new)}. Give at least as many."
        )
    previous = None
    for i, layer in enumerate(new):
        source = i * len(old) // len(new)
        for weight, was in zip(layer.weights, old[source].get_weights()):
            weight.assign(widened(weight, was))
            if source == previous and weight.path.endswith(LAST):
                weight.assign(np.zeros(weight.shape))
        previous = source


def widened(weight, was):
    """The old value; around it the new one's, or zeros in what comes last."""
    value = np.array(weight)
    if weight.path.endswith(LAST):
        value[:] = 0
    value[tuple(map(slice, was.shape))] = was
    return value


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("output", help="folder for the larger model")
    parser.add_argument("folder", help="a run's folder, or a saved model")
    parser.add_argument("--num-layers", type=int)
    parser.add_argument("--num-decoder-layers", type=int)
    parser.add_argument(
        "--intermediate-dim", type=int, help="units of feed-forward networks"
    )
    args = parser.parse_args()
    try:
        main(**vars(args))
    except (OSError, ValueError) as error:
        parser.error(str(error))
