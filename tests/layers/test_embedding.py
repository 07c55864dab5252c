import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import TokenEmbedding
from keras_transformer.layers.axes import known_values


def test_scales_going_in_and_not_coming_out(rng):
    layer = TokenEmbedding(20, 16)
    ids = rng.integers(1, 20, (2, 5))
    vectors = layer(ids)
    matrix = np.asarray(layer.embeddings)
    np.testing.assert_allclose(vectors, matrix[ids] * 4.0, atol=1e-6)
    logits = layer(vectors, reverse=True)
    np.testing.assert_allclose(
        logits, np.asarray(vectors) @ matrix.T, atol=1e-5
    )
    assert len(layer.weights) == 1


def test_starts_with_the_papers_distribution():
    keras.utils.set_random_seed(1)
    layer = TokenEmbedding(2000, 64)
    layer.build()
    assert abs(np.std(layer.embeddings) - 64**-0.5) < 0.002


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_has_float32_logits_and_near_gradients(rng, policy):
    matrix = rng.normal(size=(20, 16)).astype("float32")
    vectors = rng.normal(size=(2, 5, 16)).astype("float32")
    upstream = rng.normal(size=(2, 5, 20)).astype("float32")
    layer = TokenEmbedding(20, 16, dtype=policy)
    layer.build()
    layer.embeddings.assign(matrix)
    x = tf.cast(vectors, layer.compute_dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        logits = layer(x, reverse=True)
        total = tf.reduce_sum(logits * upstream)
    d_x, d_matrix = tape.gradient(total, [x, layer.embeddings.value])

    assert logits.dtype == d_matrix.dtype == tf.float32
    assert d_x.dtype == x.dtype
    x, d_x = (tf.cast(t, "float32").numpy() for t in (x, d_x))
    np.testing.assert_allclose(logits, x @ matrix.T, atol=1e-5)
    # Half precision keeps 8 bits at least: 0.4% of each product.
    np.testing.assert_allclose(d_x, upstream @ matrix, atol=0.1)
    np.testing.assert_allclose(
        d_matrix, np.einsum("blv,bld->vd", upstream, vectors), atol=0.1
    )


def test_an_untied_output_has_a_matrix_of_its_own(rng):
    layer = TokenEmbedding(20, 16, tie_weights=False)
    vectors = rng.normal(size=(2, 5, 16)).astype("float32")
    layer(np.ones((1, 1), int))
    np.testing.assert_allclose(
        layer(vectors, reverse=True),
        vectors @ np.asarray(layer.reverse_embeddings),
        atol=1e-5,
    )


def test_padding_is_masked_in_the_vectors():
    vectors = TokenEmbedding(20, 16)(np.array([[4, 5, 0]]))
    assert np.array_equal(vectors._keras_mask, [[True, True, False]])
    open_vectors = TokenEmbedding(20, 16, mask_zero=False)(np.array([[4, 0]]))
    assert getattr(open_vectors, "_keras_mask", None) is None


@pytest.mark.parametrize("bad_id", [20, -1])
def test_an_id_out_of_range_is_named(bad_id):
    with pytest.raises(ValueError, match=f"id {bad_id}.*vocabulary_size=20"):
        TokenEmbedding(20, 16)(np.array([[3, bad_id]]))


def test_wrong_sizes_are_named():
    with pytest.raises(ValueError, match="`vocabulary_size`.*=0"):
        TokenEmbedding(0, 16)
    with pytest.raises(ValueError, match="`hidden_dim`.*='16'"):
        TokenEmbedding(20, "16")


@pytest.mark.parametrize("tie_weights", [True, False])
def test_saves_and_reloads_the_same(rng, reloaded, tie_weights):
    ids = keras.Input((None,), dtype="int32")
    layer = TokenEmbedding(20, 16, tie_weights=tie_weights)
    model = keras.Model(ids, layer(layer(ids), reverse=True))
    batch = rng.integers(0, 20, (2, 5))
    again = reloaded(model)
    np.testing.assert_array_equal(model(batch), again(batch))
    assert again.layers[1].get_config() == layer.get_config()


def test_numbers_are_known_outside_of_graphs_only():
    seen = []

    @tf.function
    def trace(x):
        seen.append(known_values(x))
        return x

    trace(tf.constant([3, 4]))
    assert seen == [None]
    assert known_values(keras.Input((None,), dtype="int32")) is None
    np.testing.assert_array_equal(known_values(tf.constant([3, 4])), [3, 4])
    with pytest.raises(ValueError, match="inhomogeneous"):
        known_values([[1], [2, 3]])


def test_an_output_of_its_own_begins_with_numbers_of_its_own():
    layer = TokenEmbedding(20, 8, tie_weights=False)
    layer.build((None, None))
    first, last = layer.get_weights()
    assert np.abs(np.ravel(first) - np.ravel(last)).max() > 0.01
