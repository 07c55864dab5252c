"""The settings of a training run: one file, every line also a flag."""

import dataclasses
import json
import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from keras_transformer.data import is_numbers
from keras_transformer.files import write_text


def setting(default, help, kind=None):
    """A field with its explanation; `kind` is its type if None is allowed."""
    return field(
        default=default,
        metadata={"help": help, "kind": kind or type(default)},
    )


@dataclass
class Settings:
    """Everything that decides a run. Read from a file, then from flags."""

    # Data
    data: str = setting(
        None, "Folder that `keras-transformer prepare` made.", str
    )
    train: tuple = setting(
        ("numbers",), "Sources of training pairs, if there is no such folder."
    )
    dev: tuple = setting((), "Sources of development pairs.")
    swap: bool = setting(False, "Whether to translate the other way.")
    vocabulary_size: int = setting(
        None, "Pieces in the vocabulary (32000; for numbers 512).", int
    )
    max_length: int = setting(
        256, "Pairs with a side of more pieces are left out of training."
    )
    tokens_per_batch: int = setting(
        4096, "Most source and most target tokens in a batch (paper: 25000)."
    )

    # Model
    preset: str = setting(
        "tiny", "Sizes to start from: tiny, small, base or big."
    )
    num_layers: int = setting(None, "Layers in each stack (N).", int)
    num_decoder_layers: int = setting(
        None, "Layers in the decoder, if it differs.", int
    )
    hidden_dim: int = setting(None, "Width between layers (d_model).", int)
    num_heads: int = setting(None, "Attention heads (h).", int)
    intermediate_dim: int = setting(None, "Feed-forward width (d_ff).", int)
    key_dim: int = setting(None, "Width of a head's keys (d_k).", int)
    value_dim: int = setting(None, "Width of a head's values (d_v).", int)
    dropout: float = setting(None, "Share dropped (P_drop).", float)
    attention_dropout: float = setting(
        None, "Share of attention weights dropped.", float
    )
    activation_dropout: float = setting(
        None, "Share dropped inside the feed-forward networks.", float
    )
    activation: str = setting(
        None, "Function inside the feed-forward networks (relu).", str
    )
    position_encoding: str = setting(
        None, "sinusoidal, concatenated or learned.", str
    )
    normalize_first: bool = setting(
        None, "Whether to normalise before each sub-layer.", bool
    )
    share_embeddings: bool = setting(
        None, "Whether source and target share a matrix.", bool
    )
    tie_output: bool = setting(
        None, "Whether logits come from the target's matrix.", bool
    )
    initializer_scale: float = setting(
        None, "Variance of matrices at the start, in Glorot's (1).", float
    )
    dtype: str = setting("float32", "float32, mixed_bfloat16 or mixed_float16.")

    # Training
    start_from: str = setting(
        None,
        "Trained model to begin with: its sizes (whatever the preset), "
        "vocabulary and weights.",
        str,
    )
    steps: int = setting(
        None, "Updates to train for: 100000, if no end is given.", int
    )
    epochs: float = setting(None, "Or passes over the data.", float)
    minutes: float = setting(None, "Or time to train for.", float)
    optimizer: str = setting(
        "adam",
        "adam, or muon: orthogonal steps, which take a little more time.",
    )
    warmup_steps: int = setting(
        4000, "Updates over which the learning rate rises."
    )
    learning_rate_scale: float = setting(
        1.0, "Factor on the paper's learning rate."
    )
    cooldown_steps: int = setting(
        0, "Last updates, over which the learning rate falls to zero."
    )
    label_smoothing: float = setting(0.1, "Share given to wrong labels.")
    consistency: float = setting(
        0.0,
        "Weight of the agreement of two passes with other dropout (R-Drop): "
        "twice the work, for small corpora.",
    )
    clip_norm: float = setting(
        None, "Greatest norm of all gradients together.", float
    )
    accumulation_steps: int = setting(
        1, "Micro-batches in a batch: less memory, the same result."
    )
    steps_per_execution: int = setting(1, "Updates in one call of the graph.")
    devices: int = setting(
        None, "Devices on this host; all GPUs if not given.", int
    )
    seed: int = setting(1, "Of weights, order and dropout.")

    # Validation, checkpoints
    validate_every: int = setting(500, "Updates between validations.")
    validation_sentences: int = setting(
        500, "Most development sentences to translate each time."
    )
    beam_size: int = setting(
        1, "Beam for these translations; the final ones use 4."
    )
    length_penalty: float = setting(
        None,
        "Alpha of the length penalty, kept with the model; that of "
        "`start_from`, or 0.6, if not given.",
        float,
    )
    max_extra_length: int = setting(
        50, "Pieces that a translation may be longer than its source."
    )
    patience: int = setting(
        None, "Validations without a better BLEU before stopping.", int
    )
    average_last: int = setting(
        5, "Last checkpoints to average at the end (paper: 5; big: 20)."
    )

    def __post_init__(self):
        self.train, self.dev = list(self.train), list(self.dev)

    def model_arguments(self):
        """The arguments of `Transformer` that are given."""
        names = [f.name for f in dataclasses.fields(self)]
        names = names[names.index("num_layers") : names.index("dtype")]
        given = {name: getattr(self, name) for name in names}
        return {name: x for name, x in given.items() if x is not None}


# A run has one of them.
ENDS = ("steps", "epochs", "minutes")
DTYPES = ("float32", "mixed_bfloat16", "mixed_float16")
OPTIMIZERS = ("adam", "muon")

# Good for the built-in numbers: all of them right within minutes.
NUMBERS = {
    "vocabulary_size": 512,
    "steps": 1500,
    "warmup_steps": 400,
    "learning_rate_scale": 1.0,
    "dropout": 0.0,
}


def read_settings(path=None, flags=None):
    """Settings from defaults, then a file, then flags; checks every name.

    Args:
        path: A TOML file, or `None`.
        flags: A dictionary of names and values that win over the file.
    """
    given = {}
    if path is not None:
        given = _read_file(Path(path))
    flags = flags or {}
    if any(flags.get(name) is not None for name in ENDS):
        given = {k: v for k, v in given.items() if k not in ENDS}
    given.update(flags)
    fields = {f.name: f for f in dataclasses.fields(Settings)}
    for name, value in given.items():
        if name not in fields:
            raise ValueError(
                f"A setting must have a known name. Received: {name!r}. "
                f"Known are: {', '.join(fields)}."
            )
        given[name] = _checked(fields[name], value)
    limits = [given.get(name) for name in ENDS]
    if sum(limit is not None for limit in limits) > 1:
        raise ValueError(
            "A run ends after `steps`, `epochs` or `minutes`. Received: "
            f"steps={limits[0]}, epochs={limits[1]}, minutes={limits[2]}. "
            "Give one of them."
        )
    settings = Settings(**given)
    if settings.data is None and all(map(is_numbers, settings.train)):
        for name, value in NUMBERS.items():
            if name == "steps" and any(x is not None for x in limits):
                continue
            if name not in given:
                setattr(settings, name, value)
    _check_data(settings)
    _check_counts(settings)
    if settings.dtype not in DTYPES:
        raise ValueError(
            f"`dtype` must be one of {DTYPES}. Received: "
            f"dtype={settings.dtype!r}. Weights are float32 with all of them."
        )
    if settings.optimizer not in OPTIMIZERS:
        raise ValueError(
            f"`optimizer` must be one of {OPTIMIZERS}. Received: "
            f"optimizer={settings.optimizer!r}. The paper has adam."
        )
    return settings


def write_settings(settings, path):
    """Writes a commented TOML file that `read_settings` reads back."""
    lines = ["# Settings of a run of `keras-transformer train`.", ""]
    for f in dataclasses.fields(settings):
        lines.append(f"# {f.metadata['help']}")
        value = getattr(settings, f.name)
        if value is None:
            lines.append(f"# {f.name} =")
        else:
            lines.append(f"{f.name} = {json.dumps(value, ensure_ascii=False)}")
        lines.append("")
    write_text(path, "\n".join(lines))


def _read_file(path):
    if not path.is_file():
        raise FileNotFoundError(
            f"`settings` must be a TOML file. Received: {path}, which does "
            "not exist."
        )
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"`settings` must be a TOML file. Received: {path}, in which "
            f"{error}. Mend the line."
        ) from None


def _checked(f, value):
    kind = f.metadata["kind"]
    if value is None:
        return value
    if kind is tuple:
        is_list = isinstance(value, list | tuple) and all(
            isinstance(source, str) for source in value
        )
        if not is_list or (f.name == "train" and not value):
            raise ValueError(
                f"`{f.name}` must be a list of sources. "
                f"Received: {f.name}={value!r}. {f.metadata['help']}"
            )
        return value
    if isinstance(value, bool) != (kind is bool):
        kind_fits = False
    elif kind is float:
        kind_fits = isinstance(value, int | float) and math.isfinite(value)
        value = float(value) if kind_fits else value
    else:
        kind_fits = isinstance(value, kind)
    if not kind_fits:
        raise ValueError(
            f"`{f.name}` must be of type {kind.__name__}. "
            f"Received: {f.name}={value!r}. {f.metadata['help']}"
        )
    return value


def _check_data(settings):
    """What `prepare` has decided cannot be decided again."""
    if settings.data is None:
        return
    defaults = Settings()
    for name in ("train", "dev", "swap", "vocabulary_size"):
        value = getattr(settings, name)
        if value != getattr(defaults, name):
            raise ValueError(
                f"`{name}` is for training without a prepared folder. "
                f"Received: {name}={value!r} with data={settings.data!r}. "
                "Leave it out, or give it to `keras-transformer prepare`."
            )


def _check_counts(settings):
    for name in (
        "steps",
        "epochs",
        "minutes",
        "patience",
        "vocabulary_size",
        "validate_every",
        "validation_sentences",
        "average_last",
        "tokens_per_batch",
        "warmup_steps",
        "accumulation_steps",
        "steps_per_execution",
        "beam_size",
        "clip_norm",
    ):
        value = getattr(settings, name)
        if value is None or value >= 1:
            continue
        is_share = isinstance(value, float)  # of an epoch, of a minute
        if not (is_share and value > 0):
            raise ValueError(
                f"`{name}` must be {'above 0' if is_share else 'at least 1'}. "
                f"Received: {name}={value}."
            )
    if settings.cooldown_steps and settings.minutes is not None:
        raise ValueError(
            "`cooldown_steps` needs a run whose end is known. Received: "
            f"cooldown_steps={settings.cooldown_steps}, "
            f"minutes={settings.minutes}. Give `steps` or `epochs`."
        )
    together = settings.steps_per_execution
    if together > 1 and settings.dtype == "mixed_float16":
        raise ValueError(
            "`steps_per_execution` must be 1 with mixed_float16, which skips "
            f"updates. Received: steps_per_execution={together}. Leave it out, "
            "or take mixed_bfloat16."
        )
    for name in ("validate_every", "steps"):
        value = getattr(settings, name)
        if value is not None and value % together:
            raise ValueError(
                f"`{name}` must be a multiple of `steps_per_execution`. "
                f"Received: {name}={value}, steps_per_execution={together}. "
                "Change either."
            )
    for name in (
        "max_extra_length",
        "cooldown_steps",
        "consistency",
        "label_smoothing",
    ):
        value = getattr(settings, name)
        if value < 0:
            raise ValueError(
                f"`{name}` must be at least 0. Received: {name}={value}."
            )
    if settings.label_smoothing >= 1:
        raise ValueError(
            "`label_smoothing` must be below 1. "
            f"Received: label_smoothing={settings.label_smoothing}."
        )
