"""Steps of training and validation under `tf.distribute`, on TensorFlow.

Keras 3 leaves several things wrong or failing there. What sets them right
needs some methods that Keras does not document: they are here and in
`optimizer.py`, and each has a test.
"""

import contextlib

import keras
import tensorflow as tf
from keras import tree

from keras_transformer.layers.masks import attached_mask
from keras_transformer.training.loss import SmoothedCrossentropy, disagreement
from keras_transformer.training.replicas import sum_over_replicas, whole_batch

# Between the seeds of two replicas. Large and prime, so that small seeds that
# a user gives by hand (0, 1, 2, …) do not meet on different replicas.
SEED_STRIDE = 15_485_863

# Above the number of times that a layer draws in one update: once for each
# micro-batch, as a rule.
DRAWS_PER_STEP = 1000


class Steps:
    """One step of training or validation on TensorFlow, and many of them."""

    def train_step(self, data):
        count = self._count(data) * (2 if self.consistency else 1)
        with self._own_randomness(), self._whole_batch(count):
            if self.accumulation_steps == 1:
                gradients, logs = self._gradients(data, count)
            else:
                gradients, logs = self._accumulated_gradients(data, count)
        gradients = self._agree_on_finite(gradients)
        self.optimizer.apply(gradients, self.trainable_variables)
        return logs

    def test_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        count = self._count(data)
        with self._whole_batch(count):
            y_pred = self._forward(x, training=False)
            self._loss(x, y, y_pred, sample_weight, count, training=False)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def _forward(self, x, training):
        if self._call_has_training_arg:
            return self(x, training=training)
        return self(x)

    def _gradients(self, data, count, parts=1):
        """Dense gradients and metrics of one of `parts` micro-batches."""
        if self.consistency:
            data = tree.map_structure(_twice, data)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            y_pred = self._forward(x, training=True)
            loss = self._loss(x, y, y_pred, sample_weight, count, parts)
            if self.consistency:
                apart = disagreement(
                    _only(y), _only(y_pred), _only(sample_weight)
                )
                apart = tf.math.divide_no_nan(apart, count)
                loss += tf.cast(self.consistency * apart, loss.dtype)
            loss = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(loss, self.trainable_variables)
        # Dense: adds up the rows of a token that occurs more than once.
        gradients = [
            g if g is None else tf.convert_to_tensor(g) for g in gradients
        ]
        return gradients, self.compute_metrics(x, y, y_pred, sample_weight)

    def _accumulated_gradients(self, data, count):
        """The same for a whole batch, a few rows at a time.

        In a loop, because micro-batches that stand beside each other in a
        graph may run at the same time, and would save no memory.
        """
        parts, rows = self.accumulation_steps, _num_rows(data)
        missing = set()  # the places of weights that have no gradient

        def body(part, totals):
            begin, end = part * rows // parts, (part + 1) * rows // parts
            micro_batch = tree.map_structure(
                lambda t: None if t is None else t[begin:end], data
            )
            gradients, _ = self._gradients(micro_batch, count, parts)
            missing.update(i for i, g in enumerate(gradients) if g is None)
            totals = [
                total if g is None else total + g
                for total, g in zip(totals, gradients)
            ]
            return part + 1, totals

        zeros = [tf.zeros(v.shape, v.dtype) for v in self.trainable_variables]
        _, totals = tf.while_loop(
            lambda part, _: part < parts,
            body,
            (tf.constant(0), zeros),
            parallel_iterations=1,
        )
        gradients = [None if i in missing else g for i, g in enumerate(totals)]
        return gradients, self.get_metrics_result()

    # The loss: one mean over the whole global batch

    @property
    def _counts_tokens(self):
        return isinstance(self.loss, SmoothedCrossentropy) and not (
            self.computes_own_loss
        )

    @property
    def computes_own_loss(self):
        """Whether the losses, not this class, see to the global batch."""
        return type(self).compute_loss is not keras.Model.compute_loss or (
            not isinstance(self.loss, SmoothedCrossentropy)
            and any(
                isinstance(loss, SmoothedCrossentropy)
                for loss in tree.flatten(self.loss)
            )
        )

    @property
    def splits_batches(self):
        """What splits a batch, in words; nothing where it stays whole."""
        replicas = self.distribute_strategy.num_replicas_in_sync
        counts = {
            "replicas": replicas,
            "accumulation_steps": self.accumulation_steps,
        }
        return ", ".join(f"{k}={v}" for k, v in counts.items() if v > 1)

    def _count(self, data):
        """Tokens or, for losses that know none, rows of the global batch."""
        _, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if self._counts_tokens:
            if len(tree.flatten(y)) > 1:
                raise ValueError(
                    "`SmoothedCrossentropy` must be given for each of several "
                    f"targets. Received: {len(tree.flatten(y))} targets with "
                    f"loss={self.loss}. Give a list or a dictionary of losses, "
                    "as the targets are."
                )
            return sum_over_replicas(
                self.loss.count(_only(y), _only(sample_weight))
            )
        return sum_over_replicas(tf.cast(_num_rows(data), "float32"))

    def _whole_batch(self, count):
        return whole_batch(count if self._counts_tokens else None)

    def _loss(self, x, y, y_pred, sample_weight, count, parts=1, training=True):
        """What these rows add to the loss of the whole global batch."""
        replicas = self.distribute_strategy.num_replicas_in_sync
        loss = self._compute_loss(
            x=x,
            y=y,
            y_pred=y_pred,
            sample_weight=sample_weight,
            training=training,
        )
        if self._counts_tokens and parts > 1:
            # Penalties on weights come again with each micro-batch.
            extra = [self._aggregate_additional_loss(x) for x in self.losses]
            loss -= (1 - 1 / parts) * sum(extra, 0.0)
        if not self._counts_tokens and not self.computes_own_loss:
            self._check_no_mask(y_pred)
            # Keras divided by the rows here, and by the replicas.
            rows = tf.cast(_num_rows(x) * replicas, loss.dtype)
            loss *= tf.math.divide_no_nan(rows, tf.cast(count, loss.dtype))
        # Adds loss · count to the total and, in all, count to the weight.
        self._loss_tracker.update_state(
            loss * replicas * parts, sample_weight=count / (replicas * parts)
        )
        return loss

    def _check_no_mask(self, y_pred):
        """Raises where a mask makes the mean one over something else."""
        masked = any(attached_mask(x) is not None for x in tree.flatten(y_pred))
        if masked and self.splits_batches:
            raise ValueError(
                "Several replicas or micro-batches need outputs without a "
                "mask, or `SmoothedCrossentropy`. Received: "
                f"{self.splits_batches} with loss={self.loss}, of which each "
                "part would be a mean over what its mask shows. Give "
                "`SmoothedCrossentropy`, which counts the tokens of all parts, "
                "or train on one device at once."
            )

    # The replicas: other dropout on each, but one mind about infinities

    @contextlib.contextmanager
    def _own_randomness(self):
        """Makes the draws of a step follow from its number and its replica.

        Keras draws the same dropout on all replicas, and saves no random
        state. Here seeds are shifted on each replica's copy, and back, and
        the number of the update counts the draws: with the same seeds a
        resumed run draws what it would have drawn.
        """
        states = {
            id(variable): variable
            for variable in self.variables
            if variable.name == "seed_generator_state"
        }
        seeds = [state.value[0] for state in states.values()]
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        shift = tf.cast(replica, "int64") * SEED_STRIDE
        draws = tf.cast(self.optimizer.iterations, "int64") * DRAWS_PER_STEP
        for seed, state in zip(seeds, states.values()):
            state.assign(tf.stack([seed + shift, draws]))
        yield
        for seed, state in zip(seeds, states.values()):
            state.assign(tf.stack([seed, draws]))

    def _agree_on_finite(self, gradients):
        """Spreads infinities to all replicas where they skip an update.

        Keras looks for them on the first replica only.
        """
        scales = isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer)
        if not scales or self.distribute_strategy.num_replicas_in_sync == 1:
            return gradients
        finite = tf.reduce_all(
            [
                tf.reduce_all(tf.math.is_finite(g))
                for g in gradients
                if g is not None
            ]
        )
        broken = sum_over_replicas(tf.where(finite, 0.0, 1.0))
        spread = tf.where(broken > 0, float("nan"), 0.0)
        return [
            g if g is None else g + tf.cast(spread, g.dtype) for g in gradients
        ]

    # Many steps in one call, on all replicas

    def make_train_function(self, force=False):
        if self.train_function is None or force:
            self.train_function = self._make_function(self.train_step)
        return self.train_function

    def make_test_function(self, force=False):
        if self.test_function is None or force:
            self.test_function = self._make_function(self.test_step)
        return self.test_function

    def _make_function(self, step):
        """Runs `step` on all replicas, for `steps_per_execution` batches.

        Keras' own fails under a strategy for more than one batch. Under none
        it counts one update too many at the end of a dataset of unknown
        length, because the counter does not wait for the batch.
        """
        step = self._autoconvert_optionals(step)
        if self.jit_compile and not self.run_eagerly:
            step = tf.function(step, reduce_retracing=True, jit_compile=True)

        def run(data):
            self.distribute_strategy.run(step, args=(data,))

        def run_many(iterator):
            num_done = tf.constant(0)
            for _ in tf.range(self.steps_per_execution):
                batch = iterator.get_next_as_optional()
                if batch.has_value():
                    run(batch.get_value())
                    num_done += 1
            # Outside the replicas: here a metric is the sum over them.
            return num_done, self.get_metrics_result()

        run_one = run
        if not self.run_eagerly:
            run_one = tf.function(run, reduce_retracing=True)
            run_many = tf.function(run_many, reduce_retracing=True)

        def function(iterator):
            if isinstance(
                iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)
            ):
                num_done, logs = run_many(iterator)
                if num_done == 0:
                    raise StopIteration
                return logs
            # `train_on_batch`: each replica sees the one batch.
            run_one(next(iterator))
            return self.get_metrics_result()

        return function

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        # In a loop or on a replica it would be too late to make variables.
        if iterator is not None:
            spec = iterator._distributed_dataset.element_spec
            data_batch = tree.map_structure(_one_replica, spec)
        with self.distribute_strategy.scope():
            self._symbolic_build(data_batch=data_batch)


def _only(structure):
    """The one tensor in it."""
    return tree.flatten(structure)[0]


def _twice(rows):
    return None if rows is None else tf.concat([rows, rows], axis=0)


def _num_rows(data):
    return tf.shape(next(t for t in tree.flatten(data) if t is not None))[0]


def _one_replica(spec):
    """The spec of one replica's part of a batch; None for what is absent."""
    spec = getattr(spec, "_value_specs", [spec])[0]
    # What stands for None in a dataset has no shape.
    absent = isinstance(spec, tf.OptionalSpec) or not hasattr(spec, "shape")
    return None if absent else spec
