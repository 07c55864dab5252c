"""What a run trains, a new model or a trained one, and its optimizer."""

from keras_transformer.model import Transformer
from keras_transformer.training import Adam, Muon


def new_model(settings, tokenizer):
    """A model of the preset and the sizes in the settings."""
    sizes = {}
    if isinstance(tokenizer, tuple):
        sizes["target_vocabulary_size"] = tokenizer[1].vocabulary_size
        tokenizer = tokenizer[0]
    arguments = settings.model_arguments()
    if arguments.get("position_encoding") == "learned":
        sizes["max_length"] = (
            settings.max_length + settings.max_extra_length + 1
        )
    return Transformer.from_preset(
        settings.preset,
        vocabulary_size=tokenizer.vocabulary_size,
        dtype=settings.dtype,
        **sizes,
        **arguments,
    )


def old_model(settings, start, prepared):
    """The model to start from, with this run's rates of dropout."""
    given = settings.model_arguments()
    if start.tokenizer != prepared.tokenizer:
        raise ValueError(
            "A model and its data must have the same vocabulary. Received: "
            f"start_from={settings.start_from!r} with a vocabulary "
            f"other than that of {prepared.folder}. Prepare the data "
            f"with `--tokenizer {settings.start_from}`."
        )
    config = start.model.get_config()
    positions = start.model.source_positions
    if positions.kind == "learned" and (
        settings.max_length >= positions.max_length
    ):
        raise ValueError(
            "`max_length` and the end must fit into the positions that a "
            f"model has learned. Received: max_length="
            f"{settings.max_length} with start_from="
            f"{settings.start_from!r}, which has "
            f"{positions.max_length}. Lower it."
        )
    if config["num_decoder_layers"] is None:
        config["num_decoder_layers"] = config["num_layers"]
    for name, value in given.items():
        if "dropout" not in name and value != config[name]:
            raise ValueError(
                "A model keeps its sizes. Received: "
                f"{name}={value!r} with start_from="
                f"{settings.start_from!r}, which has {name}="
                f"{config[name]!r}. Leave it out, or start anew."
            )
    model = Transformer.from_config({**config, **given})
    model.set_weights(start.model.get_weights())
    return model


def new_optimizer(settings, rate):
    """Adam or Muon, at this rate."""
    clip = {"global_clipnorm": settings.clip_norm}
    if settings.optimizer == "adam":
        return Adam(rate, **clip)
    halves = settings.dtype == "mixed_bfloat16"
    dtype = "bfloat16" if halves else "float32"
    return Muon(rate, newton_schulz_dtype=dtype, **clip)
