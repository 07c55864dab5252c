"""Reads sentence pairs from files and TFDS, strictly and line by line.

A source is one short text, the same in Python and on the command line:

    train.en,train.de             parallel files, one sentence a line
    train.tsv                     source<TAB>target; further columns are left
    tfds:wmt14_translate/de-en    a TFDS translation dataset
    tfds:…/de-en@train[:10%]      the same with a split of your own
    numbers                       numbers in words, English to German
    numbers:0-9999                the same within a range

Files may be gzipped (.gz). Python also takes pairs: any iterable of
`(source, target)`, or a function that returns one.
"""

import gzip
import zlib
from contextlib import contextmanager
from pathlib import Path

from keras_transformer.data.number_words import numbers

# Longer than any sentence: a file with such a line is not what was meant,
# and a file without a line break must not fill the memory.
MAX_LINE_BYTES = 500_000

TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "test"}


def read_pairs(source, split="train", swap=False):
    """Yields `(source, target)` sentence pairs.

    Args:
        source: One source text, several in a list, an iterable of pairs, or
            a function that returns one.
        split: `"train"`, `"dev"` or `"test"`; chooses the part of `numbers`
            and of a TFDS dataset. Files are read whole.
        swap: Whether to exchange the sides, to translate the other way.

    >>> next(read_pairs([("one", "eins")], swap=True))
    ('eins', 'one')
    """
    for left, right in _read(source, split):
        yield (right, left) if swap else (left, right)


def is_numbers(source):
    """Whether a source text means the numbers, all or a range of them."""
    return source.split(":")[0] == "numbers"


def is_blank(source, target):
    """Whether a pair holds nothing but spaces."""
    return not (source.strip() or target.strip())


def source_files(source):
    """Returns the paths that a source reads, none for TFDS and numbers."""
    if not isinstance(source, str):
        specs = source if _is_list_of_sources(source) else ()
        return [path for spec in specs for path in source_files(spec)]
    if source.startswith("tfds:") or is_numbers(source):
        return []
    if "," in source and not Path(source).exists():
        return [Path(part) for part in source.split(",")]
    return [Path(source)]


def _read(source, split):
    if callable(source):
        return _checked(source())
    if _is_list_of_sources(source):
        return (pair for spec in source for pair in _read(spec, split))
    if not isinstance(source, (str, Path)):
        return _checked(source)
    source = str(source)
    if source.startswith("tfds:"):
        return _read_tfds(source.removeprefix("tfds:"), split)
    if is_numbers(source):
        return _read_numbers(source, split)
    paths = source_files(source)
    if len(paths) == 1:
        return _read_tsv(paths[0])
    if len(paths) == 2:
        return _read_parallel(*paths)
    raise ValueError(
        "Parallel files must be two, source and target, with a comma between. "
        f"Received: {source!r}. Give several sources separately."
    )


def _is_list_of_sources(source):
    return isinstance(source, (list, tuple)) and all(
        isinstance(spec, (str, Path)) for spec in source
    )


def _checked(pairs):
    for number, pair in enumerate(pairs, start=1):
        match pair:
            case (str() as source, str() as target):
                yield source, target
            case _:
                raise ValueError(
                    "Pairs must be two strings each, `(source, target)`. "
                    f"Received as pair {number}: {pair!r:.80}"
                )


def _read_parallel(source_path, target_path):
    targets = read_lines(target_path)
    number = 0
    for number, source in enumerate(read_lines(source_path), start=1):
        target = next(targets, None)
        if target is None:
            _raise_uneven(target_path, source_path, number)
        yield source, target
    if next(targets, None) is not None:
        _raise_uneven(source_path, target_path, number + 1)


def _raise_uneven(shorter, longer, line):
    raise ValueError(
        f"Parallel files must have the same number of lines. {shorter} ends "
        f"after line {line - 1:,}, {longer} goes on with line {line:,}. "
        "Align the two files."
    )


def _read_tsv(path):
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) >= 2:
            yield columns[0], columns[1]
        elif not line.strip():
            yield "", ""
        else:
            raise ValueError(
                "A TSV line must be `source<TAB>target`. Received one column "
                f"in line {number:,} of {path}: {line!r:.60}. For two "
                "parallel files give both, with a comma between."
            )


def read_lines(path):
    """Yields the lines of a UTF-8 file, plain or gzipped, unstripped."""
    path = Path(path)
    if not path.exists() or path.is_dir():
        raise FileNotFoundError(
            f"A source must name a file that exists. Received: {path}, which "
            f"{'is a folder' if path.is_dir() else 'does not exist'}."
        )
    with _open(path) as file:
        yield from decode_lines(file, path)


def decode_lines(file, name):
    """Yields the lines of an open binary file; errors call it by its name."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(
                f"A line must have at most {MAX_LINE_BYTES:,} bytes. Line "
                f"{number:,} of {name} has more. Is this a text with one "
                "sentence a line?"
            )
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"Files must be UTF-8. Line {number:,} of {name} has the "
                f"byte 0x{line[error.start]:02X} at position "
                f"{error.start + 1}. Convert it first, for Latin-1 by "
                "`iconv -f latin1 -t utf-8`."
            ) from None
        if number == 1:
            text = text.removeprefix("\ufeff")
        yield text.removesuffix("\n").removesuffix("\r")


@contextmanager
def _open(path):
    if path.suffix != ".gz":
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path, "rb") as file:
            yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path} must be a whole gzip file. Reading it failed: "
            f"{str(error).rstrip('.')}. Fetch or compress it again."
        ) from None


def _read_numbers(source, split):
    bounds = source.removeprefix("numbers").removeprefix(":")
    if not bounds:
        return numbers(split)
    low, _, high = bounds.replace("_", "").partition("-")
    if not (low.isdecimal() and high.isdecimal()):
        raise ValueError(
            "A range of numbers must be written as in `numbers:0-9999`. "
            f"Received: {source!r}."
        )
    return numbers(split, low=int(low), high=int(high))


def _read_tfds(name, split):
    import tensorflow_datasets as tfds

    name, _, chosen = name.partition("@")
    try:
        builder = tfds.builder(name)
    except (tfds.core.registered.DatasetNotFoundError, ValueError) as error:
        raise ValueError(
            "`tfds:` must be followed by the name of a TFDS dataset, as in "
            f"tfds:wmt14_translate/de-en. Received: tfds:{name}, and TFDS "
            f"says: {_first_sentence(error)}"
        ) from None
    keys = builder.info.supervised_keys
    if not isinstance(builder.info.features, tfds.features.Translation):
        raise ValueError(
            "A TFDS source must be a translation dataset. Received: "
            f"tfds:{name} with the features {list(builder.info.features)}."
        )
    chosen = chosen or TFDS_SPLITS[split]
    source_key, target_key = keys or sorted(builder.info.features)
    try:
        builder.download_and_prepare()
    except Exception as error:  # TFDS has many, of several kinds
        raise ValueError(
            f"tfds:{name} could not be downloaded and prepared. TFDS says: "
            f"{_first_sentence(error)}"
        ) from error
    try:
        dataset = builder.as_dataset(split=chosen)
    except (ValueError, KeyError) as error:  # an unknown split
        raise ValueError(
            f"`{chosen}` must be a split of tfds:{name}. Choose one by "
            f"tfds:{name}@SPLIT. TFDS says: {_first_sentence(error)}"
        ) from None
    return _decoded(tfds.as_numpy(dataset), source_key, target_key)


def _decoded(examples, source_key, target_key):
    for example in examples:
        yield example[source_key].decode(), example[target_key].decode()


def _first_sentence(error):
    lines = [line.strip() for line in str(error).splitlines()]
    return next(filter(None, lines), type(error).__name__)[:200]
