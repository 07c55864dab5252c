"""A trained model with more layers, which begins where the old one stood.

    python examples/deeper_model.py runs/deeper runs/mine --num-layers 6
    keras-transformer train corpus --start-from runs/deeper …

Each new layer is a copy of the one below it whose last matrices are zero: it
adds nothing to its input, so that the deeper model translates as before, and
learns from there. That is so only where layers normalise before their
sub-layers (`normalize_first`).
"""

import argparse

import numpy as np

import keras_transformer as kt

# What each sub-layer adds comes out of these.
LAST = ("output_kernel", "output_bias", "narrow/kernel", "narrow/bias")


def main(output, folder, num_layers, num_decoder_layers=None):
    """Writes the model of `folder` with so many layers to `output`."""
    old = kt.load(folder)
    settings = old.model.get_config()
    if not settings["normalize_first"]:
        raise ValueError(
            "Only a model with `normalize_first` can be made deeper. "
            f"Received: {folder}, which normalises after its sub-layers."
        )
    if num_decoder_layers is None:
        num_decoder_layers = len(old.model.decoder_layers)
    settings |= {
        "num_layers": num_layers,
        "num_decoder_layers": num_decoder_layers,
    }
    model = kt.Transformer.from_config(settings)
    copy_stack(old.model.encoder_layers, model.encoder_layers)
    copy_stack(old.model.decoder_layers, model.decoder_layers)
    for name in (
        "source_embedding",
        "target_embedding",
        "source_positions",
        "target_positions",
        "encoder_norm",
        "decoder_norm",
    ):
        weights = getattr(old.model, name).get_weights()
        getattr(model, name).set_weights(weights)

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
        layer.set_weights(old[source].get_weights())
        if source == previous:
            for weight in layer.weights:
                if weight.path.endswith(LAST):
                    weight.assign(np.zeros(weight.shape))
        previous = source


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("output", help="folder for the deeper model")
    parser.add_argument("folder", help="a run's folder, or a saved model")
    parser.add_argument("--num-layers", type=int, required=True)
    parser.add_argument("--num-decoder-layers", type=int)
    args = parser.parse_args()
    try:
        main(args.output, args.folder, args.num_layers, args.num_decoder_layers)
    except (OSError, ValueError) as error:
        parser.error(str(error))
