"""What encoder and decoder layers share: settings and sub-layers."""

import keras

from keras_transformer.layers import arguments
from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.feed_forward import FeedForward


class Block(keras.layers.Layer):
    """Settings of one layer of a stack, and the residual way around each part.

    The paper's way is `LayerNorm(x + Dropout(Sublayer(x)))`; with
    `normalize_first` it is `x + Dropout(Sublayer(LayerNorm(x)))`.
    """

    def __init__(
        self,
        num_heads,
        intermediate_dim,
        key_dim=None,
        value_dim=None,
        dropout=0.1,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation="relu",
        normalize_first=False,
        use_bias=False,
        attention_window=None,
        epsilon=1e-6,
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        arguments.check_sizes(
            num_heads=num_heads, intermediate_dim=intermediate_dim
        )
        arguments.check_sizes(
            optional=True,
            key_dim=key_dim,
            value_dim=value_dim,
            attention_window=attention_window,
        )
        arguments.check_rates(
            dropout=dropout,
            attention_dropout=attention_dropout,
            activation_dropout=activation_dropout,
        )
        self.supports_masking = True
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation_dropout = activation_dropout
        self.activation = arguments.activation(activation)
        self.normalize_first = normalize_first
        self.use_bias = use_bias
        self.attention_window = attention_window
        self.epsilon = epsilon
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation_dropout": self.activation_dropout,
            "activation": keras.activations.serialize(self.activation),
            "normalize_first": self.normalize_first,
            "use_bias": self.use_bias,
            "attention_window": self.attention_window,
            "epsilon": self.epsilon,
            "kernel_initializer": serialize(self.kernel_initializer),
        }

    def compute_output_spec(
        self,
        inputs,
        *args,
        cache=None,
        return_attention_scores=False,
        **kwargs,
    ):
        if cache is None and not return_attention_scores:
            # Known without tracing, which takes a second for a large model.
            return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if cache is not None:
            kwargs["cache"] = cache
        return super().compute_output_spec(
            inputs,
            *args,
            return_attention_scores=return_attention_scores,
            **kwargs,
        )

    def _build_attention(
        self, name, inputs_shape, memory_shape, attention_window=None
    ):
        """An attention sub-layer: itself, its dropout and its norm."""
        key_dim = arguments.head_dim(
            inputs_shape[-1], self.num_heads, self.key_dim
        )
        attention = MultiHeadAttention(
            self.num_heads,
            key_dim,
            value_dim=self.value_dim,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            attention_window=attention_window,
            kernel_initializer=arguments.copy_of(self.kernel_initializer),
            dtype=self.dtype_policy,
            name=f"{name}_attention",
        )
        attention.build(inputs_shape, memory_shape)
        dropout = keras.layers.Dropout(
            self.dropout, dtype=self.dtype_policy, name=f"{name}_dropout"
        )
        return (
            attention,
            dropout,
            self._build_norm(f"{name}_norm", inputs_shape),
        )

    def _build_feed_forward(self, inputs_shape):
        feed_forward = FeedForward(
            self.intermediate_dim,
            activation=self.activation,
            dropout=self.dropout,
            activation_dropout=self.activation_dropout,
            kernel_initializer=arguments.copy_of(self.kernel_initializer),
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        feed_forward.build(inputs_shape)
        return feed_forward, self._build_norm("feed_forward_norm", inputs_shape)

    def _build_norm(self, name, inputs_shape):
        norm = keras.layers.LayerNormalization(
            epsilon=self.epsilon, dtype=self.dtype_policy, name=name
        )
        norm.build(inputs_shape)
        return norm

    def _around(self, sublayer, norm, inputs):
        """Residual and norm around a function of `inputs`."""
        if self.normalize_first:
            return inputs + sublayer(norm(inputs))
        return norm(inputs + sublayer(inputs))
