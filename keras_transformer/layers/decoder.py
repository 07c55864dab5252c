"""Decoder layer, after section 3.1 of the paper."""

import keras

from keras_transformer.layers import arguments, masks
from keras_transformer.layers.block import Block


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderLayer(Block):
    """Looks at earlier positions, then at the memory, then works on each alone.

    Called without a memory it is a layer of a decoder-only language model.

    It takes the arguments of `EncoderLayer`. `attention_window` restricts the
    attention to earlier positions, never the attention to the memory.

    Call arguments:
        inputs: Floats, `(batch, length, hidden_dim)`.
        memory: The encoder's output, `(batch, memory_length, width)`.
        mask: Booleans, `(batch, length)`. Padding is `False`.
        memory_mask: Booleans, `(batch, memory_length)`. Both masks come by
            themselves from a `TokenEmbedding`.
        attention_mask: Booleans, `(batch or 1, length, length)`, on top of the
            causal mask.
        cache: What `make_cache` or the last call returned. With it `memory`
            and its mask may be left out, and `mask` covers the whole cache.
        cache_index: Position of the first input in the cache.
        return_attention_scores: Whether to return the weights too.
        training: Whether to drop out.

    Returns:
        Floats shaped like `inputs`. A padding mask passes through. With
        `return_attention_scores` also `{"self": ..., "memory": ...}`, each
        `(batch, num_heads, length, key_length)`. With `cache` also the cache,
        last.

    >>> layer = DecoderLayer(num_heads=2, intermediate_dim=64)
    >>> x, memory = keras.ops.zeros((2, 5, 16)), keras.ops.zeros((2, 7, 16))
    >>> tuple(layer(x, memory).shape)
    (2, 5, 16)
    """

    def build(self, inputs_shape, memory_shape=None):
        arguments.check_rank("inputs", inputs_shape)
        self._self_attention, self._self_dropout, self._self_norm = (
            self._build_attention(
                "self", inputs_shape, inputs_shape, self.attention_window
            )
        )
        self._reads_memory = memory_shape is not None
        if self._reads_memory:
            arguments.check_rank("memory", memory_shape)
            self._memory_attention, self._memory_dropout, self._memory_norm = (
                self._build_attention("memory", inputs_shape, memory_shape)
            )
        self._feed_forward, self._feed_forward_norm = self._build_feed_forward(
            inputs_shape
        )

    def call(
        self,
        inputs,
        memory=None,
        mask=None,
        memory_mask=None,
        attention_mask=None,
        cache=None,
        cache_index=None,
        return_attention_scores=False,
        training=None,
    ):
        self._check_memory(memory, cache)
        check_cache(cache, cache_index)
        if mask is None and cache is None:
            mask = masks.attached_mask(inputs)
        if memory_mask is None and memory is not None:
            memory_mask = masks.attached_mask(memory)
        scores, new_cache = {}, {}
        if cache is not None and "memory_mask" in cache:
            new_cache["memory_mask"] = cache["memory_mask"]
            if memory_mask is None:
                memory_mask = cache["memory_mask"]

        def attend(part, attention, dropout, x, value, **kwargs):
            results = attention(
                x,
                value,
                cache=None if cache is None else cache[part],
                return_attention_scores=return_attention_scores,
                training=training,
                **kwargs,
            )
            if cache is not None:
                *results, new_cache[part] = results
            if return_attention_scores:
                results, scores[part] = results
            elif cache is not None:
                (results,) = results
            return dropout(results, training=training)

        def attend_to_past(x):
            return attend(
                "self",
                self._self_attention,
                self._self_dropout,
                x,
                x,
                value_mask=mask,
                attention_mask=attention_mask,
                use_causal_mask=True,
                cache_index=cache_index,
            )

        def attend_to_memory(x):
            return attend(
                "memory",
                self._memory_attention,
                self._memory_dropout,
                x,
                x if memory is None else memory,
                value_mask=memory_mask,
            )

        def feed_forward(x):
            return self._feed_forward(x, training=training)

        x = self._around(attend_to_past, self._self_norm, inputs)
        if self._reads_memory:
            x = self._around(attend_to_memory, self._memory_norm, x)
        x = self._around(feed_forward, self._feed_forward_norm, x)
        results = [x]
        if return_attention_scores:
            results.append(scores)
        if cache is not None:
            results.append(new_cache)
        return x if len(results) == 1 else tuple(results)

    def make_cache(self, batch_size, max_length, memory=None, memory_mask=None):
        """Empty keys and values for the past, ready ones for the memory.

        With them the memory's mask: `memory_mask`, or what comes by itself
        from a `TokenEmbedding`.
        """
        if not self.built:
            raise ValueError(
                "`make_cache` needs a layer that has its weights. Received: "
                f"{self.name}, never called. Call it once on whole sequences, "
                "or `build` it."
            )
        self._check_memory(memory, None)
        cache = {
            "self": self._self_attention.make_cache(batch_size, max_length)
        }
        if self._reads_memory:
            cache["memory"] = self._memory_attention.fill_cache(memory)
            if memory_mask is None:
                memory_mask = masks.attached_mask(memory)
            if memory_mask is not None:
                cache["memory_mask"] = memory_mask
        return cache

    def _check_memory(self, memory, cache):
        given = memory is not None or (cache is not None and "memory" in cache)
        if given != self._reads_memory:
            raise ValueError(
                "`memory` must be given at every call or at none. Received: "
                f"memory={'given' if given else None} after a first call "
                f"{'with' if self._reads_memory else 'without'} one. "
                "Make a layer of its own for the other use."
            )


def check_cache(cache, cache_index):
    """Raises unless a cache and a place in it are given, or neither."""
    if (cache is None) != (cache_index is None):
        raise ValueError(
            "`cache` and `cache_index` must be given together. Received: "
            f"cache={'given' if cache is not None else None}, "
            f"cache_index={cache_index}. Give the position of the first of "
            "the new ones: 0 with a cache that `make_cache` has just made."
        )
