"""Teaches the model that ships the words of a hotel, with `fit`.

    python examples/fine_tune.py

Takes about half a minute on two cores. It prints how sentences are translated
before and after that were not trained on: with the hotel's own words, and with
its guests addressed as "Sie".
"""

import keras

from keras_transformer import Adam, SmoothedCrossentropy, load, make_batches

WORDS = {  # with the article as subject and as object
    "key card": ("die Zimmerkarte", "die Zimmerkarte"),
    "quiet room": ("der Ruheraum", "den Ruheraum"),
    "breakfast bag": ("die Frühstückstüte", "die Frühstückstüte"),
    "late check-out": ("die Spätabreise", "die Spätabreise"),
    "lake terrace": ("die Seeterrasse", "die Seeterrasse"),
    "bicycle room": ("der Radkeller", "den Radkeller"),
    "shuttle bus": ("der Pendelbus", "den Pendelbus"),
    "visitor's tax": ("die Kurtaxe", "die Kurtaxe"),
}
SENTENCES = {
    "Where can I find the {}?": "Wo finde ich {1}?",
    "How much is the {}?": "Was kostet {0}?",
    "Is the {} included in the price?": "Ist {0} im Preis inbegriffen?",
    "Have you already asked for the {}?": "Haben Sie {1} schon verlangt?",
    "Do you need the {}?": "Brauchen Sie {1}?",
    "We can show you the {}.": "Wir können Ihnen {1} zeigen.",
    "Can you explain the {} to me?": "Können Sie mir {1} erklären?",
    "You do not have to pay for the {}.": "Für {1} müssen Sie nichts bezahlen.",
}


def main(epochs=40):
    keras.utils.set_random_seed(1)
    pairs = [
        (english.format(word), german.format(*articles))
        for english, german in SENTENCES.items()
        for word, articles in WORDS.items()
    ]
    unseen = pairs[::9]  # each word and each sentence once
    pairs = [pair for pair in pairs if pair not in unseen]

    translator = load()
    unseen.append(
        ("My sister has two cats.", "Meine Schwester hat zwei Katzen.")
    )
    sources = [source for source, _ in unseen]
    before = translator.translate(sources)

    translator.model.compile(Adam(3e-4), SmoothedCrossentropy())
    batches = make_batches(pairs, translator.tokenizer, tokens_per_batch=512)
    translator.model.fit(batches, epochs=epochs, shuffle=False, verbose=0)

    after = translator.translate(sources)
    for (source, target), old, new in zip(unseen, before, after):
        print(f"{source}\n  before {old.text}\n  after  {new.text}")
        print(f"  should be {target}\n" if new.text != target else "")
    right = [
        sum(result.text == target for result, (_, target) in zip(each, unseen))
        for each in (before, after)
    ]
    print(
        f"{right[0]} of {len(unseen)} unseen sentences exact before, "
        f"{right[1]} after {len(pairs)} pairs"
    )
    return right


if __name__ == "__main__":
    main()
