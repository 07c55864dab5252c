"""Prepared folders: a corpus cleaned and tokenised once, read many times.

    manifest.json           counts, settings, checksums; written last
    tokenizer.model         or source.model and target.model
    train-00000.ids.npy     pieces: all sources of the shard, then all targets
    train-00000.lengths.npy (pairs, 2): how many pieces each side has

The folder is built beside, as NAME.partial, and renamed when it is whole.
What a stopped run has finished there serves the next one with the same
settings. Text waits on disk between the steps, and duplicates are found on
disk too, so memory does not grow with the corpus.
"""

import functools
import hashlib
import json
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_transformer.batching import files
from keras_transformer.batching.batches import BatchPlan
from keras_transformer.batching.examples import (
    Examples,
    tokenize_pairs,
    tokenizer_pair,
)
from keras_transformer.batching.progress import progress_lines
from keras_transformer.batching.spool import (
    spool_pairs,
    spooled_chunk,
    spooled_pairs,
)
from keras_transformer.data.cleaning import Cleaner
from keras_transformer.data.sources import read_pairs, source_files
from keras_transformer.files import (
    holds_files,
    holds_something,
    reading,
    remove_folder,
)
from keras_transformer.threads import in_background, in_threads, num_cores
from keras_transformer.tokenizer import Tokenizer

FORMAT = 1
SPLITS = ("test", "dev", "train")  # training is checked against the others
# Bounds of what the vocabulary is learned from; the memory follows them.
VOCABULARY_SENTENCES = 2_000_000
VOCABULARY_CHARACTERS = 250_000_000


class PreparedOtherwise(ValueError):
    """A folder to prepare holds something else."""


@dataclass
class Prepared:
    """What `load_prepared` gives, and `make_batches` takes from.

    Attributes:
        folder: Where it is.
        manifest: Counts, settings and checksums, as in `manifest.json`.
        tokenizer: A `Tokenizer`, or one for each language.
        train: `Examples` to train with.
        dev: Those of the development set, or None.
        test: Those of the test set, or None.
    """

    folder: Path
    manifest: dict
    tokenizer: Tokenizer | tuple[Tokenizer, Tokenizer]
    train: Examples
    dev: Examples | None = None
    test: Examples | None = None

    @property
    def fingerprint(self):
        """A text that other training pairs or other pieces change."""
        sums = [
            (name, about["sha256"])
            for name, about in sorted(self.manifest["files"].items())
            if name.startswith("train-") or name in self.manifest["tokenizers"]
        ]
        return hashlib.sha256(json.dumps(sums).encode()).hexdigest()


def prepare(
    output,
    train,
    dev=None,
    test=None,
    vocabulary_size=32_000,
    kind="bpe",
    shared_vocabulary=True,
    clean=True,
    max_characters=2000,
    max_ratio=3.0,
    swap=False,
    tokens_per_batch=25_000,
    tokenizer=None,
    merge_dropout=0.0,
    copies=1,
    verbose=True,
):
    """Cleans and tokenises a corpus into a folder of shards.

    Run again after a stop, it goes on with what is finished. Pairs from
    Python cannot be compared with those of before; they need a new folder.

    Args:
        output: The folder to make.
        train: Training pairs: a source, or several in a list; see
            `read_pairs`.
        dev: Development pairs. These and the test pairs are never cleaned.
        test: Test pairs.
        vocabulary_size: Size of the vocabulary, or of each of two.
        kind: `"bpe"` or `"unigram"`.
        shared_vocabulary: One vocabulary for both languages, as in the
            paper, or one for each.
        clean: Whether to leave training pairs out by the rules of
            `keras_transformer.data.cleaning.Cleaner`.
        max_characters: Longest side that cleaning lets pass.
        max_ratio: Largest ratio of the sides that it lets pass.
        swap: Whether to exchange the sides of all sources.
        tokens_per_batch: Budget for which the manifest gives the share of
            real tokens. Training may choose another.
        tokenizer: A `Tokenizer`, or two in a tuple, to take instead of
            learning a vocabulary: for a model that is trained already.
        merge_dropout: Share of BPE's merges that are left out by chance in
            training pairs (BPE-dropout), so that a small corpus teaches more
            about rare words.
        copies: How often to write each training pair, with other merges left
            out each time.
        verbose: Whether to show progress.

    Returns:
        The `Prepared` folder, loaded.
    """
    given_output, output = output, Path(output).resolve()  # a link stays one
    sources = {"train": train, "dev": dev, "test": test}
    sources = {split: given for split, given in sources.items() if given}
    if "train" not in sources:
        raise ValueError(f"`train` must name a source. Received: {train!r}.")
    if tokens_per_batch < 2:
        raise ValueError(
            "`tokens_per_batch` must be at least 2, a piece and its end. "
            f"Received: tokens_per_batch={tokens_per_batch}."
        )
    kinds = {kind}
    if tokenizer is not None:
        kinds = {each.kind for each in tokenizer_pair(tokenizer)}
    _check_copies(merge_dropout, copies, kinds)
    settings = {
        "format": FORMAT,
        "sources": {name: _identity(given) for name, given in sources.items()},
        "vocabulary_size": vocabulary_size,
        "kind": kind,
        "shared_vocabulary": shared_vocabulary,
        "clean": clean,
        "max_characters": max_characters,
        "max_ratio": max_ratio,
        "swap": swap,
        "tokens_per_batch": tokens_per_batch,
    }
    if merge_dropout:
        settings |= {"merge_dropout": merge_dropout, "copies": copies}
    if tokenizer is not None:
        given = dict.fromkeys(tokenizer_pair(tokenizer))  # one or two
        settings["shared_vocabulary"] = len(given) == 1
        settings["tokenizers"] = [t.fingerprint for t in given]
        del settings["vocabulary_size"], settings["kind"]
    if holds_something(output):
        if _same_data(_settings_of(output), settings):
            return load_prepared(given_output)
        raise PreparedOtherwise(
            "`output` must be a new folder, or one prepared before with the "
            f"same settings. Received: {output}, which holds something else. "
            "Choose another name or remove it."
        )
    if output.is_mount() or output == Path.cwd():
        what = "a mounted disk" if output.is_mount() else "where you are"
        raise ValueError(
            "`output` must be a folder that can be renamed. Received: "
            f"{output}, {what}. Choose a folder in it."
        )

    partial = output.with_name(output.name + ".partial")
    found = _settings_of(partial)
    if found is None and holds_files(partial):
        raise ValueError(
            "`output` must leave the name of its unfinished folder free. "
            f"Received: {output}, beside {partial.name}, which holds something "
            "else. Choose another name."
        )
    try:
        if found != settings:
            remove_folder(partial)
            (partial / "work").mkdir(parents=True)
            files.write_json(partial / "work" / "settings.json", settings)
        with progress_lines(verbose) as progress:
            if not (partial / "manifest.json").exists():
                if tokenizer is not None:
                    for name, each in zip(_names(settings), given):
                        each.save(partial / name)
                _build(partial, sources, settings, progress)
    except Exception:
        remove_folder(partial)
        raise
    # A Ctrl-C gets past the lines above, and leaves what is finished.
    shutil.rmtree(partial / "work", ignore_errors=True)
    os.replace(partial, output)
    return load_prepared(given_output)


def load_prepared(folder, verify=False):
    """Loads a prepared folder; the shards stay on disk.

    Args:
        folder: Where `prepare` wrote.
        verify: Whether to compare checksums; sizes are compared always.
    """
    folder = Path(folder)
    if not (folder / "manifest.json").is_file():
        raise FileNotFoundError(
            "`folder` must be a folder that `prepare` has finished. Received: "
            f"{folder}, which has no manifest.json."
        )
    with reading(folder):
        return _load(folder, verify)


def _load(folder, verify):
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    if manifest["settings"]["format"] != FORMAT:
        raise ValueError(
            f"A prepared folder must have format {FORMAT}. Received: {folder} "
            f"with format {manifest['settings']['format']}. Prepare it again."
        )
    for name, expected in manifest["files"].items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else None
        if size != expected["bytes"] or (
            verify and files.checksum(path) != expected["sha256"]
        ):
            raise ValueError(
                f"The files of {folder} must be as they were written. "
                f"{name} is missing or changed. Prepare it again."
            )
    tokenizers = [
        Tokenizer.load(folder / name) for name in manifest["tokenizers"]
    ]
    return Prepared(
        folder,
        manifest,
        tokenizers[0] if len(tokenizers) == 1 else tuple(tokenizers),
        **{
            split: _load_examples(folder, manifest["splits"][split]["shards"])
            for split in manifest["splits"]
        },
    )


def _check_copies(merge_dropout, copies, kinds):
    if not 0 <= merge_dropout < 1 or copies < 1:
        raise ValueError(
            "`merge_dropout` must be at least 0 and below 1, and `copies` at "
            f"least 1. Received: merge_dropout={merge_dropout}, "
            f"copies={copies}."
        )
    if copies > 1 and not merge_dropout:
        raise ValueError(
            "`copies` must differ by `merge_dropout`. Received: "
            f"copies={copies}, merge_dropout={merge_dropout}. Give 0.1, or "
            "leave `copies` out and train for more epochs."
        )
    if merge_dropout and "unigram" in kinds:  # before an hour of reading
        raise ValueError(
            "`merge_dropout` is for vocabularies that are made by merges. "
            f"Received: merge_dropout={merge_dropout} with kind='unigram'. "
            "Leave either out."
        )


def _build(partial, sources, settings, progress):
    splits = {}
    held_out = []
    for split in SPLITS:
        if split not in sources:
            continue
        cleaner = None
        if split == "train" and settings["clean"]:
            cleaner = Cleaner(
                held_out,
                max_characters=settings["max_characters"],
                max_ratio=settings["max_ratio"],
            )
        pairs = read_pairs(sources[split], split, swap=settings["swap"])
        splits[split] = spool_pairs(
            partial / "work", split, pairs, cleaner, progress
        )
        if split != "train" and settings["clean"]:
            held_out += [
                sentence
                for pair in spooled_pairs(
                    partial / "work", split, splits[split]
                )
                for sentence in pair
            ]
    names = _learn(partial, splits["train"], settings, progress)
    tokenizer = [Tokenizer.load(partial / name) for name in names]
    tokenizers = tokenizer_pair(tokenizer[0] if len(names) == 1 else tokenizer)
    for split, counts in splits.items():
        dropout, copies = 0.0, 1
        if split == "train":
            dropout = settings.get("merge_dropout", dropout)
            copies = settings.get("copies", copies)
        counts["shards"] = _tokenize(
            partial, split, counts, tokenizers, dropout, copies, progress
        )
    manifest = {
        "settings": settings,
        "tokenizers": names,
        "splits": {
            split: _describe(partial, counts)
            for split, counts in reversed(splits.items())
        },
        "batches": _batch_figures(partial, splits["train"]["shards"], settings),
        "files": {
            path.name: {
                "bytes": path.stat().st_size,
                "sha256": files.checksum(path),
            }
            for path in sorted(partial.iterdir())
            if path.is_file() and path.suffix != ".partial"
        },
    }
    files.write_json(partial / "manifest.json", manifest)


def _learn(partial, counts, settings, progress):
    """Learns the vocabulary, or two, where none is there."""
    names = _names(settings)
    pairs = counts["kept"]
    share = min(
        1,
        VOCABULARY_SENTENCES / (2 * pairs),
        VOCABULARY_CHARACTERS / max(counts["characters"], 1),
    )
    for sides, name in zip(
        [(0, 1)] if len(names) == 1 else [(0,), (1,)], names
    ):
        if (partial / name).exists():
            continue
        advance = progress("learning the vocabulary", round(pairs * share))
        learn = functools.partial(
            Tokenizer.train,
            _sample(partial / "work", counts, share, sides, advance),
            settings["vocabulary_size"],
            kind=settings["kind"],
        )
        in_background(learn).save(partial / name)
    return names


def _names(settings):
    """Files of the vocabularies."""
    if settings["shared_vocabulary"]:
        return ["tokenizer.model"]
    return ["source.model", "target.model"]


def _sample(work, counts, share, sides, advance):
    """Yields sentences of a share of the pairs, evenly spaced."""
    for number, pair in enumerate(spooled_pairs(work, "train", counts)):
        if int((number + 1) * share) > int(number * share):
            for side in sides:
                yield pair[side]
            advance(1)


def _tokenize(
    partial, split, counts, tokenizers, merge_dropout, copies, progress
):
    """Turns text into shards, on all cores.

    SentencePiece lets go of Python's lock while it works, so threads do.
    """
    chunks = counts["chunks"] * copies
    advance = progress(f"tokenising {split}", sum(chunks))

    def one_shard(index):
        name = f"{split}-{index:05d}"
        # The lengths are written second: where they are, all is.
        if not (partial / f"{name}.lengths.npy").exists():
            kept = spooled_chunk(
                partial / "work", split, counts, index % len(counts["chunks"])
            )
            ids, lengths = tokenize_pairs(
                kept, tokenizers, merge_dropout, seed=index
            )
            files.write_array(partial / f"{name}.ids.npy", ids)
            files.write_array(partial / f"{name}.lengths.npy", lengths)
        return chunks[index]

    shards = range(len(chunks))
    for _, num_pairs in in_threads(one_shard, shards, num_cores()):
        advance(num_pairs)
    return [f"{split}-{index:05d}" for index in shards]


def _load_examples(folder, shards):
    return Examples(
        [
            (
                np.load(folder / f"{name}.ids.npy", mmap_mode="r"),
                np.load(folder / f"{name}.lengths.npy"),
            )
            for name in shards
        ]
    )


def _describe(partial, counts):
    pairs = 0
    tokens, longest = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for name in counts["shards"]:
        lengths = np.load(partial / f"{name}.lengths.npy")
        pairs += len(lengths)
        tokens += lengths.sum(axis=0, dtype=np.int64)
        longest = np.maximum(longest, lengths.max(axis=0, initial=0))
    return {
        "pairs": pairs,
        "pairs_read": counts["read"],
        "pairs_dropped": counts["dropped"],
        "source_tokens": int(tokens[0]),
        "target_tokens": int(tokens[1]),
        "longest_source": int(longest[0]),
        "longest_target": int(longest[1]),
        "shards": counts["shards"],
    }


def _batch_figures(partial, shards, settings):
    # Some 4 million pairs say how well batches fill, at bounded memory.
    examples = _load_examples(partial, shards[:64])
    budget = settings["tokens_per_batch"]
    if not (examples.lengths < budget).all(axis=1).any():
        return {"tokens_per_batch": budget, "real_token_share": None}
    plan = BatchPlan(examples, budget, max_length=budget - 1)
    return {
        "tokens_per_batch": budget,
        "real_token_share": round(plan.real_share, 4),
        "distinct_shapes": len(plan.batch_shapes),
        "batches": plan.steps_per_epoch,
        "pairs": len(examples),
    }


def _identity(source):
    """Says what a source is, so that another run can tell whether it is so."""
    sources = [source] if isinstance(source, (str, Path)) else source
    if not isinstance(sources, (list, tuple)) or not all(
        isinstance(spec, (str, Path)) for spec in sources
    ):
        return f"pairs {uuid.uuid4()}"  # cannot be compared: never the same
    files = {}
    for path in source_files(list(map(str, sources))):
        if path.is_file():
            state = path.stat()
            files[str(path)] = [state.st_size, state.st_mtime_ns]
        elif path.exists():  # a pipe, which has other text each time
            return f"pairs {uuid.uuid4()}"
    return {"sources": list(map(str, sources)), "files": files}


def _same_data(found, settings):
    """Whether two settings give the same shards; one only counts batches."""
    return found is not None and found == settings | {
        "tokens_per_batch": found.get("tokens_per_batch")
    }


def _settings_of(folder):
    for name in ("manifest.json", "work/settings.json"):
        try:
            found = json.loads((folder / name).read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict):
            return found.get("settings", found)
    return None
