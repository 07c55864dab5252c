"""Our layers in ordinary Keras models: a classifier and a language model.

    python examples/layers_in_your_model.py

Takes about a minute on two cores, with text that it makes by itself. The
classifier tells whether a sentence is true, which needs the order of its
words. The language model learns to count and continues a line.
"""

import keras
import numpy as np

from keras_transformer import layers

NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve "
    "thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"
).split()
WORDS = ["", "is", "more", "less", "than", *NUMBERS]
IDS = {word: i for i, word in enumerate(WORDS)}


def ids_of(sentences):
    """Sentences of known words to ids, padded with 0 at the end."""
    rows = [[IDS[word] for word in sentence.split()] for sentence in sentences]
    longest = max(map(len, rows))
    return np.array([row + [0] * (longest - len(row)) for row in rows])


def comparisons(rng, count):
    """Sentences like "three is less than ten", half of them false."""
    sentences, truths = [], []
    for _ in range(count):
        a, b = rng.choice(len(NUMBERS), size=2, replace=False)
        word = rng.choice(["more", "less"])
        sentences.append(f"{NUMBERS[a]} is {word} than {NUMBERS[b]}")
        truths.append((a > b) == (word == "more"))
    return ids_of(sentences), np.array(truths)


def classifier():
    """Two encoder layers between an embedding and a pooling layer."""
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            layers.TokenEmbedding(len(WORDS), 32),
            layers.PositionalEncoding(),
            layers.EncoderLayer(num_heads=4, intermediate_dim=64),
            layers.EncoderLayer(num_heads=4, intermediate_dim=64),
            # The padding mask has travelled up to here.
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model


def counting(rng, count):
    """Lines like "two four six eight": a start, a step, five numbers."""
    lines = []
    for _ in range(count):
        step = rng.integers(1, 5)
        start = rng.integers(0, len(NUMBERS) - 4 * step)
        lines.append(" ".join(NUMBERS[start + step * i] for i in range(5)))
    return ids_of(lines)


def language_model():
    """Decoder layers called without a memory: each sees only the past."""
    ids = keras.Input((None,), dtype="int32")
    embedding = layers.TokenEmbedding(len(WORDS), 64)
    x = layers.PositionalEncoding()(embedding(ids))
    for _ in range(2):
        x = layers.DecoderLayer(num_heads=4, intermediate_dim=128)(x)
    logits = embedding(x, reverse=True)
    model = keras.Model(ids, logits)
    model.compile(
        keras.optimizers.Adam(2e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def continue_lines(model, lines, length=5):
    """The likeliest next word, again and again, for lines of equal length."""
    ids = ids_of(lines)
    while ids.shape[1] < length:
        logits = keras.ops.convert_to_numpy(model(ids))
        ids = np.concatenate([ids, logits[:, -1:].argmax(axis=-1)], axis=1)
    return [" ".join(WORDS[i] for i in line) for line in ids]


def main(steps=600):
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(1)

    model = classifier()
    model.fit(*comparisons(rng, 64 * steps), batch_size=64, verbose=2)
    # Every pair of numbers occurs in training, so this is memory and order,
    # not arithmetic.
    _, accuracy = model.evaluate(*comparisons(rng, 2000), verbose=0)
    print(f"classifier: {accuracy:.1%} of new sentences judged rightly")

    model = language_model()
    lines = counting(rng, 64 * steps)
    model.fit(lines[:, :-1], lines[:, 1:], batch_size=64, verbose=2)
    starts = ["two four", "one two", "zero three", "three seven"]
    for start, line in zip(starts, continue_lines(model, starts)):
        print(f"language model: {start} ... -> {line}")
    lines = [" ".join(WORDS[i] for i in row) for row in counting(rng, 100)]
    starts = [" ".join(line.split()[:2]) for line in lines]
    right = np.sum(np.array(continue_lines(model, starts)) == lines)
    print(f"language model: {right} of 100 lines continued rightly")


if __name__ == "__main__":
    main()
