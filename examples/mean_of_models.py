"""The mean of several models' weights: often better than each of them.

    python examples/mean_of_models.py runs/mean runs/a=0.5 runs/b=0.5

The models must go back to the same weights: runs that one model started
(`keras-transformer train --start-from`) with other data or other dropout.
Choose the shares by the score on the development set.
"""

import sys

import keras_transformer as kt


def main(output, *parts):
    """Writes a translator to `output`; a part is `MODEL=SHARE`."""
    folders, shares = zip(*(part.rsplit("=", 1) for part in parts))
    shares = [float(share) for share in shares]
    translators = [kt.load(folder) for folder in folders]
    first = translators[0]
    for folder, other in zip(folders, translators):
        if _shapes(other) != _shapes(first) or (
            other.tokenizer != first.tokenizer
        ):
            raise ValueError(
                "All models must have the same sizes and vocabulary. "
                f"Received: {folders[0]} and {folder}, which differ."
            )
    weights = zip(*(each.model.get_weights() for each in translators))
    first.model.set_weights(
        [
            sum(share * w for share, w in zip(shares, ws)) / sum(shares)
            for ws in weights
        ]
    )
    first.save(output)
    print(
        f"Wrote {output}. Next: keras-transformer evaluate … --model {output}"
    )


def _shapes(translator):
    return [weight.shape for weight in translator.model.weights]


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
