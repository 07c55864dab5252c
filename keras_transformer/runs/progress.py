"""What a person sees while a run trains."""

import time

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars


class Progress:
    """A bar on a terminal, a line at each validation everywhere."""

    def __init__(self, run):
        self._run = run
        self._console = Console(highlight=False)
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._bleu = None
        self._start = time.monotonic()
        self._first = run.state["step"]

    def __enter__(self):
        self._bars.start()
        self._task = self._bars.add_task(
            "step", total=self._run.total_steps, figures=""
        )
        return self

    def __exit__(self, *error):
        self._bars.stop()

    def step(self, step, loss, tokens_per_second):
        """Shows the figures of one more step."""
        figures = [
            f"loss {loss:.3f}",
            f"{tokens_per_second:,.0f} tokens/s",
            f"{1 - self._run.plan.real_share:.0%} padding",
            f"{self._time_left(step)} left",
        ]
        if self._bleu:
            figures.append(f"BLEU {self._bleu:.1f}")
        self._bars.update(
            self._task,
            completed=step,
            description=f"step {step:,}",
            figures=" · ".join(figures),
        )

    def validated(self, row):
        """Prints a line that stays."""
        self._bleu = row.get("bleu")
        names = {
            "loss": "loss {:.3f}",
            "val_loss": "dev loss {:.3f}",
            "val_perplexity": "dev perplexity {:.2f}",
            "val_accuracy": "dev accuracy {:.1%}",
            "bleu": "BLEU {:.2f}",
            "chrf": "chrF {:.2f}",
            "exact": "{:.1%} exact",
            "tokens_per_second": "{:,} tokens/s",
            "minutes": "{:.1f} minutes",
        }
        figures = [
            form.format(row[name])
            for name, form in names.items()
            if row.get(name) is not None
            and (name != "bleu" or row["bleu"])  # one word has no BLEU
        ]
        left = self._time_left(row["step"])
        self._console.print(
            f"step {row['step']:,}: {', '.join(figures)}, {left} left",
            soft_wrap=True,
        )

    def _time_left(self, step):
        limit = self._run.settings.minutes
        if limit is not None:
            seconds = 60 * (limit - self._run.minutes())
        else:
            done = max(1, step - self._first)
            seconds = (time.monotonic() - self._start) / done
            seconds *= self._run.total_steps - step
        minutes, seconds = divmod(max(0, round(seconds)), 60)
        return f"{minutes}:{seconds:02d}"
