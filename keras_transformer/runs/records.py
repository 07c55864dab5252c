"""What a run writes down while it trains, for people and for TensorBoard."""

import csv
from itertools import islice

import tensorflow as tf

from keras_transformer.files import replacing, write_text


def write_samples(folder, step, rows, count=10):
    """Writes the first sources, references and translations, to compare."""
    folder.mkdir(exist_ok=True)
    write_text(
        folder / f"step-{step:08d}.txt",
        "\n".join(
            f"{s}\n  = {r}\n  > {t}\n" for s, r, t in islice(rows, count)
        ),
    )


def write_table(path, rows):
    """Writes dictionaries as CSV; later ones may have more columns."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (
        replacing(path) as beside,
        open(beside, "w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def write_summaries(folder, row):
    """Writes the numbers of a validation for TensorBoard."""
    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default(step=row["step"]):
        for name, value in row.items():
            if isinstance(value, (int, float)) and name != "step":
                tf.summary.scalar(name, value)
    writer.close()
