"""Writes one of our models in CTranslate2's format: the same weights."""

from pathlib import Path

import numpy as np


def write_ctranslate2_model(model, folder, quantization=None):
    """Writes `folder`, for `ctranslate2.Translator`.

    Its words are `<pad>`, `<unk>`, `<s>`, `</s>`, and the other ids as text.

    Args:
        model: A `Transformer` with one vocabulary and sinusoidal positions.
        folder: Folder to make.
        quantization: `None` for float32, or `"int8"`.
    """
    from ctranslate2.specs import TransformerSpec

    config = model.get_config()
    num_decoder_layers = config["num_decoder_layers"] or config["num_layers"]
    spec = TransformerSpec.from_config(
        (config["num_layers"], num_decoder_layers),
        config["num_heads"],
        pre_norm=config["normalize_first"],
    )
    weights = {w.path: np.asarray(w) for w in model.weights}
    embeddings = weights["embedding/embeddings"]
    spec.encoder.embeddings[0].weight = embeddings
    spec.decoder.embeddings.weight = embeddings
    spec.decoder.projection.weight = embeddings
    for stack in ("encoder", "decoder"):
        part = getattr(spec, stack)
        part.position_encodings.encodings = positions(embeddings.shape[1])
        if config["normalize_first"]:
            _norm(part.layer_norm, weights, f"{stack}_norm")
        for number, layer in enumerate(part.layer, 1):
            _layer(layer, weights, f"{stack}_{number}")
    vocabulary = ["<pad>", "<unk>", "<s>", "</s>"]
    vocabulary += [str(i) for i in range(4, len(embeddings))]
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.layer_norm_epsilon = 1e-6
    spec.validate()
    spec.optimize(quantization=quantization)
    Path(folder).mkdir(parents=True)
    spec.save(str(folder))


def words(ids):
    """Rows of ids to CTranslate2's words, without padding."""
    names = {1: "<unk>", 2: "<s>", 3: "</s>"}
    return [[names.get(i, str(i)) for i in row if i] for row in map(list, ids)]


def positions(width, length=1024):
    """The paper's sinusoids, `(length, width)`."""
    angles = np.arange(length)[:, None] / 10000 ** (
        np.arange(0, width, 2) / width
    )
    signal = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    return signal.reshape(length, width).astype("float32")


def _layer(layer, weights, path):
    _attention(layer.self_attention, weights, f"{path}/self", ["qkv"])
    if path.startswith("decoder"):
        _attention(layer.attention, weights, f"{path}/memory", ["q", "kv"])
    _norm(layer.ffn.layer_norm, weights, f"{path}/feed_forward_norm")
    for linear, name in ((0, "widen"), (1, "narrow")):
        target = getattr(layer.ffn, f"linear_{linear}")
        name = f"{path}/feed_forward/{name}"
        target.weight = weights[f"{name}/kernel"].T.copy()
        target.bias = weights[f"{name}/bias"]


def _attention(attention, weights, path, projections):
    names = {"q": "query", "k": "key", "v": "value", "o": "output"}
    _norm(attention.layer_norm, weights, f"{path}_norm")
    for linear, letters in zip(attention.linear, [*projections, "o"]):
        kernels = [
            weights[f"{path}_attention/{names[letter]}_kernel"].T
            for letter in letters
        ]
        linear.weight = np.concatenate(kernels)


def _norm(norm, weights, path):
    norm.gamma = weights[f"{path}/gamma"]
    norm.beta = weights[f"{path}/beta"]
