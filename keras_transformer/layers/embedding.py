"""Token embedding, after section 3.4 of the paper: one matrix in and out."""

import keras
import numpy as np
from keras import ops

from keras_transformer.layers import arguments, masks
from keras_transformer.layers.axes import known_values, shape_of


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(keras.layers.ReversibleEmbedding):
    """Turns ids into scaled vectors, and vectors back into logits.

    Vectors are multiplied by `√hidden_dim` going in and not coming out. Id 0 is
    padding: a mask travels with the vectors from here on.

    Args:
        vocabulary_size: Number of ids.
        hidden_dim: Width of the vectors (`d_model` in the paper).
        tie_weights: Whether the logits come from the same matrix.
        embeddings_initializer: Initializer of the matrix. Defaults to a normal
            distribution with standard deviation `hidden_dim ** -0.5`.
        mask_zero: Whether id 0 is padding, and outputs carry a mask of it.
        **kwargs: What `keras.layers.ReversibleEmbedding` takes.

    Call arguments:
        inputs: Ids, `(batch, length)`, or with `reverse` floats, `(batch,
            length, hidden_dim)`.
        reverse: Whether to turn vectors into logits.

    Returns:
        Floats, `(batch, length, hidden_dim)`, or with `reverse` logits,
        `(batch, length, vocabulary_size)`.

    >>> embedding = TokenEmbedding(vocabulary_size=100, hidden_dim=16)
    >>> vectors = embedding(np.array([[5, 6, 0]]))
    >>> tuple(embedding(vectors, reverse=True).shape)
    (1, 3, 100)
    """

    def __init__(
        self,
        vocabulary_size,
        hidden_dim,
        tie_weights=True,
        embeddings_initializer=None,
        mask_zero=True,
        **kwargs,
    ):
        arguments.check_sizes(
            vocabulary_size=vocabulary_size, hidden_dim=hidden_dim
        )
        if embeddings_initializer is None:
            embeddings_initializer = keras.initializers.RandomNormal(
                stddev=hidden_dim**-0.5
            )
        super().__init__(
            vocabulary_size,
            hidden_dim,
            tie_weights=tie_weights,
            embeddings_initializer=embeddings_initializer,
            mask_zero=mask_zero,
            **kwargs,
        )

    def add_weight(self, *args, **kwargs):
        # Keras would cast it, or not, by whether the layer is called alone or
        # inside another. A softmax over a vocabulary needs float32 logits.
        kwargs["autocast"] = False
        if kwargs.get("name") == "reverse_embeddings":
            kwargs["initializer"] = arguments.copy_of(kwargs["initializer"])
        return super().add_weight(*args, **kwargs)

    def call(self, inputs, reverse=False):
        if reverse:
            plain = self.tie_weights and self.quantization_mode is None
            if not plain or self.reverse_dtype or self.logit_soft_cap:
                return super().call(inputs, reverse=True)
            # A tensor: TensorFlow takes no variable where a gradient is ours.
            return _logits(inputs, ops.copy(self.embeddings))
        self._check_ids(inputs)
        outputs = super().call(inputs)
        outputs = outputs * ops.cast(self.output_dim**0.5, outputs.dtype)
        if self.mask_zero:
            masks.attach_mask(outputs, masks.padding_mask(inputs))
        return outputs

    def get_config(self):
        config = super().get_config()
        config["vocabulary_size"] = config.pop("input_dim")
        config["hidden_dim"] = config.pop("output_dim")
        return config

    def _check_ids(self, ids):
        """Names an id that the matrix has no row for, where ids are known."""
        values = known_values(ids)
        if values is None:
            return
        outside = (values < 0) | (values >= self.input_dim)
        if np.any(outside):
            raise ValueError(
                "Ids must be at least 0 and below `vocabulary_size`. "
                f"Received: id {values[outside][0]} for "
                f"vocabulary_size={self.input_dim}. "
                "Use the tokenizer that the model was built for."
            )


def _logits(x, embeddings):
    """`x Eᵀ`, with a gradient for E that lies as E does.

    Left to itself, the gradient is that of the transposed matrix, and the
    largest matrix of the model is moved about once more in every update.

    With mixed precision the logits are in E's float32, and the gradients are
    multiplied in the precision of `x`, as those of all other layers are.
    """

    @ops.custom_gradient
    def multiply(rows, embeddings):
        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            upstream = ops.cast(upstream, rows.dtype)
            d_embeddings = ops.matmul(ops.transpose(upstream), rows)
            return (
                ops.matmul(upstream, ops.cast(embeddings, rows.dtype)),
                ops.cast(d_embeddings, embeddings.dtype),
            )

        return ops.matmul(rows, ops.transpose(embeddings)), gradient

    shape = shape_of(x)
    logits = multiply(ops.reshape(x, (-1, x.shape[-1])), embeddings)
    return ops.reshape(logits, (*shape[:-1], embeddings.shape[0]))
