"""Decoding speed beside peers: milliseconds, tokens a second, peak memory.

usage: python -m benchmarks.decoding [--sizes 4x128 6x512] [--sentences N]
                                     [--rounds N] [--quick]
       python -m benchmarks.decoding --growth
       python -m benchmarks.decoding --model FOLDER --source SOURCE

Every system runs in a process of its own on two cores, and they take turns.
Models are random, and translations have 25 tokens in every system. Ours and
CTranslate2 have the same weights, and how many of their translations are the
same is printed. `--growth` prints the time for a token and the memory as
translations grow. `--model` translates sentences with a trained model, from
text to text, each system with batches of its own making. Ours and CTranslate2
work on two batches at a time, each with one thread. CTranslate2's length
penalty is another, so that some translations differ. `--quick` only shows that
it runs.

What each system is:
    ours            `beam_search` or `greedy_search`, the portable graph
    ours, compiled  the same, compiled by XLA for the padded shapes
    ct2, ct2 int8   CTranslate2, float32 and int8
    hf              Hugging Face `generate` on a MarianMTModel of the same shape
    keras_hub       KerasHub's samplers around `Transformer.decode`
"""

import argparse
import functools
import itertools
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import ctranslate2_model, side_by_side

SIZES = {
    "4x128": {
        "vocabulary_size": 8000,
        "num_layers": 4,
        "hidden_dim": 128,
        "num_heads": 4,
        "intermediate_dim": 512,
    },
    "6x512": {
        "vocabulary_size": 32000,
        "num_layers": 6,
        "hidden_dim": 512,
        "num_heads": 8,
        "intermediate_dim": 2048,
    },
}
SYSTEMS = ["ours", "ours, compiled", "ct2", "ct2 int8", "hf", "keras_hub"]
ROWS = 32  # sentences at once
LENGTH = 25  # of each translation


def make_model(size):
    import keras

    from keras_transformer import Transformer

    keras.utils.set_random_seed(1)
    return Transformer(**SIZES[size])


def make_sources(case):
    """Sources of 5 to 30 ids in batches of similar length, the end last."""
    rng = np.random.default_rng(0)
    size = SIZES[case["size"]]["vocabulary_size"]
    lengths = np.sort(rng.integers(5, 31, case["sentences"]))
    if case["sentences"] == 1:
        lengths = np.array([20])
    batches = []
    for begin in range(0, len(lengths), ROWS):
        of_batch = lengths[begin : begin + ROWS]
        ids = rng.integers(4, size, (len(of_batch), of_batch.max()))
        ids *= np.arange(of_batch.max()) < of_batch[:, None]
        ids[np.arange(len(ids)), of_batch - 1] = 3
        batches.append(ids.astype("int32"))
    return batches


def make_step(system, case):
    """A function that translates all sentences once."""
    if "model" in case:
        return REAL_MAKERS[system](case)
    translate = MAKERS[system](case)
    batches = make_sources(case)
    if system.startswith(("ours", "ct2")):
        from keras_transformer.threads import in_threads

        return lambda: list(in_threads(translate, batches, 2))
    return lambda: [translate(batch) for batch in batches]


def make_ours(case, compiled=False):
    import tensorflow as tf

    from keras_transformer import decoding, workers

    workers.share_cores()  # as the command line does
    model = make_model(case["size"])
    # The end is one of thousands of ids: what is still open reaches the limit.
    search = functools.partial(decoding.greedy_search, model, max_length=LENGTH)
    if case["beam_size"] > 1:
        search = functools.partial(
            decoding.beam_search,
            model,
            beam_size=case["beam_size"],
            max_length=LENGTH,
        )
    if not compiled:
        search = tf.function(
            search, input_signature=[tf.TensorSpec((None, None), tf.int32)]
        )
        return lambda ids: search(ids).ids.numpy()[:, 0]
    search = tf.function(
        functools.partial(search, jit_compile=True), jit_compile=True
    )

    def translate(ids):
        # A few shapes: full batches, lengths up to multiples of 8.
        rows = ROWS if len(ids) > 1 else 1
        padded = np.zeros((rows, -(-ids.shape[1] // 8) * 8), "int32")
        padded[: len(ids), : ids.shape[1]] = ids
        return search(tf.constant(padded)).ids.numpy()[: len(ids), 0]

    return translate


def ct2_threads(case, quantization):
    """What is fastest for it: two batches at a time, each with a thread.

    One sentence alone has two threads, but in int8: they make it slower.
    """
    if case["sentences"] > 1:
        return {"inter_threads": 2, "intra_threads": 1}
    return {"inter_threads": 1, "intra_threads": 1 if quantization else 2}


def make_ct2(case, quantization=None):
    import ctranslate2

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        ctranslate2_model.write_ctranslate2_model(
            make_model(case["size"]), path, quantization
        )
        translator = ctranslate2.Translator(
            str(path), **ct2_threads(case, quantization)
        )

    def translate(ids):
        results = translator.translate_batch(
            ctranslate2_model.words(ids),
            beam_size=case["beam_size"],
            length_penalty=0.6,
            max_decoding_length=LENGTH,
            min_decoding_length=LENGTH,
            suppress_sequences=[["<pad>"], ["<s>"]],
        )
        return [result.hypotheses[0] for result in results]

    return translate


def make_hf(case):
    import torch
    import transformers

    torch.set_num_threads(2)
    size = SIZES[case["size"]]
    config = transformers.MarianConfig(
        vocab_size=size["vocabulary_size"],
        d_model=size["hidden_dim"],
        encoder_layers=size["num_layers"],
        decoder_layers=size["num_layers"],
        encoder_attention_heads=size["num_heads"],
        decoder_attention_heads=size["num_heads"],
        encoder_ffn_dim=size["intermediate_dim"],
        decoder_ffn_dim=size["intermediate_dim"],
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=3,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
    )
    model = transformers.MarianMTModel(config).eval()

    def translate(ids):
        ids = torch.tensor(ids).long()
        with torch.inference_mode():
            return model.generate(
                input_ids=ids,
                attention_mask=ids != 0,
                num_beams=case["beam_size"],
                do_sample=False,
                min_new_tokens=LENGTH,
                max_new_tokens=LENGTH,
            )

    return translate


def make_keras_hub(case):
    side_by_side.tensorflow_threads()
    import keras_hub
    import tensorflow as tf

    from keras_transformer.layers import padding_mask

    model = make_model(case["size"])
    beam_size = case["beam_size"]
    sampler = keras_hub.samplers.GreedySampler()
    if beam_size > 1:
        sampler = keras_hub.samplers.BeamSampler(num_beams=beam_size)

    @tf.function(input_signature=[tf.TensorSpec((None, None), tf.int32)])
    def search(ids):
        memory, mask = model.encode(ids), padding_mask(ids)
        layers = model.make_cache(memory, LENGTH + 1)
        # The sampler repeats and reorders whatever has a row for a source.
        cache = {"layers": layers, "mask": mask}

        def step(prompt, cache, index):
            last = prompt[:, index - 1 : index]
            logits, layers = model.decode(
                last,
                None,
                cache["mask"],
                cache=cache["layers"],
                cache_index=index - 1,
            )
            logits = tf.reshape(logits, (-1, logits.shape[-1]))
            return logits, logits, {**cache, "layers": layers}

        prompt = tf.pad(
            tf.fill((tf.shape(ids)[0], 1), 2), ((0, 0), (0, LENGTH))
        )
        return sampler(next=step, prompt=prompt, cache=cache, index=1)

    return lambda ids: search(ids).numpy()


MAKERS = {
    "ours": make_ours,
    "ours, compiled": functools.partial(make_ours, compiled=True),
    "ct2": make_ct2,
    "ct2 int8": functools.partial(make_ct2, quantization="int8"),
    "hf": make_hf,
    "keras_hub": make_keras_hub,
}


def real_sentences(case):
    from keras_transformer.data import read_pairs

    pairs = read_pairs(case["source"], split="test")
    return [source for source, _ in itertools.islice(pairs, case["sentences"])]


def make_real_ours(case, compiled=False):
    from keras_transformer import load, workers

    workers.share_cores()  # as the command line does
    translator, sentences = load(case["model"]), real_sentences(case)
    return lambda: translator.translate(
        sentences, beam_size=case["beam_size"], jit_compile=compiled
    )


def make_real_ct2(case, quantization=None):
    import ctranslate2

    from keras_transformer import load

    translator, sentences = load(case["model"]), real_sentences(case)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        ctranslate2_model.write_ctranslate2_model(
            translator.model, path, quantization
        )
        peer = ctranslate2.Translator(
            str(path), **ct2_threads(case, quantization)
        )

    def translate():
        ids = translator.source_tokenizer.tokenize(sentences, add_end=True)
        results = peer.translate_batch(
            ctranslate2_model.words(ids),
            max_batch_size=1536,  # sorted by length, and of 1,536 tokens
            batch_type="tokens",
            beam_size=case["beam_size"],
            length_penalty=0.6,
            max_decoding_length=150,
        )
        found = [list(map(int, result.hypotheses[0])) for result in results]
        return translator.target_tokenizer.detokenize(found)

    return translate


REAL_MAKERS = {
    "ours": make_real_ours,
    "ours, compiled": functools.partial(make_real_ours, compiled=True),
    "ct2": make_real_ct2,
    "ct2 int8": functools.partial(make_real_ct2, quantization="int8"),
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sizes", nargs="+", default=list(SIZES))
    parser.add_argument("--systems", nargs="+", default=SYSTEMS)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--model", help="a trained model")
    parser.add_argument("--source", help="its sentences, as for `evaluate`")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if args.growth:
        print_growth()
        return
    if args.model:
        if not args.source:
            parser.error("--model needs --source: sentences to translate")
        print_real(args)
        return
    if args.quick:
        args.sizes, args.sentences, args.rounds = ["4x128"], 3, 1
    print(
        side_by_side.origin(
            "tensorflow",
            "keras",
            "ctranslate2",
            "transformers",
            "torch",
            "keras-hub",
        )
    )
    for size in args.sizes:
        print_agreement(size)
    print(
        "\n| size | search | sentences | system | ms | tokens/s | × ct2 "
        "float32 | × ct2 int8 | peak MB | ready after s |"
    )
    print("|---" * 10 + "|")
    for size in args.sizes:
        for sentences in (1, args.sentences):
            for beam_size in (1, 4):
                case = {
                    "size": size,
                    "sentences": sentences,
                    "beam_size": beam_size,
                }
                print_case(case, args.systems, args.rounds)


def print_case(case, systems, rounds):
    answers = side_by_side.compare(make_step, systems, case, rounds)
    tokens = case["sentences"] * LENGTH
    search = "greedy" if case["beam_size"] == 1 else f"beam {case['beam_size']}"
    start = f"| {case['size']} | {search} | {case['sentences']:,} |"
    for system, answer in answers.items():
        if "error" in answer:
            print(f"{start} {system} | {answer['error']} |")
            continue
        ms = answer["milliseconds"]
        ratios = [
            f"{answers[peer]['milliseconds'] / ms:.2f}"
            if "milliseconds" in answers.get(peer, {})
            else "–"
            for peer in ("ct2", "ct2 int8")
        ]
        print(
            f"{start} {system} | {ms:,.0f} | {tokens / ms * 1000:,.0f} | "
            f"{' | '.join(ratios)} | {answer['megabytes']:,.0f} | "
            f"{answer['ready_seconds']:.0f} |",
            flush=True,
        )


def print_real(args):
    """Real sentences, text to text: seconds, and sentences a second."""
    print(side_by_side.origin("tensorflow", "keras", "ctranslate2"))
    print("\n| search | sentences | system | s | sentences/s | × ct2 float32 |")
    print("|---" * 6 + "|")
    for sentences in (1, args.sentences):
        for beam_size in (1, 4):
            case = {
                "model": args.model,
                "source": args.source,
                "sentences": sentences,
                "beam_size": beam_size,
            }
            answers = side_by_side.compare(
                make_step, list(REAL_MAKERS), case, args.rounds
            )
            peer = answers["ct2"].get("milliseconds")
            for system, answer in answers.items():
                start = f"| beam {beam_size} | {sentences:,} | {system} |"
                if "error" in answer:
                    print(f"{start} {answer['error']} |")
                    continue
                ms = answer["milliseconds"]
                ratio = f"{peer / ms:.2f}" if peer else "–"
                print(
                    f"{start} {ms / 1000:.3f} | {1000 * sentences / ms:.1f} | "
                    f"{ratio} |",
                    flush=True,
                )


def print_agreement(size):
    """How many greedy and beam translations CTranslate2 shares with us."""
    for beam_size in (1, 4):
        case = {"size": size, "sentences": ROWS, "beam_size": beam_size}
        (ids,) = make_sources(case)
        ours = ctranslate2_model.words(make_ours(case)(ids))
        theirs = make_ct2(case)(ids)
        same = sum(
            a[: LENGTH - 1] == b[: LENGTH - 1] for a, b in zip(ours, theirs)
        )
        print(
            f"{size}, beam {beam_size}: {same} of {len(ids)} translations are "
            "CTranslate2's"
        )


def print_growth():
    """Time for a token and memory of the past, for 25 to 200 tokens."""
    side_by_side.tensorflow_threads()
    import tensorflow as tf

    from keras_transformer import decoding

    size, beam_size = "4x128", 4
    model = make_model(size)
    case = {"size": size, "sentences": ROWS, "beam_size": beam_size}
    (ids,) = make_sources(case)
    print("| tokens | ms a token | past, MB | peak of the process, MB |")
    print("|---|---|---|---|")
    for length in (25, 50, 100, 200):
        search = tf.function(
            functools.partial(
                decoding.beam_search,
                model,
                beam_size=beam_size,
                max_length=length,
            )
        )
        search(ids)
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            search(ids)
            times.append(time.perf_counter() - begin)
        width, layers = SIZES[size]["hidden_dim"], SIZES[size]["num_layers"]
        # Keys and values, four bytes each.
        past = 2 * 4 * ROWS * beam_size * length * width * layers / 2**20
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"| {length} | {1000 * sorted(times)[1] / length:.2f} | "
            f"{past:.0f} | {peak:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
