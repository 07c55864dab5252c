"""A training run: from settings to a folder with a trained translator."""

import dataclasses
import json
import math
import signal
import threading
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import keras
import numpy as np

from keras_transformer import plots
from keras_transformer.batching import BatchPlan, load_prepared, prepare
from keras_transformer.batching.prepared import PreparedOtherwise
from keras_transformer.data import is_numbers
from keras_transformer.files import write_text
from keras_transformer.runs import devices, held_out, records
from keras_transformer.runs.checkpoints import Checkpoints
from keras_transformer.runs.models import new_model, new_optimizer, old_model
from keras_transformer.runs.progress import Progress
from keras_transformer.runs.settings import (
    ENDS,
    read_settings,
    write_settings,
)
from keras_transformer.runs.watch import Watch
from keras_transformer.training import (
    Perplexity,
    SmoothedCrossentropy,
    TokenAccuracy,
    TransformerSchedule,
)
from keras_transformer.translator import LENGTH_PENALTY, Translator, load

# What may change when a run goes on.
MAY_CHANGE = (*ENDS, "cooldown_steps", "patience", "accumulation_steps")


class Stopped(Exception):
    """The user stopped the run; everything is saved."""


class Diverged(ValueError):
    """The loss or the weights are no numbers any more."""


def tell(line):
    """Prints it at once, also to a file."""
    print(line, flush=True)


def train(settings, folder, say=tell):
    """Trains a translator, or goes on with a run that was stopped.

    Args:
        settings: A dictionary with what a settings file has, for example
            `{"data": "corpus", "preset": "small", "minutes": 60}`; or
            `Settings`, which `runs.settings.read_settings` gives.
        folder: The run folder. What it holds is in docs/training.md.
        say: A function that is told what happens, a line at a time.

    Returns:
        What stands in `result.json`: scores and which weights to use. None
        on all workers but the first.

    Raises:
        Stopped: After Ctrl-C, when all is saved. Called again, it goes on.
        Diverged: If the loss is no number any more; the last good weights
            are saved.
    """
    if isinstance(settings, dict):
        settings = read_settings(flags=settings)
    folder = Path(folder)
    run = Run(settings, folder, say)
    with run.interruptible():
        run.learn()
    return run.finish()


class Run:
    """One run: its parts, in the order in which `train` uses them."""

    def __init__(self, settings, folder, say):
        self.settings, self.folder, self.say = settings, folder, say
        # Devices first: they cannot be split once TensorFlow has used them.
        self.strategy = devices.make_strategy(settings.devices)
        keras.utils.set_random_seed(settings.seed)
        self.is_chief, self.num_workers = devices.worker(self.strategy)
        self._compare_settings()
        self.start = None
        if settings.start_from is not None:
            self.start = load(settings.start_from, dtype=settings.dtype)
        self.prepared = self._load_data()
        if settings.patience is not None and self.prepared.dev is None:
            raise ValueError(
                "`patience` needs development pairs to be patient with. "
                f"Received: patience={settings.patience} without any. Give "
                "`dev`, here or to `keras-transformer prepare`."
            )
        self.plan = self._plan(self.prepared.train, seed=settings.seed)
        self.dev_plan = None
        if self.prepared.dev is not None:
            self.dev_plan = self._plan(self.prepared.dev, shuffle=False)
        self.total_steps = self._total_steps()
        with self._scope():
            self.model = self._model()
        self.translator = Translator(
            self.model,
            self.prepared.tokenizer,
            self._longest_source(),
            self._length_penalty(),
        )
        self.start = None  # its weights are in the model
        self.dev = held_out.texts(
            self.prepared.dev, self.translator, settings.validation_sentences
        )
        self.checkpoints = Checkpoints(
            folder / "checkpoints", keep=settings.average_last
        )
        data = self.prepared.fingerprint
        self.state = self.checkpoints.restore(
            self._variables(), data, warn=say
        ) or {
            "data": data,
            "step": 0,
            "minutes": 0.0,
            "history": [],
            "best": None,
            "validations_since_best": 0,
        }
        self.stop_asked = False
        if self.is_chief:
            folder.mkdir(parents=True, exist_ok=True)
            write_settings(settings, folder / "settings.toml")

    def learn(self):
        """Trains to the end, validating and saving as it goes."""
        self._announce()
        self._began = time.monotonic() - 60 * self.state["minutes"]
        with Progress(self) as progress:
            while not self._is_over():
                if self.is_chief:  # it was true of an earlier end
                    (self.folder / "result.json").unlink(missing_ok=True)
                step = self.state["step"]
                every = self.settings.validate_every
                until = (step // every + 1) * every
                until = min(until, self.total_steps or until)
                # Half precision skips updates: a run that was stopped may have
                # seen more batches than it has steps.
                batch = self.state.pop("batch", step)
                batch = batch if batch < until else step
                watch = Watch(self, progress)
                history = self.model.fit(
                    self.plan.dataset(initial_step=batch).repeat(),
                    steps_per_epoch=until - batch,
                    shuffle=False,  # the plan has done so
                    verbose=0,
                    callbacks=[watch],
                ).history
                self.state["step"] = self._step()
                self.state["minutes"] = self.minutes()
                # At a validation's step, the validation belongs to it.
                if self.state["step"] < until and not self._is_over():
                    if self.stop_asked:
                        self.state["batch"] = batch + watch.num_batches
                        self._checkpoint(stopped=True)
                        raise Stopped
                    continue  # for the updates that were skipped
                self._validate({k: v[-1] for k, v in history.items()}, watch)
                self.state["minutes"] = self.minutes()
                progress.validated(self.state["history"][-1])
                self._checkpoint()
                if self.stop_asked:
                    raise Stopped
        if not self.checkpoints.has(self.state["step"]):
            self._checkpoint()  # it was stopped there, and is to end there

    def minutes(self):
        """How long the run has trained and validated, in all its parts."""
        return (time.monotonic() - self._began) / 60

    def finish(self):
        """Averages the last checkpoints, compares, and writes the result.

        The first worker does; the others have no result. After a Ctrl-C the
        same command does this again.
        """
        if not self.is_chief:
            return None
        kept = {"averaged": self._averaged_weights()}
        if self.state["best"] is not None:
            self.model.load_weights(self.folder / "best" / "model.weights.h5")
            kept["best"] = self.model.get_weights()
        scores, texts = {}, {}
        for name, weights in kept.items():
            self.model.set_weights(weights)
            scores[name], texts[name] = self._score(self.dev, beam_size=4)
            if name == "averaged":
                self.translator.save(self.folder / "averaged")
        use = max(kept, key=lambda name: _rank(scores[name]))
        self.model.set_weights(kept[use])
        pairs, texts = self.dev, texts[use]
        if self.prepared.test is not None:
            pairs = held_out.texts(self.prepared.test, self.translator)
            count = len(self.prepared.test)
            self.say(f"Translating the test set, {count:,} sentences.")
            scores["test"], texts = self._score(pairs, beam_size=4)
        result = {
            "use": use,
            "step": self.state["step"],
            "best_step": self.state["best"] and self.state["best"]["step"],
            "minutes": round(self.state["minutes"], 2),
            "scores": scores,
            "samples": list(zip(*pairs, texts))[:3] if pairs else [],
        }
        write_text(
            self.folder / "result.json",
            json.dumps(result, indent=2, ensure_ascii=False),
        )
        if self.state["history"]:
            plots.learning_curve(
                self.state["history"], self.folder / "learning_curve.png"
            )
        return result

    def _averaged_weights(self):
        variables = self._variables()
        averages = self.checkpoints.averages(variables, warn=self.say)
        by_variable = dict(zip(map(id, variables), averages))
        return [by_variable[id(weight)] for weight in self.model.weights]

    @contextmanager
    def interruptible(self):
        """The first Ctrl-C (or SIGTERM) ends at the next step, safely.

        Not where others are in the middle of the same step, nor outside the
        main thread, which alone may listen.
        """
        if (
            self.num_workers > 1
            or threading.current_thread() is not threading.main_thread()
        ):
            yield
            return

        def ask(number, frame):
            if self.stop_asked:
                raise KeyboardInterrupt
            self.stop_asked = True
            self.say("Stopping after this step; once more stops at once.")

        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, ask) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # Setting up

    def _scope(self):
        return self.strategy.scope() if self.strategy else nullcontext()

    def _plan(self, examples, **options):
        return BatchPlan(
            examples,
            tokens_per_batch=self.settings.tokens_per_batch,
            max_length=self.settings.max_length,
            num_replicas=devices.num_replicas(self.strategy),
            **options,
        )

    def _compare_settings(self):
        path = self.folder / "settings.toml"
        if path.is_file():
            before = dataclasses.asdict(read_settings(path))
            now = dataclasses.asdict(self.settings)
            changed = [
                name
                for name in now
                if name not in MAY_CHANGE
                and _resolved(name, now[name]) != _resolved(name, before[name])
            ]
            if changed:
                name = changed[0]
                raise ValueError(
                    "A run goes on with the settings it began with. Received: "
                    f"{name}={now[name]!r} for {self.folder}, which began with "
                    f"{name}={before[name]!r}. Give another run folder."
                )

    def _load_data(self):
        settings = self.settings
        if settings.data is not None:
            return load_prepared(settings.data)
        if self.num_workers > 1:
            raise ValueError(
                "Several workers need a folder that is prepared before. "
                f"Received: data=None, train={settings.train}. Run "
                "`keras-transformer prepare` once, and give its folder."
            )
        splits = {"train": settings.train, "dev": settings.dev}
        if not settings.dev and all(map(is_numbers, settings.train)):
            splits["dev"] = splits["test"] = settings.train
        try:
            return prepare(
                self.folder / "data",
                **splits,
                vocabulary_size=settings.vocabulary_size or 32_000,
                swap=settings.swap,
                tokens_per_batch=settings.tokens_per_batch,
                tokenizer=self.start and self.start.tokenizer,
            )
        except PreparedOtherwise:
            raise ValueError(
                "A run goes on with the data it began with. Received: "
                f"train={settings.train}, dev={settings.dev}, "
                f"swap={settings.swap}, "
                f"vocabulary_size={settings.vocabulary_size}, where one is not "
                f"as {self.folder / 'data'} was made. Give another run folder."
            ) from None

    def _model(self):
        settings = self.settings
        if self.start is None:
            model = new_model(settings, self.prepared.tokenizer)
        else:
            model = old_model(settings, self.start, self.prepared)
        self._rate = TransformerSchedule(
            model.get_config()["hidden_dim"],
            warmup_steps=settings.warmup_steps,
            scale=settings.learning_rate_scale,
            cooldown_steps=settings.cooldown_steps,
            total_steps=self.total_steps,
        )
        model.compile(
            optimizer=new_optimizer(settings, self._rate),
            loss=SmoothedCrossentropy(settings.label_smoothing),
            metrics=[TokenAccuracy(name="accuracy"), Perplexity()],
            accumulation_steps=settings.accumulation_steps,
            consistency=settings.consistency,
            steps_per_execution=settings.steps_per_execution,
        )
        model.optimizer.build(model.trainable_variables)
        return model

    def _longest_source(self):
        """Pieces of the longest source that is trained on."""
        lengths = self.prepared.train.lengths
        kept = (lengths <= self.settings.max_length).all(axis=1)
        longest = int(lengths[kept, 0].max())
        # What a model has learned before counts, too.
        return max(longest, self.start.max_source_length if self.start else 0)

    def _length_penalty(self):
        if self.settings.length_penalty is not None:
            return self.settings.length_penalty
        return self.start.length_penalty if self.start else LENGTH_PENALTY

    def _total_steps(self):
        settings = self.settings
        if settings.minutes is not None:
            if self.num_workers > 1:
                raise ValueError(
                    "Several workers must agree on the last step. Received: "
                    f"minutes={settings.minutes}. Give `steps` or `epochs`."
                )
            return None
        if settings.epochs is not None:
            steps = settings.epochs * self.plan.steps_per_epoch
        else:
            steps = settings.steps or 100_000
        together = settings.steps_per_execution
        return math.ceil(steps / together) * together

    def _step(self):
        """The number of updates so far."""
        return int(self.model.optimizer.iterations.numpy())

    def _variables(self):
        return [*self.model.variables, *self.model.optimizer.variables]

    # While training

    def _is_over(self):
        settings, state = self.settings, self.state
        if settings.patience is not None and state[
            "validations_since_best"
        ] >= (settings.patience):
            self.say(
                f"No better BLEU in {settings.patience} validations: stopping."
            )
            return True
        if settings.minutes is not None:
            return state["minutes"] >= settings.minutes
        return state["step"] >= self.total_steps

    def _announce(self):
        plan, state = self.plan, self.state
        goes_on = (
            f"Going on at step {state['step']:,} of" if state["step"] else ""
        )
        count = sum(int(np.prod(w.shape)) for w in self.model.weights)
        left_out = ""
        if plan.num_left_out:
            longer = f"{plan.num_left_out:,} over {self.settings.max_length}"
            left_out = f" ({longer} pieces left out)"
        self.say(
            f"{goes_on or 'Training'} {self.folder}: {count:,} parameters, "
            f"{len(plan.examples) - plan.num_left_out:,} pairs{left_out}, "
            f"{plan.steps_per_epoch:,} batches "
            f"an epoch, {plan.real_share:.0%} of them real tokens, "
            f"replicas: {devices.num_replicas(self.strategy)}."
        )
        warmup_steps = self.settings.warmup_steps
        if self.total_steps and 2 * self.total_steps < warmup_steps:
            self.say(
                f"The learning rate rises for {warmup_steps:,} updates, and "
                f"this run has {self.total_steps:,}: it will stay small. Give "
                f"--warmup-steps {max(1, self.total_steps // 4)} or so, and a "
                "run folder of its own."
            )

    def _validate(self, logs, watch):
        row = {
            "step": self.state["step"],
            "epoch": round(self.state["step"] / self.plan.steps_per_epoch, 3),
            "minutes": round(self.state["minutes"], 3),
            "learning_rate": float(self._rate(self.state["step"])),
            "tokens_per_second": round(watch.tokens_per_second),
            **{name: float(value) for name, value in logs.items()},
        }
        if self.dev_plan is not None:
            results = self.model.evaluate(
                self.dev_plan.dataset(), verbose=0, return_dict=True
            )
            row.update({f"val_{k}": float(v) for k, v in results.items()})
            scores, texts = self._score(self.dev, self.settings.beam_size)
            row.update(scores)
            if self.is_chief:
                records.write_samples(
                    self.folder / "samples", row["step"], zip(*self.dev, texts)
                )
        state = self.state
        state["history"].append(row)
        if self.dev is not None:
            if state["best"] is None or _rank(row) > _rank(state["best"]):
                state["best"] = row
                state["validations_since_best"] = 0
                if self.is_chief:
                    self.translator.save(self.folder / "best")
            else:
                state["validations_since_best"] += 1
        if self.is_chief:
            records.write_table(self.folder / "metrics.csv", state["history"])
            records.write_summaries(self.folder / "logs", row)

    def _score(self, pairs, beam_size):
        return held_out.score(
            pairs,
            self.translator,
            beam_size=beam_size,
            max_extra_length=self.settings.max_extra_length,
        )

    def _checkpoint(self, stopped=False):
        variables = self._variables()
        for variable in self.model.trainable_variables:
            if not np.all(np.isfinite(np.asarray(variable))):
                raise self.diverged(f"{variable.path} holds no number")
        if self.is_chief:
            self.checkpoints.write(
                self.state["step"], variables, self.state, stopped
            )

    def diverged(self, what):
        """What to tell when numbers are lost."""
        good = self.state["best"] or {"step": None}
        where = (
            f"The best weights so far are in {self.folder / 'best'} "
            f"(step {good['step']}). "
            if good["step"]
            else ""
        )
        return Diverged(
            f"Training diverged: {what} around step {self._step()}. {where}"
            "The last checkpoint is from before. Lower `learning_rate_scale`, "
            "raise `warmup_steps` or give `clip_norm`, in a new run folder."
        )


def _resolved(name, value):
    """The value of a setting; a folder has many names."""
    is_folder = name in ("data", "start_from") and value is not None
    return Path(value).resolve() if is_folder else value


def _rank(scores):
    """By BLEU; by chrF where sentences are too short for BLEU."""
    return scores.get("bleu", 0.0), scores.get("chrf", 0.0)
