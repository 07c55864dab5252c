"""Scores of translations that are given."""

from keras import ops

from keras_transformer.decoding import search
from keras_transformer.layers import arguments, padding_mask
from keras_transformer.layers.axes import shape_of
from keras_transformer.tokenizer import START


def score(model, source_ids, target_ids, length_penalty=0.0):
    """Log-probability of given targets over the length penalty.

    With the `length_penalty` of a search, what it found scores here what it
    scored there.

    Args:
        model: A `Transformer`.
        source_ids: Ids, `(batch, source_length)`, each with its end.
        target_ids: Ids, `(batch, target_length)`: without the start, with the
            end, then padding.
        length_penalty: α in the paper. 0 gives plain log-probabilities.

    Returns:
        Floats, `(batch,)`.
    """
    arguments.check_number(length_penalty=length_penalty)
    source_ids = search.id_tensor("source_ids", source_ids)
    target_ids = search.id_tensor("target_ids", target_ids)
    starts = ops.full((shape_of(target_ids)[0], 1), START, "int32")
    logits = model.decode(
        ops.concatenate([starts, target_ids[:, :-1]], axis=1),
        model.encode(source_ids),
        padding_mask(source_ids),
    )
    logits = ops.cast(logits, "float32")
    chosen = ops.take_along_axis(logits, target_ids[..., None], axis=-1)
    log_probs = chosen[..., 0] - ops.logsumexp(logits, axis=-1)
    is_token = padding_mask(target_ids)
    total = ops.sum(ops.where(is_token, log_probs, 0.0), axis=1)
    length = ops.sum(ops.cast(is_token, "int32"), axis=1)
    return total / search.penalty(length, length_penalty)
