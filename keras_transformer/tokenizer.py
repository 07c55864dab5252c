"""Text to ids and back, without loss, in Python and inside the graph.

SentencePiece marks a space by "▁" (U+2581), so a "▁" in the text itself
would come back as a space. The model's own normalizer therefore writes
"▁" as DLE "1", and DLE itself (U+0010, the "data link escape") as DLE "0";
its denormalizer reads them back. Both travel in the model file, so that
whatever runs the model, TF Serving too, gives every valid UTF-8 string back
exactly. Bytes that are no UTF-8 come back as U+FFFD each.
"""

import hashlib
import io
import re
import tempfile
import threading
from functools import cached_property
from pathlib import Path

import numpy as np
import sentencepiece

from keras_transformer.files import replacing

PADDING, UNKNOWN, START, END = range(4)

# SentencePiece has one seed for the whole process.
_SEEDING = threading.Lock()
_ESCAPES = {"2581": "10 31", "10": "10 30"}  # code points, as in the docstring


class Tokenizer:
    """A SentencePiece vocabulary: trained, saved, loaded, applied.

    Ids 0 to 3 are padding, unknown, start and end; the next 256 are bytes,
    so that no character is unknown.

    Args:
        model: Bytes of a SentencePiece model with these ids. Use `train` or
            `load` to get one.

    >>> tokenizer = Tokenizer.train(["ein Haus", "a house"], 270)
    >>> tokenizer.detokenize(tokenizer.tokenize("ein ▁ Haus "))
    'ein ▁ Haus '
    """

    def __init__(self, model):
        self._model = bytes(model)
        try:
            self._processor = sentencepiece.SentencePieceProcessor(
                model_proto=self._model
            )
        except (RuntimeError, OSError):
            raise ValueError(
                "`model` must be a SentencePiece model. "
                f"Received: {len(self._model):,} bytes that are none."
            ) from None
        ids = (
            self._processor.pad_id(),
            self._processor.unk_id(),
            self._processor.bos_id(),
            self._processor.eos_id(),
        )
        if ids != (PADDING, UNKNOWN, START, END):
            raise ValueError(
                "A tokenizer's ids for padding, unknown, start and end must "
                f"be 0, 1, 2, 3. Received a model with {ids}. Train it with "
                "`Tokenizer.train`."
            )

    @classmethod
    def train(
        cls, sentences, vocabulary_size, kind="bpe", max_sentences=2_000_000
    ):
        """Learns a vocabulary from sentences.

        Args:
            sentences: Iterable of strings. For one vocabulary of two
                languages give the sentences of both.
            vocabulary_size: Number of ids, at least 261.
            kind: `"bpe"`, as in the paper, or `"unigram"`.
            max_sentences: A larger corpus is sampled down to this many, which
                bounds the memory.
        """
        if kind not in ("bpe", "unigram"):
            raise ValueError(
                f"`kind` must be 'bpe' or 'unigram'. Received: kind={kind!r}."
            )
        if vocabulary_size < 261:
            raise ValueError(
                "`vocabulary_size` must be at least 261, to hold the 4 special "
                "ids, 256 bytes and a character. "
                f"Received: vocabulary_size={vocabulary_size}."
            )
        model, failures = io.BytesIO(), []
        with tempfile.TemporaryDirectory() as folder:
            escapes = Path(folder, "escapes.tsv")
            escapes.write_text(
                "".join(f"{k}\t{v}\n" for k, v in _ESCAPES.items())
            )
            unescapes = Path(folder, "unescapes.tsv")
            unescapes.write_text(
                "".join(f"{v}\t{k}\n" for k, v in _ESCAPES.items())
            )
            try:
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=_feed(sentences, failures),
                    model_writer=model,
                    model_type=kind,
                    vocab_size=vocabulary_size,
                    pad_id=PADDING,
                    unk_id=UNKNOWN,
                    bos_id=START,
                    eos_id=END,
                    pad_piece="<pad>",
                    # A space must have a piece, or it comes back as "▁".
                    required_chars="▁",
                    character_coverage=1.0,
                    byte_fallback=True,
                    add_dummy_prefix=False,
                    remove_extra_whitespaces=False,
                    normalization_rule_tsv=str(escapes),
                    denormalization_rule_tsv=str(unescapes),
                    input_sentence_size=max_sentences,
                    shuffle_input_sentence=True,
                    minloglevel=2,
                )
            except RuntimeError as error:
                if failures:
                    raise failures[0] from None
                raise _training_error(error, vocabulary_size) from None
        return cls(_without_paths(model.getvalue()))

    @classmethod
    def load(cls, path):
        """Loads the file that `save` wrote."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(
                f"`path` must be a tokenizer's file. Received: {path}, which "
                f"{'is a folder' if path.is_dir() else 'does not exist'}."
            )
        try:
            return cls(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path} cannot be loaded. {error}") from None

    def save(self, path):
        """Writes one file, a SentencePiece model: beside, then renamed."""
        with replacing(path) as beside:
            beside.write_bytes(self._model)

    @property
    def vocabulary_size(self):
        return self._processor.get_piece_size()

    @cached_property
    def pieces(self):
        """The pieces in the order of their ids; "▁" stands for a space."""
        return [
            self._processor.id_to_piece(i) for i in range(self.vocabulary_size)
        ]

    @cached_property
    def kind(self):
        """How pieces were chosen: `"bpe"` or `"unigram"`."""
        spec = _proto(self._model).trainer_spec
        return spec.ModelType.Name(spec.model_type).lower()

    @cached_property
    def in_graph(self):
        """The `tf_text.SentencepieceTokenizer` that serves tensors.

        To export a function that tokenizes, make this an attribute of the
        exported `tf.Module`: TensorFlow then saves the model with it.
        """
        import tensorflow as tf
        import tensorflow_text as tf_text

        # In a SavedModel the vocabulary is found by its name alone. Without a
        # name of its own, one of two would stand in for the other.
        name = f"vocabulary_{hashlib.sha256(self._model).hexdigest()[:16]}"
        # A tf.function may be the first to ask; its resource outlives it.
        with tf.init_scope():
            return tf_text.SentencepieceTokenizer(
                self._model, out_type=tf.int32, name=name
            )

    def tokenize(self, text, add_start=False, add_end=False):
        """Turns text into ids.

        Args:
            text: A string, a list of strings, or a string tensor.
            add_start: Whether to put the start id before each sentence.
            add_end: Whether to put the end id after each sentence.

        Returns:
            A list of ids for a string, a list of lists for a list; for a
            tensor its ids, ragged if it has a rank: the same ids always.
        """
        if isinstance(text, np.ndarray):
            text = text.tolist()
        if isinstance(text, (str, bytes)):
            return self._encode([text], add_start, add_end)[0]
        if isinstance(text, (list, tuple)):
            return self._encode(text, add_start, add_end)
        return self._tokenize_tensor(text, add_start, add_end)

    def detokenize(self, ids):
        """Turns ids into text; padding, start and end vanish.

        Args:
            ids: A list of ids, a list of lists, an array of rank 1 or 2 or
                an integer tensor, dense or ragged.

        Returns:
            A string, a list of strings or a string tensor, one rank less.
        """
        if isinstance(ids, np.ndarray):
            ids = ids.tolist()
        if not isinstance(ids, (list, tuple)):
            return self._detokenize_tensor(ids)
        if not ids:
            return ""
        nested = isinstance(ids[0], (list, tuple, np.ndarray))
        sentences = [
            [int(id) for id in sentence]
            for sentence in (ids if nested else [ids])
        ]
        try:
            texts = self._processor.decode(sentences, num_threads=1)
        except (IndexError, TypeError):  # too large for the vocabulary or for C
            raise ValueError(
                f"`ids` must be from 0 to {self.vocabulary_size - 1}. "
                f"Received: {min(map(min, filter(None, sentences)))} to "
                f"{max(map(max, filter(None, sentences)))}."
            ) from None
        return texts if nested else texts[0]

    def tokenize_at_random(self, sentences, merge_dropout, seed):
        """Turns text into ids that leave out merges by chance (BPE-dropout).

        A model that is trained on rare words in ever other pieces learns what
        their pieces mean. The text of the ids is the same.

        Args:
            sentences: A list of strings.
            merge_dropout: Share of the merges left out, from 0 to 1.
            seed: The same seed gives the same ids.

        Returns:
            A list of lists of ids.
        """
        if self.kind != "bpe":
            raise ValueError(
                "`merge_dropout` is for vocabularies that were made by merges, "
                f"'bpe'. Received: merge_dropout={merge_dropout} for one of "
                f"kind={self.kind!r}. Leave it out."
            )
        if not 0 <= merge_dropout <= 1:
            raise ValueError(
                "`merge_dropout` must be from 0 to 1. "
                f"Received: merge_dropout={merge_dropout}."
            )
        with _SEEDING:
            # A call with `num_threads` draws in a thread of its own, which
            # starts at the seed.
            sentencepiece.set_random_generator_seed(seed)
            return self._processor.encode(
                [_encode(sentence) for sentence in sentences],
                enable_sampling=True,
                alpha=merge_dropout,
                num_threads=1,
            )

    def _encode(self, sentences, add_start, add_end):
        return self._processor.encode(
            [_encode(sentence) for sentence in sentences],
            add_bos=add_start,
            add_eos=add_end,
            num_threads=1,
        )

    def _tokenize_tensor(self, text, add_start, add_end):
        import tensorflow as tf

        if not isinstance(text, tf.RaggedTensor):
            text = tf.convert_to_tensor(text)
        ids = self.in_graph.tokenize(text)  # one rank more than the text
        around = text[..., tf.newaxis]
        if add_start:
            ids = tf.concat([_like(around, START), ids], axis=-1)
        if add_end:
            ids = tf.concat([ids, _like(around, END)], axis=-1)
        return ids

    def _detokenize_tensor(self, ids):
        import tensorflow as tf

        return self.in_graph.detokenize(tf.cast(ids, tf.int32))

    @property
    def fingerprint(self):
        """A checksum: equal for tokenizers that are the same."""
        return hashlib.sha256(self._model).hexdigest()

    def __eq__(self, other):
        return isinstance(other, Tokenizer) and self._model == other._model

    def __hash__(self):
        return hash(self._model)

    def __reduce__(self):
        return Tokenizer, (self._model,)

    def __repr__(self):
        return f"<Tokenizer of {self.vocabulary_size:,} pieces>"


def _like(text, id):
    import tensorflow as tf

    return tf.ones_like(text, dtype=tf.int32) * id


def _encode(sentence):
    if isinstance(sentence, bytes):
        return sentence
    if not isinstance(sentence, str):
        raise ValueError(
            f"A sentence must be a string. Received: {sentence!r:.80} "
            f"(of type {type(sentence).__name__})."
        )
    # A lone surrogate is no UTF-8; it passes as bytes and becomes U+FFFD.
    return sentence.encode("utf-8", "surrogatepass")


def _feed(sentences, failures):
    """Keeps what the iterator raised, which SentencePiece would reword."""
    try:
        for sentence in sentences:
            yield _encode(sentence)
    except BaseException as error:
        failures.append(error)
        raise


def _training_error(error, vocabulary_size):
    """Says in words what SentencePiece says in C++."""
    message = str(error)
    if allowed := re.search(r"too high.*<= (\d+)", message):
        rule = f"be at most {int(allowed[1]):,}, as this corpus allows no more"
        advice = "Give about half of that, or more text."
        if int(allowed[1]) < 1000:  # half would not hold the bytes
            advice = "Give that, or more text."
    elif required := re.search(r"required_chars\. \d+ vs (\d+)", message):
        rule = (
            f"be at least {int(required[1]):,}, to hold the 4 special ids, "
            "256 bytes and the characters of this corpus"
        )
        advice = "Give more."
    elif "sentences_.empty()" in message:
        return ValueError(
            "`sentences` must hold text to learn a vocabulary from. Received "
            "none of at most 4,192 bytes that is not blank."
        )
    else:
        return error
    return ValueError(
        f"`vocabulary_size` must {rule}. Received: "
        f"vocabulary_size={vocabulary_size}. {advice}"
    )


def _without_paths(model):
    """Removes the temporary paths, so that equal training gives equal files."""
    proto = _proto(model)
    proto.normalizer_spec.normalization_rule_tsv = ""
    proto.denormalizer_spec.normalization_rule_tsv = ""
    return proto.SerializeToString(deterministic=True)


def _proto(model):
    from sentencepiece import sentencepiece_model_pb2

    return sentencepiece_model_pb2.ModelProto.FromString(model)
