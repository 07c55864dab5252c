"""The mean of several models' weights: often better than each of them.

    python examples/mean_of_models.py runs/mean runs/a=0.5 runs/b=0.5

The models must go back to the same weights: runs that one model started
(`keras-transformer train --start-from`) with other data or other dropout.
Choose the shares by the score on the development set.
"""

import argparse

import keras_transformer as kt


def main(output, folders, shares):
    """Writes the mean to `output`, with a share of each folder's model."""
    translators = [kt.load(folder) for folder in folders]
    first = translators[0]
    for folder, other in zip(folders, translators):
        if _kind(other) != _kind(first) or other.tokenizer != first.tokenizer:
            raise ValueError(
                "All models must be of one kind and vocabulary. Received: "
                f"{folders[0]} and {folder}, which differ."
            )
    weights = zip(*(each.model.get_weights() for each in translators))
    first.model.set_weights(
        [
            sum(share * w for share, w in zip(shares, ws)) / sum(shares)
            for ws in weights
        ]
    )
    first.max_source_length = max(t.max_source_length for t in translators)
    first.save(output)
    print(
        f"Wrote {output}. Next: keras-transformer evaluate … --model {output}"
    )


def _kind(translator):
    """The settings that say what the weights mean."""
    settings = translator.model.get_config()
    rest = ("name", "trainable", "dtype", "initializer_scale")
    return {
        name: value
        for name, value in settings.items()
        if name not in rest and "dropout" not in name
    }


def part(text):
    folder, _, share = text.rpartition("=")
    if not folder or not float(share) > 0:
        raise ValueError
    return folder, float(share)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("output", help="folder to write")
    parser.add_argument(
        "parts",
        nargs="+",
        type=part,
        metavar="MODEL=SHARE",
        help="a run folder or a model, and a number above 0",
    )
    args = parser.parse_args()
    main(args.output, *zip(*args.parts))
