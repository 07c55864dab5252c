"""Text to text: a tokenizer, a model and a search."""

import json
import os
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_transformer import decoding
from keras_transformer.model import Transformer
from keras_transformer.tokenizer import Tokenizer


@dataclass(frozen=True)
class Translation:
    """One translation.

    Attributes:
        text: The translation.
        score: Its log-probability over its length penalty.
        tokens: Its pieces, without start and end.
    """

    text: str
    score: float
    tokens: list


class Translator:
    """Translates sentences.

    Args:
        model: A `Transformer`.
        tokenizer: A `Tokenizer`, or a tuple of two, for source and target.
    """

    def __init__(self, model, tokenizer):
        self.model = model
        self.tokenizer = tokenizer
        one = isinstance(tokenizer, Tokenizer)
        self.source_tokenizer = tokenizer if one else tokenizer[0]
        self.target_tokenizer = tokenizer if one else tokenizer[1]
        self._searches = {}

    def translate(
        self,
        sentences,
        beam_size=4,
        length_penalty=0.6,
        max_extra_length=50,
        tokens_per_batch=4096,
        progress=None,
    ):
        """Translates any number of sentences.

        Args:
            sentences: A list of strings, or one string.
            beam_size: Number of hypotheses kept open; 1 is greedy search.
            length_penalty: α in the paper.
            max_extra_length: How many tokens longer than its source a
                translation may grow.
            tokens_per_batch: Most source tokens translated at once.
            progress: A function that is told how many more are done.

        Returns:
            A list of `Translation` in the order of the sentences, or one for
            one string.
        """
        if isinstance(sentences, str):
            return self.translate(
                [sentences], beam_size, length_penalty, max_extra_length
            )[0]
        search = self._search(beam_size, length_penalty, max_extra_length)
        ids = self.source_tokenizer.tokenize(list(sentences), add_end=True)
        results = [Translation("", 0.0, [])] * len(sentences)
        filled = [i for i, text in enumerate(sentences) if text.strip()]
        for rows in _by_tokens(filled, ids, tokens_per_batch):
            found = search(_padded([ids[row] for row in rows]))
            best_ids, scores = found.ids.numpy()[:, 0], found.scores.numpy()
            for row, best, score in zip(rows, best_ids, scores[:, 0]):
                results[row] = self._translation(best, score)
            if progress is not None:
                progress(len(rows))
        return results

    def save(self, folder):
        """Writes a folder that `load` reads: beside, then renamed."""
        folder = Path(folder)
        beside = folder.with_name(folder.name + ".partial")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        config = {"class": "Transformer", **self.model.get_config()}
        (beside / "config.json").write_text(json.dumps(config, indent=2))
        self.model.save_weights(beside / "model.weights.h5")
        if isinstance(self.tokenizer, Tokenizer):
            self.tokenizer.save(beside / "tokenizer.model")
        else:
            self.source_tokenizer.save(beside / "source.model")
            self.target_tokenizer.save(beside / "target.model")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(beside, folder)

    def _translation(self, ids, score):
        ids = [int(i) for i in ids if i > decoding.END]
        tokenizer = self.target_tokenizer
        return Translation(
            text=tokenizer.detokenize(ids),
            score=float(score),
            tokens=[tokenizer.id_to_piece(i) for i in ids],
        )

    def _search(self, beam_size, length_penalty, max_extra_length):
        """One graph for each choice of settings, for sources of any size."""
        key = (beam_size, length_penalty, max_extra_length)
        if key not in self._searches:
            search = partial(decoding.beam_search, beam_size=beam_size)
            if beam_size == 1:
                search = decoding.greedy_search
            search = partial(
                search,
                self.model,
                length_penalty=length_penalty,
                max_extra_length=max_extra_length,
            )
            self._searches[key] = tf.function(
                lambda ids: search(ids),
                input_signature=[tf.TensorSpec((None, None), tf.int32)],
            )
        return self._searches[key]


def load(folder):
    """Loads a translator from a saved folder or from a run folder.

    Args:
        folder: What `Translator.save` wrote, or the folder of a training run,
            of which the better one of its best and its averaged weights is
            taken.
    """
    folder = Path(folder)
    result = folder / "result.json"
    if result.is_file():
        folder = folder / json.loads(result.read_text())["use"]
    elif (folder / "best").is_dir():
        folder = folder / "best"
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(
            "`folder` must be a saved translator or a run folder with at least "
            f"one validation. Received: {folder}, which has no config.json. "
            "Train one with `keras-transformer train`."
        )
    config = json.loads((folder / "config.json").read_text())
    config.pop("class")
    config["dtype"] = keras.dtype_policies.deserialize(config["dtype"])
    model = Transformer.from_config(config)
    model.load_weights(folder / "model.weights.h5")
    if (folder / "tokenizer.model").is_file():
        return Translator(model, Tokenizer.load(folder / "tokenizer.model"))
    names = ("source.model", "target.model")
    return Translator(
        model, tuple(Tokenizer.load(folder / name) for name in names)
    )


def _by_tokens(rows, ids, tokens_per_batch):
    """Rows in batches of similar length, longest first."""
    rows = sorted(rows, key=lambda row: -len(ids[row]))
    while rows:
        count = max(1, tokens_per_batch // len(ids[rows[0]]))
        yield rows[:count]
        rows = rows[count:]


def _padded(ids):
    longest = max(map(len, ids))
    array = np.zeros((len(ids), longest), np.int32)
    for row, sentence in zip(array, ids):
        row[: len(sentence)] = sentence
    return array
