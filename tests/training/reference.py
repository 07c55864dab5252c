"""The formulas a second time, in NumPy and double precision."""

import numpy as np


def smoothed_targets(targets, vocabulary_size, smoothing, over):
    rest = smoothing / (vocabulary_size - (over == "wrong"))
    labels = np.full((*targets.shape, vocabulary_size), rest)
    right = 1 - smoothing + (rest if over == "all" else 0)
    np.put_along_axis(labels, targets[..., None], right, axis=-1)
    return labels


def loss_and_gradient(targets, logits, smoothing=0.1, over="wrong", weights=1):
    """Mean over real tokens, and its gradient by the logits."""
    logits = logits.astype("float64")
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_softmax = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    labels = smoothed_targets(targets, logits.shape[-1], smoothing, over)
    weights = (targets != 0) * np.ones(targets.shape) * weights
    weights = weights / weights.sum()
    loss = -((labels * log_softmax).sum(-1) * weights).sum()
    return loss, (np.exp(log_softmax) - labels) * weights[..., None]


def bigram_gradients(weights, ids, targets):
    """Loss and gradients of `logits = E[ids] Wᵀ`; W is E if it is tied."""
    embedding, output = weights[0], weights[-1]
    hidden = embedding[ids]
    loss, by_logits = loss_and_gradient(targets, hidden @ output.T)
    by_output = np.einsum("blv,bld->vd", by_logits, hidden)
    by_embedding = np.zeros_like(embedding)
    np.add.at(by_embedding, ids, by_logits @ output)
    if len(weights) == 1:
        return loss, [by_embedding + by_output]
    return loss, [by_embedding, by_output]


class Adam:
    def __init__(self, rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9):
        self.rate, self.epsilon = rate, epsilon
        self.betas, self.step = (beta_1, beta_2), 0
        self.moments = {}

    def apply(self, gradients, weights):
        self.step += 1
        (b1, b2), t = self.betas, self.step
        for i, (g, w) in enumerate(zip(gradients, weights)):
            m, v = self.moments.get(i, (0, 0))
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
            self.moments[i] = m, v
            m, v = m / (1 - b1**t), v / (1 - b2**t)
            w -= self.rate * m / (np.sqrt(v) + self.epsilon)


class Muon:
    """Orthogonal steps, for matrices alone."""

    def __init__(self, rate, momentum=0.95):
        self.rate, self.momentum = rate, momentum
        self.moments = {}

    def apply(self, gradients, weights):
        b = self.momentum
        for i, (g, w) in enumerate(zip(gradients, weights)):
            m = self.moments[i] = b * self.moments.get(i, 0) + g
            size = 0.2 * np.sqrt(max(w.shape))
            w -= self.rate * size * orthogonal(g + b * m)


def orthogonal(matrix):
    """The polynomial that Newton and Schulz iterate, on singular values."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    values = values / np.linalg.norm(matrix)
    for _ in range(5):
        values = 3.4445 * values - 4.775 * values**3 + 2.0315 * values**5
    return left * values @ right
