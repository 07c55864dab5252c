"""Hugging Face's beam search with the same weights finds the same."""

import numpy as np
import pytest

from keras_transformer import decoding
from keras_transformer.tokenizer import END, PADDING, START
from tests.decoding.tiny import find, random_model, sources, text

# To import them takes longer than all other tests of decoding.
pytestmark = pytest.mark.slow

VOCABULARY_SIZE, MAX_LENGTH = 11, 12
# Marian is the Transformer with biases in attention and with all sines before
# all cosines.
SETTINGS = {
    "vocabulary_size": VOCABULARY_SIZE,
    "num_layers": 2,
    "hidden_dim": 16,
    "num_heads": 2,
    "intermediate_dim": 32,
    "position_encoding": "concatenated",
    "use_bias": True,
}


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="pip install torch to compare")


@pytest.fixture(scope="module")
def marian(torch):
    transformers = pytest.importorskip(
        "transformers", reason="pip install transformers to compare"
    )
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY_SIZE,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=32,
        pad_token_id=PADDING,
        bos_token_id=None,
        eos_token_id=END,
        decoder_start_token_id=START,
        forced_eos_token_id=None,
    )
    model = transformers.MarianMTModel(config).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6
    return model


def copy_weights(ours, marian, tensor):
    """Writes the weights of a `Transformer` into a `MarianMTModel`."""
    state = {"final_logits_bias": np.zeros((1, VOCABULARY_SIZE))}

    def dense(name, kernel, bias):
        state[f"{name}.weight"] = np.transpose(kernel)
        state[f"{name}.bias"] = np.asarray(bias)

    def norm(name, layer):
        state[f"{name}.weight"], state[f"{name}.bias"] = layer.get_weights()

    def attention(name, layer, layer_norm):
        for theirs, part in (
            ("q_proj", "query"),
            ("k_proj", "key"),
            ("v_proj", "value"),
            ("out_proj", "output"),
        ):
            kernel = getattr(layer, f"{part}_kernel")
            dense(f"{name}.{theirs}", kernel, getattr(layer, f"{part}_bias"))
        norm(f"{name}_layer_norm", layer_norm)

    def feed_forward(name, layer):
        weights = layer._feed_forward.get_weights()
        dense(f"{name}.fc1", *weights[:2])
        dense(f"{name}.fc2", *weights[2:])
        norm(f"{name}.final_layer_norm", layer._feed_forward_norm)

    for i, layer in enumerate(ours.encoder_layers):
        name = f"model.encoder.layers.{i}"
        attention(f"{name}.self_attn", layer._attention, layer._attention_norm)
        feed_forward(name, layer)
    for i, layer in enumerate(ours.decoder_layers):
        name = f"model.decoder.layers.{i}"
        attention(f"{name}.self_attn", layer._self_attention, layer._self_norm)
        attention(
            f"{name}.encoder_attn", layer._memory_attention, layer._memory_norm
        )
        feed_forward(name, layer)
    for name in (
        "model.shared",
        "model.encoder.embed_tokens",
        "model.decoder.embed_tokens",
        "lm_head",
    ):
        state[f"{name}.weight"] = np.asarray(ours.target_embedding.embeddings)
    missing, unexpected = marian.load_state_dict(
        {name: tensor(x).float() for name, x in state.items()},
        strict=False,
    )
    assert not unexpected
    assert all("embed_positions" in name for name in missing)


def model_that_ends(seed):
    """A random one, with a bias towards the end."""
    model = random_model(seed, **SETTINGS)
    end = np.asarray(model.target_embedding.embeddings)[END]
    model.decoder_layers[-1]._feed_forward_norm.beta.assign_add(0.3 * end)
    return model


def mixed_sources(seed):
    rng = np.random.default_rng(seed)
    ids = np.zeros((4, 7), "int32")
    for row, length in zip(ids, (7, 3, 5, 2)):
        row[:length] = sources(rng, 1, length, VOCABULARY_SIZE)
    return ids


def test_logits_are_the_same(torch, marian):
    model = model_that_ends(0)
    copy_weights(model, marian, torch.tensor)
    source = mixed_sources(0)
    target = np.array([[START, 5, 6, 7]] * 4)
    with torch.no_grad():
        theirs = marian(
            input_ids=torch.tensor(source),
            attention_mask=torch.tensor(source != PADDING),
            decoder_input_ids=torch.tensor(target),
        ).logits
    ours = model({"source_ids": source, "target_ids": target})
    assert np.abs(ours).max() > 1
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize(
    ("num_prefix", "min_length", "no_repeat_ngram_size", "early_stopping"),
    [(0, 0, 0, False), (0, 2, 3, False), (2, 4, 2, "never")],
)
def test_the_best_hypotheses_are_the_same(
    torch, marian, num_prefix, min_length, no_repeat_ngram_size, early_stopping
):
    lengths = []
    for seed in range(6):
        model = model_that_ends(seed)
        copy_weights(model, marian, torch.tensor)
        source = mixed_sources(seed)
        prefix = source[[2, 0, 0, 2], :num_prefix]
        theirs = marian.generate(
            input_ids=torch.tensor(source),
            attention_mask=torch.tensor(source != PADDING),
            decoder_input_ids=torch.tensor(
                np.pad(prefix, ((0, 0), (1, 0)), constant_values=START)
            ),
            num_beams=4,
            num_return_sequences=4,
            length_penalty=0.0,
            early_stopping=early_stopping,
            max_new_tokens=MAX_LENGTH - num_prefix,
            min_new_tokens=max(0, min_length - num_prefix),
            no_repeat_ngram_size=no_repeat_ngram_size,
            suppress_tokens=[PADDING, START],
            return_dict_in_generate=True,
            output_scores=True,
        )
        constraints = {
            "min_length": min_length,
            "no_repeat_ngram_size": no_repeat_ngram_size,
        }
        ours = find(
            decoding.beam_search,
            model,
            source,
            *([prefix] if num_prefix else []),
            length_penalty=0.0,
            max_length=MAX_LENGTH,
            num_results=4,
            **constraints,
        )
        sequences = np.reshape(theirs.sequences, (len(source), 4, -1))
        scores = np.reshape(theirs.sequences_scores, (len(source), 4))
        for row in range(len(source)):
            # What reached the greatest length comes last here, and among the
            # others there. They pad with the end.
            ended = [
                (ids[1 : 2 + ids[1:].index(END)], score)
                for ids, score in zip(sequences[row].tolist(), scores[row])
                if END in ids
            ]
            lengths += [len(ids) for ids, _ in ended]
            for i, (ids, score) in enumerate(ended):
                assert text(ours.ids[row, i]) == ids
                if not num_prefix:  # in their scores it has no part
                    np.testing.assert_allclose(
                        ours.scores[row, i], score, atol=1e-4
                    )
    assert len(lengths) > 20
    assert len(set(lengths)) > 2
