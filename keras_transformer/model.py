"""The whole model: encoder and decoder stacks between two embeddings."""

import keras

from keras_transformer.layers import (
    DecoderLayer,
    EncoderLayer,
    PositionalEncoding,
    TokenEmbedding,
    arguments,
    masks,
)
from keras_transformer.layers.decoder import check_cache
from keras_transformer.training import DistributedModel

# The paper's base and big models, and two that train on a laptop.
PRESETS = {
    "tiny": {
        "num_layers": 2,
        "hidden_dim": 64,
        "num_heads": 4,
        "intermediate_dim": 256,
    },
    "small": {
        "num_layers": 4,
        "hidden_dim": 256,
        "num_heads": 4,
        "intermediate_dim": 1024,
    },
    "base": {
        "num_layers": 6,
        "hidden_dim": 512,
        "num_heads": 8,
        "intermediate_dim": 2048,
    },
    "big": {
        "num_layers": 6,
        "hidden_dim": 1024,
        "num_heads": 16,
        "intermediate_dim": 4096,
        "dropout": 0.3,
    },
}


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(DistributedModel):
    """The Transformer of "Attention Is All You Need", a functional Keras model.

    Inputs are `{"source_ids": (batch, source_length), "target_ids": (batch,
    target_length)}`, outputs are logits, `(batch, target_length, vocabulary)`:
    at each position for the token that comes next. Id 0 is padding.

    It trains the same on any number of devices and hosts: see
    `keras_transformer.training.DistributedModel`.

    Args:
        vocabulary_size: Number of ids.
        num_layers: Number of layers in each stack (`N` in the paper).
        hidden_dim: Width of the vectors between layers (`d_model`).
        num_heads: Number of attention heads (`h`).
        intermediate_dim: Width inside the feed-forward networks (`d_ff`).
        key_dim: Width of queries and keys in each head (`d_k`). Defaults to
            `hidden_dim / num_heads`.
        value_dim: Width of values in each head (`d_v`). Defaults to `key_dim`.
        num_decoder_layers: Number of layers in the decoder, if it differs.
        target_vocabulary_size: Number of target ids, if source and target have
            vocabularies of their own. Their embeddings are then separate.
        dropout: Share dropped from each sub-layer's output and from the sums
            of embeddings and positions (`P_drop`).
        attention_dropout: Share of attention weights dropped.
        activation_dropout: Share of the feed-forward networks' middle dropped.
        activation: Name of the function in the feed-forward networks.
        position_encoding: `"sinusoidal"`, `"concatenated"` or `"learned"`.
        max_length: Number of learned positions. Only for `"learned"`.
        normalize_first: Whether to normalise before each sub-layer, with a
            norm at the end of each stack, instead of after it.
        share_embeddings: Whether source and target share one matrix.
        tie_output: Whether the logits come from the target's matrix.
        use_bias: Whether the projections of attention have a bias.
        attention_window: If given, self-attention sees only so many neighbours
            on each side.
        initializer_scale: Variance of the layers' matrices at the start, as a
            multiple of Glorot's. A model that normalises last may learn sooner
            with less than 1.
        dtype: Type to compute in, or `"mixed_bfloat16"` or
            `"mixed_float16"`. Defaults to Keras' policy.

    >>> model = Transformer.from_preset("tiny", vocabulary_size=100)
    >>> ids = keras.ops.ones((2, 5), "int32")
    >>> tuple(model({"source_ids": ids, "target_ids": ids}).shape)
    (2, 5, 100)
    """

    def __init__(
        self,
        vocabulary_size,
        num_layers=6,
        hidden_dim=512,
        num_heads=8,
        intermediate_dim=2048,
        key_dim=None,
        value_dim=None,
        num_decoder_layers=None,
        target_vocabulary_size=None,
        dropout=0.1,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation="relu",
        position_encoding="sinusoidal",
        max_length=None,
        normalize_first=False,
        share_embeddings=True,
        tie_output=True,
        use_bias=False,
        attention_window=None,
        initializer_scale=1.0,
        dtype=None,
        name=None,
        trainable=True,
    ):
        arguments.check_sizes(
            vocabulary_size=vocabulary_size,
            num_layers=num_layers,
            hidden_dim=hidden_dim,
            num_heads=num_heads,
        )
        arguments.check_sizes(
            optional=True,
            num_decoder_layers=num_decoder_layers,
            target_vocabulary_size=target_vocabulary_size,
        )
        arguments.head_dim(hidden_dim, num_heads, key_dim)
        arguments.check_number(
            "a number above 0",
            positive=True,
            initializer_scale=initializer_scale,
        )
        dtype = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
        layer = {
            "num_heads": num_heads,
            "intermediate_dim": intermediate_dim,
            "key_dim": key_dim,
            "value_dim": value_dim,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "activation_dropout": activation_dropout,
            "activation": activation,
            "normalize_first": normalize_first,
            "use_bias": use_bias,
            "attention_window": attention_window,
            "kernel_initializer": {
                "class_name": "VarianceScaling",
                "config": {
                    "scale": initializer_scale,
                    "mode": "fan_avg",
                    "distribution": "uniform",
                },
            },
            "dtype": dtype,
        }
        positions = {
            "kind": position_encoding,
            "max_length": max_length,
            "dropout": dropout,
            "dtype": dtype,
        }
        separate = target_vocabulary_size is not None or not share_embeddings

        target_embedding = TokenEmbedding(
            target_vocabulary_size or vocabulary_size,
            hidden_dim,
            tie_weights=tie_output,
            dtype=dtype,
            name="target_embedding" if separate else "embedding",
        )
        source_embedding = target_embedding
        if separate:
            source_embedding = TokenEmbedding(
                vocabulary_size,
                hidden_dim,
                dtype=dtype,
                name="source_embedding",
            )
        source_positions = PositionalEncoding(
            name="source_positions", **positions
        )
        target_positions = PositionalEncoding(
            name="target_positions", **positions
        )
        encoder_layers = [
            EncoderLayer(name=f"encoder_{i}", **layer)
            for i in range(1, num_layers + 1)
        ]
        decoder_layers = [
            DecoderLayer(name=f"decoder_{i}", **layer)
            for i in range(1, (num_decoder_layers or num_layers) + 1)
        ]
        encoder_norm = decoder_norm = None
        if normalize_first:
            encoder_norm, decoder_norm = (
                keras.layers.LayerNormalization(
                    epsilon=1e-6, dtype=dtype, name=f"{stack}_norm"
                )
                for stack in ("encoder", "decoder")
            )

        source_ids = keras.Input((None,), dtype="int32", name="source_ids")
        target_ids = keras.Input((None,), dtype="int32", name="target_ids")
        memory = source_positions(source_embedding(source_ids))
        for encoder_layer in encoder_layers:
            memory = encoder_layer(memory)
        if normalize_first:
            memory = encoder_norm(memory)
        x = target_positions(target_embedding(target_ids))
        for decoder_layer in decoder_layers:
            x = decoder_layer(x, memory)
        if normalize_first:
            x = decoder_norm(x)
        logits = target_embedding(x, reverse=True)

        super().__init__(
            inputs={"source_ids": source_ids, "target_ids": target_ids},
            outputs=logits,
            name=name,
            trainable=trainable,
        )
        # Where `compile` looks whether the loss must be scaled.
        self.dtype_policy = dtype
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.source_positions = source_positions
        self.target_positions = target_positions
        self.encoder_layers = encoder_layers
        self.decoder_layers = decoder_layers
        self.encoder_norm = encoder_norm
        self.decoder_norm = decoder_norm
        self._settings = {
            "vocabulary_size": vocabulary_size,
            "num_layers": num_layers,
            "hidden_dim": hidden_dim,
            "num_heads": num_heads,
            "intermediate_dim": intermediate_dim,
            "key_dim": key_dim,
            "value_dim": value_dim,
            "num_decoder_layers": num_decoder_layers,
            "target_vocabulary_size": target_vocabulary_size,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "activation_dropout": activation_dropout,
            "activation": activation,
            "position_encoding": position_encoding,
            "max_length": max_length,
            "normalize_first": normalize_first,
            "share_embeddings": share_embeddings,
            "tie_output": tie_output,
            "use_bias": use_bias,
            "attention_window": attention_window,
            "initializer_scale": initializer_scale,
            "dtype": dtype,
        }

    @classmethod
    def from_preset(cls, preset, vocabulary_size, **kwargs):
        """The model of a preset; any argument can be given on top.

        Args:
            preset: `"tiny"`, `"small"`, or the paper's `"base"` or `"big"`.
            vocabulary_size: Number of ids.
            **kwargs: Arguments of `Transformer` that differ from the preset's.
        """
        arguments.check_choice(PRESETS, preset=preset)
        return cls(vocabulary_size, **{**PRESETS[preset], **kwargs})

    def encode(self, source_ids, return_attention_scores=False, training=False):
        """Source ids to the memory that the decoder reads.

        Returns:
            Floats, `(batch, source_length, hidden_dim)`. With
            `return_attention_scores` also a list with the weights of each
            layer, `(batch, num_heads, source_length, source_length)`.
        """
        mask = masks.padding_mask(source_ids)
        x = self.source_embedding(source_ids)
        x = self.source_positions(x, training=training)
        scores = []
        for layer in self.encoder_layers:
            x = layer(
                x,
                mask=mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                x, weights = x
                scores.append(weights)
        if self.encoder_norm is not None:
            x = self.encoder_norm(x)
        return (x, scores) if return_attention_scores else x

    def decode(
        self,
        target_ids,
        memory,
        memory_mask=None,
        cache=None,
        cache_index=None,
        return_attention_scores=False,
        training=False,
    ):
        """Target ids and memory to logits, at once or step by step.

        Args:
            target_ids: Ids, `(batch, target_length)`. With `cache` only the
                new ones.
            memory: What `encode` returned. With `cache` it may be `None`.
            memory_mask: Booleans, `(batch, source_length)`:
                `padding_mask(source_ids)`, which `encode` has attached to
                the memory and `make_cache` has put into the cache.
            cache: What `make_cache` or the last call returned.
            cache_index: Position of the first of `target_ids`.
            return_attention_scores: Whether to return the weights too.
            training: Whether to drop out.

        Returns:
            Logits, `(batch, target_length, vocabulary)`. With
            `return_attention_scores` also a list with the weights of each
            layer, `{"self": ..., "memory": ...}`. With `cache` also the cache,
            last.
        """
        check_cache(cache, cache_index)
        stepwise = cache is not None
        mask = None if stepwise else masks.padding_mask(target_ids)
        x = self.target_embedding(target_ids)
        x = self.target_positions(
            x, start_index=cache_index if stepwise else 0, training=training
        )
        scores, new_cache = [], []
        for i, layer in enumerate(self.decoder_layers):
            x = layer(
                x,
                memory,
                mask=mask,
                memory_mask=memory_mask,
                cache=cache[i] if stepwise else None,
                cache_index=cache_index,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if stepwise:
                *x, layer_cache = x
                new_cache.append(layer_cache)
                x = x if return_attention_scores else x[0]
            if return_attention_scores:
                x, weights = x
                scores.append(weights)
        if self.decoder_norm is not None:
            x = self.decoder_norm(x)
        results = [self.target_embedding(x, reverse=True)]
        if return_attention_scores:
            results.append(scores)
        if stepwise:
            results.append(new_cache)
        return results[0] if len(results) == 1 else tuple(results)

    def make_cache(self, memory, max_length, memory_mask=None):
        """One cache a decoder layer, for up to `max_length` target positions.

        The memory's keys and values are computed here, once for all steps,
        and its mask is kept with them.
        """
        batch_size = memory.shape[0] or keras.ops.shape(memory)[0]
        return [
            layer.make_cache(batch_size, max_length, memory, memory_mask)
            for layer in self.decoder_layers
        ]

    def get_config(self):
        settings = dict(self._settings)
        settings["dtype"] = keras.dtype_policies.serialize(settings["dtype"])
        settings["activation"] = keras.activations.serialize(
            keras.activations.get(settings["activation"])
        )
        return {"name": self.name, "trainable": self.trainable, **settings}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)
