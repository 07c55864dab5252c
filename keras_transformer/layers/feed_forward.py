"""Position-wise feed-forward network, after section 3.3 of the paper."""

import keras
from keras import ops

from keras_transformer.layers import arguments
from keras_transformer.layers.axes import shape_of


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(keras.layers.Layer):
    """Widens, rectifies and narrows each position on its own.

    `FFN(x) = max(0, xW₁ + b₁) W₂ + b₂`.

    Args:
        intermediate_dim: Width in the middle (`d_ff` in the paper).
        activation: Name of the function in the middle.
        dropout: Share of outputs dropped while training.
        activation_dropout: Share of the middle dropped while training.
        kernel_initializer: Initializer of both matrices.

    Call arguments:
        inputs: Floats, `(..., hidden_dim)`.
        training: Whether to drop out.

    Returns:
        Floats shaped like `inputs`. A padding mask passes through.

    >>> tuple(FeedForward(64)(keras.ops.zeros((2, 5, 16))).shape)
    (2, 5, 16)
    """

    def __init__(
        self,
        intermediate_dim,
        activation="relu",
        dropout=0.0,
        activation_dropout=0.0,
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        arguments.check_sizes(intermediate_dim=intermediate_dim)
        arguments.check_rates(
            dropout=dropout, activation_dropout=activation_dropout
        )
        self.supports_masking = True
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.activation_dropout = activation_dropout
        self.activation = arguments.activation(activation)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, input_shape):
        width = input_shape[-1]
        self._widen = self._dense(
            "widen", self.intermediate_dim, activation=self.activation
        )
        self._narrow = self._dense("narrow", width)
        self._inner_dropout = keras.layers.Dropout(
            self.activation_dropout, dtype=self.dtype_policy
        )
        self._dropout = keras.layers.Dropout(
            self.dropout, dtype=self.dtype_policy
        )
        self._widen.build((None, width))
        self._narrow.build((None, self.intermediate_dim))

    def call(self, inputs, training=None):
        # Flat, so that each matrix multiplication is a single large one.
        x = ops.reshape(inputs, (-1, inputs.shape[-1]))
        x = self._inner_dropout(self._widen(x), training=training)
        x = ops.reshape(self._narrow(x), shape_of(inputs))
        return self._dropout(x, training=training)

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "activation_dropout": self.activation_dropout,
            "kernel_initializer": serialize(self.kernel_initializer),
        }

    def _dense(self, name, units, activation=None):
        return keras.layers.Dense(
            units,
            activation=activation,
            kernel_initializer=arguments.copy_of(self.kernel_initializer),
            dtype=self.dtype_policy,
            name=name,
        )
