"""What `training.py` measures: the same model in each system, and batches.

Each maker returns a function that trains on all batches once.
"""

import itertools
import os

import numpy as np

SIZES = {
    "4x128": {"num_layers": 4, "hidden_dim": 128, "num_heads": 4},
    "3x256": {"num_layers": 3, "hidden_dim": 256, "num_heads": 4},
    "6x512": {"num_layers": 6, "hidden_dim": 512, "num_heads": 8},
}
DTYPES = ["float32", "mixed_bfloat16"]
VOCABULARY_SIZE = 8000
DROPOUT = 0.1
SHAPES = [(128, 20), (64, 40), (160, 16)]  # rows, length: 2560 places each
QUICK_SHAPES = [(8, 10), (4, 20)]


def make_batches(quick):
    """Source, target and label ids; about a tenth of each is padding."""
    rng = np.random.default_rng(0)
    batches = []
    for rows, length in QUICK_SHAPES if quick else SHAPES:
        ids = rng.integers(4, VOCABULARY_SIZE, (2, rows, length + 1))
        lengths = rng.integers(int(0.8 * length), length + 1, (2, rows, 1))
        ids *= np.arange(length + 1) < lengths + 1
        source, target = ids.astype("int32")
        labels = target[:, 1:] * (target[:, 1:] > 0)
        batches.append((source[:, 1:], target[:, :-1], labels))
    return batches


def matmul_flops(size, batches):
    """Of all multiplications in one pass over the batches, with gradients."""
    width, inner = size["hidden_dim"], 4 * size["hidden_dim"]
    total = 0
    for source, _, _ in batches:
        rows, length = source.shape
        places = rows * length
        attention = 4 * width * width + 2 * length * width
        feed_forward = 2 * width * inner
        layer = 3 * attention + 2 * feed_forward  # encoder and decoder
        per_place = size["num_layers"] * layer + width * VOCABULARY_SIZE
        total += 3 * 2 * places * per_place
    return total


def make_ours(size, batches, mixed):
    from keras_transformer.model import Transformer
    from keras_transformer.training import (
        Adam,
        SmoothedCrossentropy,
        TransformerSchedule,
    )

    set_policy(mixed)
    model = Transformer(
        VOCABULARY_SIZE,
        **size,
        intermediate_dim=4 * size["hidden_dim"],
        dropout=DROPOUT,
    )
    model.compile(
        Adam(TransformerSchedule(size["hidden_dim"])),
        SmoothedCrossentropy(0.1),
    )
    return keras_runner(model, batches)


def make_keras(size, batches, mixed):
    import keras

    class Attention(keras.layers.Layer):
        """Attention, residual and norm, as the Keras examples write them."""

        def __init__(self, causal=False):
            super().__init__()
            self.causal = causal
            self.attention = keras.layers.MultiHeadAttention(
                size["num_heads"],
                size["hidden_dim"] // size["num_heads"],
                use_bias=False,
            )
            self.dropout = keras.layers.Dropout(DROPOUT)
            self.norm = keras.layers.LayerNormalization(epsilon=1e-6)

        def call(self, x, memory, memory_mask):
            update = self.attention(
                x,
                memory,
                attention_mask=memory_mask[:, None, :],
                use_causal_mask=self.causal,
            )
            return self.norm(x + self.dropout(update))

    def feed_forward(x):
        inner = keras.layers.Dense(4 * size["hidden_dim"], activation="relu")
        outer = keras.layers.Dense(size["hidden_dim"])
        update = keras.layers.Dropout(DROPOUT)(outer(inner(x)))
        return keras.layers.LayerNormalization(epsilon=1e-6)(x + update)

    def encoder(x, mask):
        return feed_forward(Attention()(x, x, mask))

    def decoder(x, memory, mask, memory_mask):
        x = Attention(causal=True)(x, x, mask)
        return feed_forward(Attention()(x, memory, memory_mask))

    return stock_keras(size, batches, mixed, encoder, decoder)


def make_keras_hub(size, batches, mixed):
    import keras_hub

    settings = {
        "intermediate_dim": 4 * size["hidden_dim"],
        "num_heads": size["num_heads"],
        "dropout": DROPOUT,
    }

    def encoder(x, mask):
        layer = keras_hub.layers.TransformerEncoder(**settings)
        return layer(x, padding_mask=mask)

    def decoder(x, memory, mask, memory_mask):
        layer = keras_hub.layers.TransformerDecoder(**settings)
        return layer(
            x,
            memory,
            decoder_padding_mask=mask,
            encoder_padding_mask=memory_mask,
        )

    return stock_keras(size, batches, mixed, encoder, decoder)


def stock_keras(size, batches, mixed, encoder, decoder):
    """A model of the given layers, trained as the Keras guides do."""
    import keras
    import keras_hub

    set_policy(mixed)
    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    embedding = keras.layers.ReversibleEmbedding(
        VOCABULARY_SIZE, size["hidden_dim"]
    )
    positions = keras_hub.layers.SinePositionEncoding()

    def embed(ids):
        x = embedding(ids)
        return keras.layers.Dropout(DROPOUT)(x + positions(x))

    source_mask = keras.ops.not_equal(source_ids, 0)
    target_mask = keras.ops.not_equal(target_ids, 0)
    memory = embed(source_ids)
    for _ in range(size["num_layers"]):
        memory = encoder(memory, source_mask)
    x = embed(target_ids)
    for _ in range(size["num_layers"]):
        x = decoder(x, memory, target_mask, source_mask)
    model = keras.Model(
        {"source_ids": source_ids, "target_ids": target_ids},
        embedding(x, reverse=True),
    )
    model.compile(
        keras.optimizers.Adam(1e-4, beta_2=0.98, epsilon=1e-9),
        keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=0
        ),
    )
    return keras_runner(model, batches)


def set_policy(mixed):
    import keras

    keras.config.set_dtype_policy("mixed_bfloat16" if mixed else "float32")


def keras_runner(model, batches):
    import tensorflow as tf

    spec = tf.TensorSpec((None, None), tf.int32)
    names = {"source_ids": spec, "target_ids": spec}
    dataset = tf.data.Dataset.from_generator(
        lambda: (
            ({"source_ids": source, "target_ids": target}, labels)
            for source, target, labels in itertools.cycle(batches)
        ),
        output_signature=(names, spec),
    ).prefetch(2)
    dataset = dataset.apply(
        tf.data.experimental.assert_cardinality(
            tf.data.experimental.INFINITE_CARDINALITY
        )
    )
    # For all Keras systems alike: with tf.data's tuner on, most calls of `fit`
    # here lasted exactly 2.56, 5.12 or 20.48 seconds.
    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = dataset.with_options(options)

    def run():
        # Keras makes a new iterator here, which starts with the first batch.
        model.fit(dataset, steps_per_epoch=len(batches), verbose=0)

    return run


def make_torch(size, batches, mixed, compiled=False):
    import math

    import torch

    torch.set_num_threads(os.cpu_count())
    width = size["hidden_dim"]

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(VOCABULARY_SIZE, width)
            torch.nn.init.normal_(self.embedding.weight, std=width**-0.5)
            self.dropout = torch.nn.Dropout(DROPOUT)
            self.transformer = torch.nn.Transformer(
                width,
                size["num_heads"],
                size["num_layers"],
                size["num_layers"],
                4 * width,
                DROPOUT,
                batch_first=True,
            )
            self.leave_out_what_others_lack()
            angles = torch.arange(100)[:, None] / 10000 ** (
                torch.arange(0, width, 2) / width
            )
            signal = torch.stack([angles.sin(), angles.cos()], -1)
            self.register_buffer("signal", signal.flatten(1))

        def leave_out_what_others_lack(self):
            """Dropout inside of attention and feed-forward; the last norms."""
            encoder, decoder = self.transformer.children()
            encoder.norm = decoder.norm = None
            for layer in [*encoder.layers, *decoder.layers]:
                layer.dropout.p = 0.0
                layer.self_attn.dropout = 0.0
            for layer in decoder.layers:
                layer.multihead_attn.dropout = 0.0

        def embed(self, ids):
            x = self.embedding(ids) * math.sqrt(width)
            return self.dropout(x + self.signal[: ids.shape[1]])

        def forward(self, source, target):
            length = target.shape[1]
            future = torch.ones(length, length, dtype=torch.bool).triu(1)
            x = self.transformer(
                self.embed(source),
                self.embed(target),
                tgt_mask=future,
                src_key_padding_mask=source == 0,
                tgt_key_padding_mask=target == 0,
                memory_key_padding_mask=source == 0,
            )
            return x @ self.embedding.weight.T

    model = Model().train()
    parameters = model.parameters()
    optimizer = torch.optim.Adam(
        parameters, 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    forward = torch.compile(model, dynamic=True) if compiled else model
    tensors = [[torch.tensor(x).long() for x in batch] for batch in batches]

    def run():
        for source, target, labels in tensors:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                logits = forward(source, target)
            loss = torch.nn.functional.cross_entropy(
                logits.float().flatten(0, 1),
                labels.flatten(),
                ignore_index=0,
                label_smoothing=0.1,
            )
            loss.backward()
            optimizer.step()

    return run


def make_matmul_tf(size, batches, mixed):
    import tensorflow as tf

    x = tf.random.normal((2048, 2048))
    x = tf.cast(x, tf.bfloat16 if mixed else tf.float32)
    multiply = tf.function(lambda x: tf.matmul(x, x))
    return lambda: multiply(x)


def make_matmul_torch(size, batches, mixed):
    import torch

    torch.set_num_threads(os.cpu_count())
    x = torch.randn(2048, 2048)
    x = x.to(torch.bfloat16 if mixed else torch.float32)
    return lambda: x @ x


MATMUL_FLOPS = 2 * 2048**3

MAKERS = {
    "ours": make_ours,
    "torch": make_torch,
    "torch.compile": lambda *a: make_torch(*a, compiled=True),
    "keras_hub": make_keras_hub,
    "keras": make_keras,
    "matmul_tf": make_matmul_tf,
    "matmul_torch": make_matmul_torch,
}
