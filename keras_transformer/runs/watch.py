"""Looks after a run while Keras trains."""

import math
import time

import keras


class Watch(keras.callbacks.Callback):
    """Looks after one stretch of training: the clock, the loss, Ctrl-C."""

    def __init__(self, run, progress):
        super().__init__()
        self._run, self._progress = run, progress
        self._tokens_per_step = run.plan.target_tokens_per_batch
        self.tokens_per_second = 0.0
        self.num_batches = 0

    def on_train_begin(self, logs=None):
        self._start = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        run = self._run
        self.num_batches = batch + 1
        seconds = time.monotonic() - self._start
        self.tokens_per_second = self._tokens_per_step * (batch + 1) / seconds
        loss = float(logs["loss"])
        if not math.isfinite(loss):
            raise run.diverged(f"the loss is {loss}")
        self._progress.step(
            run.state["step"] + batch + 1, loss, self.tokens_per_second
        )
        limit = run.settings.minutes
        if run.stop_asked or (limit is not None and run.minutes() >= limit):
            self.model.stop_training = True
