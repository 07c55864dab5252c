"""The paper's learning rate: a linear warm-up, then one over a square root."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of section 5.3 of the paper.

    `scale · hidden_dim^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)`

    The paper's first step is 1 and Keras' is 0, so one is added here: the
    first update is not lost to a learning rate of zero.

    Args:
        hidden_dim: Width of the model (`d_model` in the paper).
        warmup_steps: Updates over which the rate rises.
        scale: Factor on the whole curve; 1 in the paper.

    >>> round(float(TransformerSchedule(512)(3999)), 6)
    0.000699
    """

    def __init__(self, hidden_dim, warmup_steps=4000, scale=1.0):
        for name, value in (
            ("hidden_dim", hidden_dim),
            ("warmup_steps", warmup_steps),
            ("scale", scale),
        ):
            if not value > 0:
                raise ValueError(
                    f"`{name}` must be above zero. Received: {name}={value}. "
                    "The paper has hidden_dim=512, warmup_steps=4000, scale=1."
                )
        super().__init__()
        self.hidden_dim = hidden_dim
        self.warmup_steps = warmup_steps
        self.scale = scale

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1.0
        rise = step * self.warmup_steps**-1.5
        return (
            self.scale
            * self.hidden_dim**-0.5
            * ops.minimum(ops.rsqrt(step), rise)
        )

    def get_config(self):
        return {
            "hidden_dim": self.hidden_dim,
            "warmup_steps": self.warmup_steps,
            "scale": self.scale,
        }
