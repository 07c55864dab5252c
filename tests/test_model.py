import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_transformer.layers import padding_mask
from keras_transformer.model import PRESETS, Transformer
from tests import reference

TINY = {
    "vocabulary_size": 30,
    "num_layers": 2,
    "hidden_dim": 16,
    "num_heads": 2,
    "intermediate_dim": 32,
}


@pytest.fixture
def batch(rng):
    source_ids = rng.integers(1, 30, (3, 7)).astype("int32")
    target_ids = rng.integers(1, 30, (3, 6)).astype("int32")
    source_ids[1, 4:] = 0
    target_ids[2, 3:] = 0
    return {"source_ids": source_ids, "target_ids": target_ids}


@pytest.mark.parametrize("normalize_first", [False, True])
def test_agrees_with_the_formulas(batch, normalize_first):
    model = Transformer(**TINY, normalize_first=normalize_first)
    logits = model(batch)
    expected = reference.transformer(**batch, model=model)
    real = (batch["target_ids"] != 0)[..., None]
    np.testing.assert_allclose(logits * real, expected * real, atol=1e-5)


VARIATIONS = [
    {},
    {"normalize_first": True},
    {"key_dim": 5, "value_dim": 3},
    {"position_encoding": "learned", "max_length": 9},
    {"position_encoding": "concatenated"},
    {"target_vocabulary_size": 25},
    {"share_embeddings": False},
    {"tie_output": False},
    {"share_embeddings": False, "tie_output": False},
    {"num_decoder_layers": 1},
    {"use_bias": True, "activation": "gelu"},
    {"attention_window": 2},
]


@pytest.mark.parametrize("arguments", VARIATIONS, ids=str)
def test_encode_and_cached_decode_give_what_call_gives(batch, arguments):
    model = Transformer(**{**TINY, **arguments})
    batch["target_ids"] %= 25  # a smaller target vocabulary fits, too
    batch["target_ids"][2, :3] = 4
    at_once = np.asarray(model(batch))
    memory, encoder_scores = model.encode(
        batch["source_ids"], return_attention_scores=True
    )
    mask = padding_mask(batch["source_ids"])
    np.testing.assert_allclose(
        model.decode(batch["target_ids"], memory, mask), at_once, atol=1e-5
    )
    cache = model.make_cache(memory, max_length=8)
    for i in range(6):
        # The mask is in the cache. Given again, it changes nothing.
        step, scores, cache = model.decode(
            batch["target_ids"][:, i : i + 1],
            None,
            mask if i % 2 else None,
            cache=cache,
            cache_index=i,
            return_attention_scores=True,
        )
        real = batch["target_ids"][:, i] != 0
        np.testing.assert_allclose(
            step[:, 0][real], at_once[:, i][real], atol=1e-5
        )
    # Several at once, as a prefix that is given; the place in any type.
    cache = model.make_cache(memory, max_length=8)
    for i in (0, 3):
        step, cache = model.decode(
            batch["target_ids"][:, i : i + 3],
            None,
            cache=cache,
            cache_index=np.int64(i),
        )
        real = batch["target_ids"][:, i : i + 3] != 0
        np.testing.assert_allclose(
            np.asarray(step)[real], at_once[:, i : i + 3][real], atol=1e-5
        )
    assert encoder_scores[-1].shape == (3, 2, 7, 7)
    assert scores[-1]["memory"].shape == (3, 2, 1, 7)
    assert len(scores) == len(model.decoder_layers)


@pytest.mark.parametrize("arguments", VARIATIONS, ids=str)
def test_saves_and_reloads_the_same(batch, reloaded, tmp_path, arguments):
    model = Transformer(**{**TINY, **arguments})
    batch["target_ids"] %= 25
    expected = model(batch)
    again = reloaded(model)
    assert type(again) is Transformer
    assert again.get_config() == model.get_config()
    np.testing.assert_array_equal(again(batch), expected)

    fresh = Transformer.from_config(model.get_config())
    model.save_weights(tmp_path / "model.weights.h5")
    fresh.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(fresh(batch), expected)

    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(clone(batch), expected)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_the_loss_is_scaled_where_its_gradients_would_vanish(policy):
    model = Transformer(**TINY, dtype=policy)
    model.compile(keras.optimizers.Adam(), "mse")
    scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (policy == "mixed_float16")


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_stays_close_and_reloads(batch, reloaded, policy):
    exact = Transformer(**TINY)
    half = Transformer(**TINY, dtype=policy)
    half.set_weights(exact.get_weights())
    assert {weight.dtype for weight in half.weights} == {"float32"}
    logits = ops.cast(half(batch), "float32")
    assert np.abs(logits - exact(batch)).max() < 0.2
    again = reloaded(half)
    assert again(batch).dtype == half(batch).dtype
    assert again.get_config() == half.get_config()


def test_padding_never_changes_real_positions(batch):
    model = Transformer(**TINY)
    wider = {name: np.pad(ids, ((0, 0), (0, 5))) for name, ids in batch.items()}
    real = batch["target_ids"] != 0
    np.testing.assert_allclose(
        np.asarray(model(wider))[:, :6][real],
        np.asarray(model(batch))[real],
        atol=2e-6,
    )


def test_gradients_reach_every_weight(batch):
    model = Transformer(**TINY, share_embeddings=False, tie_output=False)
    with tf.GradientTape() as tape:
        loss = ops.sum(model(batch, training=True) ** 3)
    weights = [weight.value for weight in model.trainable_variables]
    for weight, gradient in zip(
        model.trainable_variables, tape.gradient(loss, weights)
    ):
        gradient = tf.convert_to_tensor(gradient)
        assert np.abs(gradient).max() > 1e-7, weight.path


# Rows of Table 3 whose number of parameters (in millions) the paper gives.
TABLE_3 = [
    ({}, 65),
    ({"key_dim": 16}, 58),
    ({"key_dim": 32}, 60),
    ({"num_layers": 2}, 36),
    ({"num_layers": 4}, 50),
    ({"num_layers": 8}, 80),
    ({"hidden_dim": 256, "key_dim": 32, "value_dim": 32}, 28),
    ({"hidden_dim": 1024, "key_dim": 128, "value_dim": 128}, 168),
    ({"intermediate_dim": 1024}, 53),
    ({"intermediate_dim": 4096}, 90),
]
# Rows A, D and E: other heads, rates and positions, and no other count.
SAME_COUNT = [
    {"num_heads": 1, "key_dim": 512, "value_dim": 512},
    {"num_heads": 4, "key_dim": 128, "value_dim": 128},
    {"num_heads": 16, "key_dim": 32, "value_dim": 32},
    {"num_heads": 32, "key_dim": 16, "value_dim": 16},
    {"dropout": 0.0},
]


def count(**arguments):
    """Parameters of a model like base, in millions."""
    settings = {
        "vocabulary_size": 40_000,  # what the paper's counts imply
        "num_layers": 6,
        "hidden_dim": 512,
        "num_heads": 8,
        "intermediate_dim": 2048,
        "key_dim": 64,
        "value_dim": 64,
        **arguments,
    }
    # The count is linear in depth, so two shallow models tell it exactly.
    one, two = (
        Transformer(**{**settings, "num_layers": n, "vocabulary_size": 10})
        for n in (1, 2)
    )
    one, two = one.count_params(), two.count_params()
    layers = (settings["num_layers"] - 1) * (two - one)
    words = (settings["vocabulary_size"] - 10) * settings["hidden_dim"]
    return (one + layers + words) / 1e6


def test_one_more_word_is_one_more_row():
    one_more = Transformer(**{**TINY, "vocabulary_size": 31})
    assert one_more.count_params() - Transformer(**TINY).count_params() == 16


def test_parameters_are_those_of_table_3():
    base = count()
    for arguments, millions in TABLE_3:
        ours = count(**arguments)
        # The paper rounds both counts to whole millions.
        assert abs((ours - base) - (millions - 65)) <= 1.0, arguments
        assert abs(ours / millions - 1) < 0.04, arguments
    for arguments in SAME_COUNT:
        assert count(**arguments) == base, arguments
    big = {"hidden_dim": 1024, "num_heads": 16, "intermediate_dim": 4096}
    assert abs(count(**big, vocabulary_size=36_000) / 213 - 1) < 0.01


def test_presets_are_the_papers():
    names = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")
    names += ("dropout",)
    defaults = inspect.signature(Transformer).parameters
    for preset, values in (
        ("base", (6, 512, 8, 2048, 0.1)),
        ("big", (6, 1024, 16, 4096, 0.3)),
    ):
        found = {name: defaults[name].default for name in names}
        found.update(PRESETS[preset])
        assert found == dict(zip(names, values))
    tiny = Transformer.from_preset("tiny", vocabulary_size=10, dropout=0.3)
    assert tiny.get_config()["dropout"] == 0.3
    with pytest.raises(ValueError, match="`preset`.*preset='huge'"):
        Transformer.from_preset("huge", vocabulary_size=10)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"vocabulary_size": 0}, "`vocabulary_size`.*vocabulary_size=0"),
        ({"num_layers": 0}, "`num_layers`.*num_layers=0"),
        ({"hidden_dim": 2.5}, "`hidden_dim`.*hidden_dim=2.5"),
        ({"num_heads": 3}, "hidden_dim=16, num_heads=3"),
        ({"num_heads": 0}, "`num_heads`.*num_heads=0"),
        ({"dropout": 1}, "`dropout`.*dropout=1"),
        ({"position_encoding": "x"}, "`kind`.*kind='x'"),
        ({"position_encoding": "learned"}, "`max_length`"),
        ({"activation": "wave"}, "`activation`.*'wave'"),
        ({"initializer_scale": 0}, "`initializer_scale`.*initializer_scale=0"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        Transformer(**{**TINY, **arguments})


@pytest.mark.parametrize("scale", [1, 0.25])
def test_matrices_begin_with_the_variance_asked_for(scale):
    model = Transformer(40, 1, 64, 4, 256, initializer_scale=scale)
    model = Transformer.from_config(model.get_config())
    layers = [*model.encoder_layers, *model.decoder_layers]
    kernels = [w for x in layers for w in x.weights if len(w.shape) == 2]
    assert len(kernels) == 16
    for kernel in kernels:
        glorot = 2 / sum(kernel.shape)
        assert np.var(kernel) == pytest.approx(scale * glorot, rel=0.1)
    matrix = model.target_embedding.embeddings
    assert np.var(matrix) == pytest.approx(1 / 64, rel=0.15)


def test_misspelt_arguments_are_refused():
    with pytest.raises(TypeError, match="normalise_first"):
        Transformer(**TINY, normalise_first=True)
    with pytest.raises(TypeError, match="droput"):
        Transformer.from_preset("tiny", 10, droput=0.1)


def test_a_cache_needs_a_place(batch):
    model = Transformer(**TINY)
    cache = model.make_cache(model.encode(batch["source_ids"]), 8)
    with pytest.raises(ValueError, match="cache=given, cache_index=None"):
        model.decode(batch["target_ids"], None, cache=cache)


def test_an_id_out_of_range_is_named(batch):
    batch["source_ids"][0, 0] = 30
    with pytest.raises(ValueError, match="id 30 for vocabulary_size=30"):
        Transformer(**TINY)(batch)


def copy_task(rng, size):
    """Sentences of random words; the target is the source."""
    words = rng.integers(4, 12, (size, 5))
    end = np.full((size, 1), 3)
    start = np.full((size, 1), 2)
    source = np.concatenate([words, end], axis=1)
    return (
        {
            "source_ids": source,
            "target_ids": np.concatenate([start, words], axis=1),
        },
        source,
    )


@pytest.mark.parametrize(
    "seed",
    [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 10))],
)
def test_learns_to_copy(seed):
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    model = Transformer(
        vocabulary_size=12,
        num_layers=1,
        hidden_dim=64,
        num_heads=4,
        intermediate_dim=64,
        dropout=0.0,
    )
    rate = keras.optimizers.schedules.CosineDecay(2e-3, decay_steps=400)
    model.compile(
        optimizer=keras.optimizers.Adam(rate, beta_2=0.98),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(*copy_task(rng, 64 * 400), batch_size=64, verbose=0)
    inputs, targets = copy_task(rng, 200)
    predicted = np.argmax(model.predict(inputs, verbose=0), axis=-1)
    assert np.array_equal(predicted, targets)
