"""`keras-transformer attention`: a picture of what looks at what."""

from pathlib import Path

from keras_transformer import plots
from keras_transformer.cli.flags import (
    add_model_flag,
    check_arguments,
    load_translator,
)

KINDS = ("memory", "encoder", "decoder")


def add_parser(verbs):
    parser = verbs.add_parser(
        "attention",
        help="draw the attention in a translation",
        description="Translates a sentence and draws what looks at what: a "
        "PNG of one layer, or an HTML page to look around in, which holds all "
        "layers and heads in one file.",
    )
    parser.add_argument("sentence", help="a sentence to translate")
    add_model_flag(parser)
    parser.add_argument(
        "--translation",
        metavar="TEXT",
        help="a translation to look at, instead of the model's own",
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="memory",
        help="memory: the translation looks at the source; encoder: the source "
        "at itself; decoder: the translation at itself (memory)",
    )
    parser.add_argument(
        "--layer", type=int, metavar="N", help="from 1 on (the last)"
    )
    parser.add_argument(
        "--head",
        default="all",
        metavar="N",
        help="from 1 on, or all, or average (all)",
    )
    parser.add_argument(
        "--output",
        default="attention.png",
        metavar="FILE",
        help="a .png or a .html file (attention.png)",
    )


def run(args):
    check_arguments(args.sentence, args.translation)
    output = Path(args.output)
    suffix = output.suffix.lower()
    if suffix not in (".png", ".html"):
        raise ValueError(
            "`--output` must end with .png or .html. "
            f"Received: --output {args.output}. Give another name."
        )
    if not output.parent.is_dir():
        raise ValueError(
            "`--output` must be in a folder that exists. "
            f"Received: --output {args.output}. Make {output.parent} first."
        )
    if not args.sentence.strip():
        raise ValueError(
            "There must be a sentence to look at. Received a blank one. "
            'Give one, as in: keras-transformer attention "a house"'
        )
    translator = load_translator(args)
    layer, head = _chosen(args, translator.model)
    translation = args.translation
    if translation is None:
        translation = translator.translate(args.sentence).text
    maps = translator.attention(args.sentence, translation)
    title = f"{args.sentence} → {translation}"
    if suffix == ".html":
        plots.attention_page(maps, args.output, title, args.kind, layer, head)
    else:
        _draw(maps[args.kind], args, layer, head)
    print(title)
    print(f"Wrote {args.output}")


def _draw(attention, args, layer, head):
    weights, *pieces = attention
    title = f"{args.kind}, layer {layer + 1}"
    if head is not None:
        plots.attention_map(
            weights[layer, head],
            *pieces,
            args.output,
            f"{title}, head {head + 1}",
        )
    elif args.head == "average":
        plots.attention_map(
            weights[layer].mean(axis=0),
            *pieces,
            args.output,
            f"{title}, average of all heads",
        )
    else:
        plots.attention_heads(weights[layer], *pieces, args.output, title)


def _chosen(args, model):
    """Layer and head from 0 on; no head is all, or their average."""
    is_encoder = args.kind == "encoder"
    layers = model.encoder_layers if is_encoder else model.decoder_layers
    layer = len(layers) if args.layer is None else args.layer
    layer = _number("--layer", layer, len(layers)) - 1
    if args.head in ("all", "average"):
        return layer, None
    return layer, _number("--head", args.head, layers[0].num_heads) - 1


def _number(flag, given, largest):
    """A number from 1 on, or a sentence."""
    if not str(given).isdecimal() or not 1 <= int(given) <= largest:
        words = ", or all, or average" if flag == "--head" else ""
        raise ValueError(
            f"`{flag}` must be a number from 1 to {largest}{words}. "
            f"Received: {flag} {given}. This model has no other."
        )
    return int(given)
