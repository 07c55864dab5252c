import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training import SmoothedCrossentropy

from . import reference


@pytest.fixture
def batch(rng):
    targets = rng.integers(1, 11, (3, 6)).astype("int32")
    targets[0, 4:] = targets[2, 1:] = 0
    targets[1] = 7  # a repeated token
    return targets, rng.normal(size=(3, 6, 11), scale=3).astype("float32")


def loss_and_gradient(loss, targets, logits, *args):
    logits = tf.convert_to_tensor(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        value = loss(targets, logits, *args)
    return value.numpy(), tape.gradient(value, logits).numpy()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("over", ["wrong", "all"])
def test_loss_and_gradient_agree_with_the_formula(batch, smoothing, over):
    loss = SmoothedCrossentropy(smoothing, over)
    value, gradient = loss_and_gradient(loss, *batch)
    expected = reference.loss_and_gradient(*batch, smoothing, over)
    np.testing.assert_allclose(value, expected[0], rtol=1e-6)
    np.testing.assert_allclose(gradient, expected[1], atol=1e-7)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradient_agree_with_pytorch(batch, smoothing):
    torch = pytest.importorskip("torch")
    targets, logits = batch
    theirs = torch.tensor(logits, requires_grad=True)
    expected = torch.nn.functional.cross_entropy(
        theirs.flatten(0, 1),
        torch.tensor(targets).flatten().long(),
        ignore_index=0,
        label_smoothing=smoothing,
    )
    expected.backward()
    loss = SmoothedCrossentropy(smoothing, smooth_over="all")
    value, gradient = loss_and_gradient(loss, *batch)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-6)
    np.testing.assert_allclose(gradient, theirs.grad.numpy(), atol=1e-7)


def test_hand_written_gradient_is_that_of_the_plain_formula(batch):
    loss = SmoothedCrossentropy(0.1)
    count = np.sum(batch[0] != 0)
    plain = loss_and_gradient(
        lambda *pair: tf.reduce_sum(loss.call(*pair)) / count, *batch
    )
    fused = loss_and_gradient(loss, *batch)
    np.testing.assert_allclose(fused[0], plain[0], rtol=1e-6)
    np.testing.assert_allclose(fused[1], plain[1], atol=1e-7)


def test_padding_changes_neither_loss_nor_gradient(batch):
    targets, logits = batch
    padded = np.pad(targets, ((0, 1), (0, 2)))
    wide = np.pad(logits, ((0, 1), (0, 2), (0, 0)), constant_values=5.0)
    loss = SmoothedCrossentropy()
    value, gradient = loss_and_gradient(loss, targets, logits)
    padded_value, padded_gradient = loss_and_gradient(loss, padded, wide)
    np.testing.assert_allclose(padded_value, value, rtol=1e-6)
    np.testing.assert_allclose(
        padded_gradient[:3, :6], gradient, rtol=1e-5, atol=1e-8
    )
    assert not padded_gradient[3:].any()
    assert not padded_gradient[:, 6:].any()


@pytest.mark.parametrize("rows", [0, 2])
def test_a_batch_without_tokens_has_no_loss_and_no_gradient(rows):
    targets = np.zeros((rows, 3), "int32")
    logits = np.ones((rows, 3, 8), "float32")
    value, gradient = loss_and_gradient(SmoothedCrossentropy(), targets, logits)
    assert value == 0
    assert gradient.shape == logits.shape
    assert not gradient.any()


def test_huge_logits_stay_finite():
    logits = np.array([[[1e4, -1e4, 0.0, 3e3]]], "float32")
    value, gradient = loss_and_gradient(
        SmoothedCrossentropy(0.0), np.array([[1]]), logits
    )
    assert value == 2e4
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("per_token", [False, True])
def test_sample_weights_make_a_weighted_mean(batch, rng, per_token):
    targets, logits = batch
    weights = rng.uniform(size=(3, 6) if per_token else 3).astype("float32")
    value, gradient = loss_and_gradient(
        SmoothedCrossentropy(), targets, logits, weights
    )
    expected = reference.loss_and_gradient(
        targets, logits, weights=weights if per_token else weights[:, None]
    )
    np.testing.assert_allclose(value, expected[0], rtol=1e-6)
    np.testing.assert_allclose(gradient, expected[1], atol=1e-7)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_logits_are_summed_in_float32(batch, dtype):
    targets, logits = batch
    half = tf.cast(logits, dtype)
    value, gradient = loss_and_gradient(SmoothedCrossentropy(), targets, half)
    expected = reference.loss_and_gradient(
        targets, tf.cast(half, "float32").numpy()
    )
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, expected[0], rtol=1e-6)
    np.testing.assert_allclose(
        gradient.astype("float32"), expected[1], atol=1e-3
    )


def test_no_one_hot_of_the_vocabulary_is_made():
    @tf.function
    def step(targets, logits):
        return loss_and_gradient_in_graph(targets, logits)

    def loss_and_gradient_in_graph(targets, logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            value = SmoothedCrossentropy()(targets, logits)
        return value, tape.gradient(value, logits)

    graph = step.get_concrete_function(
        tf.TensorSpec((4, 5), tf.int32), tf.TensorSpec((4, 5, 999))
    ).graph
    made = [
        op.type
        for op in graph.get_operations()
        if any(t.shape.num_elements() == 4 * 5 * 999 for t in op.outputs)
    ]
    assert "OneHot" not in made
    arithmetic = set(made) - {
        "Placeholder",
        "Reshape",
        "Identity",
        "IdentityN",
        "StopGradient",
        "Cast",
        "Fill",  # of an output that nobody uses: pruned before it runs
    }
    # softmax, minus the share of the rest, times the weight, minus the right
    assert arithmetic == {"Softmax", "Sub", "Mul", "TensorScatterSub"}


def test_reloads_from_its_config():
    loss = SmoothedCrossentropy(0.2, smooth_over="all", name="mine")
    config = keras.saving.serialize_keras_object(loss)
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == loss.get_config()
    assert again.get_config()["label_smoothing"] == 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label_smoothing": 1.0}, "label_smoothing=1.0"),
        ({"label_smoothing": -0.1}, "label_smoothing=-0.1"),
        ({"smooth_over": "some"}, "smooth_over='some'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        SmoothedCrossentropy(**arguments)


def test_one_hot_targets_are_refused():
    with pytest.raises(ValueError, match=r"y_true.shape=\(2, 3, 8\)"):
        SmoothedCrossentropy()(np.zeros((2, 3, 8)), np.zeros((2, 3, 8)))
