"""Our layers beside those of Keras, KerasHub and PyTorch.

    python -m benchmarks.layers            about 6 minutes
    python -m benchmarks.layers --quick    two lengths, a minute or two

Forward and backward of self-attention with a padding mask, and of an encoder
layer, at 4,096 positions a batch. No dropout: each library puts it elsewhere.
Prints rows for RESULTS.md.
"""

import argparse
import math

from benchmarks import side_by_side

WIDTH, HEADS = 256, 8
POSITIONS = 4096
PEERS = {
    "attention": ["ours", "keras", "torch"],
    "causal attention": ["ours", "keras", "torch"],
    "encoder": ["ours", "keras_hub", "torch"],
    "restricted attention": ["ours"],
}


def make_step(candidate, case):
    """A function that runs forward and backward once."""
    if candidate == "torch":
        return torch_step(case)
    side_by_side.tensorflow_threads()
    import tensorflow as tf

    call, layer = keras_call(candidate, case["layer"])
    batch, length = case["batch"], case["length"]
    x = tf.random.stateless_normal((batch, length, WIDTH), (1, 2))
    mask = tf.sequence_mask(lengths(batch, length), length)

    # Shapes are open, as length-bucketed training has them.
    @tf.function(
        input_signature=[
            tf.TensorSpec((None, None, WIDTH)),
            tf.TensorSpec((None, None), tf.bool),
        ]
    )
    def step(x, mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(call(x, mask) ** 2)
        weights = [weight.value for weight in layer.trainable_variables]
        return tape.gradient(loss, [x, *weights])

    return lambda: step(x, mask)[0].numpy()


def keras_call(candidate, kind):
    """A Keras layer and the way it is called with a padding mask."""
    import keras

    from keras_transformer import layers

    shape = (None, None, WIDTH)
    head = WIDTH // HEADS
    if kind == "encoder":
        if candidate == "ours":
            layer = layers.EncoderLayer(HEADS, 4 * WIDTH, dropout=0.0)
            layer.build(shape)
            return lambda x, m: layer(x, mask=m, training=True), layer
        import keras_hub

        layer = keras_hub.layers.TransformerEncoder(4 * WIDTH, HEADS)
        layer.build(shape)
        return lambda x, m: layer(x, padding_mask=m, training=True), layer
    causal = kind == "causal attention"
    if candidate == "ours":
        window = 16 if kind == "restricted attention" else None
        layer = layers.MultiHeadAttention(HEADS, head, attention_window=window)
    else:
        layer = keras.layers.MultiHeadAttention(HEADS, head, use_bias=False)
    layer.build(shape, shape)

    def call(x, mask):
        return layer(x, x, value_mask=mask, use_causal_mask=causal)

    return call, layer


def torch_step(case):
    import torch

    torch.set_num_threads(2)
    torch.manual_seed(1)
    batch, length = case["batch"], case["length"]
    x = torch.randn(batch, length, WIDTH, requires_grad=True)
    hidden = (
        torch.arange(length)[None]
        >= torch.tensor(lengths(batch, length))[:, None]
    )
    if case["layer"] == "encoder":
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True
        ).train()

        def call():
            return layer(x, src_key_padding_mask=hidden)

    else:
        layer = torch.nn.MultiheadAttention(
            WIDTH, HEADS, bias=False, batch_first=True
        ).train()
        future = None
        if case["layer"] == "causal attention":
            future = torch.triu(
                torch.ones(length, length, dtype=torch.bool), diagonal=1
            )

        def call():
            return layer(
                x,
                x,
                x,
                key_padding_mask=hidden,
                attn_mask=future,
                need_weights=False,
            )[0]

    def step():
        layer.zero_grad()
        x.grad = None
        (call() ** 2).sum().backward()

    return step


def lengths(batch, length):
    """Sentences between three quarters and all of the length."""
    return [length - (i * length // 4) // max(1, batch) for i in range(batch)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two lengths only")
    quick = parser.parse_args().quick
    sizes = [32, 256] if quick else [32, 64, 128, 256, 512, 1024]
    origin = side_by_side.origin(
        "tensorflow", "keras", "keras-hub", "torch", "numpy"
    )
    print(f"\n### Layers\n\n{origin}\n")
    print(
        f"Forward and backward, width {WIDTH}, {HEADS} heads, {POSITIONS} "
        "positions a batch, milliseconds (megabytes). `python -m "
        f"benchmarks.layers{' --quick' if quick else ''}`\n"
    )
    print("| layer | length | ours | peer | ours is faster by |")
    print("|---|---|---|---|---|")
    ours = {}
    for kind, candidates in PEERS.items():
        for length in sizes:
            case = {
                "layer": kind,
                "length": length,
                "batch": max(1, POSITIONS // length),
            }
            results = side_by_side.compare(
                make_step, candidates, case, repeats=3 if quick else 9
            )
            ours.setdefault(kind, []).append(results["ours"]["milliseconds"])
            for peer in candidates[1:] or [None]:
                print(row(kind, length, results, peer), flush=True)
    print("\nGrowth with the length, at the same number of positions:\n")
    for kind, times in ours.items():
        exponent = math.log(times[-1] / times[-2]) / math.log(
            sizes[-1] / sizes[-2]
        )
        print(
            f"- {kind}: from {sizes[-2]} to {sizes[-1]} the time for a "
            f"position grows as length^{exponent:.2f}, for a sequence as "
            f"length^{1 + exponent:.2f}"
        )


def row(kind, length, results, peer):
    def cell(name):
        result = results[name]
        if "error" in result:
            return result["error"]
        return f"{result['milliseconds']:.1f} ({result['megabytes']:.0f})"

    if peer is None:
        return f"| {kind} | {length} | {cell('ours')} | – | – |"
    ratio = "–"
    if "error" not in results[peer]:
        ratio = results[peer]["milliseconds"] / results["ours"]["milliseconds"]
        ratio = f"{ratio:.2f}×"
    return (
        f"| {kind} | {length} | {cell('ours')} | {peer}: {cell(peer)} "
        f"| {ratio} |"
    )


if __name__ == "__main__":
    main()
