"""A translator as functions of string tensors, with everything inside."""

import keras
import tensorflow as tf

from keras_transformer import decoding
from keras_transformer.layers import padding_mask
from keras_transformer.tokenizer import END, PADDING, START
from keras_transformer.translator.stored_weights import StoredWeights

# What `str.strip` takes away, as RE2 says it.
BLANK = r"[\t-\r\x1c-\x20\x{85}\p{Z}]*"

# 256 MB of floats: enough for one sentence.
MAX_ATTENTION_SIZE = 2**26


class Signatures(tf.Module):
    """What a SavedModel serves: strings in, strings and numbers out.

    A call takes any number of texts, none too. It runs them in batches of
    similar length, so that memory stays bounded and a long text does not hold
    up short ones; each text gets the answer that it gets alone.

    Args:
        translator: A `Translator`.
        weights: How `StoredWeights` stores the weights. They become float32
            once a call.
        beam_size: Number of hypotheses kept open.
        length_penalty: α in the paper.
        num_results: Number of translations that `translate_nbest` gives.
        max_source_length: Texts are cut to so many pieces; translations that
            are given, to as many as one of these may grow to.
        max_extra_length: How many tokens longer than its source a translation
            may grow.
        tokens_per_batch: Most tokens at once: of sources, and of what their
            translations may grow to.
        jit_compile: Whether XLA compiles the searches.
    """

    def __init__(
        self,
        translator,
        weights,
        beam_size,
        length_penalty,
        num_results,
        max_source_length,
        max_extra_length,
        tokens_per_batch,
        jit_compile,
    ):
        super().__init__()
        self._stored = StoredWeights(translator.model, weights)
        for weight in translator.model.weights:
            self._stored.store(weight)
        # TensorFlow stores what it finds in attributes.
        self.weights = self._stored.values
        self.scales = self._stored.scales
        self.source_tokenizer = translator.source_tokenizer.in_graph
        self.target_tokenizer = translator.target_tokenizer.in_graph
        # In no attribute of its own: TensorFlow would store the model as well.
        self._translator = translator
        self._greedy = {
            "length_penalty": length_penalty,
            "max_extra_length": max_extra_length,
        }
        self._beam = {"beam_size": beam_size, **self._greedy}
        self._num_results = num_results
        self._max_source_length = max_source_length
        self._max_target_length = max_source_length + max_extra_length
        positions = translator.model.target_positions
        if positions.kind == "learned":  # one of them is for the start
            self._max_target_length = min(
                self._max_target_length, positions.max_length - 1
            )
        self._max_extra_length = max_extra_length
        self._tokens_per_batch = tokens_per_batch
        self._jit_compile = jit_compile

    def functions(self):
        """A concrete function for each signature, by name."""
        return {
            "serving_default": self._function(self.translate, "text"),
            "translate_greedy": self._function(self.translate_greedy, "text"),
            "translate_nbest": self._function(self.translate_nbest, "text"),
            "score": self._function(self.score, "text", "translation"),
            "attention": self._function(self.attention, "text", "translation"),
            "encode": self._function(self.encode, "text"),
        }

    def translate(self, text):
        """The best translation that beam search finds, and its score."""
        found = self._search(text, decoding.beam_search, 1, **self._beam)
        return {name: values[:, 0] for name, values in found.items()}

    def translate_greedy(self, text):
        """The likeliest token at each step: faster, and often as good."""
        found = self._search(text, decoding.greedy_search, 1, **self._greedy)
        return {name: values[:, 0] for name, values in found.items()}

    def translate_nbest(self, text):
        """The best translations that beam search finds, best first."""
        count = self._num_results
        return self._search(
            text, decoding.beam_search, count, num_results=count, **self._beam
        )

    def score(self, text, translation):
        """The log-probability of a translation, with its end."""
        source, target = self._pair(text, translation)

        def run(rows):
            return (
                decoding.score(
                    self._model, _dense(source, rows), _dense(target, rows)
                ),
            )

        (log_probability,) = self._in_batches(
            run,
            tf.range(tf.size(text)),
            source.row_lengths() + target.row_lengths(),
            (tf.zeros_like(text, tf.float32),),
        )
        return {"log_probability": log_probability}

    def attention(self, text, translation):
        """Where the model looked for each piece, by layer and head."""
        source, target = self._pair(text, translation)
        source = _check_attention_size(self._model, source, target)
        source_ids = source.to_tensor()
        # A piece is chosen after those before it.
        before = _put_around(target[:, :-1], start=True).to_tensor()
        _, layers = self._model.decode(
            before,
            self._model.encode(source_ids),
            padding_mask(source_ids),
            return_attention_scores=True,
        )
        attention = tf.stack([layer["memory"] for layer in layers], axis=1)
        is_piece = tf.cast(padding_mask(target.to_tensor()), tf.float32)
        return {
            "source_pieces": _pieces(self.source_tokenizer, source),
            "target_pieces": _pieces(self.target_tokenizer, target),
            "attention": tf.cast(attention, tf.float32)
            * is_piece[:, None, None, :, None],
            "source_length": tf.cast(source.row_lengths(), tf.int32),
            "target_length": tf.cast(target.row_lengths(), tf.int32),
        }

    def encode(self, text):
        """The mean of the encoder's vectors of each text."""
        source = self._source(text)
        width = self._model.source_embedding.output_dim

        def run(rows):
            ids = _dense(source, rows)
            memory = tf.cast(self._model.encode(ids), tf.float32)
            is_piece = tf.cast(padding_mask(ids), tf.float32)[..., None]
            total = tf.reduce_sum(memory * is_piece, axis=1)
            return (total / tf.reduce_sum(is_piece, axis=1),)

        (vector,) = self._in_batches(
            run,
            tf.range(tf.size(text)),
            source.row_lengths(),
            (tf.zeros((tf.size(text), width)),),
        )
        return {"vector": vector}

    @property
    def _model(self):
        return self._translator.model

    def _function(self, method, *inputs):
        """`method` with the stored weights in place of the model's own."""

        def function(*texts):
            # Here, outside of every loop, they are read and cast.
            values = [
                (weight, self._stored.restore(weight))
                for weight in self._model.weights
            ]
            with keras.StatelessScope(state_mapping=values):
                return method(*texts)

        return tf.function(function, autograph=False).get_concrete_function(
            *(tf.TensorSpec([None], tf.string, name) for name in inputs)
        )

    def _source(self, text):
        """Ids with their end, ragged, cut to the greatest length."""
        ids = self._translator.source_tokenizer.tokenize(text)
        return _put_around(ids[:, : self._max_source_length], end=True)

    def _pair(self, text, translation):
        """The ids of both, if there are as many."""
        check = tf.debugging.assert_equal(
            tf.size(text),
            tf.size(translation),
            "`text` and `translation` must have as many strings. "
            "Send a translation for each text.",
        )
        with tf.control_dependencies([check]):
            text = tf.identity(text)
        ids = self._translator.target_tokenizer.tokenize(translation)
        ids = ids[:, : self._max_target_length]
        return self._source(text), _put_around(ids, end=True)

    def _search(self, text, search, count, **settings):
        """Translations and scores, (n, count); of blanks "" and 0."""
        source = self._source(text)
        is_blank = tf.strings.regex_full_match(text, BLANK)

        def find(ids):
            return search(
                self._model, ids, jit_compile=self._jit_compile, **settings
            )

        if self._jit_compile:
            find = self._compiled(find)

        def run(rows):
            found = find(_dense(source, rows))
            return self._texts(found.ids), found.scores

        shape = (tf.size(text), count)
        translation, score = self._in_batches(
            run,
            tf.where(tf.logical_not(is_blank))[:, 0],
            source.row_lengths() + self._max_extra_length,
            (tf.fill(shape, ""), tf.zeros(shape)),
        )
        return {"translation": translation, "score": score}

    def _compiled(self, find):
        """`find` by XLA, which compiles anew for each shape: there are few."""
        compiled = tf.function(find, jit_compile=True, autograph=False)

        def padded(ids):
            count, length = tf.unstack(tf.shape(ids))
            new_count = _power_of_two(count)
            new_length = tf.minimum(
                _power_of_two(length), self._max_source_length + 1
            )
            ids = tf.pad(
                ids, [[0, new_count - count], [0, new_length - length]]
            )
            found = compiled(ids)
            return decoding.Hypotheses(found.ids[:count], found.scores[:count])

        return padded

    def _texts(self, ids):
        """Text of (batch, num_results, length): unknown pieces have none."""
        shape = tf.shape(ids)
        size = self._translator.target_tokenizer.vocabulary_size
        ids = tf.where((ids > END) & (ids < size), ids, PADDING)
        texts = self._translator.target_tokenizer.detokenize(
            tf.reshape(ids, (-1, shape[2]))
        )
        return tf.reshape(texts, shape[:2])

    def _in_batches(self, run, rows, sizes, outputs):
        """Puts `run` of the rows, a batch at a time, into `outputs`.

        Args:
            run: A function of row numbers to a tuple of tensors.
            rows: Numbers of the rows to run.
            sizes: Number of tokens in each row, also of those not to run.
            outputs: What rows that are not run have.
        """
        rows = tf.cast(rows, tf.int32)
        sizes = tf.cast(sizes, tf.int32)
        rows = tf.gather(
            rows,
            tf.argsort(
                tf.gather(sizes, rows), direction="DESCENDING", stable=True
            ),
        )

        def is_left(start, outputs):
            return start < tf.size(rows)

        def body(start, outputs):
            count = tf.maximum(1, self._tokens_per_batch // sizes[rows[start]])
            batch = rows[start : start + count]
            outputs = tuple(
                tf.tensor_scatter_nd_update(output, batch[:, None], result)
                for output, result in zip(outputs, run(batch))
            )
            return start + count, outputs

        # One batch after the other, for the sake of memory.
        _, outputs = tf.while_loop(
            is_left, body, (0, outputs), parallel_iterations=1
        )
        return outputs


def _dense(ids, rows):
    return tf.gather(ids, rows).to_tensor()


def _power_of_two(number):
    """The least one that is no smaller."""
    powers = tf.constant([2**i for i in range(31)])
    return powers[tf.searchsorted(powers, [number])[0]]


def _put_around(ids, start=False, end=False):
    """Ragged ids with a start before or an end behind each row."""
    column = tf.ones((ids.nrows(), 1), tf.int32)
    parts = [START * column] * start + [ids] + [END * column] * end
    return tf.concat(parts, axis=1)


def _pieces(tokenizer, ids):
    """The pieces of ragged ids; "" behind the last."""
    return tokenizer.id_to_string(ids).to_tensor()


def _check_attention_size(model, source, target):
    """Gives `source` back, if the answer is not too large."""
    layers = model.decoder_layers
    sizes = [
        len(layers),
        layers[0].num_heads,
        source.nrows(),
        source.bounding_shape(axis=1),
        target.bounding_shape(axis=1),
    ]
    check = tf.debugging.assert_less_equal(
        tf.reduce_prod(tf.cast(tf.stack(sizes), tf.int64)),
        tf.constant(MAX_ATTENTION_SIZE, tf.int64),
        "`attention` gives at most 2**26 numbers: texts * layers * heads * "
        "target pieces * source pieces. Send fewer texts, or shorter ones.",
    )
    with tf.control_dependencies([check]):
        return tf.identity(source)
