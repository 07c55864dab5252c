"""Table 3 of the paper in small: which choices matter?

    keras-transformer prepare corpus/table3 --vocabulary-size 4000 \\
        --train train.en,train.de --dev val.en,val.de
    python examples/paper/table3.py corpus/table3   2 to 14 minutes a row
    python examples/paper/table3.py --quick         numbers in words, a minute

Trains one model for each row of table3.toml, all with the same updates, and
prints perplexity and BLEU of the development set like the paper. Perplexity is
that of plain cross-entropy: rows with other label smoothing compare. Rows that
are finished stay so: stop it as you like, and give the same command again.
"""

import argparse
import json
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
COLUMNS = {  # the paper's names
    "num_layers": "N",
    "hidden_dim": "d_model",
    "intermediate_dim": "d_ff",
    "num_heads": "h",
    "key_dim": "d_k",
    "value_dim": "d_v",
    "dropout": "P_drop",
    "label_smoothing": "ε_ls",
    "position_encoding": "positions",
    "steps": "updates",
}
QUICK = {
    "num_layers": 1,
    "hidden_dim": 32,
    "intermediate_dim": 64,
    "num_heads": 2,
    "steps": 20,
    "warmup_steps": 10,
    "tokens_per_batch": 1024,
    "validate_every": 20,
    "validation_sentences": 20,
}


def read_rows(path):
    """The settings of the base, and of each row what differs from it."""
    content = tomllib.loads(Path(path).read_text("utf-8"))
    rows = [{"name": "base"}, *content["rows"]]
    unknown = {name for row in rows for name in row} - {"name", *COLUMNS}
    if unknown:
        raise ValueError(
            f"A row must name settings that the table has: {', '.join(COLUMNS)}"
            f". Received: {', '.join(sorted(unknown))}. Put others in [base]."
        )
    return content["base"], rows


def run_folder(folder, row):
    """A name that says what the row changes: the same row, the same folder."""
    changes = [f"{k}-{v}" for k, v in row.items() if k != "name"]
    return folder / "_".join([row["name"], *changes])


def run_row(settings, folder):
    """Trains a row, or goes on with it, and gives its figures."""
    from keras_transformer import load, train
    from keras_transformer.runs.settings import read_settings

    result = folder / "row.json"
    settings = read_settings(None, settings)
    if result.is_file() and read_settings(folder / "settings.toml") == settings:
        return json.loads(result.read_text())
    scores = train(settings, folder)["scores"]
    # The last line of the history is the validation of the last update.
    names, *_, last = (folder / "metrics.csv").read_text().splitlines()
    last = dict(zip(names.split(","), last.split(",")))
    figures = {
        "perplexity": float(last["val_perplexity"]),
        # "averaged" over one checkpoint: the last.
        "bleu": scores["averaged"]["bleu"],
        "chrf": scores["averaged"]["chrf"],
        "parameters": load(folder).model.count_params(),
        "minutes": float(last["minutes"]),
    }
    result.write_text(json.dumps(figures, indent=1))
    return figures


def table(base, rows, figures):
    """Markdown like the paper's: a blank is the base's value."""
    used = [
        column
        for column in COLUMNS
        if column in base or any(column in row for row in rows)
    ]
    lines = [
        f"| row | {' | '.join(COLUMNS[name] for name in used)} "
        "| PPL (dev) | BLEU (dev) | chrF (dev) | params ×10^6 | minutes |",
        "|---" * (len(used) + 6) + "|",
    ]
    head = base["hidden_dim"] // base["num_heads"]
    first = {"key_dim": head, "value_dim": head, **base}
    for row in rows:
        if row["name"] == "base":
            cells = [first.get(name, "") for name in used]
        else:
            cells = [row.get(name, "") for name in used]
        found = figures.get(run_folder(Path(), row).name)
        if found is None:
            continue
        cells = [
            row["name"],
            *cells,
            f"{found['perplexity']:.2f}",
            f"{found['bleu']:.1f}",
            f"{found['chrf']:.1f}",
            f"{found['parameters'] / 1e6:.2f}",
            f"{found['minutes']:.1f}",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("data", nargs="?", help="folder that `prepare` made (numbers)")
    add("--settings", default=HERE / "table3.toml", help="the rows")
    add("--folder", default="runs/table3", help="where to write")
    add("--rows", nargs="+", metavar="NAME", help="these alone, as in: A D")
    add("--quick", action="store_true", help="tiny models, few updates")
    args = parser.parse_args()
    if args.quick and args.folder == parser.get_default("folder"):
        args.folder += "-quick"
    folder = Path(args.folder)
    base, rows = read_rows(args.settings)
    if args.quick:
        base.update(QUICK)
        rows = [row for row in rows if row["name"] in ("base", "D", "E")]
    if args.rows:
        rows = [row for row in rows if row["name"] in ("base", *args.rows)]
    if args.data:
        base["data"] = args.data
    else:
        base.update(data=str(prepare_numbers(folder)))

    from keras_transformer.runs.training import Stopped

    figures = {}
    shown = {name: value for name, value in base.items() if name != "data"}
    for number, row in enumerate(rows, start=1):
        changes = {k: v for k, v in row.items() if k != "name"}
        path = run_folder(folder, row)
        print(f"Row {number} of {len(rows)}: {path.name}", flush=True)
        try:
            figures[path.name] = run_row({**base, **changes}, path)
        except Stopped:
            print(f"Saved in {folder}. The same command goes on.")
            sys.exit(130)
        # After each row, so that there is always a table.
        (folder / "table3.md").write_text(table(shown, rows, figures))
    print("\n" + table(shown, rows, figures))
    print(f"Wrote {folder / 'table3.md'}, and a run folder for each row.")


def prepare_numbers(folder):
    from keras_transformer import prepare

    splits = {split: ["numbers:0-9999"] for split in ("train", "dev")}
    data = folder / "numbers"
    prepare(data, **splits, vocabulary_size=400, verbose=False)
    return data


if __name__ == "__main__":
    main()
