"""The paper's formulas a second time, in NumPy and float64: the judge."""

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, gamma, beta, epsilon=1e-6):
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta


def sinusoids(length, width, start=0):
    positions = np.arange(start, start + length)[:, None]
    encoding = np.zeros((length, width))
    for dim in range(width):
        angle = positions[:, 0] / 10000 ** (2 * (dim // 2) / width)
        encoding[:, dim] = np.sin(angle) if dim % 2 == 0 else np.cos(angle)
    return encoding


def attention(query, key, value, layer, visible=None):
    """Head by head, as equation 1 and section 3.2.2 have it.

    `visible` is (batch, query, key); a query that sees nothing gets zeros.
    """
    weights = {w.name: np.asarray(w, "float64") for w in layer.weights}
    heads, scores = [], []
    for i in range(layer.num_heads):
        keys = slice(i * layer.key_dim, (i + 1) * layer.key_dim)
        values = slice(i * layer.value_dim, (i + 1) * layer.value_dim)
        q = query @ weights["query_kernel"][:, keys]
        k = key @ weights["key_kernel"][:, keys]
        v = value @ weights["value_kernel"][:, values]
        if layer.use_bias:
            q = q + weights["query_bias"][keys]
            k = k + weights["key_bias"][keys]
            v = v + weights["value_bias"][values]
        logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(layer.key_dim)
        if visible is None:
            a = softmax(logits)
        else:
            seen = np.broadcast_to(visible, logits.shape)
            a = softmax(np.where(seen, logits, -np.inf).clip(-1e300))
            a = np.where(seen, a, 0.0)
        scores.append(a)
        heads.append(a @ v)
    output = np.concatenate(heads, axis=-1) @ weights["output_kernel"]
    if layer.use_bias:
        output = output + weights["output_bias"]
    return output, np.stack(scores, axis=1)


def feed_forward(x, layer):
    w1, b1, w2, b2 = (np.asarray(w, "float64") for w in layer.weights)
    return np.maximum(0, x @ w1 + b1) @ w2 + b2


def norm(x, layer):
    gamma, beta = (np.asarray(w, "float64") for w in layer.weights)
    return layer_norm(x, gamma, beta)


def around(sublayer, norm_layer, x, normalize_first):
    if normalize_first:
        return x + sublayer(norm(x, norm_layer))
    return norm(x + sublayer(x), norm_layer)


def encoder_layer(x, layer, visible=None):
    x = around(
        lambda y: attention(y, y, y, layer._attention, visible)[0],
        layer._attention_norm,
        x,
        layer.normalize_first,
    )
    return around(
        lambda y: feed_forward(y, layer._feed_forward),
        layer._feed_forward_norm,
        x,
        layer.normalize_first,
    )


def decoder_layer(x, memory, layer, visible=None, memory_visible=None):
    length = x.shape[1]
    causal = np.tril(np.ones((1, length, length), bool))
    visible = causal if visible is None else causal & visible
    x = around(
        lambda y: attention(y, y, y, layer._self_attention, visible)[0],
        layer._self_norm,
        x,
        layer.normalize_first,
    )
    if memory is not None:
        x = around(
            lambda y: attention(
                y, memory, memory, layer._memory_attention, memory_visible
            )[0],
            layer._memory_norm,
            x,
            layer.normalize_first,
        )
    return around(
        lambda y: feed_forward(y, layer._feed_forward),
        layer._feed_forward_norm,
        x,
        layer.normalize_first,
    )


def transformer(source_ids, target_ids, model):
    """Logits of the whole model, embeddings shared and tied."""
    matrix = np.asarray(model.target_embedding.embeddings, "float64")
    width = matrix.shape[1]

    def embed(ids):
        return matrix[ids] * np.sqrt(width) + sinusoids(ids.shape[1], width)

    source_visible = (source_ids != 0)[:, None, :]
    target_visible = (target_ids != 0)[:, None, :]
    memory = embed(source_ids)
    for layer in model.encoder_layers:
        memory = encoder_layer(memory, layer, source_visible)
    if model.encoder_norm is not None:
        memory = norm(memory, model.encoder_norm)
    x = embed(target_ids)
    for layer in model.decoder_layers:
        x = decoder_layer(x, memory, layer, target_visible, source_visible)
    if model.decoder_norm is not None:
        x = norm(x, model.decoder_norm)
    return x @ matrix.T
