"""Trains a translator for BLEU itself, when likelihood has no more to give.

    python examples/minimum_risk.py runs/tuned runs/mine --pairs train.tsv

Likelihood knows one right translation of each sentence, and all others are as
wrong as each other. Here the model translates sentences in several ways, by
beam search and by sampling, and BLEU says how close each is to the reference.
Then it learns to expect more of it: translations that are better than the
others become likelier (minimum risk training; Shen et al. 2016, in the form of
Edunov et al. 2018). One pass at a small rate is enough. A long one learns the
references by heart: look at a development set.
"""

import argparse
import random
from functools import partial

import keras
import sacrebleu
import tensorflow as tf
from keras import ops
from keras.utils import pad_sequences

import keras_transformer as kt
from keras_transformer.data import read_pairs
from keras_transformer.tokenizer import START

NUM_CANDIDATES = 12  # at the most, and the reference

# Of a batch: source ids and ids of candidates, and rewards.
SIGNATURE = (
    (
        tf.TensorSpec([None, None], "int32"),
        tf.TensorSpec([None, NUM_CANDIDATES + 1, None], "int32"),
    ),
    tf.TensorSpec([None, NUM_CANDIDATES + 1], "float32"),
)

# Of one sentence, and smoothed: most have not four words in a row right.
BLEU = sacrebleu.BLEU(
    smooth_method="add-k", smooth_value=1, effective_order=True
)


def main(
    output,
    folder,
    sources,
    num_sentences=10_000,
    learning_rate=3e-5,
    dtype="float32",
    seed=1,
):
    """Writes the model of `folder`, trained with `sources`, to `output`."""
    keras.utils.set_random_seed(seed)
    references = {}
    for source in sources:
        for text, target in read_pairs(source):
            references.setdefault(text, []).append(target)
    texts = list(references)
    random.shuffle(texts)
    texts = texts[:num_sentences]

    print(
        f"Translating {len(texts):,} sentences, each several times ...",
        flush=True,
    )
    found = candidates(kt.load(folder), texts, seed)
    groups = []
    for text, group in zip(texts, found):
        first, *others = references[text]
        group = [first, *(c for c in group if c != first)]
        rewards = [reward(c, [first, *others]) for c in group]
        if max(rewards) > min(rewards):  # or there is nothing to learn
            groups.append((text, group, rewards))

    if not groups:
        raise ValueError(
            "There must be sentences with translations of unlike quality. "
            f"Received: {len(texts):,} sentences, none of them such a one. "
            "Give more pairs, or a higher `--sentences`."
        )

    translator = kt.load(folder, dtype=dtype)
    model = Candidates(translator.model)
    model.compile(kt.Adam(learning_rate), risk, jit_compile=False)
    plan = batches(groups, translator)
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(plan), output_signature=SIGNATURE
    )
    print(
        f"Training with {len(groups):,} of them, {len(plan):,} updates.",
        flush=True,
    )
    model.fit(dataset.prefetch(2), steps_per_epoch=len(plan), shuffle=False)
    translator.save(output)
    print(
        f"Wrote {output}. Next: keras-transformer evaluate … --model {output}"
    )


def candidates(translator, texts, seed):
    """For each text different translations, by beam search and by sampling."""
    searches = [
        translator.translate(texts, beam_size=4, num_results=4),
        translator.translate(texts, num_results=12, temperature=0.9, seed=seed),
    ]
    groups = []
    for results in zip(*searches):
        group = [t.text for r in results for t in (r, *r.alternatives)]
        groups.append(list(dict.fromkeys(group))[:NUM_CANDIDATES])
    return groups


def reward(candidate, references):
    """BLEU with the reference that it is closest to, from 0 to 1."""
    return max(
        BLEU.sentence_score(candidate, [reference]).score / 100
        for reference in references
    )


class Candidates(keras.Model):
    """Log-probabilities of several translations of each source.

    Call arguments:
        inputs: Source ids, `(batch, source_length)`, and ids of candidates,
            `(batch, num_candidates, target_length)`, each with its end.

    Returns:
        Floats, `(batch, num_candidates)`.
    """

    def __init__(self, transformer):
        super().__init__()
        self.transformer = transformer

    def call(self, inputs, training=None):
        source_ids, target_ids = inputs
        batch, count, length = ops.shape(target_ids)
        target_ids = ops.reshape(target_ids, (batch * count, length))
        starts = ops.full((batch * count, 1), START, "int32")
        memory = self.transformer.encode(source_ids, training=training)
        logits = self.transformer.decode(
            ops.concatenate([starts, target_ids[:, :-1]], axis=1),
            ops.repeat(memory, count, axis=0),
            ops.repeat(ops.not_equal(source_ids, 0), count, axis=0),
            training=training,
        )
        losses = kt.SmoothedCrossentropy(0.0).call(target_ids, logits)
        return -ops.reshape(ops.sum(losses, axis=1), (batch, count))


def risk(rewards, log_probs, sharpness=0.5, likelihood=0.01):
    """What the model can expect to lose, if candidates are all there is.

    Args:
        rewards: Floats, `(batch, num_candidates)`, that of the reference
            first; negative where there is no candidate.
        log_probs: What `Candidates` gives.
        sharpness: The lower, the more unlikely candidates count.
        likelihood: Share of the usual loss, which holds on to the language.
    """
    is_real = rewards >= 0
    probabilities = ops.softmax(
        ops.where(is_real, sharpness * log_probs, -1e9), axis=1
    )
    lost = ops.sum(ops.where(is_real, probabilities * (1 - rewards), 0), axis=1)
    return lost - likelihood * log_probs[:, 0]


def batches(groups, translator, tokens_per_batch=5000, window=4000):
    """`[((source ids, ids of candidates), rewards), ...]`, of like lengths."""
    sources = translator.source_tokenizer.tokenize(
        [text for text, _, _ in groups], add_end=True
    )
    rows = [
        (source, translator.target_tokenizer.tokenize(group, add_end=True), r)
        for source, (_, group, r) in zip(sources, groups)
    ]
    plan = []
    for start in range(0, len(rows), window):
        batch = []
        for row in sorted(
            rows[start : start + window], key=lambda row: max(map(len, row[1]))
        ):
            longest = max(map(len, row[1]))
            size = (len(batch) + 1) * (NUM_CANDIDATES + 1) * longest
            if batch and size > tokens_per_batch:
                plan.append(arrays(batch))
                batch = []
            batch.append(row)
        plan.append(arrays(batch))
    random.shuffle(plan)
    return plan


def arrays(batch):
    """Source ids and ids of candidates, and rewards, padded."""
    pad = partial(pad_sequences, padding="post")
    sources, targets, rewards = zip(*batch)
    count = NUM_CANDIDATES + 1
    target_ids = []
    for group in targets:
        target_ids += [*group, *[[]] * (count - len(group))]
    target_ids = pad(target_ids).reshape(len(batch), count, -1)
    rewards = pad(rewards, maxlen=count, value=-1, dtype="float32")
    return (pad(sources), target_ids), rewards


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("output", help="folder for the trained model")
    parser.add_argument("folder", help="a run's folder, or a saved model")
    parser.add_argument(
        "--pairs",
        nargs="+",
        required=True,
        metavar="SOURCE",
        help="training pairs, as `keras-transformer prepare` takes them",
    )
    parser.add_argument(
        "--sentences",
        type=int,
        default=10_000,
        metavar="N",
        help="how many of them, drawn at random (10000)",
    )
    parser.add_argument(
        "--learning-rate", type=float, default=3e-5, metavar="X", help="(3e-5)"
    )
    parser.add_argument(
        "--dtype",
        default="float32",
        help="mixed_bfloat16 is faster where the processor multiplies in it",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    args = parser.parse_args()
    try:
        main(
            args.output,
            args.folder,
            args.pairs,
            args.sentences,
            args.learning_rate,
            args.dtype,
            args.seed,
        )
    except (OSError, ValueError) as error:
        parser.error(str(error))
