"""Sources give the pairs they should, and say what is wrong with others."""

import gzip

import pytest

from keras_transformer.data import Cleaner, read_pairs
from keras_transformer.data.number_words import (
    LARGEST,
    english_number,
    german_number,
    numbers,
)

PAIRS = [("one", "eins"), ("two", "zwei"), ("a b", "ä\u2028ß")]


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        if isinstance(content, str):
            content = content.encode("utf-8")
        if name.endswith(".gz"):
            content = gzip.compress(content)
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (0, "zero", "null"),
        (1, "one", "eins"),
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (30, "thirty", "dreißig"),
        (21, "twenty-one", "einundzwanzig"),
        (100, "one hundred", "einhundert"),
        (101, "one hundred one", "einhunderteins"),
        (421, "four hundred twenty-one", "vierhunderteinundzwanzig"),
        (1_000, "one thousand", "eintausend"),
        (1_001, "one thousand one", "eintausendeins"),
        (101_000, "one hundred one thousand", "einhunderteintausend"),
        (1_000_000, "one million", "eine Million"),
        (1_000_001, "one million one", "eine Million eins"),
        (2_000_000, "two million", "zwei Millionen"),
        (21_000_000, "twenty-one million", "einundzwanzig Millionen"),
        (101_000_000, "one hundred one million", "einhunderteine Millionen"),
        (1_000_000_000, "one billion", "eine Milliarde"),
        (
            3_002_071_011,
            "three billion two million seventy-one thousand eleven",
            "drei Milliarden zwei Millionen einundsiebzigtausendelf",
        ),
    ],
)
def test_numbers_are_said_as_people_say_them(number, english, german):
    assert english_number(number) == english
    assert german_number(number) == german


def test_no_two_numbers_are_said_alike():
    sample = [*range(30_000), *range(10**6 - 50, LARGEST, 10**9 // 7 + 1)]
    assert len({english_number(n) for n in sample}) == len(sample)
    assert len({german_number(n) for n in sample}) == len(sample)


def test_test_numbers_are_never_seen_in_training():
    splits = [
        {pair for high in (999, 999_999) for pair in numbers(split, high=high)}
        for split in ("train", "dev", "test")
    ]
    assert [len(split) > 900 for split in splits] == [True] * 3
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert not splits[first] & splits[second]


def test_a_small_range_is_shared_out_whole():
    parts = [numbers(s, low=5, high=904) for s in ("train", "dev", "test")]
    assert len({pair for part in parts for pair in part}) == 900
    assert len(parts[0]) > 800


def test_numbers_repeat_and_do_not_repeat_themselves():
    assert numbers("dev") == numbers("dev")
    assert numbers("dev") != numbers("dev", seed=1)
    train = numbers("train", amount=5_000)
    assert len(set(train)) == len(train) == 5_000
    # A thousandth of the range, but far more of the corpus.
    assert sum("thousand" not in english for english, _ in train) > 800


@pytest.mark.parametrize(
    "arguments",
    [{"high": LARGEST + 1}, {"low": -1}, {"low": 9, "high": 8}],
)
def test_a_range_that_cannot_be_said_is_refused(arguments):
    with pytest.raises(ValueError, match="`low` and `high`"):
        numbers(**arguments)


def test_the_largest_range_works():
    pairs = numbers("test", high=LARGEST, amount=50)
    assert len(set(pairs)) == 50
    assert any("Milliarde" in german for _, german in pairs)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_files_give_their_pairs(write, ending):
    english = write(f"x.en{ending}", "one\ntwo\na b\n")
    german = write(f"x.de{ending}", "eins\nzwei\nä\u2028ß")  # no last newline
    table = write(
        f"x.tsv{ending}", "one\teins\ntwo\tzwei\tby Tom\na b\tä\u2028ß\n"
    )
    assert list(read_pairs(f"{english},{german}")) == PAIRS
    assert list(read_pairs(str(table))) == PAIRS
    both = [str(table), f"{english},{german}"]
    assert list(read_pairs(both)) == PAIRS * 2


def test_windows_files_lose_their_marks(write):
    path = write("x.tsv", b"\xef\xbb\xbfone\teins\r\ntwo\tzwei\r\n")
    assert list(read_pairs(str(path))) == PAIRS[:2]


def test_white_space_of_a_line_is_kept(write):
    path = write("x.tsv", " one \t eins\u00a0\n")
    assert list(read_pairs(str(path))) == [(" one ", " eins\u00a0")]


def test_a_comma_may_be_part_of_a_name(write):
    path = write("a,b.tsv", "one\teins\n")
    assert list(read_pairs(str(path))) == PAIRS[:1]


def test_pairs_may_come_from_python():
    assert list(read_pairs(PAIRS)) == PAIRS
    assert list(read_pairs(iter(PAIRS))) == PAIRS
    assert list(read_pairs(lambda: iter(PAIRS))) == PAIRS
    swapped = [(target, source) for source, target in PAIRS]
    assert list(read_pairs(PAIRS, swap=True)) == swapped


def test_numbers_are_a_source():
    assert list(read_pairs("numbers", "test")) == numbers("test")
    expected = numbers("dev", low=10, high=9_999)
    assert list(read_pairs("numbers:10-9_999", "dev")) == expected


@pytest.mark.parametrize(
    ("files", "source", "message"),
    [
        ({"a": "1\n2\n3\n", "b": "1\n2\n"}, "a,b", r"b ends after line 2.*a "),
        ({"a": "1\n", "b": "1\n2\n3\n"}, "a,b", r"a ends after line 1.*b "),
        ({"a": "1\n"}, "a,a,a", "must be two"),
        ({}, "gone.tsv", r"gone\.tsv, which does not exist"),
        ({"a": "1\n"}, "a,gone.de", r"gone\.de, which does not exist"),
        ({"a": "x\ty\nsome text\n"}, "a", "one column in line 2"),
        ({"a": b"x\ty\ncaf\xe9\tb\n"}, "a", "Line 2 of .*byte 0xE9 at.* 4"),
        ({"a": "x\ty\n" + "z" * 1_000_000}, "a", "Line 2 of .* has more"),
        ({"a": "x"}, "numbers:x", "numbers:0-9999"),
        ({"a": "x"}, "numbers:9", "numbers:0-9999"),
    ],
)
def test_bad_files_get_a_sentence(
    write, tmp_path, monkeypatch, files, source, message
):
    for name, content in files.items():
        write(name, content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        list(read_pairs(source))


def test_a_broken_gz_gets_a_sentence(tmp_path):
    whole = gzip.compress(b"one\teins\n" * 10_000)
    for name, content in {
        "cut.gz": whole[:-20],
        "text.gz": b"one\teins\n",
        "garbled.gz": whole[:40] + bytes(20) + whole[60:],
        "late.gz": whole + b"garbage",
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} must be a whole gzip"):
            list(read_pairs(str(path)))


def test_a_file_without_line_breaks_is_not_read_whole(write):
    path = write("x.tsv.gz", b"\0" * 50_000_000)
    with pytest.raises(ValueError, match=r"Line 1 of .* has more"):
        list(read_pairs(str(path)))


@pytest.mark.parametrize("pairs", [["ab", 3], [("a",)], [("a", None)]])
def test_what_is_no_pair_is_shown(pairs):
    with pytest.raises(ValueError, match="as pair 1"):
        list(read_pairs(lambda: pairs))


def test_cleaning_follows_its_rules():
    cleaner = Cleaner(held_out=["Dev!", "Prüfung!"], max_characters=50)
    pairs = [
        ("Hello.", "Hallo."),
        ("Hello.", "Hallo!"),
        ("Hello.", "Hallo."),
        (" \t\u00a0", "Hallo."),
        ("Hello.", ""),
        ("x" * 51, "x" * 51),
        ("x" * 39, "abc"),
        ("x" * 40, "abc"),
        ("abc", "x" * 40),
        ("Dev!", "Anders!"),
        ("Other!", "Prüfung!"),
        ("Prüfungen!", "Dev"),
        # The sides are kept apart.
        ("ab", "c"),
        ("a", "bc"),
    ]
    kept = list(cleaner.clean(pairs))
    assert kept == [pairs[i] for i in (0, 1, 6, 11, 12, 13)]
    assert cleaner.counts == {
        "kept": 6,
        "duplicate": 1,
        "empty": 2,
        "too_long": 1,
        "ratio": 2,
        "held_out": 2,
    }


@pytest.fixture(scope="module")
def tfds():
    return pytest.importorskip("tensorflow_datasets")


def test_tfds_sources_are_read_through_tfds(tfds):
    import tensorflow as tf

    asked = []

    def as_dataset(builder, split=None, **kwargs):
        asked.append((builder.info.full_name.rsplit("/", 1)[0], split))
        german = ["Grüße", "zwei"]
        english = ["Greetings", "two"]
        return tf.data.Dataset.from_tensor_slices({"de": german, "en": english})

    with tfds.testing.mock_data(as_dataset_fn=as_dataset):
        pairs = list(read_pairs("tfds:wmt14_translate/de-en", "dev"))
        assert pairs == [("Grüße", "Greetings"), ("zwei", "two")]
        swapped = read_pairs("tfds:wmt14_translate/de-en@train[:1%]", swap=True)
        assert next(swapped) == ("Greetings", "Grüße")
    assert asked == [
        ("wmt14_translate/de-en", "validation"),
        ("wmt14_translate/de-en", "train[:1%]"),
    ]


def test_tfds_mock_data_gives_pairs_of_the_named_languages(tfds):
    with tfds.testing.mock_data(num_examples=3):
        pairs = list(read_pairs("tfds:ted_hrlr_translate/pt_to_en"))
    assert len(pairs) == 3
    assert all(isinstance(side, str) for pair in pairs for side in pair)


def test_a_tfds_dataset_on_disk_is_read(tfds, tmp_path):
    class TinyTranslate(tfds.core.GeneratorBasedBuilder):
        """Three pairs."""

        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            return self.dataset_info_from_configs(
                features=tfds.features.Translation(languages=("en", "de")),
                supervised_keys=("en", "de"),
            )

        def _split_generators(self, manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for index, (english, german) in enumerate(PAIRS):
                yield index, {"en": english, "de": german}

    TinyTranslate(data_dir=tmp_path).download_and_prepare()
    tfds.core.add_data_dir(str(tmp_path))
    assert sorted(read_pairs("tfds:tiny_translate")) == sorted(PAIRS)
    with pytest.raises(ValueError, match="`test` must be a split"):
        list(read_pairs("tfds:tiny_translate", "test"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("tfds:no_such_dataset", "not found"),
        ("tfds:wmt14_translate/xx-yy", "xx-yy"),
        ("tfds:mnist", "must be a translation dataset"),
    ],
)
def test_other_tfds_names_get_a_sentence(tfds, source, message):
    with pytest.raises(ValueError, match=message):
        list(read_pairs(source))
