"""One step of the decoder for many hypotheses, written out for a loop.

`Transformer.decode` with a cache computes the same. Here, what does not change
from step to step is prepared before the loop, and little is left for a step to
do: a loop of small operations spends its time on their number.
"""

from keras import ops

from keras_transformer.decoding.loop import first_room
from keras_transformer.decoding.past import (
    RowsInPlace,
    Slices,
    writes_in_place,
)
from keras_transformer.layers import padding_mask
from keras_transformer.layers.axes import shape_of
from keras_transformer.layers.dot_product import HIDDEN
from keras_transformer.layers.positions import sinusoids


def make_step(model, source_ids, limit, num_hypotheses=1, jit_compile=False):
    """A function for one step, and what it starts from.

    The hypotheses of a source share its memory and one past, which has a key
    and a value for each step and each place among the hypotheses. When a search
    goes on from other hypotheses than before, nothing is moved: `lines` tells
    whose keys a hypothesis sees.

    Args:
        model: A `Transformer`.
        source_ids: Ids, `(batch, source_length)`.
        limit: The greatest number of steps.
        num_hypotheses: Number of hypotheses for each source.
        jit_compile: Whether XLA compiles the graph.

    Returns:
        A function `step(last, state, lines=None)`, and a part of the search's
        state: `"memory"`, keys and values of the sources, and `"past"`, those
        of earlier steps, which is empty.

        The function takes the last ids, `(batch, num_hypotheses)`, and the
        state with `"step"`, their number. It gives log-probabilities of the
        next ones, `(batch * num_hypotheses, vocabulary)`, and the past with
        this step in it. With several hypotheses `lines`, `(batch,
        num_hypotheses, steps)`, has the place that each had at each earlier
        step.
    """
    memory = model.encode(source_ids)
    dtype = memory.dtype
    past_kind = RowsInPlace if writes_in_place(jit_compile) else Slices
    layers = [
        _Layer(layer, num_hypotheses, past_kind, dtype)
        for layer in model.decoder_layers
    ]
    room = first_room(limit, jit_compile)
    start = {
        "memory": {
            "layers": [layer.read(memory) for layer in layers],
            "bias": _bias(padding_mask(source_ids)[:, None, None]),
        },
        "past": [layer.empty_past(memory, room) for layer in layers],
    }
    window = model.decoder_layers[0].attention_window
    positions = _positions(model.target_positions, limit, memory.shape[-1])
    positions = ops.cast(positions, dtype)
    embedding = model.target_embedding
    _check_float(model.source_embedding, embedding)
    embeddings = ops.cast(embedding.embeddings, dtype)
    scale = ops.cast(embedding.output_dim**0.5, dtype)
    # As in the model, logits are float32 in mixed precision, too.
    reverse = ops.transpose(ops.cast(embedding.embeddings, "float32"))
    if not embedding.tie_weights:
        reverse = ops.cast(embedding.reverse_embeddings, "float32")
    norm = _norm(model.decoder_norm) if model.decoder_norm else None
    places = ops.arange(num_hypotheses, dtype="int32")

    def past_bias(index, room, lines):
        """What to add to scores: (batch or 1, 1, hypotheses, past keys)."""
        steps = ops.arange(room, dtype="int32")
        visible = steps <= index
        if window is not None:
            visible = visible & (steps >= index - window)
        visible = visible[:, None]
        if num_hypotheses > 1:
            own = ops.where(ops.equal(steps, index), places[:, None], lines)
            visible = visible & ops.equal(own[..., None], places)
        shape = (-1, 1, num_hypotheses, room * num_hypotheses)
        return _bias(ops.reshape(visible, shape))

    def step(last, state, lines=None):
        index, memory = state["step"], state["memory"]
        x = ops.take(embeddings, ops.reshape(last, (-1,)), axis=0) * scale
        x = x + ops.slice(positions, (index, 0), (1, x.shape[-1]))
        room = shape_of(state["past"][0]["value"])[2] // num_hypotheses
        biases = past_bias(index, room, lines), memory["bias"]
        address = past_kind.address(
            state["past"][0], index * num_hypotheses, num_hypotheses
        )
        new_past = []
        for layer, *seen in zip(layers, state["past"], memory["layers"]):
            x, past = layer(x, *seen, address, *biases)
            new_past.append(past)
        x = x if norm is None else norm(x)
        logits = ops.matmul(ops.cast(x, "float32"), reverse)
        return ops.log_softmax(logits), new_past

    return step, start


class _Layer:
    """One decoder layer, for one position of each of many hypotheses.

    Args:
        layer: A `DecoderLayer`.
        num_hypotheses: Number of hypotheses for each source.
        past: `Slices` or `RowsInPlace`.
        dtype: What it computes in.
    """

    def __init__(self, layer, num_hypotheses, past, dtype):
        to_past, to_memory = layer._self_attention, layer._memory_attention
        feed_forward = layer._feed_forward
        _check_float(feed_forward._widen, feed_forward._narrow)
        self._heads, self._hypotheses = to_past.num_heads, num_hypotheses
        self._past, self._dtype = past, dtype
        self._key_dim, self._value_dim = to_past.key_dim, to_past.value_dim
        self._normalize_first = layer.normalize_first
        self._activation = layer.activation
        self._project = _projection(to_past, "query", "key", "value")
        self._join = _projection(to_past, "output")
        self._project_query = _projection(to_memory, "query")
        self._join_memory = _projection(to_memory, "output")
        self._fill_cache = to_memory.fill_cache
        self._widen, self._narrow = (
            _linear(dense.kernel, dense.bias, dtype)
            for dense in (feed_forward._widen, feed_forward._narrow)
        )
        self._past_norm, self._memory_norm, self._feed_forward_norm = map(
            _norm,
            (layer._self_norm, layer._memory_norm, layer._feed_forward_norm),
        )

    def read(self, memory):
        """The memory's keys, as columns, and values."""
        read = self._fill_cache(memory)
        return {**read, "key": ops.transpose(read["key"], (0, 1, 3, 2))}

    def empty_past(self, memory, num_steps):
        """Room for some steps."""
        return self._past.empty(
            shape_of(memory)[0],
            self._heads,
            num_steps * self._hypotheses,
            self._key_dim,
            self._value_dim,
            self._dtype,
        )

    def __call__(self, x, past, memory, address, past_bias, memory_bias):
        def attend_to_past(x):
            nonlocal past
            query, key, value = self._split(self._project(x))
            past = self._past.write(past, address, key, value)
            outputs = self._attend(query, past, past_bias, self._past.scores)
            return self._join(outputs)

        def attend_to_memory(x):
            query = self._heads_first(self._project_query(x))
            outputs = self._attend(query, memory, memory_bias, Slices.scores)
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
        if self._key_dim != self._value_dim:
            width = self._heads * self._key_dim
            parts = ops.split(x, [width, 2 * width], axis=-1)
            return map(self._heads_first, parts)
        shape = (-1, self._hypotheses, 3, self._heads, self._key_dim)
        x = ops.transpose(ops.reshape(x, shape), (2, 0, 3, 1, 4))
        return ops.unstack(x, 3)

    def _heads_first(self, x):
        """(rows, heads * dim) -> (batch, heads, hypotheses, dim)."""
        dim = x.shape[-1] // self._heads
        if self._hypotheses == 1:
            return ops.reshape(x, (-1, self._heads, 1, dim))
        x = ops.reshape(x, (-1, self._hypotheses, self._heads, dim))
        return ops.transpose(x, (0, 2, 1, 3))

    def _attend(self, query, cache, bias, equation):
        # Neither `matmul` nor `softmax`: where they are this small, TensorFlow
        # spends ten times longer on handing them to oneDNN than they take.
        scores = ops.einsum(equation, query, cache["key"])
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


def _check_float(*layers):
    """Raises where `Model.quantize` has put whole numbers for the weights."""
    for layer in layers:
        if mode := getattr(layer.dtype_policy, "quantization_mode", None):
            raise ValueError(
                "A search needs a model with weights of floating point. "
                f"Received: one with {layer.name} in {mode}. Load it again, "
                "without `quantize`."
            )


def _norm(layer):
    gamma, beta = (ops.cast(x, "float32") for x in (layer.gamma, layer.beta))

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
