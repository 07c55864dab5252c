# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The Transformer, section by section
#
# *Attention Is All You Need* (Vaswani et al., 2017), read with the layers of
# `keras_transformer`. Each cell runs; the last ones train a translator of
# numbers in words and search with a beam. About four minutes on two cores.
#
# `examples/walkthrough.ipynb` is made from `examples/walkthrough.py`:
#
#     cd examples && jupytext --to ipynb walkthrough.py

# %%
import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import keras_transformer as kt
from keras_transformer import layers
from keras_transformer.data import numbers

keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)

# %% tags=["parameters"]
EPOCHS = 5  # passes over the training numbers
PAIRS = 100_000  # how many of them

# %% [markdown]
# ## 3.2.1 Scaled dot-product attention
#
# A query is compared with all keys. The softmax of the comparisons says how
# much of each value it takes:
#
# $$Attention(Q, K, V) = softmax(QK^T / \sqrt{d_k}) V$$


# %%
def attention(query, key, value):
    scores = query @ key.T / np.sqrt(key.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ value, weights


keys = np.eye(4)  # four keys, each in a direction of its own
values = np.array([[1.0], [2.0], [3.0], [4.0]])
outputs, weights = attention(10 * keys[2:3], keys, values)
print("weights", weights.round(3), "takes", outputs.round(2))

# %% [markdown]
# Why divide by $\sqrt{d_k}$? The dot product of two random vectors has a
# variance of $d_k$. Undivided, scores grow with the width, one weight takes
# everything, and the softmax has hardly a gradient.

# %%
for width in (4, 64, 1024):
    query, many = rng.normal(size=width), rng.normal(size=(1000, width))
    scores = many @ query
    print(
        f"d_k {width}: spread of scores {scores.std():.1f}, "
        f"divided {scores.std() / np.sqrt(width):.2f}"
    )

# %% [markdown]
# ## 3.2.2 Multi-head attention
#
# Several heads attend side by side, each on projections of its own, so that one
# can look at the previous word while another looks for a verb. The layer stands
# in for `keras.layers.MultiHeadAttention`.

# %%
heads = layers.MultiHeadAttention(num_heads=4, key_dim=8)
x = rng.normal(size=(1, 5, 32)).astype("float32")
outputs, weights = heads(x, x, return_attention_scores=True)
print("outputs", outputs.shape)
print("weights (batch, head, query, key)", weights.shape)
print("each row sums to", ops.sum(weights, axis=-1)[0, 0])

# %% [markdown]
# ## 3.2.3 Masks
#
# Masks are booleans, and `True` is visible. The decoder must not see what it
# is to write, and nobody should look at padding, which is id 0.

# %%
print(np.asarray(layers.causal_mask(4)[0]).astype(int))
print(np.asarray(layers.padding_mask(np.array([[7, 8, 3, 0, 0]]))))

future = x.copy()
future[:, 3:] += 1.0
before = heads(x, x, use_causal_mask=True)
after = heads(future, future, use_causal_mask=True)
change = np.abs(before - after)[0].max(axis=-1)
print("a change at positions 3 and 4 reaches", change.round(3))

# %% [markdown]
# ## 3.4 and 3.5 Embeddings and positions
#
# One matrix turns ids into vectors, scaled by $\sqrt{d_{model}}$, and vectors
# into logits. Attention knows no order, so waves of many lengths are added that
# tell positions:
#
# $$PE(pos, 2i) = \sin(pos / 10000^{2i/d})$$
# $$PE(pos, 2i+1) = \cos(pos / 10000^{2i/d})$$

# %%
embedding = layers.TokenEmbedding(vocabulary_size=100, hidden_dim=32)
positions = layers.PositionalEncoding()
ids = np.array([[7, 8, 7, 3]])
vectors = positions(embedding(ids))
print("one word, two positions:", vectors[0, 0, :3], vectors[0, 2, :3])
print("logits", embedding(vectors, reverse=True).shape)

waves = positions(np.zeros((1, 60, 32), "float32"))[0]
plt.figure(figsize=(6, 2.6))
plt.imshow(waves, aspect="auto", cmap="RdBu")
plt.xlabel("dimension")
plt.ylabel("position")
plt.show()

# %% [markdown]
# ## 3.1 and 3.3 Encoder and decoder
#
# Each layer has sub-layers: attention, and a feed-forward network that treats
# each position on its own. Around each stand a residual connection, dropout and
# a layer norm. The decoder has one attention more, to the encoder's output,
# which we call the memory.

# %%
source, target = rng.normal(size=(2, 1, 6, 32)).astype("float32")
memory = layers.EncoderLayer(num_heads=4, intermediate_dim=64)(source)
decoded = layers.DecoderLayer(num_heads=4, intermediate_dim=64)(target, memory)
print("memory", memory.shape, "decoded", decoded.shape)

# %% [markdown]
# ## The model
#
# Stacks of both, between embeddings. The paper's `base` is 6 layers of width
# 512; numbers in words need 2 layers of width 64.

# %%
base = kt.Transformer.from_preset("base", vocabulary_size=37_000)
print(f"{base.count_params() / 1e6:.0f} million parameters (paper: 65)")
del base

# %% [markdown]
# ## 5.1 Data and batches
#
# English numbers to German ones. German says the ones before the tens, so that
# words cross. Both languages share one vocabulary of BPE pieces; pairs of
# similar length share a batch of so many tokens.

# %%
pairs = list(numbers("train", amount=PAIRS))
for english, german in pairs[:3]:
    print(f"{english} -> {german}")
tokenizer = kt.Tokenizer.train((text for pair in pairs for text in pair), 512)
print([tokenizer.pieces[i] for i in tokenizer.tokenize(pairs[0][0])])
batches = kt.make_batches(pairs, tokenizer, tokens_per_batch=4096)
inputs, targets = next(iter(batches))
print({name: ids.shape for name, ids in inputs.items()})
print("the decoder reads", inputs["target_ids"][0, :6].numpy())
print("and should write ", targets[0, :6].numpy())

# %% [markdown]
# ## 5.3 The learning rate
#
# It rises for the warm-up and falls with one over the square root:
# $lrate = d_{model}^{-0.5} \cdot \min(step^{-0.5}, step \cdot warmup^{-1.5})$

# %%
schedule = kt.TransformerSchedule(hidden_dim=64, warmup_steps=400)
steps = np.arange(2000)
plt.figure(figsize=(6, 2.2))
plt.plot(steps + 1, schedule(steps))
plt.xlabel("update")
plt.ylabel("learning rate")
plt.show()

# %% [markdown]
# ## 5.4 Label smoothing
#
# The right label is worth 0.9, and all others share the rest. A model that is
# too sure of itself pays for it. The loss is the mean over real tokens; padding
# does not count.

# %%
sure = np.full((1, 1, 10), -20.0, "float32")
sure[0, 0, 5] = 20.0
unsure = np.full((1, 1, 10), 0.0, "float32")
unsure[0, 0, 5] = 4.4  # about 0.9 of the probability
for epsilon in (0.0, 0.1):
    loss = kt.SmoothedCrossentropy(label_smoothing=epsilon)
    print(
        f"ε {epsilon}: quite sure costs {float(loss([[5]], sure)):.3f}, "
        f"90% sure costs {float(loss([[5]], unsure)):.3f}"
    )

# %% [markdown]
# ## 5 Training
#
# Adam with the paper's β and ε, and `model.fit`.

# %%
size = tokenizer.vocabulary_size
model = kt.Transformer.from_preset("tiny", size, dropout=0.0)
model.compile(
    optimizer=kt.Adam(schedule),
    loss=kt.SmoothedCrossentropy(0.1),
    metrics=[kt.TokenAccuracy(name="accuracy"), kt.Perplexity()],
)
history = model.fit(batches, epochs=EPOCHS, shuffle=False, verbose=2)

# %% [markdown]
# ## 6.1 Beam search
#
# Four hypotheses stay open. A finished one scores its log-probability over
# $((5 + length) / 6)^{0.6}$, so that short ones have no advantage. These
# numbers were never seen in training.

# %%
translator = kt.Translator(model, tokenizer)
unseen = list(numbers("test"))[:200]
english, german = zip(*unseen)
found = [result.text for result in translator.translate(english, beam_size=4)]
for source, target, text in list(zip(english, german, found))[:5]:
    verdict = "right" if text == target else f"should be {target}"
    print(f"{source} -> {text} ({verdict})")
right = sum(text == target for text, target in zip(found, german))
print(f"{right / len(unseen):.1%} of {len(unseen)} unseen numbers exact")

best = translator.translate("four hundred twenty-one", num_results=3)
for each in (best, *best.alternatives):
    print(f"{each.score:.3f} {each.text}")

# %% [markdown]
# ## What the heads look at
#
# German turns tens and ones around, and so does the attention to the source.

# %%
weights, rows, columns = translator.attention("eighty-seven")["memory"]
plt.figure(figsize=(5, 3))
plt.imshow(weights[-1].mean(axis=0), cmap="Blues", vmin=0)
plt.xticks(range(len(columns)), columns)
plt.yticks(range(len(rows)), rows)
plt.show()
