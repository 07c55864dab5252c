"""Numbers in words, English to German: a parallel corpus without a download.

German says the ones before the tens and writes all below a million as one
word, so the two languages cross: "four hundred twenty-one" is
"vierhunderteinundzwanzig", four-hundred-one-and-twenty.
"""

import random
from itertools import pairwise

from keras_transformer.data.cleaning import fingerprint

LARGEST = 999_999_999_999
AMOUNTS = {"train": 100_000, "dev": 1_000, "test": 1_000}

_ENGLISH, _ENGLISH_TENS, _GERMAN, _GERMAN_TENS = map(
    str.split,
    (
        "zero one two three four five six seven eight nine ten eleven twelve "
        "thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
        "- - twenty thirty forty fifty sixty seventy eighty ninety",
        "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf "
        "dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn",
        "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    ),
)


def numbers(split="train", low=0, high=999_999, amount=None, seed=0):
    """Returns pairs of the same number in English and in German words.

    Each number belongs to one split for good, by a hash of its digits: 96%
    to train, 2% to dev, 2% to test. So no test number is ever seen in
    training, whatever the range, amount and seed. Every count of digits
    gets an equal share of `amount` as far as it has numbers; otherwise nine
    of ten numbers would have the most digits and small ones go unlearned.

    Args:
        split: `"train"`, `"dev"` or `"test"`.
        low: Smallest number.
        high: Largest number, at most 999,999,999,999.
        amount: How many pairs; 100,000 to train and 1,000 to evaluate if not
            given, or all there are in a smaller range.
        seed: Chooses the sample and its order.

    Returns:
        A list of `(english, german)`.

    >>> numbers("test", high=99)[0]
    ('sixty-six', 'sechsundsechzig')
    """
    if split not in AMOUNTS:
        raise ValueError(
            f"`split` must be one of {', '.join(AMOUNTS)}. "
            f"Received: split={split!r}."
        )
    if not 0 <= low <= high <= LARGEST:
        raise ValueError(
            f"`low` and `high` must be in order, within 0 and {LARGEST:,}. "
            f"Received: low={low}, high={high}."
        )
    amount = AMOUNTS[split] if amount is None else amount
    generator = random.Random(f"{seed} {split}")
    bands = _bands(low, high)
    chosen = []
    for index, band in enumerate(bands):
        share = (amount - len(chosen)) // (len(bands) - index)
        chosen += _sample(band, share, split, generator)
    generator.shuffle(chosen)
    return [(english_number(n), german_number(n)) for n in chosen]


def english_number(number):
    """Says a number in English: 421 is "four hundred twenty-one"."""
    _check(number)
    words = []
    for value, name in (
        (10**9, "billion"),
        (10**6, "million"),
        (10**3, "thousand"),
    ):
        count, number = divmod(number, value)
        if count:
            words += [_english_below_thousand(count), name]
    if number or not words:
        words.append(_english_below_thousand(number))
    return " ".join(words)


def german_number(number):
    """Says a number in German: 421 is "vierhunderteinundzwanzig"."""
    _check(number)
    if number == 0:
        return "null"
    words = []
    for value, name in ((10**9, "Milliarde"), (10**6, "Million")):
        count, number = divmod(number, value)
        if count:
            # Both nouns are feminine: eine Million, einhunderteine Millionen.
            ending = "e" if count % 100 == 1 else ""
            plural = "" if count == 1 else "n" if name[-1] == "e" else "en"
            words.append(_german_below_thousand(count) + ending)
            words.append(name + plural)
    thousands, rest = divmod(number, 1000)
    word = ""
    if thousands:
        word = _german_below_thousand(thousands) + "tausend"
    if rest:
        # "ein" is the form inside a word, "eins" the one that ends it.
        ending = "s" if rest % 100 == 1 else ""
        word += _german_below_thousand(rest) + ending
    return " ".join(words + [word] if word else words)


def _english_below_thousand(number):
    hundreds, rest = divmod(number, 100)
    words = [f"{_ENGLISH[hundreds]} hundred"] if hundreds else []
    if rest >= 20:
        tens, ones = divmod(rest, 10)
        word = _ENGLISH_TENS[tens]
        words.append(f"{word}-{_ENGLISH[ones]}" if ones else word)
    elif rest or not hundreds:
        words.append(_ENGLISH[rest])
    return " ".join(words)


def _german_below_thousand(number):
    hundreds, rest = divmod(number, 100)
    word = f"{_GERMAN[hundreds]}hundert" if hundreds else ""
    if rest >= 20:
        tens, ones = divmod(rest, 10)
        return (
            word + (f"{_GERMAN[ones]}und" if ones else "") + _GERMAN_TENS[tens]
        )
    return word + _GERMAN[rest] if rest else word


def _check(number):
    if not 0 <= number <= LARGEST:
        raise ValueError(
            f"A number in words must be from 0 to {LARGEST:,}. "
            f"Received: {number}."
        )


def _bands(low, high):
    """Cuts a range by the count of digits, shortest first."""
    edges = [0] + [10**digits for digits in range(1, 13)]
    bands = [
        range(max(low, start), min(high + 1, stop))
        for start, stop in pairwise(edges)
    ]
    return [band for band in bands if band]


def _split_of(number):
    return {0: "test", 1: "dev"}.get(fingerprint(str(number)) % 50, "train")


def _sample(band, amount, split, generator):
    """Draws up to `amount` different numbers of a split from one band."""
    share = 0.96 if split == "train" else 0.02
    if len(band) * share < 2 * amount:  # drawing would repeat itself: list
        fitting = [number for number in band if _split_of(number) == split]
        return generator.sample(fitting, min(amount, len(fitting)))
    chosen = {}  # a dict keeps the order, a set does not promise one
    while len(chosen) < amount:
        number = band[generator.randrange(len(band))]
        if _split_of(number) == split:
            chosen[number] = None
    return list(chosen)
