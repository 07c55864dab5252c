"""Cleaned text that waits on disk for the next steps of `prepare`.

    train-00000.jsonl       pairs as they were read, a file for each shard
    train.fingerprints      a hash of each pair, to find duplicates by
    train.keep.npy          which pairs came for the first time
    train.json              counts; written last

What is whole there serves a run that goes on after a stop.
"""

import json
from collections import Counter

import numpy as np

from keras_transformer.batching import files
from keras_transformer.data import is_blank
from keras_transformer.data.cleaning import Cleaner, pair_fingerprint

SHARD_PAIRS = 1 << 16


def spool_pairs(work, split, pairs, cleaner, progress):
    """Cleans pairs and lays them down as text, a file for a shard.

    Returns:
        What was read and kept, as a dictionary. The others take it as `counts`.
    """
    finished = work / f"{split}.json"
    if finished.exists():
        return json.loads(finished.read_text("utf-8"))
    counts, chunk, marks, sizes = Counter(), [], [], []

    def write():
        path = _chunk_path(work, split, len(sizes))
        files.write(path, "".join(chunk).encode())
        with (work / f"{split}.fingerprints").open("ab") as file:
            file.write(np.array(marks, np.uint64).tobytes())
        sizes.append(len(chunk))
        chunk.clear()
        marks.clear()

    (work / f"{split}.fingerprints").write_bytes(b"")
    advance = progress(f"reading {split}")
    for source, target in pairs:
        fault = cleaner and cleaner.fault(source, target)
        counts[fault or "kept"] += 1
        if not fault:
            # A lone surrogate cannot be written as UTF-8; JSON escapes it.
            chunk.append(json.dumps((source, target)) + "\n")
            counts["characters"] += len(source) + len(target)
            counts["blank"] += is_blank(source, target)
            if cleaner:
                marks.append(pair_fingerprint(source, target))
        if len(chunk) == SHARD_PAIRS:
            write()
        advance(1)
    if chunk:
        write()
    if cleaner:
        counts["duplicate"] = _mark_duplicates(work, split)
        counts["kept"] -= counts["duplicate"]
    blank, characters = counts.pop("blank", 0), counts.pop("characters", 0)
    read = counts.total()
    if counts["kept"] == blank:
        raise ValueError(
            f"The {split} source must hold pairs of sentences. Of {read:,} "
            "pairs read, " + (_list_counts(counts) or f"{blank:,} are blank.")
        )
    result = {
        "read": read,
        "kept": counts["kept"],
        "dropped": {rule: counts[rule] for rule in Cleaner.RULES}
        if cleaner
        else {},
        "characters": characters,
        "chunks": sizes,
    }
    files.write_json(finished, result)
    return result


def _mark_duplicates(work, split, part_size=1 << 24):
    """Writes which pairs came before; holds `part_size` hashes in memory."""
    path = work / f"{split}.fingerprints"
    number = path.stat().st_size // 8
    if not number:
        return 0
    marks = np.memmap(path, np.uint64, mode="r")
    keep = work / f"{split}.keep.npy"
    with open(keep, "wb") as file:  # a full disk is an error here, not a crash
        header = {"descr": "|b1", "fortran_order": False, "shape": (number,)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, number, part_size):
            file.write(b"\1" * min(part_size, number - start))
    keep = np.load(keep, mmap_mode="r+")
    duplicates = 0
    # Equal pairs have equal hashes, so they fall into the same part.
    parts = -(-number // part_size)
    for part in range(parts):
        rows = np.concatenate(
            [
                start
                + np.flatnonzero(
                    marks[start : start + part_size] % parts == part
                )
                for start in range(0, number, part_size)
            ]
        )
        rows = rows[np.argsort(marks[rows], kind="stable")]
        again = rows[1:][marks[rows[1:]] == marks[rows[:-1]]]
        keep[again] = False
        duplicates += len(again)
    keep.flush()
    return duplicates


def spooled_pairs(work, split, counts):
    """Yields all pairs, without duplicates."""
    for index in range(len(counts["chunks"])):
        yield from spooled_chunk(work, split, counts, index)


def spooled_chunk(work, split, counts, index):
    """Yields the pairs of one chunk, without duplicates."""
    first, number = sum(counts["chunks"][:index]), counts["chunks"][index]
    keep = np.ones(number, bool)
    if (work / f"{split}.keep.npy").exists():
        marked = np.load(work / f"{split}.keep.npy", mmap_mode="r")
        keep = np.array(marked[first : first + number])
    with _chunk_path(work, split, index).open(encoding="utf-8") as lines:
        for kept, line in zip(keep.tolist(), lines):
            if kept:
                yield json.loads(line)


def _chunk_path(work, split, index):
    return work / f"{split}-{index:05d}.jsonl"


def _list_counts(counts):
    dropped = [
        f"{counts[rule]:,} {rule.replace('_', ' ')}"
        for rule in Cleaner.RULES
        if counts[rule]
    ]
    return f"cleaning dropped all: {', '.join(dropped)}." if dropped else ""
