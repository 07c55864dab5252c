"""Multi-head scaled dot-product attention, after section 3.2 of the paper."""

import math
from numbers import Integral

import keras
from keras import ops

from keras_transformer.layers import (
    arguments,
    axes,
    dot_product,
    masks,
    window,
)


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """Lets every query look at all values, through several heads at once.

    `Attention(Q, K, V) = softmax(QKᵀ / √d_k) V`, computed by `num_heads` heads
    on projections of their own, joined and projected once more. Stands in for
    `keras.layers.MultiHeadAttention`: the same call, shapes and mask meaning.
    What differs: no bias by default, as in the paper; a query whose keys are
    all hidden gives zeros (plus the output bias), not their average; there are
    no `flash_attention` and `use_gate`, and `sliding_window=n + 1` is
    `attention_window=n`.

    Args:
        num_heads: Number of heads (`h` in the paper).
        key_dim: Width of queries and keys in each head (`d_k`).
        value_dim: Width of values in each head (`d_v`). Defaults to `key_dim`.
        dropout: Share of attention weights dropped while training.
        use_bias: Whether the four projections have a bias.
        output_shape: Shape of the result for each query. Defaults to the
            width of the query.
        attention_axes: Axes to attend over. Defaults to all but the first and
            the last.
        attention_window: If given, each position sees only so many neighbours
            on each side: the paper's restricted self-attention. Time and
            memory then grow with the length, not with its square, as long as
            neither scores nor an `attention_mask` are asked for.
        kernel_initializer: Initializer of the projections.
        bias_initializer: Initializer of their biases.
        kernel_regularizer: Regularizer of the projections.
        bias_regularizer: Regularizer of their biases.
        kernel_constraint: Constraint on the projections.
        bias_constraint: Constraint on their biases.
        seed: Seed of the dropout.

    Call arguments:
        query: Floats, `(batch, query_length, query_width)`, or with more axes.
        value: Floats, `(batch, key_length, value_width)`.
        key: Floats, `(batch, key_length, key_width)`. Defaults to `value`.
        query_mask: Booleans, `(batch, query_length)`. It changes nothing:
            what padding sees matters to nobody. A mask that is attached to
            `query` passes through to the output.
        value_mask: Booleans, `(batch, key_length)`. `False` hides a position.
        key_mask: The same, and both must show a position for it to be seen.
        attention_mask: Booleans, `(batch or 1, query_length, key_length)`,
            with an axis for the heads after the first if they differ.
        return_attention_scores: Whether to return the weights too.
        training: Whether to drop attention weights.
        use_causal_mask: Whether to hide later positions.
        cache: Keys and values of earlier calls: what `make_cache` or
            `fill_cache` returned, or the last call with this argument.
        cache_index: Position of the first query in the cache. New keys and
            values are written from there on. Without it the cache is complete
            and used as it is: `value` and `key` are not looked at.

    Returns:
        Floats, `(batch, query_length, query_width)`. With
        `return_attention_scores` also the weights, `(batch, num_heads,
        query_length, key_length)`, before dropout. With `cache` also the
        cache, last.

    >>> x = keras.ops.ones((2, 5, 16))
    >>> tuple(MultiHeadAttention(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        dropout=0.0,
        use_bias=False,
        *,
        output_shape=None,
        attention_axes=None,
        attention_window=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        arguments.check_sizes(num_heads=num_heads, key_dim=key_dim)
        arguments.check_sizes(
            optional=True,
            value_dim=value_dim,
            attention_window=attention_window,
        )
        arguments.check_rates(dropout=dropout)
        self.supports_masking = True
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim or key_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.attention_axes = _as_tuple(attention_axes)
        self.attention_window = attention_window
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.seed = seed
        self._output_shape = _as_tuple(output_shape)
        self._dropout = keras.layers.Dropout(
            dropout, seed=seed, dtype=self.dtype_policy
        )

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = value_shape if key_shape is None else key_shape
        self._check_shapes(query_shape, value_shape, key_shape)
        key_width = self.num_heads * self.key_dim
        value_width = self.num_heads * self.value_dim
        output_shape = self._output_shape or (query_shape[-1],)
        output_width = math.prod(output_shape)
        self.query_kernel = self._kernel("query", query_shape[-1], key_width)
        self.key_kernel = self._kernel("key", key_shape[-1], key_width)
        self.value_kernel = self._kernel("value", value_shape[-1], value_width)
        self.output_kernel = self._kernel("output", value_width, output_width)
        self.query_bias = self._bias("query", key_width)
        self.key_bias = self._bias("key", key_width)
        self.value_bias = self._bias("value", value_width)
        self.output_bias = self._bias("output", output_width)

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        cache=None,
        cache_index=None,
    ):
        if cache is not None:
            # Keras gives what is attached, which is of the new positions.
            if value_mask is masks.attached_mask(value):
                value_mask = None
            if key is not None and key_mask is masks.attached_mask(key):
                key_mask = None
        key = value if key is None else key
        folding = axes.Folding(query, value, self.attention_axes)
        if cache_index is not None:
            cache_index = axes.as_index(cache_index)
        self._check_cache(query, cache, cache_index)
        key_mask = masks.combine(
            folding.fold_mask(value_mask), folding.fold_mask(key_mask)
        )
        attention_mask = folding.fold_attention_mask(attention_mask)
        query, key, value = folding.fold(query, key, value)
        blocks = None
        if (
            self.attention_window is not None
            and _same_length(query, key)
            and cache is None
            and attention_mask is None
            and not return_attention_scores
        ):
            blocks = window.Blocks(
                *axes.shape_of(query)[:2],
                self.attention_window,
                use_causal_mask,
            )

        if cache is None or cache_index is not None:
            query, key, value = self._project(query, key, value, blocks)
        else:
            (query,) = self._project(query)
        if cache_index is not None:
            rows = cache_rows(cache["key"], axes.shape_of(key)[2]) + cache_index
            cache = {
                "key": write_rows(cache["key"], rows, key),
                "value": write_rows(cache["value"], rows, value),
            }
        if cache is not None:
            key, value = cache["key"], cache["value"]

        if blocks is not None:
            visible = blocks.visible(key_mask)
        else:
            visible = self._visible(
                axes.shape_of(query)[2],
                axes.shape_of(key)[2],
                key_mask,
                attention_mask,
                use_causal_mask,
                cache_index,
            )
        if return_attention_scores or (training and self.dropout):
            outputs, scores = dot_product.attend_with_weights(
                query,
                key,
                value,
                visible,
                lambda x: self._dropout(x, training=training),
            )
        else:
            outputs = dot_product.attend(query, key, value, visible)
        outputs = self._join_heads(outputs)
        if blocks is not None:
            outputs = blocks.join(outputs)
        outputs = _dense(outputs, self.output_kernel, self.output_bias)

        results = [folding.unfold(outputs, self._output_shape)]
        if return_attention_scores:
            results.append(scores if cache else folding.unfold_scores(scores))
        if cache is not None:
            results.append(cache)
        return results[0] if len(results) == 1 else tuple(results)

    def make_cache(self, batch_size, max_length):
        """Room for the keys and values of `max_length` positions, all zeros."""
        shape = (batch_size, self.num_heads, max_length)
        return {
            "key": ops.zeros((*shape, self.key_dim), self.compute_dtype),
            "value": ops.zeros((*shape, self.value_dim), self.compute_dtype),
        }

    def fill_cache(self, value, key=None):
        """Keys and values of a whole sequence, computed once for all steps."""
        key = value if key is None else key
        key, value = self._project(key=key, value=value)
        return {"key": key, "value": value}

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self._output_shape,
            "attention_axes": self.attention_axes,
            "attention_window": self.attention_window,
            "kernel_initializer": serialize(self.kernel_initializer),
            "bias_initializer": serialize(self.bias_initializer),
            "kernel_regularizer": serialize(self.kernel_regularizer),
            "bias_regularizer": serialize(self.bias_regularizer),
            "kernel_constraint": serialize(self.kernel_constraint),
            "bias_constraint": serialize(self.bias_constraint),
            "seed": self.seed,
        }

    # Projections

    def _project(self, query=None, key=None, value=None, blocks=None):
        """Heads of what is given, with one multiplication for each input."""
        given = {"query": query, "key": key, "value": value}
        given = {name: x for name, x in given.items() if x is not None}
        heads = {}
        for inputs in {id(x): x for x in given.values()}.values():
            names = [name for name, x in given.items() if x is inputs]
            outputs, widths = self._multiply(names, inputs)
            if blocks is None and len(set(widths)) == 1:
                parts = self._unstack_heads(outputs, len(names))
            else:
                ends = [sum(widths[:i]) for i in range(1, len(widths))]
                # TensorFlow cannot split at no place at all.
                parts = ops.split(outputs, ends, axis=-1) if ends else [outputs]
                if blocks is not None:
                    parts = [
                        blocks.queries(x) if name == "query" else blocks.keys(x)
                        for name, x in zip(names, parts)
                    ]
                parts = [self._split_heads(x) for x in parts]
            heads.update(zip(names, parts))
        return [heads[name] for name in given]

    def _multiply(self, names, inputs):
        """All projections of one input: (batch, length, sum of widths)."""
        kernels = [getattr(self, f"{name}_kernel") for name in names]
        biases = [getattr(self, f"{name}_bias") for name in names]
        widths = [kernel.shape[1] for kernel in kernels]
        if len(names) == 1:
            return _dense(inputs, kernels[0], biases[0]), widths
        kernel = ops.concatenate(kernels, axis=1)
        bias = ops.concatenate(biases) if self.use_bias else None
        return _dense(inputs, kernel, bias), widths

    def _unstack_heads(self, x, count):
        """`count` projections of equal width to heads, moved only once."""
        batch, length, width = axes.shape_of(x)
        dim = width // (count * self.num_heads)
        x = ops.reshape(x, (batch, length, count, self.num_heads, dim))
        return ops.unstack(ops.transpose(x, (2, 0, 3, 1, 4)), count)

    def _split_heads(self, x):
        """(batch, length, heads * dim) -> (batch, heads, length, dim)."""
        batch, length, width = axes.shape_of(x)
        x = ops.reshape(
            x, (batch, length, self.num_heads, width // self.num_heads)
        )
        return ops.transpose(x, (0, 2, 1, 3))

    def _join_heads(self, x):
        """(batch, heads, length, dim) -> (batch, length, heads * dim)."""
        batch, heads, length, dim = axes.shape_of(x)
        x = ops.transpose(x, (0, 2, 1, 3))
        return ops.reshape(x, (batch, length, heads * dim))

    def _visible(
        self,
        query_length,
        key_length,
        key_mask,
        attention_mask,
        use_causal_mask,
        cache_index,
    ):
        """Everything that hides a key from a query: (batch, 1, query, key)."""
        start = 0 if cache_index is None else cache_index
        causal = near = written = None
        if use_causal_mask:
            causal = masks.causal_mask(query_length, key_length, start)[None]
        elif cache_index is not None:
            positions = ops.arange(key_length, dtype="int32")
            written = (positions < start + query_length)[None, None, None]
        if self.attention_window is not None:
            near = masks.window_mask(
                query_length, key_length, self.attention_window, start
            )[None]
        if key_mask is not None:
            key_mask = key_mask[:, None, None, :]
        return masks.combine(causal, written, near, key_mask, attention_mask)

    # Weights and shapes

    def _kernel(self, name, rows, columns):
        return self.add_weight(
            name=f"{name}_kernel",
            shape=(rows, columns),
            initializer=arguments.copy_of(self.kernel_initializer),
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )

    def _bias(self, name, width):
        if not self.use_bias:
            return None
        return self.add_weight(
            name=f"{name}_bias",
            shape=(width,),
            initializer=self.bias_initializer,
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
        )

    def _check_cache(self, query, cache, cache_index):
        if cache is not None and len(query.shape) != 3:
            raise ValueError(
                "`cache` needs inputs of shape (batch, length, width). "
                f"Received: query.shape={tuple(query.shape)}. "
                "Call the layer without `cache`."
            )
        if cache is None and cache_index is not None:
            raise ValueError(
                "`cache_index` needs a `cache`. Received: "
                f"cache_index={cache_index}, cache=None. "
                "Make one with `make_cache(batch_size, max_length)`."
            )
        numbers = (cache_index, query.shape[1])
        if all(isinstance(number, Integral) for number in numbers):
            room = cache["key"].shape[2]
            if room is not None and sum(numbers) > room:
                raise ValueError(
                    "`cache` must have room for all positions. Received: "
                    f"cache_index={cache_index} and {query.shape[1]} queries "
                    f"for {room} positions. Make one with a larger "
                    "`max_length`."
                )

    def _check_shapes(self, query_shape, value_shape, key_shape):
        rank = len(query_shape)
        if rank < 3 or len(value_shape) != rank or len(key_shape) != rank:
            raise ValueError(
                "`query`, `value` and `key` must have the same number of axes, "
                "at least (batch, length, width). Received: "
                f"query_shape={tuple(query_shape)}, "
                f"value_shape={tuple(value_shape)}, "
                f"key_shape={tuple(key_shape)}. Add or remove an axis."
            )
        if tuple(value_shape[1:-1]) != tuple(key_shape[1:-1]):
            raise ValueError(
                "`value` and `key` must have the same lengths. Received: "
                f"value_shape={tuple(value_shape)}, "
                f"key_shape={tuple(key_shape)}. "
                "Give one key for each value."
            )
        attended = self.attention_axes
        if attended is not None and any(
            not -rank <= axis < rank or axis % rank in (0, rank - 1)
            for axis in attended
        ):
            raise ValueError(
                "`attention_axes` must lie between the batch axis and the "
                f"last one. Received: attention_axes={attended} for "
                f"query_shape={tuple(query_shape)}. "
                f"Choose among {list(range(1, rank - 1))}."
            )


def cache_rows(cache, count):
    """Places of the first `count` positions among the rows of a flat cache."""
    batch, heads, length, _ = axes.shape_of(cache)
    starts = ops.arange(batch * heads, dtype="int32") * length
    return starts[:, None] + ops.arange(count, dtype="int32")


def write_rows(cache, rows, new):
    """Puts (batch, heads, count, dim) into the given rows of a cache.

    By rows, not by `ops.slice_update`: on TensorFlow that is an operation of
    XLA, which is compiled for every shape, and which TF Serving cannot run.
    """
    shape, dim = axes.shape_of(cache), cache.shape[-1]
    cache = ops.scatter_update(
        ops.reshape(cache, (-1, dim)),
        ops.reshape(rows, (-1, 1)),
        ops.reshape(new, (-1, dim)),
    )
    return ops.reshape(cache, shape)


def _as_tuple(value):
    if value is None:
        return None
    return (value,) if isinstance(value, int) else tuple(value)


def _dense(inputs, kernel, bias):
    """One flat matrix multiplication over all positions."""
    *leading, width = axes.shape_of(inputs)
    # Keras casts weights in a layer's call only, not in `fill_cache`.
    kernel = ops.cast(kernel, inputs.dtype)
    outputs = ops.matmul(ops.reshape(inputs, (-1, width)), kernel)
    if bias is not None:
        outputs = outputs + ops.cast(bias, inputs.dtype)
    return ops.reshape(outputs, (*leading, kernel.shape[-1]))


def _same_length(query, key):
    return query is key or (
        query.shape[1] is not None and query.shape[1] == key.shape[1]
    )
