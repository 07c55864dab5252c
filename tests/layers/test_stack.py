import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_transformer.layers import (
    DecoderLayer,
    EncoderLayer,
    MultiHeadAttention,
    PositionalEncoding,
    TokenEmbedding,
    masks,
)
from tests import reference


def close(actual, expected, atol=1e-5):
    np.testing.assert_allclose(
        np.asarray(actual, "float32"), expected, atol=atol, rtol=0
    )


@pytest.mark.parametrize("normalize_first", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_encoder_agrees_with_the_formulas(rng, normalize_first, masked):
    layer = EncoderLayer(
        2, 32, key_dim=5, value_dim=3, normalize_first=normalize_first
    )
    x = rng.normal(size=(2, 6, 8)).astype("float32")
    mask = np.array([[True] * 6, [True] * 4 + [False] * 2]) if masked else None
    visible = mask[:, None] if masked else None
    output = layer(x, mask=mask)
    close(output, reference.encoder_layer(x, layer, visible))


@pytest.mark.parametrize("normalize_first", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("reads_memory", [False, True])
def test_decoder_agrees_with_the_formulas(
    rng, normalize_first, masked, reads_memory
):
    layer = DecoderLayer(2, 32, normalize_first=normalize_first)
    x = rng.normal(size=(2, 6, 8)).astype("float32")
    memory = rng.normal(size=(2, 7, 10)).astype("float32")
    memory = memory if reads_memory else None
    mask = np.array([[True] * 6, [True] * 4 + [False] * 2])
    memory_mask = np.array([[True] * 5 + [False] * 2, [True] * 7])
    if masked and reads_memory:
        output = layer(x, memory, mask=mask, memory_mask=memory_mask)
    elif masked:
        output = layer(x, mask=mask)
    else:
        output = layer(x, memory)
    expected = reference.decoder_layer(
        x,
        memory,
        layer,
        mask[:, None] if masked else None,
        memory_mask[:, None] if masked else None,
    )
    close(output, expected)


def test_future_targets_cannot_reach_past_outputs(rng):
    layer = DecoderLayer(num_heads=2, intermediate_dim=32)
    target, source = rng.normal(size=(1, 6, 8)), rng.normal(size=(1, 5, 8))
    edited = target.copy()
    edited[:, 4:] += 3.0
    before, after = layer(target, source), layer(edited, source)
    close(before[:, :4], after[:, :4], atol=1e-6)
    assert np.abs(before[:, 4:] - after[:, 4:]).max() > 1e-3


@pytest.mark.parametrize("normalize_first", [False, True])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("mask_from", ["each call", "make_cache", "memory"])
def test_cached_steps_give_what_one_pass_gives(
    rng, mask_from, normalize_first, window
):
    layer = DecoderLayer(
        2, 32, normalize_first=normalize_first, attention_window=window
    )
    x = ops.convert_to_tensor(rng.normal(size=(2, 6, 8)).astype("float32"))
    memory = ops.convert_to_tensor(rng.normal(size=(2, 5, 8)).astype("float32"))
    memory_mask = np.array([[True] * 5, [True] * 3 + [False] * 2])
    at_once, all_scores = layer(
        x, memory, memory_mask=memory_mask, return_attention_scores=True
    )
    if mask_from == "memory":
        masks.attach_mask(memory, ops.convert_to_tensor(memory_mask))
    cache = layer.make_cache(
        2, 6, memory, memory_mask if mask_from == "make_cache" else None
    )
    for i in range(6):
        step, scores, cache = layer(
            x[:, i : i + 1],
            memory_mask=memory_mask if mask_from == "each call" else None,
            cache=cache,
            cache_index=i,
            return_attention_scores=True,
        )
        close(step, at_once[:, i : i + 1], atol=2e-6)
        for part in ("self", "memory"):
            close(scores[part][:, :, 0], all_scores[part][:, :, i], atol=2e-6)


def test_padding_never_changes_real_positions(rng):
    encoder, decoder = EncoderLayer(2, 32), DecoderLayer(2, 32)
    x = rng.normal(size=(1, 5, 8)).astype("float32")
    padded = np.concatenate([x, 9 * rng.normal(size=(1, 3, 8))], axis=1)
    mask = np.array([[True] * 5 + [False] * 3])
    close(encoder(padded, mask=mask)[:, :5], encoder(x), atol=1e-6)
    close(
        decoder(padded, padded, mask=mask, memory_mask=mask)[:, :5],
        decoder(x, x),
        atol=1e-6,
    )


def vectors_through(style, between, last):
    """Ids to vectors by embedding, positions, encoder, `between`, encoder."""
    layers = [
        TokenEmbedding(20, 8),
        PositionalEncoding(),
        EncoderLayer(2, 16),
        *between,
        EncoderLayer(2, 16),
        *last,
    ]
    if style == "sequential":
        return keras.Sequential([keras.Input((None,), dtype="int32"), *layers])
    if style == "functional":
        inputs = x = keras.Input((None,), dtype="int32")
        for layer in layers:
            x = layer(x)
        return keras.Model(inputs, x)

    class Stack(keras.Model):
        def __init__(self):
            super().__init__()
            self.stack = layers

        def call(self, x):
            for layer in self.stack:
                x = layer(x)
            return x

    return Stack()


@pytest.mark.parametrize("style", ["functional", "subclass", "sequential"])
@pytest.mark.parametrize("compiled", [False, True])
def test_padding_masks_flow_through_a_stack(rng, style, compiled):
    model = vectors_through(
        style,
        between=[
            keras.layers.Dense(8),
            keras.layers.Dropout(0.1),
            keras.layers.LayerNormalization(),
            keras.layers.Activation("tanh"),
        ],
        last=[keras.layers.GlobalAveragePooling1D()],
    )
    short = np.array([[3, 4, 5]])
    long = np.array([[3, 4, 5, 0, 0, 0, 0]])
    call = model.predict if compiled else model
    kwargs = {"verbose": 0} if compiled else {}
    close(call(long, **kwargs), call(short, **kwargs), atol=1e-6)


def test_a_mask_is_picked_up_beside_an_attention_mask(rng):
    # Keras alone fills `mask` only where a layer gets a single tensor.
    vectors = TokenEmbedding(20, 8)(np.array([[3, 4, 5, 0]]))
    everything = np.ones((1, 4, 4), bool)
    layer = EncoderLayer(2, 16)
    expected = layer(vectors)
    close(layer(vectors, attention_mask=everything), expected, atol=0)
    decoder = DecoderLayer(2, 16)
    explicit = decoder(
        ops.copy(vectors),
        ops.copy(vectors),
        mask=vectors._keras_mask,
        memory_mask=vectors._keras_mask,
    )
    output = decoder(vectors, vectors, attention_mask=everything)
    close(output, explicit, atol=0)
    assert np.array_equal(output._keras_mask, [[True, True, True, False]])


@pytest.mark.parametrize("layer", [EncoderLayer(2, 16), DecoderLayer(2, 16)])
def test_gradients_reach_every_weight(rng, layer):
    x = ops.convert_to_tensor(rng.normal(size=(2, 5, 8)).astype("float32"))
    inputs = (x,) if isinstance(layer, EncoderLayer) else (x, x)
    layer(*inputs)
    with tf.GradientTape() as tape:
        loss = ops.sum(layer(*inputs, training=True) ** 3)
    gradients = tape.gradient(
        loss, [weight.value for weight in layer.trainable_variables]
    )
    for weight, gradient in zip(layer.trainable_variables, gradients):
        assert np.abs(gradient).max() > 1e-7, weight.path


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
def test_mixed_precision_stays_close_to_float32(rng, policy, kind):
    exact, half = kind(2, 16), kind(2, 16, dtype=policy)
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    expected = exact(x)
    half(x)
    half.set_weights(exact.get_weights())
    output = half(x)
    assert output.dtype == half.compute_dtype
    assert {w.dtype for w in half.weights} == {"float32"}
    close(ops.cast(output, "float32"), expected, atol=0.08)


@pytest.mark.parametrize("reads_memory", [False, True])
def test_saves_and_reloads_the_same(rng, reloaded, reads_memory):
    settings = {
        "key_dim": 5,
        "value_dim": 3,
        "dropout": 0.2,
        "attention_dropout": 0.1,
        "activation_dropout": 0.1,
        "activation": "gelu",
        "normalize_first": True,
        "use_bias": True,
        "attention_window": 3,
        "epsilon": 1e-5,
        "kernel_initializer": "he_uniform",
    }
    encoder = EncoderLayer(2, 16, **settings)
    decoder = DecoderLayer(2, 16, **settings)
    inputs = keras.Input((None, 8))
    memory = encoder(inputs)
    outputs = decoder(inputs, memory) if reads_memory else decoder(memory)
    model = keras.Model(inputs, outputs)
    again = reloaded(model)
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    np.testing.assert_array_equal(model(x), again(x))
    for ours, theirs in zip(model.layers, again.layers):
        assert ours.get_config() == theirs.get_config()


def test_initial_matrices_differ_from_each_other():
    layer = EncoderLayer(2, 8)
    layer.build((None, None, 8))
    matrices = [w for w in layer.get_weights() if w.shape == (8, 8)]
    assert len(matrices) == 6
    for i, one in enumerate(matrices):
        for other in matrices[:i]:
            assert np.abs(one - other).max() > 0.01


@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_heads": 0}, "`num_heads`.*num_heads=0"),
        ({"intermediate_dim": -1}, "`intermediate_dim`.*intermediate_dim=-1"),
        ({"key_dim": 0}, "`key_dim`.*key_dim=0"),
        ({"dropout": 1.5}, "`dropout`.*dropout=1.5"),
        ({"attention_dropout": "no"}, "`attention_dropout`.*='no'"),
        ({"activation": "wave"}, "`activation`.*activation='wave'"),
        ({"attention_window": 2.5}, "`attention_window`.*=2.5"),
    ],
)
def test_wrong_arguments_are_named(kind, arguments, words):
    with pytest.raises(ValueError, match=words):
        kind(**{"num_heads": 2, "intermediate_dim": 16, **arguments})


def test_wrong_inputs_are_named(rng):
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    with pytest.raises(ValueError, match="hidden_dim=8, num_heads=3"):
        EncoderLayer(3, 16)(x)
    with pytest.raises(ValueError, match=r"inputs.shape=\(2, 8\)"):
        EncoderLayer(2, 16)(x[:, 0])
    with pytest.raises(ValueError, match=r"memory.shape=\(2, 8\)"):
        DecoderLayer(2, 16)(x, x[:, 0])
    decoder = DecoderLayer(2, 16)
    decoder(x, x)
    with pytest.raises(ValueError, match="memory=None after a first call"):
        decoder(x)
    with pytest.raises(ValueError, match="memory=None after a first call"):
        decoder.make_cache(2, 5)
    with pytest.raises(ValueError, match="cache=given, cache_index=None"):
        decoder(x, cache=decoder.make_cache(2, 5, x))
    with pytest.raises(ValueError, match="cache=None, cache_index=0"):
        decoder(x, x, cache_index=0)
    with pytest.raises(ValueError, match="never called"):
        DecoderLayer(2, 16).make_cache(2, 5, x)


@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
def test_an_initializer_may_be_a_function(rng, kind):
    layer = kind(2, 16, kernel_initializer=lambda shape, dtype: ops.ones(shape))
    layer(rng.normal(size=(2, 5, 8)).astype("float32"))
    assert np.all(layer._feed_forward._widen.kernel == 1)


def test_attention_is_ours_in_both():
    layer = DecoderLayer(2, 16)
    layer.build((None, None, 8), (None, None, 8))
    assert isinstance(layer._self_attention, MultiHeadAttention)
    assert not layer._self_attention.use_bias
    assert layer._self_norm.epsilon == 1e-6
