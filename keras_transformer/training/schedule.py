"""The paper's learning rate: a linear warm-up, then one over a square root."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of section 5.3 of the paper.

    `scale · hidden_dim^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)`

    With `cooldown_steps`, which the paper has not, the last updates' rates are
    multiplied by a factor that falls from 1 to 0 in a straight line.

    The paper's first step is 1 and Keras' is 0, so one is added here: the
    first update is not lost to a learning rate of zero.

    Args:
        hidden_dim: Width of the model (`d_model` in the paper).
        warmup_steps: Updates over which the rate rises.
        scale: Factor on the whole curve; 1 in the paper.
        cooldown_steps: Updates at the end over which the rate falls to zero.
        total_steps: Updates in all. Only for `cooldown_steps`.

    >>> round(float(TransformerSchedule(512)(3999)), 6)
    0.000699
    """

    def __init__(
        self,
        hidden_dim,
        warmup_steps=4000,
        scale=1.0,
        cooldown_steps=0,
        total_steps=None,
    ):
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
        if cooldown_steps and not 0 < cooldown_steps <= (total_steps or 0):
            raise ValueError(
                "`cooldown_steps` must be at most all updates. Received: "
                f"cooldown_steps={cooldown_steps}, total_steps={total_steps}. "
                "Change either."
            )
        super().__init__()
        self.hidden_dim = hidden_dim
        self.warmup_steps = warmup_steps
        self.scale = scale
        self.cooldown_steps = cooldown_steps
        self.total_steps = total_steps

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1.0
        rise = step * self.warmup_steps**-1.5
        scale = self.scale * self.hidden_dim**-0.5
        if self.cooldown_steps:
            left = self.total_steps + 1.0 - step  # this one counts
            scale *= ops.clip(left / self.cooldown_steps, 0.0, 1.0)
        return scale * ops.minimum(ops.rsqrt(step), rise)

    def get_config(self):
        return {
            "hidden_dim": self.hidden_dim,
            "warmup_steps": self.warmup_steps,
            "scale": self.scale,
            "cooldown_steps": self.cooldown_steps,
            "total_steps": self.total_steps,
        }
