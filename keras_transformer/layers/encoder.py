"""Encoder layer, after section 3.1 of the paper."""

import keras

from keras_transformer.layers import arguments, masks
from keras_transformer.layers.block import Block


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderLayer(Block):
    """Lets each position look at all others, then works on each alone.

    Args:
        num_heads: Number of heads (`h` in the paper).
        intermediate_dim: Width inside the feed-forward network (`d_ff`).
        key_dim: Width of queries and keys in each head (`d_k`). Defaults to
            an even share of the width of the inputs.
        value_dim: Width of values in each head (`d_v`). Defaults to `key_dim`.
        dropout: Share of each sub-layer's output dropped while training.
        attention_dropout: Share of attention weights dropped while training.
        activation_dropout: Share of the feed-forward network's middle dropped
            while training.
        activation: Name of the function in the feed-forward network.
        normalize_first: Whether to normalise before each sub-layer instead of
            after it. A stack of such layers needs a norm at its end.
        use_bias: Whether the projections of attention have a bias.
        attention_window: If given, each position sees only so many neighbours
            on each side.
        epsilon: Added to the variance in layer normalisation.
        kernel_initializer: Initializer of all matrices.

    Call arguments:
        inputs: Floats, `(batch, length, hidden_dim)`.
        mask: Booleans, `(batch, length)`. Padding is `False`. Comes by itself
            from a `TokenEmbedding` or any Keras layer that masks.
        attention_mask: Booleans, `(batch or 1, length, length)`.
        return_attention_scores: Whether to return the weights too.
        training: Whether to drop out.

    Returns:
        Floats shaped like `inputs`. A padding mask passes through. With
        `return_attention_scores` also the weights, `(batch, num_heads, length,
        length)`.

    >>> layer = EncoderLayer(num_heads=2, intermediate_dim=64)
    >>> tuple(layer(keras.ops.zeros((2, 5, 16))).shape)
    (2, 5, 16)
    """

    def build(self, inputs_shape):
        arguments.check_rank("inputs", inputs_shape)
        self._attention, self._attention_dropout, self._attention_norm = (
            self._build_attention(
                "self", inputs_shape, inputs_shape, self.attention_window
            )
        )
        self._feed_forward, self._feed_forward_norm = self._build_feed_forward(
            inputs_shape
        )

    def call(
        self,
        inputs,
        mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        if mask is None:
            mask = masks.attached_mask(inputs)
        scores = []

        def attend(x):
            x = self._attention(
                x,
                x,
                value_mask=mask,
                attention_mask=attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                x, weights = x
                scores.append(weights)
            return self._attention_dropout(x, training=training)

        def feed_forward(x):
            return self._feed_forward(x, training=training)

        x = self._around(attend, self._attention_norm, inputs)
        x = self._around(feed_forward, self._feed_forward_norm, x)
        return (x, scores[0]) if return_attention_scores else x
