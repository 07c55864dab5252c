"""Translates text: in order, in batches, in parts where it is too long."""

import threading
import warnings
from collections import defaultdict

import numpy as np
import tensorflow as tf

from keras_transformer import decoding
from keras_transformer.batching.examples import tokenizer_pair
from keras_transformer.decoding.search import (
    IMPOSSIBLE,
    check_count,
)
from keras_transformer.layers import arguments, padding_mask
from keras_transformer.threads import in_threads
from keras_transformer.tokenizer import END, START
from keras_transformer.translator.alignment import word_alignment
from keras_transformer.translator.batches import (
    padded,
    padded_rows,
    rows_by_length,
)
from keras_transformer.translator.checks import (
    as_seed,
    check_positions,
    check_prefixes,
    check_texts,
    check_vocabulary,
)
from keras_transformer.translator.saving import save_translator
from keras_transformer.translator.speeds import Speeds
from keras_transformer.translator.splitting import split_text
from keras_transformer.translator.translation import (
    AttentionMap,
    Translation,
    join,
)
from keras_transformer.workers import num_workers

# The longest source, where training did not say how long its sources were.
MAX_SOURCE_LENGTH = 256
# The paper's α, where a model has none of its own.
LENGTH_PENALTY = 0.6
# Tokens of a batch that is not split so that there is one for each core.
LEAST_SHARE = 256


class Translator:
    """Translates sentences.

    Args:
        model: A `Transformer`.
        tokenizer: A `Tokenizer`, or a tuple of two, for source and target.
        max_source_length: Most pieces that the model was trained to read at
            once. What is longer is translated in parts.
        length_penalty: α in the paper, for where no other is given. It is
            saved with the model.
    """

    def __init__(
        self,
        model,
        tokenizer,
        max_source_length=MAX_SOURCE_LENGTH,
        length_penalty=LENGTH_PENALTY,
    ):
        arguments.check_sizes(max_source_length=max_source_length)
        arguments.check_number(length_penalty=length_penalty)
        positions = model.source_positions
        if positions.kind == "learned":  # one of them is for the end
            max_source_length = min(max_source_length, positions.max_length - 1)
        self.model = model
        self.tokenizer = tokenizer
        self.max_source_length = max_source_length
        self.length_penalty = length_penalty
        self.source_tokenizer, self.target_tokenizer = tokenizer_pair(tokenizer)
        check_vocabulary("source", self.source_tokenizer, model)
        check_vocabulary("target", self.target_tokenizer, model)
        self._graphs = {}
        self._lock = threading.Lock()
        self._speeds = defaultdict(Speeds)

    def translate(
        self,
        sentences,
        beam_size=4,
        length_penalty=None,
        *,
        num_results=1,
        max_extra_length=50,
        min_length=0,
        no_repeat_ngram_size=0,
        prefix=None,
        temperature=None,
        top_k=None,
        top_p=None,
        seed=None,
        attention=False,
        tokens_per_batch=1536,
        jit_compile=None,
        progress=None,
    ):
        """Translates any number of sentences.

        It looks for the likeliest translation by beam search. With
        `temperature`, `top_k` or `top_p` it draws one at random instead.

        Args:
            sentences: A list of strings, or one string. A blank one gives an
                empty translation. One of more than `max_source_length` pieces
                is translated in parts, with a warning.
            beam_size: Number of hypotheses kept open; 1 is greedy search.
            length_penalty: α in the paper. Defaults to the translator's own.
            num_results: Number of translations for each sentence. The best
                one has the others as its `alternatives`.
            max_extra_length: How many tokens longer than its source a
                translation may grow.
            min_length: Number of tokens before a translation may end, if
                `max_extra_length` lets it grow so long.
            no_repeat_ngram_size: If above 0, no sequence of so many tokens
                comes twice in a translation.
            prefix: Text that translations begin with: a string, or a list with
                one for each sentence. Best are whole words, with no space at
                the end.
            temperature: What logits are divided by. Below 1 likely tokens
                become likelier.
            top_k: If given, only so many of the likeliest tokens are drawn
                from.
            top_p: If given, only the fewest of the likeliest tokens are drawn
                from that have this share of the probability.
            seed: A whole number that decides what is drawn. Equal sentences
                get equal translations. By default others come each time.
            attention: Whether to return attention and alignment, too.
            tokens_per_batch: Most source tokens in a batch. Up to four batches
                run at a time. A compiled one has up to 32 sentences instead.
            jit_compile: Whether XLA compiles the search, for a few sizes of
                batches and in seconds for each. By default that is tried when
                there are thousands of sentences of about one length, and used
                if it is faster.
            progress: A function that is told how many more sentences are done.

        Returns:
            A list of `Translation` in the order of the sentences, or one for
            one string.
        """
        alone = isinstance(sentences, str)
        sentences = check_texts(
            "sentences", [sentences] if alone else sentences
        )
        arguments.check_sizes(
            beam_size=beam_size,
            num_results=num_results,
            tokens_per_batch=tokens_per_batch,
        )
        length_penalty = self._length_penalty(length_penalty)
        check_count(
            max_extra_length=max_extra_length,
            min_length=min_length,
            no_repeat_ngram_size=no_repeat_ngram_size,
        )
        search, options, tensors = _search(
            beam_size, num_results, temperature, top_k, top_p, seed
        )
        options.update(
            length_penalty=length_penalty,
            max_extra_length=max_extra_length,
            min_length=min_length,
            no_repeat_ngram_size=no_repeat_ngram_size,
        )
        parts = [self._parts(sentence) for sentence in sentences]
        _warn_of_parts(parts, self.max_source_length)
        texts = [text for each in parts for text, _ in each]
        sources = self.source_tokenizer.tokenize(texts, add_end=True)
        ids = {"source_ids": sources}
        if prefix is not None:
            ids["prefix_ids"] = self._prefixes(prefix, parts)
            check_prefixes(self.model, texts, ids, max_extra_length)
        nothing = Translation("", 0.0, [], alignment=[] if attention else None)
        n_bests = [[nothing]] * len(texts)
        blank = [row for row, text in enumerate(texts) if not text.strip()]
        tell = _teller(parts, progress)
        tell(blank)
        lengths = [len(source) for source in sources]
        speeds = self._speeds[(search, *options.items())]

        def run(batch):
            rows, size = batch
            found = self._run(
                search,
                {**padded_rows(ids, rows, size), **tensors},
                jit_compile=size is not None,
                **options,
            )
            return self._read([sources[row] for row in rows], found, attention)

        workers = num_workers()
        share = max(LEAST_SHARE, -(-sum(lengths) // workers))
        for group in speeds.groups(
            lengths,
            min(tokens_per_batch, share),
            without=blank,
            longest=self.max_source_length + 1,
            jit_compile=jit_compile,
            num_workers=workers,
        ):
            for (rows, _), read in in_threads(run, group, workers):
                for row, n_best in zip(rows, read):
                    n_bests[row] = n_best
                tell(rows)
        n_bests = iter(n_bests)
        results = [join(each, [next(n_bests) for _ in each]) for each in parts]
        return results[0] if alone else results

    def score(self, sentences, translations, length_penalty=None):
        """Scores given translations.

        With the same `length_penalty`, a translation scores what it scored
        when it was found, if its text has the same pieces again and it was not
        made in parts: here a sentence is read at once, however long.

        Args:
            sentences: A list of strings, or one string.
            translations: As many strings.
            length_penalty: α in the paper. Defaults to the translator's own;
                0 gives plain log-probabilities.

        Returns:
            A list of floats, or one for one string.
        """
        if isinstance(sentences, str):
            return self.score([sentences], [translations], length_penalty)[0]
        length_penalty = self._length_penalty(length_penalty)
        sentences = check_texts("sentences", sentences)
        if isinstance(translations, str):
            translations = [translations]
        translations = check_texts("translations", translations)
        if len(sentences) != len(translations):
            raise ValueError(
                "There must be one translation for each sentence. Received: "
                f"{len(sentences)} sentences, {len(translations)} "
                "translations. Give lists of the same length."
            )
        ids = {
            "source_ids": self.source_tokenizer.tokenize(
                sentences, add_end=True
            ),
            "target_ids": self.target_tokenizer.tokenize(
                translations, add_end=True
            ),
        }
        check_positions(self.model, **ids)
        lengths = [max(map(len, pair)) for pair in zip(*ids.values())]
        scores = np.zeros(len(lengths))
        for rows in rows_by_length(lengths, tokens_per_batch=4096):
            scores[rows] = self._run(
                decoding.score,
                padded_rows(ids, rows),
                length_penalty=length_penalty,
            )
        return scores.tolist()

    def attention(self, sentence, translation=None):
        """The attention weights of all layers and heads in one translation.

        Args:
            sentence: A string.
            translation: A string; by default what `translate` gives.

        Returns:
            A dictionary of `AttentionMap`: `"encoder"`, where source looks at
            source, `"decoder"`, where the translation looks at what is written
            already, and `"memory"`, where it looks at the source.
        """
        (sentence,) = check_texts("sentence", [sentence])
        if translation is None:
            translation = self.translate(sentence).text
        (translation,) = check_texts("translation", [translation])
        source = self.source_tokenizer.tokenize(sentence, add_end=True)
        target = self.target_tokenizer.tokenize(translation)
        check_positions(self.model, [source], [[START, *target]])
        read = [self.source_tokenizer.pieces[i] for i in source]
        start, *written, end = (
            self.target_tokenizer.pieces[i] for i in (START, *target, END)
        )
        labels = {
            "encoder": (read, read),
            "decoder": ([*written, end], [start, *written]),
            "memory": ([*written, end], read),
        }
        weights = self._attention([source], [target], tuple(labels))
        return {
            kind: AttentionMap(weights[kind][0].numpy(), *labels[kind])
            for kind in labels
        }

    def save(self, folder):
        """Writes a folder that `load` reads: beside, then renamed.

        A model that was saved there before is replaced.
        """
        save_translator(self, folder)

    def _length_penalty(self, given):
        alpha = self.length_penalty if given is None else given
        arguments.check_number(length_penalty=alpha)
        return alpha

    def _parts(self, text):
        """`[(part, gap), ...]`: the text alone, if it is short enough."""

        def fits(text):
            limit = self.max_source_length
            # A piece has at least one byte, a character at most four; half of
            # a pair of surrogates becomes nine.
            return (
                9 * len(text) <= limit
                or len(self.source_tokenizer.tokenize(text)) <= limit
            )

        if fits(text):
            return [(text, "")]
        return split_text(text.strip(), fits)

    def _prefixes(self, prefix, parts):
        """Ids that each part begins with: none but for the first."""
        if isinstance(prefix, str):
            prefix = [prefix] * len(parts)
        prefix = check_texts("prefix", prefix)
        if len(prefix) != len(parts):
            raise ValueError(
                "`prefix` must be a string, or a list with one for each "
                f"sentence. Received: {len(prefix)} for {len(parts)} "
                'sentences. Give "" where there is none.'
            )
        ids = self.target_tokenizer.tokenize(prefix)
        return [
            first if number == 0 else []
            for first, each in zip(ids, parts)
            for number in range(len(each))
        ]

    def _read(self, sources, found, attention):
        """For each source its translations, best first."""
        # A model may have rows beyond the vocabulary, which mean nothing.
        pieces = range(END + 1, self.target_tokenizer.vocabulary_size)
        hypotheses = [
            (row, [i for i in ids if i in pieces], score)
            for row, (_, n_best, scores) in enumerate(
                zip(  # a compiled batch has rows beyond the sources
                    sources,
                    found.ids.numpy().tolist(),
                    found.scores.numpy().tolist(),
                )
            )
            for rank, (ids, score) in enumerate(zip(n_best, scores))
            if rank == 0 or score > IMPOSSIBLE
        ]
        targets = [ids for _, ids, _ in hypotheses]
        texts = self.target_tokenizer.detokenize(targets)
        weights = [None] * len(hypotheses)
        if attention:
            weights = self._attention(
                [sources[row] for row, _, _ in hypotheses], targets, ("memory",)
            )["memory"].numpy()
        n_bests = [[] for _ in sources]
        for (row, ids, score), text, attended in zip(
            hypotheses, texts, weights
        ):
            n_bests[row].append(
                self._translation(sources[row], ids, score, text, attended)
            )
        return n_bests

    def _translation(self, source, target, score, text, weights):
        source_tokens = [self.source_tokenizer.pieces[i] for i in source[:-1]]
        tokens = [self.target_tokenizer.pieces[i] for i in target]
        alignment = None
        if weights is not None:
            rows, columns = len(tokens) + 1, len(source_tokens) + 1
            weights = weights[:, :, :rows, :columns].copy()  # no padding
            alignment = word_alignment(weights, source_tokens, tokens)
        return Translation(
            text=text,
            score=score,
            tokens=tokens,
            source_tokens=source_tokens,
            attention=weights,
            alignment=alignment,
        )

    def _attention(self, sources, targets, kinds):
        """Weights, `(batch, layers, heads, rows, columns)`, of each kind."""
        return self._run(
            _attention_weights,
            {
                "source_ids": padded(sources),
                "target_ids": padded([[START, *ids] for ids in targets]),
            },
            kinds=kinds,
        )

    def _run(self, function, tensors, **options):
        """Calls a function of the model in a graph that serves all sizes.

        There is one graph for each choice of options. With `jit_compile` XLA
        compiles it for each size.
        """
        key = (function, *tensors, *options.items())
        with self._lock:
            if key not in self._graphs:
                # Autograph would read all of the source code, for nothing:
                # loops over tensors are written as such.
                self._graphs[key] = tf.function(
                    lambda tensors: function(self.model, **tensors, **options),
                    input_signature=[{name: _SPECS[name] for name in tensors}],
                    jit_compile=options.get("jit_compile"),
                    autograph=False,
                )
        return self._graphs[key](tensors)


_IDS = tf.TensorSpec((None, None), tf.int32)
_SPECS = {
    "source_ids": _IDS,
    "target_ids": _IDS,
    "prefix_ids": _IDS,
    "seed": tf.TensorSpec((), tf.int32),
}


def _search(beam_size, num_results, temperature, top_k, top_p, seed):
    """The function that the arguments ask for, its options and tensors."""
    if temperature is not None or top_k is not None or top_p is not None:
        temperature = 1.0 if temperature is None else temperature
        arguments.check_number(temperature=temperature)
        arguments.check_sizes(optional=True, top_k=top_k)
        if top_p is not None:
            arguments.check_number(top_p=top_p)
        options = {
            "num_results": num_results,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
        }
        return decoding.sample, options, {"seed": as_seed(seed)}
    if seed is not None:
        raise ValueError(
            "`seed` is for random translations. Received: "
            f"seed={seed} without `temperature`, `top_k` or `top_p`. "
            "Give one of these, or leave it out."
        )
    if beam_size == num_results == 1:
        return decoding.greedy_search, {}, {}
    options = {"beam_size": beam_size, "num_results": num_results}
    return decoding.beam_search, options, {}


def _warn_of_parts(parts, limit):
    counts = [len(each) for each in parts if len(each) > 1]
    if counts:
        warnings.warn(
            "Translated in parts, as the model was trained for at most "
            f"{limit} pieces at once: {len(counts):,} of {len(parts):,} "
            f"sentences, in {sum(counts):,} parts.",
            stacklevel=3,
        )


def _teller(parts, progress):
    """A function of rows of parts that are done: it tells whole sentences."""
    owners = [number for number, each in enumerate(parts) for _ in each]
    left = [len(each) for each in parts]

    def tell(rows):
        for row in rows:
            left[owners[row]] -= 1
        if progress is not None:
            progress(sum(not left[i] for i in {owners[row] for row in rows}))

    return tell


def _attention_weights(model, source_ids, target_ids, kinds):
    memory, encoder = model.encode(source_ids, return_attention_scores=True)
    _, decoder = model.decode(
        target_ids,
        memory,
        padding_mask(source_ids),
        return_attention_scores=True,
    )
    weights = {
        "encoder": encoder,
        "decoder": [layer["self"] for layer in decoder],
        "memory": [layer["memory"] for layer in decoder],
    }
    return {
        kind: tf.cast(tf.stack(weights[kind], axis=1), tf.float32)
        for kind in kinds
    }
