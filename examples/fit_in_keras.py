"""Trains a translator of numbers in your own Keras code, on two devices.

    python examples/fit_in_keras.py

Takes about four minutes on two cores and prints how many numbers that it has
never seen it translates exactly.
"""

import keras
import tensorflow as tf

from keras_transformer import (
    Adam,
    SmoothedCrossentropy,
    TokenAccuracy,
    Tokenizer,
    Transformer,
    TransformerSchedule,
    Translator,
    make_batches,
)
from keras_transformer.data import numbers


def main(epochs=5, devices=2):
    # Two devices on one processor. With GPUs, leave this out.
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * devices
    )
    strategy = tf.distribute.MirroredStrategy(
        [f"CPU:{i}" for i in range(devices)]
    )
    keras.utils.set_random_seed(1)

    pairs = list(numbers("train"))
    sentences = (sentence for pair in pairs for sentence in pair)
    tokenizer = Tokenizer.train(sentences, vocabulary_size=512)
    batches = make_batches(
        pairs, tokenizer, tokens_per_batch=4096, num_replicas=devices
    )
    with strategy.scope():
        model = Transformer.from_preset(
            "tiny", tokenizer.vocabulary_size, dropout=0.0
        )
        model.compile(
            optimizer=Adam(TransformerSchedule(64, warmup_steps=400)),
            loss=SmoothedCrossentropy(label_smoothing=0.1),
            metrics=[TokenAccuracy(name="accuracy")],
        )
    model.fit(batches, epochs=epochs, shuffle=False, verbose=2)

    unseen = list(numbers("test"))[:500]
    translations = Translator(model, tokenizer).translate(
        [source for source, _ in unseen]
    )
    for (source, target), translation in list(zip(unseen, translations))[:3]:
        print(f"{source} -> {translation.text} (should be {target})")
    right = sum(t.text == pair[1] for t, pair in zip(translations, unseen))
    print(f"{right / len(unseen):.1%} of {len(unseen)} unseen numbers exact")


if __name__ == "__main__":
    main()
