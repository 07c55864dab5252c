import inspect
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_transformer.layers import MultiHeadAttention, TokenEmbedding
from tests import reference

from .tensors import close, normal


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("value_dim", [None, 5])
def test_agrees_with_the_formulas(rng, use_bias, value_dim):
    layer = MultiHeadAttention(
        3, 4, value_dim, use_bias=use_bias, bias_initializer="normal"
    )
    query, key, value = (
        normal(rng, 2, 6, 12),
        normal(rng, 2, 7, 10),
        normal(rng, 2, 7, 9),
    )
    visible = rng.random((2, 6, 7)) < 0.6
    visible[:, :, 0] = True
    output, scores = layer(
        query,
        value,
        key,
        attention_mask=visible,
        return_attention_scores=True,
    )
    expected = reference.attention(
        query.numpy(), key.numpy(), value.numpy(), layer, visible
    )
    close(output, expected[0])
    close(scores, expected[1])
    close(
        layer(query, value, key),
        reference.attention(query.numpy(), key.numpy(), value.numpy(), layer)[
            0
        ],
    )


def stock_twin(layer, query_shape, value_shape, **kwargs):
    """`keras.layers.MultiHeadAttention` with the weights of `layer`."""
    stock = keras.layers.MultiHeadAttention(
        layer.num_heads,
        layer.key_dim,
        layer.value_dim,
        use_bias=layer.use_bias,
        **kwargs,
    )
    stock.build(query_shape, value_shape)
    names = ["query", "key", "value", "output"]
    weights = []
    for name in names:
        weights.append(getattr(layer, f"{name}_kernel"))
        if layer.use_bias:
            weights.append(getattr(layer, f"{name}_bias"))
    stock.set_weights(
        [
            np.reshape(ours, theirs.shape)
            for ours, theirs in zip(weights, stock.weights)
        ]
    )
    return stock


def test_takes_the_call_arguments_of_the_stock_layer_in_their_order():
    stock = inspect.signature(keras.layers.MultiHeadAttention.call)
    ours = inspect.signature(MultiHeadAttention.call)
    names = list(stock.parameters)
    assert list(ours.parameters)[: len(names)] == names
    for name in names:
        assert ours.parameters[name].default == stock.parameters[name].default


@pytest.mark.parametrize(
    ("query_shape", "value_shape", "kwargs"),
    [
        ((2, 6, 8), (2, 7, 8), {}),
        ((2, 6, 8), (2, 6, 8), {"output_shape": 5}),
        ((2, 6, 8), (2, 7, 8), {"output_shape": (3, 2)}),
        ((2, 3, 6, 8), (2, 3, 7, 8), {"attention_axes": (2,)}),
        ((2, 3, 6, 8), (2, 3, 7, 8), {"attention_axes": (-2,)}),
        ((2, 6, 3, 8), (2, 7, 3, 8), {"attention_axes": 1}),
        ((2, 3, 4, 8), (2, 5, 2, 8), {}),
        ((2, 3, 4, 8), (2, 3, 4, 8), {"attention_axes": (1, 2)}),
        ((2, 3, 4, 5, 8), (2, 3, 2, 6, 8), {"attention_axes": (2, 3)}),
    ],
)
def test_gives_what_the_stock_layer_gives(
    rng, query_shape, value_shape, kwargs
):
    layer = MultiHeadAttention(2, 4, 3, use_bias=True, **kwargs)
    query, value = normal(rng, *query_shape), normal(rng, *value_shape)
    layer(query, value)
    stock = stock_twin(layer, query_shape, value_shape, **kwargs)
    close(layer(query, value), stock(query, value))
    ours = layer(query, value, return_attention_scores=True)
    theirs = stock(query, value, return_attention_scores=True)
    close(ours[0], theirs[0])
    close(ours[1], theirs[1])


@pytest.mark.parametrize(
    "mask_shape", [(6, 7), (1, 6, 7), (2, 6, 7), (2, 2, 6, 7)]
)
@pytest.mark.parametrize("causal", [False, True])
def test_means_by_a_mask_what_the_stock_layer_means(rng, mask_shape, causal):
    layer = MultiHeadAttention(2, 4)
    query, value = normal(rng, 2, 6, 8), normal(rng, 2, 7, 8)
    layer(query, value)
    stock = stock_twin(layer, (2, 6, 8), (2, 7, 8))
    mask = rng.random(mask_shape) < 0.7
    mask[..., 0] = True
    value_mask = np.ones((2, 7), bool)
    value_mask[1, 5:] = False
    kwargs = {
        # The stock layer takes the batch of a padding mask for heads when it
        # also gets a mask for each head.
        "value_mask": None if len(mask_shape) == 4 else value_mask,
        "attention_mask": mask,
        "use_causal_mask": causal,
        "return_attention_scores": True,
    }
    for ours, theirs in zip(
        layer(query, value, **kwargs), stock(query, value, **kwargs)
    ):
        close(ours, theirs)


def test_attends_over_one_of_several_axes_with_masks(rng):
    layer = MultiHeadAttention(2, 4, attention_axes=(2,))
    x = normal(rng, 2, 3, 5, 8)
    layer(x, x)
    stock = stock_twin(layer, x.shape, x.shape, attention_axes=(2,))
    value_mask = np.ones((2, 3, 5), bool)
    value_mask[:, :, 4] = False
    mask = rng.random((2, 3, 5, 5)) < 0.7
    mask[..., 0] = True
    close(
        layer(x, x, value_mask=value_mask, attention_mask=mask),
        stock(x, x, value_mask=value_mask, attention_mask=mask),
    )
    one_for_all = mask[:, 0]  # of the second axis
    close(
        layer(x, x, attention_mask=one_for_all),
        stock(x, x, attention_mask=one_for_all),
    )


def test_picks_up_the_masks_of_its_inputs(rng):
    ids = np.array([[3, 4, 5, 0, 0], [3, 4, 5, 6, 7]])
    x = keras.layers.Embedding(9, 8, mask_zero=True)(ids)
    layer = MultiHeadAttention(2, 4)
    explicit = layer(ops.copy(x), ops.copy(x), value_mask=ids != 0)
    output = layer(x, x)
    close(output, explicit)
    assert np.array_equal(output._keras_mask, ids != 0)
    # The input keeps its mask for the next layer, too.
    assert np.array_equal(x._keras_mask, ids != 0)


ANY_MASKS = list(itertools.product([False, True], repeat=4))


@pytest.mark.parametrize(
    ("padded", "explicit", "windowed", "dropped"), ANY_MASKS
)
def test_no_future_position_reaches_the_past(
    rng, padded, explicit, windowed, dropped
):
    layer = MultiHeadAttention(
        2, 4, dropout=0.3 * dropped, attention_window=2 if windowed else None
    )
    x = rng.normal(size=(2, 40, 8)).astype("float32")
    edited = x.copy()
    edited[:, 25:] += 3.0
    # Padding at the start leaves the first queries without a visible key.
    value_mask = np.ones((2, 40), bool)
    value_mask[:, :4] = False
    attention_mask = rng.random((2, 40, 40)) < 0.5
    results = []
    for inputs in map(ops.convert_to_tensor, (x, edited)):
        layer(inputs, inputs)
        if dropped:
            layer._dropout.seed_generator.state.assign([5, 0])
        results.append(
            layer(
                inputs,
                inputs,
                value_mask=value_mask if padded else None,
                attention_mask=attention_mask if explicit else None,
                use_causal_mask=True,
                training=dropped,
            )
        )
    before, after = map(np.asarray, results)
    assert np.array_equal(before[:, :25], after[:, :25])
    assert np.abs(before[:, 25:] - after[:, 25:]).max() > 1e-3


@pytest.mark.parametrize(
    "dtype", ["float32", "mixed_float16", "mixed_bfloat16"]
)
def test_a_query_without_visible_keys_gives_zeros(rng, dtype):
    layer = MultiHeadAttention(2, 4, dtype=dtype)
    x = normal(rng, 1, 3, 8) * 50.0
    output, scores = layer(
        x,
        x,
        attention_mask=np.array([[[1, 1, 0], [0, 0, 0], [0, 0, 1]]], bool),
        return_attention_scores=True,
    )
    assert np.all(np.isfinite(np.asarray(output, "float32")))
    close(ops.cast(output, "float32")[:, 1], np.zeros((1, 8)), atol=0)
    close(ops.cast(scores, "float32")[:, :, 1], np.zeros((1, 2, 3)), atol=0)
    assert np.abs(ops.cast(output, "float32")[:, 0]).max() > 1e-3


def test_padding_never_changes_real_positions(rng):
    layer = MultiHeadAttention(2, 4)
    x = rng.normal(size=(1, 5, 8)).astype("float32")
    padded = np.concatenate([x, 100 * rng.normal(size=(1, 3, 8))], axis=1)
    mask = np.array([[True] * 5 + [False] * 3])
    alone = layer(x, x)
    close(layer(padded, padded, value_mask=mask)[:, :5], alone, atol=1e-6)


@pytest.mark.parametrize("window", [None, 2])
def test_cached_steps_give_what_one_pass_gives(rng, window):
    layer = MultiHeadAttention(2, 4, 3, attention_window=window)
    x = normal(rng, 2, 7, 8)
    at_once, all_scores = layer(
        x, x, use_causal_mask=True, return_attention_scores=True
    )
    cache = layer.make_cache(batch_size=2, max_length=9)
    # One position, then three at once, then the rest one by one.
    for start, end in [(0, 1), (1, 4), (4, 5), (5, 6), (6, 7)]:
        part = x[:, start:end]
        output, scores, cache = layer(
            part,
            part,
            use_causal_mask=True,
            cache=cache,
            cache_index=start,
            return_attention_scores=True,
        )
        close(output, at_once[:, start:end], atol=1e-6)
        close(scores[..., :7], all_scores[:, :, start:end], atol=1e-6)
        close(scores[..., 7:], np.zeros((2, 2, end - start, 2)), atol=0)


def test_a_filled_cache_is_used_and_not_computed_again(rng):
    layer = MultiHeadAttention(2, 4)
    query, memory = normal(rng, 2, 3, 8), normal(rng, 2, 6, 8)
    mask = np.array([[True] * 6, [True] * 4 + [False] * 2])
    expected = layer(query, memory, value_mask=mask)
    cache = layer.fill_cache(memory)
    wrong_memory = memory * 0.0
    output, same_cache = layer(
        query, wrong_memory, value_mask=mask, cache=cache
    )
    close(output, expected, atol=1e-6)
    assert same_cache["key"] is cache["key"]


@pytest.mark.parametrize("with_key", [False, True])
@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_mask_that_travels_is_not_one_of_the_cache(
    rng, dtype, complete, with_key
):
    """It is of the new positions alone."""
    ids = np.array([[5, 6, 0], [7, 8, 9]])
    masked = TokenEmbedding(20, 8)(ids)
    plain = keras.ops.convert_to_tensor(np.asarray(masked))
    layer = MultiHeadAttention(2, 4, dtype=dtype)
    layer.build((2, 3, 8), (2, 3, 8))
    cache = {"cache": layer.fill_cache(normal(rng, 2, 3, 8))}
    if not complete:
        cache = {"cache": layer.make_cache(2, 8), "cache_index": 0}
    outputs = [
        layer(x, x, x if with_key else None, use_causal_mask=True, **cache)[0]
        for x in (masked, plain)
    ]
    close(*(ops.cast(x, "float32") for x in outputs), atol=0)


def test_scores_come_before_dropout_and_with_a_cache(rng):
    layer = MultiHeadAttention(2, 4, dropout=0.5)
    x = normal(rng, 2, 6, 8)
    calm = layer(x, x, return_attention_scores=True)
    wild = layer(x, x, return_attention_scores=True, training=True)
    close(wild[1], calm[1])
    assert np.abs(wild[0] - calm[0]).max() > 1e-3
    cache = layer.make_cache(2, 6)
    _, scores, _ = layer(
        x,
        x,
        cache=cache,
        cache_index=0,
        return_attention_scores=True,
        training=True,
    )
    close(scores, calm[1])


def test_inputs_that_are_the_same_are_projected_together():
    def multiplications(call, *shapes):
        specs = [tf.TensorSpec(shape) for shape in shapes]
        graph = tf.function(call).get_concrete_function(*specs).graph
        return sum(op.type == "MatMul" for op in graph.get_operations())

    layer = MultiHeadAttention(2, 4)
    layer.build((2, 5, 8), (2, 5, 8))
    shape = (2, 5, 8)
    # One for the output, one for each distinct input.
    assert multiplications(lambda x: layer(x, x), shape) == 2
    assert multiplications(lambda x, y: layer(x, y), shape, shape) == 3
    assert multiplications(layer, shape, shape, shape) == 4


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_stays_close_to_float32(rng, policy):
    exact = MultiHeadAttention(2, 4)
    half = MultiHeadAttention(2, 4, dtype=policy)
    x = normal(rng, 2, 5, 8)
    expected = exact(x, x)
    half.build(x.shape, x.shape)
    half.set_weights(exact.get_weights())
    output = half(x, x)
    assert output.dtype == half.compute_dtype
    assert half.query_kernel.dtype == "float32"
    close(ops.cast(output, "float32"), expected, atol=0.05)


def test_double_precision_stays_double(rng):
    layer = MultiHeadAttention(2, 4, dtype="float64")
    x = rng.normal(size=(2, 5, 8))
    outputs = np.asarray(layer(x, x, use_causal_mask=True))
    visible = np.tril(np.ones((1, 5, 5), bool))
    expected, _ = reference.attention(x, x, x, layer, visible)
    np.testing.assert_allclose(outputs, expected, rtol=1e-12, atol=1e-13)


def test_saves_and_reloads_the_same(rng, reloaded):
    x = keras.Input((None, 8))
    y = keras.Input((None, 6))
    layer = MultiHeadAttention(
        2,
        4,
        3,
        dropout=0.1,
        use_bias=True,
        output_shape=(3, 2),
        attention_window=4,
        kernel_initializer="he_normal",
        kernel_regularizer="l2",
        seed=3,
    )
    output, scores = layer(x, y, return_attention_scores=True)
    assert output.shape == (None, None, 3, 2)
    assert scores.shape == (None, 2, None, None)
    model = keras.Model([x, y], [output, scores])
    again = reloaded(model)
    inputs = [normal(rng, 2, 5, 8), normal(rng, 2, 6, 6)]
    for ours, theirs in zip(model(inputs), again(inputs)):
        close(ours, theirs, atol=0)
    assert again.layers[-1].get_config() == layer.get_config()


def test_gradients_reach_every_weight(rng):
    layer = MultiHeadAttention(2, 4, use_bias=True)
    x = normal(rng, 2, 5, 8)
    with tf.GradientTape() as tape:
        loss = ops.sum(layer(x, x) ** 3)
    for weight, gradient in zip(
        layer.trainable_variables,
        tape.gradient(loss, [w.value for w in layer.trainable_variables]),
    ):
        # A bias on the keys moves all scores alike: softmax cancels it.
        if weight.name != "key_bias":
            assert np.abs(gradient).max() > 1e-6, weight.name


@pytest.mark.parametrize("masked", [False, True])
def test_the_short_gradient_is_the_long_one(rng, masked):
    # Asking for scores takes the way that TensorFlow differentiates by itself.
    layer = MultiHeadAttention(2, 4, 3)
    query, value = normal(rng, 2, 6, 8), normal(rng, 2, 7, 8)
    layer(query, value)
    visible = rng.random((2, 6, 7)) < 0.6
    visible[0, 2] = False  # a query that sees nothing
    gradients = []
    for asked in (False, True):
        with tf.GradientTape() as tape:
            tape.watch([query, value])
            output = layer(
                query,
                value,
                attention_mask=visible if masked else None,
                return_attention_scores=asked,
            )
            loss = ops.sum((output[0] if asked else output) ** 3)
        weights = [weight.value for weight in layer.trainable_variables]
        gradients.append(tape.gradient(loss, [query, value, *weights]))
    for short, long in zip(*gradients):
        assert np.abs(long).max() > 1e-4
        close(short, long, atol=1e-5 * np.abs(long).max())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_heads": 0}, "`num_heads`.*num_heads=0"),
        ({"num_heads": 2.0}, "`num_heads`.*num_heads=2.0"),
        ({"key_dim": -4}, "`key_dim`.*key_dim=-4"),
        ({"value_dim": 0}, "`value_dim`.*value_dim=0"),
        ({"dropout": 1.0}, "`dropout`.*dropout=1.0"),
        ({"attention_window": 0}, "`attention_window`.*attention_window=0"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        MultiHeadAttention(**{"num_heads": 2, "key_dim": 4, **arguments})


def test_wrong_inputs_are_named(rng):
    x = normal(rng, 2, 5, 8)
    with pytest.raises(ValueError, match=r"query_shape=\(2, 8\)"):
        MultiHeadAttention(2, 4)(x[:, 0], x[:, 0])
    with pytest.raises(ValueError, match=r"key_shape=\(2, 4, 8\)"):
        MultiHeadAttention(2, 4)(x, x, x[:, :4])
    with pytest.raises(ValueError, match=r"attention_axes=\(2,\)"):
        MultiHeadAttention(2, 4, attention_axes=2)(x, x)
    with pytest.raises(ValueError, match=r"attention_mask.shape=\(5,\)"):
        MultiHeadAttention(2, 4)(x, x, attention_mask=np.ones(5, bool))
    with pytest.raises(ValueError, match="cache_index=3"):
        MultiHeadAttention(2, 4)(x, x, cache_index=3)
    layer = MultiHeadAttention(2, 4)
    with pytest.raises(ValueError, match="cache_index=2 and 5 .* for 6 pos"):
        layer(x, x, cache=layer.make_cache(2, 6), cache_index=2)
