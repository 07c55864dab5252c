"""One step of the decoder for many hypotheses, written out for a loop.

`Transformer.decode` with a cache computes the same. Here, what does not change
from step to step is prepared before the loop, and little is left for a step to
do: a loop of small operations spends its time on their number.
"""

from keras import ops

from keras_transformer.layers import padding_mask
from keras_transformer.layers.attention import cache_rows, write_rows
from keras_transformer.layers.axes import shape_of
from keras_transformer.layers.dot_product import HIDDEN
from keras_transformer.layers.positions import sinusoids


def make_step(model, source_ids, limit, num_hypotheses=1):
    """A function for one step, and the empty past that it starts from.

    The hypotheses of a source share its memory and one past, which has a key
    and a value for each step and each place among the hypotheses. When a search
    goes on from other hypotheses than before, nothing is moved: `lines` tells
    whose keys a hypothesis sees.

    Args:
        model: A `Transformer`.
        source_ids: Ids, `(batch, source_length)`.
        limit: Number of steps to make room for.
        num_hypotheses: Number of hypotheses for each source.

    Returns:
        A function `step(last, past, index, lines=None)`, and the empty past.

        The function takes the last ids, `(batch, num_hypotheses)`. It gives
        log-probabilities of the next ones, `(batch * num_hypotheses,
        vocabulary)`, and the past with this step in it. With several
        hypotheses `lines`, `(batch, num_hypotheses, limit)`, has the place that
        each had at each earlier step.
    """
    memory = model.encode(source_ids)
    dtype = memory.dtype
    layers = [
        _Layer(layer, memory, limit, num_hypotheses)
        for layer in model.decoder_layers
    ]
    past = [layer.empty_past for layer in layers]
    window = model.decoder_layers[0].attention_window
    memory_bias = _bias(padding_mask(source_ids)[:, None, None])
    positions = _positions(model.target_positions, limit, memory.shape[-1])
    positions = ops.cast(positions, dtype)
    embedding = model.target_embedding
    embeddings = ops.cast(embedding.embeddings, dtype)
    scale = ops.cast(embedding.output_dim**0.5, dtype)
    reverse = ops.transpose(embeddings)
    if not embedding.tie_weights:
        reverse = ops.cast(embedding.reverse_embeddings, dtype)
    norm = _norm(model.decoder_norm) if model.decoder_norm else None
    places = ops.arange(num_hypotheses, dtype="int32")

    def past_bias(index, lines):
        """What to add to scores: (batch or 1, 1, hypotheses, past keys)."""
        steps = ops.arange(limit, dtype="int32")
        visible = steps <= index
        if window is not None:
            visible = visible & (steps >= index - window)
        visible = visible[:, None]
        if num_hypotheses > 1:
            own = ops.where(ops.equal(steps, index), places[:, None], lines)
            visible = visible & ops.equal(own[..., None], places)
        shape = (-1, 1, num_hypotheses, limit * num_hypotheses)
        return _bias(ops.reshape(visible, shape))

    def step(last, past, index, lines=None):
        x = ops.take(embeddings, ops.reshape(last, (-1,)), axis=0) * scale
        x = x + ops.slice(positions, (index, 0), (1, x.shape[-1]))
        bias = past_bias(index, lines)
        new_past = []
        for layer, layer_past in zip(layers, past):
            x, layer_past = layer(x, layer_past, index, bias, memory_bias)
            new_past.append(layer_past)
        logits = ops.matmul(x if norm is None else norm(x), reverse)
        return ops.log_softmax(ops.cast(logits, "float32")), new_past

    return step, past


class _Layer:
    """One decoder layer, for one position of each of many hypotheses.

    Args:
        layer: A `DecoderLayer`.
        memory: The encoder's output.
        limit: Number of steps to make room for.
        num_hypotheses: Number of hypotheses for each source.
    """

    def __init__(self, layer, memory, limit, num_hypotheses):
        past, to_memory = layer._self_attention, layer._memory_attention
        feed_forward, dtype = layer._feed_forward, memory.dtype
        self._heads, self._hypotheses = past.num_heads, num_hypotheses
        self._batch = shape_of(memory)[0]
        self._normalize_first = layer.normalize_first
        self._activation = layer.activation
        self._project = _projection(past, "query", "key", "value")
        self._ends = [
            self._heads * past.key_dim,
            2 * self._heads * past.key_dim,
        ]
        self._same_widths = past.key_dim == past.value_dim
        self._join = _projection(past, "output")
        self._project_query = _projection(to_memory, "query")
        self._join_memory = _projection(to_memory, "output")
        self._memory = to_memory.fill_cache(memory)
        self._widen, self._narrow = (
            _linear(dense.kernel, dense.bias, dtype)
            for dense in (feed_forward._widen, feed_forward._narrow)
        )
        self._past_norm, self._memory_norm, self._feed_forward_norm = map(
            _norm,
            (layer._self_norm, layer._memory_norm, layer._feed_forward_norm),
        )
        self.empty_past = past.make_cache(self._batch, limit * num_hypotheses)
        self._rows = cache_rows(self.empty_past["key"], num_hypotheses)

    def __call__(self, x, past, index, past_bias, memory_bias):
        rows = self._rows + index * self._hypotheses

        def attend_to_past(x):
            nonlocal past
            query, key, value = self._split(self._project(x))
            past = {
                "key": write_rows(past["key"], rows, key),
                "value": write_rows(past["value"], rows, value),
            }
            return self._join(self._attend(query, past, past_bias))

        def attend_to_memory(x):
            query = self._heads_first(self._project_query(x))
            outputs = self._attend(query, self._memory, memory_bias)
            return self._join_memory(outputs)

        def feed_forward(x):
            return self._narrow(self._activation(self._widen(x)))

        x = self._around(attend_to_past, self._past_norm, x)
        x = self._around(attend_to_memory, self._memory_norm, x)
        return self._around(feed_forward, self._feed_forward_norm, x), past

    def _around(self, sublayer, norm, x):
        if self._normalize_first:
            return x + sublayer(norm(x))
        return norm(x + sublayer(x))

    def _split(self, x):
        """Queries, keys and values side by side to heads of each."""
        if not self._same_widths:
            return map(self._heads_first, ops.split(x, self._ends, axis=-1))
        shape = (self._batch, self._hypotheses, 3, self._heads, -1)
        x = ops.transpose(ops.reshape(x, shape), (2, 0, 3, 1, 4))
        return ops.unstack(x, 3)

    def _heads_first(self, x):
        """(rows, heads * dim) -> (batch, heads, hypotheses, dim)."""
        if self._hypotheses == 1:
            return ops.reshape(x, (self._batch, self._heads, 1, -1))
        x = ops.reshape(x, (self._batch, self._hypotheses, self._heads, -1))
        return ops.transpose(x, (0, 2, 1, 3))

    def _attend(self, query, cache, bias):
        # Neither `matmul` nor `softmax`: where they are this small, TensorFlow
        # spends ten times longer on handing them to oneDNN than they take.
        scores = ops.einsum("bhqd,bhkd->bhqk", query, cache["key"])
        scores = ops.cast(scores, "float32") + bias
        scores = scores - ops.max(scores, axis=-1, keepdims=True)
        weights = ops.exp(scores)
        weights = weights / ops.sum(weights, axis=-1, keepdims=True)
        weights = ops.cast(weights, query.dtype)
        x = ops.einsum("bhqk,bhkd->bqhd", weights, cache["value"])
        return ops.reshape(x, (-1, self._heads * cache["value"].shape[-1]))


def _projection(attention, *names):
    """Several projections of the same vectors, as one; queries scaled."""
    kernels, biases = [], []
    for name in names:
        scale = attention.key_dim**-0.5 if name == "query" else 1.0
        kernels.append(getattr(attention, f"{name}_kernel") * scale)
        if attention.use_bias:
            biases.append(getattr(attention, f"{name}_bias") * scale)
    bias = ops.concatenate(biases) if biases else None
    kernel = ops.concatenate(kernels, axis=1)
    return _linear(kernel, bias, attention.compute_dtype)


def _linear(kernel, bias, dtype):
    kernel = ops.cast(kernel, dtype)
    if bias is None:
        return lambda x: ops.matmul(x, kernel)
    bias = ops.cast(bias, dtype)
    return lambda x: ops.add(ops.matmul(x, kernel), bias)


def _norm(layer):
    gamma, beta = ops.cast(layer.gamma, "float32"), layer.beta

    def normalize(x):
        centred = ops.cast(x, "float32")
        centred = centred - ops.mean(centred, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        scale = ops.rsqrt(variance + layer.epsilon) * gamma
        return ops.cast(centred * scale + beta, x.dtype)

    return normalize


def _positions(layer, limit, width):
    if layer.kind == "learned":
        return ops.convert_to_tensor(layer.positions)
    return sinusoids(ops.arange(limit, dtype="int32"), width, layer.kind)


def _bias(visible):
    return ops.where(visible, 0.0, HIDDEN)
