"""PyTorch's own layers with the same weights: the second judge."""

import numpy as np
import pytest

from keras_transformer.layers import DecoderLayer, EncoderLayer

torch = pytest.importorskip(
    "torch", reason="pip install torch==2.13.0 to compare with PyTorch"
)


def copy_attention(ours, theirs):
    parts = ("query", "key", "value")
    kernels = [np.asarray(getattr(ours, f"{part}_kernel")) for part in parts]
    biases = [np.asarray(getattr(ours, f"{part}_bias")) for part in parts]
    copy(theirs.in_proj_weight, np.concatenate(kernels, axis=1).T)
    copy(theirs.in_proj_bias, np.concatenate(biases))
    copy(theirs.out_proj.weight, np.asarray(ours.output_kernel).T)
    copy(theirs.out_proj.bias, np.asarray(ours.output_bias))


def copy_feed_forward(ours, theirs):
    w1, b1, w2, b2 = ours.get_weights()
    copy(theirs.linear1.weight, w1.T)
    copy(theirs.linear1.bias, b1)
    copy(theirs.linear2.weight, w2.T)
    copy(theirs.linear2.bias, b2)


def copy_norm(ours, theirs):
    gamma, beta = ours.get_weights()
    copy(theirs.weight, gamma)
    copy(theirs.bias, beta)


def copy(parameter, value):
    with torch.no_grad():
        parameter.copy_(torch.tensor(np.ascontiguousarray(value)))


def random_weights(layer, rng):
    """Also for biases and norms, which start at zero and one."""
    layer.set_weights(
        [w + 0.2 * rng.normal(size=w.shape) for w in layer.get_weights()]
    )


def torch_settings(normalize_first, activation):
    return {
        "d_model": 16,
        "nhead": 4,
        "dim_feedforward": 32,
        "dropout": 0.0,
        "activation": activation,
        "layer_norm_eps": 1e-6,
        "batch_first": True,
        "norm_first": normalize_first,
    }


@pytest.mark.parametrize("normalize_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_stack_agrees_with_torch(rng, normalize_first, activation):
    source = rng.normal(size=(2, 7, 16)).astype("float32")
    target = rng.normal(size=(2, 6, 16)).astype("float32")
    source_mask = np.array([[True] * 7, [True] * 5 + [False] * 2])
    target_mask = np.array([[True] * 4 + [False] * 2, [True] * 6])
    settings = {
        "num_heads": 4,
        "intermediate_dim": 32,
        "dropout": 0.0,
        "activation": activation,
        "normalize_first": normalize_first,
        "use_bias": True,
    }
    memory, x = source, target
    their_memory, their_x = torch.tensor(source), torch.tensor(target)
    future = torch.triu(torch.ones(6, 6, dtype=torch.bool), diagonal=1)
    encoders = [EncoderLayer(**settings) for _ in range(2)]
    decoders = [DecoderLayer(**settings) for _ in range(2)]

    for layer in encoders:
        layer.build(source.shape)
        random_weights(layer, rng)
        theirs = torch.nn.TransformerEncoderLayer(
            **torch_settings(normalize_first, activation)
        ).train()
        copy_attention(layer._attention, theirs.self_attn)
        copy_feed_forward(layer._feed_forward, theirs)
        copy_norm(layer._attention_norm, theirs.norm1)
        copy_norm(layer._feed_forward_norm, theirs.norm2)
        memory = layer(memory, mask=source_mask)
        their_memory = theirs(
            their_memory, src_key_padding_mask=torch.tensor(~source_mask)
        )
    real = np.where(source_mask[..., None], 1.0, 0.0)
    np.testing.assert_allclose(
        memory * real,
        their_memory.detach().numpy() * real,
        atol=1e-5,
        rtol=1e-5,
    )

    for layer in decoders:
        layer.build(target.shape, source.shape)
        random_weights(layer, rng)
        theirs = torch.nn.TransformerDecoderLayer(
            **torch_settings(normalize_first, activation)
        ).train()
        copy_attention(layer._self_attention, theirs.self_attn)
        copy_attention(layer._memory_attention, theirs.multihead_attn)
        copy_feed_forward(layer._feed_forward, theirs)
        copy_norm(layer._self_norm, theirs.norm1)
        copy_norm(layer._memory_norm, theirs.norm2)
        copy_norm(layer._feed_forward_norm, theirs.norm3)
        x = layer(x, memory, mask=target_mask, memory_mask=source_mask)
        their_x = theirs(
            their_x,
            their_memory,
            tgt_mask=future,
            tgt_key_padding_mask=torch.tensor(~target_mask),
            memory_key_padding_mask=torch.tensor(~source_mask),
        )
    real = np.where(target_mask[..., None], 1.0, 0.0)
    np.testing.assert_allclose(
        x * real, their_x.detach().numpy() * real, atol=1e-5, rtol=1e-5
    )
