"""The base class of models that train the same on any number of devices."""

import contextlib

import keras
from keras import tree
from keras.src.models.functional import Functional

from keras_transformer.layers import arguments
from keras_transformer.training.loss import SmoothedCrossentropy
from keras_transformer.training.optimizer import ReduceFirst
from keras_transformer.training.replicas import TENSORFLOW

if TENSORFLOW:
    from keras_transformer.training.steps import Steps
else:

    class Steps:
        """Other backends train as Keras does."""


class DistributedModel(Steps, keras.Model):
    """A `keras.Model` that trains the same on any number of devices.

    Use it wherever you would use `keras.Model`: call it with inputs and
    outputs, or subclass it either way. Under no strategy,
    `tf.distribute.MirroredStrategy` or
    `tf.distribute.MultiWorkerMirroredStrategy`, with any number of replicas,
    `accumulation_steps` and `steps_per_execution`, and however the batches
    split, `compile` and `fit` end with the same weights:

    - the loss is one mean over the whole global batch: over its tokens with
      `SmoothedCrossentropy`, over its rows with other losses. A loss that is
      no such mean is refused where the batch is split: one with another
      `reduction` or with `ignore_class`, one on outputs that carry a mask,
      and `SmoothedCrossentropy` beside others;
    - an update is one step of the learning-rate schedule, whatever the number
      of micro-batches in it;
    - gradients are clipped after their sum over replicas (with our `Adam`, or
      any optimizer that has `ReduceFirst`; others are refused);
    - with `mixed_float16` an overflow on one replica skips the update on all;
    - each replica draws a dropout of its own, from any layer that keeps a
      `keras.random.SeedGenerator`, and the same again in a resumed run;
    - metrics are over all replicas. Logs are what `get_metrics_result` gives,
      whatever a `train_step` of your own returns.

    Create the model, the optimizer and the metrics inside `strategy.scope()`.
    With several workers shard the data, not the files:
    `options.experimental_distribute.auto_shard_policy = DATA`.

    On the JAX and PyTorch backends this is `keras.Model` and no more.

    ```python
    with tf.distribute.MirroredStrategy().scope():
        model = DistributedModel(inputs, outputs)
        model.compile(
            Adam(TransformerSchedule(512), global_clipnorm=1.0),
            SmoothedCrossentropy(0.1),
            accumulation_steps=4,
        )
    model.fit(batches)
    ```
    """

    accumulation_steps = 1
    consistency = 0.0

    def __new__(cls, *args, **kwargs):
        if cls is DistributedModel and _is_functional(args, kwargs):
            cls = FunctionalDistributedModel
        return super().__new__(cls)

    def __init__(self, *args, **kwargs):
        if _is_functional(args, kwargs):
            _make_functional(type(self))
            Functional.__init__(self, *args, **kwargs)
        else:
            super().__init__(*args, **kwargs)

    def compile(self, *args, accumulation_steps=1, consistency=0.0, **kwargs):
        """As `keras.Model.compile`, and two arguments more.

        Args:
            accumulation_steps: The number of micro-batches into which a batch
                is split, by rows. It changes the memory that a step takes,
                and not its result.
            consistency: If above 0, each batch is seen twice, with other
                dropout, and the loss has a term more: so many times the
                divergence between both predictions, as in "R-Drop" (Liang et
                al. 2021), which is meant for scarce data and has 5. It takes
                twice the work. Needs `SmoothedCrossentropy`.
        """
        if not isinstance(accumulation_steps, int) or accumulation_steps < 1:
            raise ValueError(
                "`accumulation_steps` must be an integer of at least 1. "
                f"Received: accumulation_steps={accumulation_steps!r}. "
                "It is the number of micro-batches in a batch."
            )
        if TENSORFLOW and len(args) < 8:  # none has been given
            # On one GPU Keras would choose XLA, which compiles anew for each
            # shape of a batch and cannot split one.
            kwargs.setdefault("jit_compile", False)
        with self._strategy_scope():
            super().compile(*args, **kwargs)
        self.accumulation_steps = accumulation_steps
        self.consistency = consistency
        if accumulation_steps > 1:
            self._check_accumulation()
        self._check_consistency()
        if TENSORFLOW and self._distribute_strategy:
            self._check_optimizer()
        if TENSORFLOW and self.splits_batches:
            self._check_loss()

    def get_compile_config(self):
        config = super().get_compile_config()
        if config:
            config["accumulation_steps"] = self.accumulation_steps
            config["consistency"] = self.consistency
        return config

    def compile_from_config(self, config):
        if not TENSORFLOW:  # to predict there, neither is needed
            for name in ("accumulation_steps", "consistency"):
                config.pop(name, None)
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None and self.built:
            self.optimizer.build(self.trainable_variables)

    def _strategy_scope(self):
        if TENSORFLOW and self._distribute_strategy:
            return self._distribute_strategy.scope()
        return contextlib.nullcontext()

    def _check_accumulation(self):
        if not TENSORFLOW:
            raise ValueError(
                "`accumulation_steps` needs the TensorFlow backend. "
                f"Received: accumulation_steps={self.accumulation_steps} on "
                f"{keras.backend.backend()}. "
                "Give smaller batches."
            )
        if self.jit_compile:
            raise ValueError(
                "`accumulation_steps` cannot be compiled by XLA. Received: "
                f"accumulation_steps={self.accumulation_steps} with "
                "jit_compile=True. Leave one of them out."
            )
        if self.computes_own_loss:
            raise ValueError(
                "`accumulation_steps` needs one loss, given to `compile`, in "
                "no list. "
                f"Received: accumulation_steps={self.accumulation_steps} with "
                f"loss={self.loss} and a `compute_loss` of "
                f"{type(self).compute_loss.__qualname__}. "
                "Leave `accumulation_steps` at 1."
            )

    def _check_consistency(self):
        consistency = self.consistency
        arguments.check_number(
            "a number of at least 0", minimum=0, consistency=consistency
        )
        if not consistency:
            return
        if not TENSORFLOW:
            raise ValueError(
                "`consistency` needs the TensorFlow backend. "
                f"Received: consistency={consistency} on "
                f"{keras.backend.backend()}. Leave it out."
            )
        if self.computes_own_loss or not isinstance(
            self.loss, SmoothedCrossentropy
        ):
            raise ValueError(
                "`consistency` compares logits, token by token, and needs "
                "`SmoothedCrossentropy` as the one loss. "
                f"Received: consistency={consistency} with loss={self.loss} "
                "and a `compute_loss` of "
                f"{type(self).compute_loss.__qualname__}. "
                "Leave `consistency` at 0."
            )

    def _check_loss(self):
        if type(self).compute_loss is not keras.Model.compute_loss:
            return  # what it does with the losses is not known
        losses = tree.flatten(self.loss)
        for loss in losses:
            if not _is_mean_of_rows(loss):
                raise ValueError(
                    "Several replicas or micro-batches need a loss that is a "
                    "mean over rows, or `SmoothedCrossentropy`. Received: "
                    f"{self.splits_batches} with loss={loss}, "
                    f"reduction={getattr(loss, 'reduction', None)!r}, "
                    f"ignore_class={getattr(loss, 'ignore_class', None)}. "
                    "Change the loss, or train on one device at once."
                )
        ours = [isinstance(loss, SmoothedCrossentropy) for loss in losses]
        if any(ours) and not all(ours):
            raise ValueError(
                "Several replicas or micro-batches need losses that count "
                "alike. Received: "
                f"{self.splits_batches} with loss={self.loss}, of which one "
                "counts tokens and another rows. Give `SmoothedCrossentropy` "
                "for all or for none, or train on one device at once."
            )

    def _check_optimizer(self):
        optimizer = self.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        strategy = self._distribute_strategy
        if not strategy.extended.variable_created_in_scope(
            optimizer.iterations.value
        ):
            raise ValueError(
                "`optimizer` must be created in the model's strategy scope. "
                f"Received: optimizer={optimizer.name} from outside. "
                "Create it under `with strategy.scope():`."
            )
        clips = {
            name: getattr(optimizer, name)
            for name in ("clipnorm", "global_clipnorm", "clipvalue")
            if getattr(optimizer, name)
        }
        many = strategy.num_replicas_in_sync > 1
        if many and clips and not isinstance(optimizer, ReduceFirst):
            raise ValueError(
                "`optimizer` would clip the gradients of each replica before "
                "their sum. "
                f"Received: optimizer={optimizer.name}, {clips}. "
                "Take `keras_transformer.training.Adam`, or mix "
                "`ReduceFirst` into your optimizer."
            )


@keras.saving.register_keras_serializable(package="keras_transformer")
class FunctionalDistributedModel(DistributedModel, Functional):
    """What `DistributedModel(inputs, outputs)` is an instance of."""


def _is_functional(args, kwargs):
    return len(args) == 2 or "outputs" in kwargs


def _make_functional(cls):
    """Makes a subclass of `DistributedModel` functional.

    Keras does so by putting `Functional` in the place of `keras.Model` above
    all ancestors, which would break the other subclasses of
    `DistributedModel`, those that have a `call`. So it is done below it.
    """
    if issubclass(cls, Functional):
        return
    for base in cls.__bases__:
        if base is not DistributedModel and issubclass(base, DistributedModel):
            _make_functional(base)
    cls.__bases__ = tuple(
        FunctionalDistributedModel if base is DistributedModel else base
        for base in cls.__bases__
    )


def _is_mean_of_rows(loss):
    """Whether means of equal parts of a batch have the whole's as their mean.

    Names and functions become losses with these defaults.
    """
    if isinstance(loss, SmoothedCrossentropy):
        return True
    reduction = getattr(loss, "reduction", "sum_over_batch_size")
    ignored = getattr(loss, "ignore_class", None)
    return reduction == "sum_over_batch_size" and ignored is None
