"""Text of every shape becomes the same pairs, and every file that cannot is refused in its own words."""

import bz2
import csv
import gzip
import html
import io
import json
import lzma
import sys
import types
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_direction import prepare_data

from dragoman.errors import DataError, MissingExtra
from dragoman.evaluating.references import read_references
from dragoman.files import nearest
from dragoman.formats import delimited
from dragoman.formats import lines as lines_module
from dragoman.formats import parquet as parquet_files
from dragoman.formats.column_names import names_columns
from dragoman.formats.delimited import csv_rows
from dragoman.formats.json_files import SURROGATES
from dragoman.formats.lines import BYTE_ORDER_MARKS, CARRIAGE_RETURNS, REPLACED, read_lines
from dragoman.languages import language_of
from dragoman.text.columns import Columns, Naming
from dragoman.text.pair_columns import choose_columns
from dragoman.text.readers import KEYLESS, RAGGED, Pair, open_pairs
from dragoman.text.settings import DataSettings

PAIRS = [("Good morning.", "Buongiorno."), ('She said "no", Tom.', 'Ha detto "no", Tom.'), ("Thank you!", "Grazie!")]


def write(path: Path, content: str | bytes) -> Path:
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def csv_text(rows: Sequence[tuple[object, ...]], **dialect: Any) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", **dialect).writerows(rows)
    return text.getvalue()


def texts(path: Path | tuple[str, str], naming: Naming = Naming(), **options) -> list[tuple[str, str]]:  # noqa: B008
    reading = open_pairs(str(path) if isinstance(path, Path) else path, naming, **options)
    return [(pair.source, pair.target) for pair in reading]


def refusal(path: Path | tuple[str, str], naming: Naming = Naming(), **options) -> str:  # noqa: B008
    with pytest.raises(DataError) as caught:
        texts(path, naming, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Every format gives the same pairs

FORMATS = {
    "books.en-it.tsv": "".join(f"{source}\t{target}\n" for source, target in PAIRS),
    "headed.tsv": "en\tit\n" + "".join(f"{source}\t{target}\n" for source, target in PAIRS),
    "plain.csv": csv_text(PAIRS),
    "semicolons.csv": csv_text([("English", "Italian"), *PAIRS], delimiter=";"),
    "wide.csv": csv_text([("id", "en", "note", "it"), *((str(n), s, "-", t) for n, (s, t) in enumerate(PAIRS))]),
    "keys.jsonl": "".join(json.dumps({"id": 7, "en": s, "it": t}) + "\n" for s, t in PAIRS),
    "roles.jsonl": "".join(json.dumps({"target": t, "source": s}) + "\n" for s, t in PAIRS),
    "nested.ndjson": "".join(json.dumps({"id": "7", "translation": {"en": s, "it": t}}) + "\n" for s, t in PAIRS),
    "lists.jsonl": "".join(json.dumps([s, t]) + "\n" for s, t in PAIRS),
    "tabbed.txt": "".join(f"{source}\t{target}\n" for source, target in PAIRS),
}


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_table_gives_the_same_pairs(tmp_path, name, packed):
    assert texts(write(tmp_path / (name + packed), FORMATS[name])) == PAIRS


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_two_aligned_files_give_the_same_pairs(tmp_path, packed):
    write(tmp_path / f"train.en{packed}", "".join(f"{source}\n" for source, _ in PAIRS))
    write(tmp_path / f"train.it{packed}", "\n".join(target for _, target in PAIRS))
    assert texts(tmp_path / "train") == PAIRS
    assert texts((str(tmp_path / f"train.en{packed}"), str(tmp_path / f"train.it{packed}"))) == PAIRS
    assert open_pairs(str(tmp_path / "train")).languages == ("en", "it")
    turned = Naming(source_language="it", target_language="en")
    assert texts(tmp_path / "train", turned) == [(target, source) for source, target in PAIRS]


@pytest.mark.parametrize("nested", [False, True])
def test_parquet_gives_the_same_pairs(tmp_path, nested):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    rows = [{"translation": {"en": s, "it": t}} if nested else {"en": s, "it": t} for s, t in PAIRS]
    buffer = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(rows), buffer)
    assert texts(write(tmp_path / "rows.parquet", buffer.getvalue())) == PAIRS
    packed = write(tmp_path / "rows.parquet.gz", buffer.getvalue())
    assert "rows.parquet.gz is a packed Parquet file; unpack it first" in refusal(packed)


def test_two_files_may_be_named_for_languages_before_their_ending(tmp_path):
    pair = (str(write(tmp_path / "book_en.txt", "Hi.\n")), str(write(tmp_path / "book_it.txt", "Ciao.\n")))
    assert open_pairs(pair).languages == ("en", "it")


def test_a_prefix_finds_the_one_table_that_begins_so(tmp_path):
    write(tmp_path / "train.tsv.gz", FORMATS["headed.tsv"])
    assert texts(tmp_path / "train") == PAIRS


def test_pairs_know_where_they_stood(tmp_path):
    path = write(tmp_path / "two.csv", 'en,it\n"a\nb","c"\nd,e\n')
    assert list(open_pairs(str(path))) == [Pair("a\nb", "c", "two.csv:2"), Pair("d", "e", "two.csv:4")]


def test_a_reading_can_be_read_again_and_counts_anew(tmp_path):
    reading = open_pairs(str(write(tmp_path / "two.tsv", "a\tb\r\nc\td\r\ne\tf\n")))
    assert list(reading) == list(reading)
    assert reading.repairs[CARRIAGE_RETURNS] == 2


def test_windows_line_ends_are_not_counted_as_repairs(tmp_path):
    for name, content in (
        ("a.tsv", "a\tb\r\nc\td\r\ne\tf"),
        ("a.csv", 'a,b\r\n"c\nd",e\r\n'),  # as spreadsheets write a break inside a cell
    ):
        reading = open_pairs(str(write(tmp_path / name, content)))
        list(reading)
        assert reading.repairs[CARRIAGE_RETURNS] == 0


# The hub


def test_a_hub_address_is_read_with_its_configuration_and_revision(monkeypatch):
    asked = []

    def load_dataset(name, config, *, split, revision):
        asked.append((name, config, split, revision))
        return [{"id": str(n), "translation": {"en": s, "it": t}} for n, (s, t) in enumerate(PAIRS)]

    library = types.SimpleNamespace(load_dataset=load_dataset, disable_progress_bars=lambda: None)
    monkeypatch.setitem(sys.modules, "datasets", library)
    reading = open_pairs("hub:Helsinki-NLP/opus_books:en-it@1f9f6191")
    assert [(pair.source, pair.target) for pair in reading] == PAIRS
    assert reading.languages == ("en", "it")
    assert set(asked) == {("Helsinki-NLP/opus_books", "en-it", "train", "1f9f6191")}


def test_the_hub_library_reads_a_folder_of_the_same_layout(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    import pyarrow
    import pyarrow.parquet

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")  # a home may be read-only
    (tmp_path / "en-it").mkdir()
    rows = pyarrow.Table.from_pylist([{"id": "0", "translation": {"en": s, "it": t}} for s, t in PAIRS])
    pyarrow.parquet.write_table(rows, tmp_path / "en-it" / "train-00000-of-00001.parquet")
    config = "- config_name: en-it\n  data_files:\n  - split: train\n    path: en-it/train-*\n"
    (tmp_path / "README.md").write_text(f"---\nconfigs:\n{config}---\n")
    assert [(pair.source, pair.target) for pair in open_pairs(f"hub:{tmp_path}:en-it")] == PAIRS


def test_a_hub_error_is_one_line(monkeypatch):
    errors = [ConnectionError("no route\nto the hub"), ValueError("no split\nof this name")]

    def load_dataset(name, config, *, split, revision):
        raise errors.pop(0)

    library = types.SimpleNamespace(load_dataset=load_dataset, disable_progress_bars=lambda: None)
    monkeypatch.setitem(sys.modules, "datasets", library)
    advice = "; the hub cannot be reached: check the network, or give a file that holds the text"
    for reason in (f"ConnectionError: no route{advice}", "ValueError: no split"):
        with pytest.raises(DataError, match=rf"some/set \(en-it\) could not be loaded: {reason}$"):
            open_pairs("hub:some/set:en-it")


@pytest.mark.parametrize(("module", "address", "extra"), [("datasets", "hub:a/b", "hub"), ("pyarrow", "", "parquet")])
def test_a_missing_extra_is_named(tmp_path, monkeypatch, module, address, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"dragoman\[{extra}\]"):
        open_pairs(address or str(write(tmp_path / "a.parquet", b"PAR1")))


# Lines


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=20), min_size=1))
def test_only_line_feeds_end_lines(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("lines") / "any.txt"
    path.write_bytes("".join(f"{text}\n" for text in texts).encode())
    expected = [text.removesuffix("\r") for text in texts]
    expected[0] = expected[0].removeprefix("\ufeff")
    assert list(read_lines(path)) == expected


def test_separators_and_control_characters_stay_inside_the_line(tmp_path):
    inside = "a\x00b\x0cc\u2028d\u2029e\x85f\rg\x1ch"
    assert list(read_lines(write(tmp_path / "odd.txt", f"{inside}\r\n\n{inside}"))) == [inside, "", inside]


def test_repairs_are_counted(tmp_path):
    repairs: Counter[str] = Counter()
    path = write(tmp_path / "mended.txt", b"\xef\xbb\xbfone\r\ntw\xff\xfeo\r\nthr\xef\xbf\xbdee\xe2\x82\n")
    assert list(read_lines(path, "replace", repairs)) == ["one", "tw\ufffd\ufffdo", "thr\ufffdee\ufffd"]
    assert repairs == {BYTE_ORDER_MARKS: 1, CARRIAGE_RETURNS: 2, REPLACED: 3}


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_invalid_text_is_refused_with_line_and_byte(tmp_path, packed):
    path = write(tmp_path / f"latin.tsv{packed}", "one\tuno\nwhy\tperché\n".encode("latin-1"))
    assert f"latin.tsv{packed}:2 is not valid UTF-8 at byte 17 (0xe9)" in refusal(path)
    assert 'data.encoding_errors = "replace"' in refusal(path)
    assert texts(path, encoding_errors="replace") == [("one", "uno"), ("why", "perch\ufffd")]


def test_utf_16_is_named(tmp_path):
    assert "is UTF-16; convert it to UTF-8" in refusal(write(tmp_path / "wide.tsv", "one\tuno\n".encode("utf-16")))


# Files that cannot be read


def test_files_of_different_length_are_refused_with_both_counts(tmp_path):
    pair = (str(write(tmp_path / "corpus.de", "x\n" * 4500)), str(write(tmp_path / "corpus.en", "y\n" * 4499)))
    message = "corpus.de has 4,500 lines but {}/corpus.en 4,499; the files must be aligned line by line"
    assert message.format(tmp_path) in refusal(pair)
    assert "corpus.en has 4,499 lines but" in refusal((pair[1], pair[0]))


@pytest.mark.parametrize("name", ["empty.tsv", "empty.csv", "empty.jsonl", "empty.parquet", "empty.tsv.gz"])
def test_an_empty_file_is_named(tmp_path, name):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    assert f"{name} is empty" in refusal(write(tmp_path / name, b""))


@pytest.mark.parametrize("name", ["blank.tsv", "blank.csv", "blank.jsonl"])
def test_a_blank_file_is_named(tmp_path, name):
    assert f"{name} holds only blank lines" in refusal(write(tmp_path / name, "  \n\n \n"))


def test_a_missing_file_is_named_with_the_nearest(tmp_path):
    write(tmp_path / "corpus.csv", "a,b\n")
    assert refusal(tmp_path / "corpsu.csv").endswith(f"does not exist; did you mean {tmp_path}/corpus.csv?")
    assert refusal(tmp_path / "no" / "such.csv").endswith("does not exist")
    for name in ("train.en", "train.it"):
        write(tmp_path / name, "a\n")
    assert refusal(tmp_path / "trian").endswith(f"did you mean {tmp_path}/train?")
    (tmp_path / "runs" / "my").mkdir(parents=True)
    assert (
        nearest(tmp_path / "runs" / "mu") == nearest(tmp_path / "run" / "mu") == f"; did you mean {tmp_path}/runs/my?"
    )


def test_a_folder_and_a_pipe_are_named(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe.tsv")
    assert "is a folder; name a file in it" in refusal((str(tmp_path), str(tmp_path)))
    assert "is not a regular file" in refusal(tmp_path / "pipe.tsv")


def test_an_unreadable_file_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "secret.tsv", "a\tb\n")

    def refuse(*arguments):
        raise PermissionError

    monkeypatch.setattr(lines_module, "open", refuse, raising=False)
    assert "cannot be read: permission denied" in refusal(path)


def test_damaged_gzip_is_named(tmp_path):
    import random

    noise = "".join(random.Random(0).choices("abcdefgh\t\n", k=200_000)) + "\tx\n"
    path = write(tmp_path / "cut.tsv.gz", noise)
    whole = path.read_bytes()
    for content, words in (
        (whole[: len(whole) // 2], "ends in the middle: the packed file was cut"),
        (whole[:2000] + b"\x00" * 200 + whole[2200:], "is a damaged packed file"),
        (b"one\tuno\n", "ends in .gz but is not packed so"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=words):
            list(read_lines(path, "replace"))


def test_a_binary_file_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(lines_module, "LONGEST_LINE_BYTES", 1000)
    assert "is it text?" in refusal(write(tmp_path / "one.tsv", "\t" * 5000))


def test_one_side_alone_is_refused(tmp_path):
    assert "is one side of a pair" in refusal(write(tmp_path / "train.en", "Hi.\n"))
    assert "no two are a pair" in refusal(tmp_path / "train")


# Rows


def test_rows_with_one_or_three_columns_are_refused_with_their_line(tmp_path):
    assert "a.tsv:2 has 1 column, but the first row has 2" in refusal(write(tmp_path / "a.tsv", "a\tb\nc\n"))
    assert "a.tsv:3 has 3 columns" in refusal(write(tmp_path / "a.tsv", "a\tb\nc\td\ne\tf\tg\n"))
    assert "has one column" in refusal(write(tmp_path / "a.csv", "a\nb\n"))
    assert "a.jsonl:2 is a list of 3" in refusal(write(tmp_path / "a.jsonl", '["a","b"]\n["a","b","c"]\n'))


def test_a_few_broken_rows_are_empty_pairs_that_say_why(tmp_path):
    good = [(f"one {n}", f"uno {n}") for n in range(40)]
    tables = {
        "a.tsv": ("x\ty\tz\n", RAGGED, [f"{s}\t{t}\n" for s, t in good]),
        "a.csv": ("alone\n", RAGGED, [f"{s},{t}\n" for s, t in good]),
        "a.jsonl": ('{"en": "x"}\n', KEYLESS, [json.dumps({"en": s, "it": t}) + "\n" for s, t in good]),
        "b.jsonl": ('["x"]\n', KEYLESS, [json.dumps([s, t]) + "\n" for s, t in good]),
        "c.jsonl": ('{"en": 5, "it": "y"}\n', KEYLESS, [json.dumps({"en": s, "it": t}) + "\n" for s, t in good]),
    }
    for name, (line, fault, rows) in tables.items():
        found = list(open_pairs(str(write(tmp_path / name, "".join([*rows[:7], line, *rows[7:]])))))
        assert found[7] == Pair("", "", f"{name}:8", fault)
        assert [pair[:2] for pair in found[:7] + found[8:]] == good


def test_many_broken_rows_stop_with_examples_and_their_lines(tmp_path):
    rows = [f"one {n},uno {n}\n" for n in range(40)]
    rows[3] = rows[9] = rows[20] = rows[30] = "Well, well,bene\n"
    message = refusal(write(tmp_path / "a.csv", "".join(rows)))
    assert "a.csv:4 has 3 columns, but the first row has 2; " in message and "a.csv:21" in message
    assert "a.csv:31" not in message and "; … (4 of 40 rows" in message and "needs quotes" in message


def test_a_header_alone_has_no_rows_below(tmp_path):
    assert "a.csv has no rows below the header (en | it)" in refusal(write(tmp_path / "a.csv", "en,it\n"))
    assert "no rows below the header" in refusal(write(tmp_path / "a.tsv", "a\tb\n\n"), Naming(header=True))
    assert texts(write(tmp_path / "a.csv", "a,b\n")) == [("a", "b")]


def test_quoted_cells_may_stand_between_semicolons(tmp_path):
    path = write(tmp_path / "a.csv", csv_text([("English", "Italian"), *PAIRS], delimiter=";", quoting=csv.QUOTE_ALL))
    assert texts(path) == PAIRS


def test_commas_in_sentences_are_not_taken_for_delimiters(tmp_path):
    rows = [(f"{n}", f"Well, I see {n}, Tom", f"Ah, {'vedo, ' * (n % 3)}Tom") for n in range(9)]
    path = write(tmp_path / "a.csv", csv_text([("id", "frase", "traduzione"), *rows], delimiter=";"))
    assert texts(path) == [row[1:] for row in rows]


def test_blank_rows_are_pairs_without_text(tmp_path):
    for name, content in (
        ("a.tsv", "a\tb\n\nc\td\n"),
        ("a.csv", "a,b\n\nc,d\n"),
        ("a.jsonl", '["a","b"]\n\n["c","d"]'),
    ):
        assert texts(write(tmp_path / name, content)) == [("a", "b"), ("", ""), ("c", "d")]


def test_quotes_are_text_in_tsv(tmp_path):
    assert texts(write(tmp_path / "a.tsv", '"a\tb"\n"\t"" x\n')) == [('"a', 'b"'), ('"', '"" x')]


def test_breaks_inside_csv_cells_stay_inside_the_pair(tmp_path):
    path = write(tmp_path / "a.csv", '"a\r\nb",c\r\n"d\re",f\rg\r\n')
    assert texts(path) == [("a\nb", "c"), ("d\re", "f\rg")]


@given(st.lists(st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]), min_size=1)] * 2), min_size=1))
def test_csv_cells_survive_writing_and_reading(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "any.csv"
    path.write_bytes(csv_text(rows, quoting=csv.QUOTE_ALL).encode())
    expected = [[cell.replace("\r\n", "\n") for cell in row] for row in rows]
    assert [cells for _, cells in csv_rows(path, "strict", Counter())] == expected


def test_a_csv_cell_may_be_longer_than_pythons_own_limit(tmp_path):
    limit = 131_072
    long, broken = "a" * (limit + 1), 'a "word"\n' * limit
    path = write(tmp_path / "a.csv", csv_text([("en", "it"), (long, "b"), (broken, long)]))
    assert [cells for _, cells in csv_rows(path, "strict", Counter())] == [
        ["en", "it"],
        [long, "b"],
        [broken, long],
    ]


def test_unbalanced_quotes_are_refused_with_their_line(tmp_path, monkeypatch):
    tail = "x,y\n" * 50_000
    for content in ('en,it\na,b\n"c,d\n', 'en,it\na,b\n"c,d\n' + tail):
        assert "a.csv:3 opens a quote that is never closed" in refusal(write(tmp_path / "a.csv", content))
    monkeypatch.setattr(delimited, "LONGEST_CELL", 100_000)
    before = csv.field_size_limit(100_000)
    message = refusal(write(tmp_path / "a.csv", 'en,it\na,b\n"c,d\n' + tail))
    csv.field_size_limit(before)
    assert "a.csv:3 opens a quote that is not closed within 100,000 characters" in message
    message = refusal(write(tmp_path / "a.csv", 'en,it\n"a\nb"c",d\n'))
    assert "a.csv:3 (in the row that begins on line 2) goes on after a closing quote" in message


def test_json_of_another_shape_is_refused_with_its_line(tmp_path):
    good = '{"en": "a", "it": "b"}\n'
    for line, words in (
        ('{"en": "a"}', "a.jsonl:2 has no key 'it'; it has 'en'"),
        ('{"en": 5, "it": "b"}', "'en' should be text, but is the number 5"),
        ('["a", "b"]', "a.jsonl:2 is a list of 2, but the first row is an object"),
        ("17", "a.jsonl:2 is the number 17"),
        ('{"en": "a", ', "a.jsonl:2 is not JSON"),
        ("[" * 100_000, "a.jsonl:2 is not JSON"),
        ('{"en": "\\ud800", "it": "b"}', "a.jsonl:2 holds a lone surrogate"),
    ):
        assert words in refusal(write(tmp_path / "a.jsonl", good + line))
    nested = '{"t": {"en": "a", "it": "b"}}\n'
    message = refusal(write(tmp_path / "a.jsonl", nested + '{"t": ["a", "b"]}\n'))
    assert "a.jsonl:2: the key 'en' should be in an object, but this is a list of 2" in message
    assert "is the number 17, not an object" in refusal(write(tmp_path / "a.jsonl", "17\n"))


def test_half_characters_in_json_are_replaced_on_request(tmp_path):
    reading = open_pairs(
        str(write(tmp_path / "a.jsonl", '{"en": "\\ud83d\\ude00 \\ud800", "it": null}\n')), encoding_errors="replace"
    )
    assert [pair[:2] for pair in reading] == [("😀 \ufffd", "")]
    assert reading.repairs[SURROGATES] == 1


def test_a_text_that_parquet_repeats_is_not_unpacked_a_thousand_times(tmp_path, monkeypatch):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    long = "ab" * 2_000
    for name, nested in (("flat", False), ("nested", True), ("lists", None)):
        row = {"en": long, "it": "c"}
        rows = [row if nested is False else {"translation": row} if nested else {"en": [long], "it": ["c"]}] * 3_000
        parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
        monkeypatch.setattr(parquet_files, "LARGEST_BLOCK", 1 << 16)
        with open(tmp_path / f"{name}.parquet", "rb") as file:
            assert parquet_files._rows_at_a_time(file) == 16, name
    assert texts(tmp_path / "nested.parquet") == [(long, "c")] * 3_000


def test_a_parquet_file_that_unpacks_to_far_more_than_it_holds_is_refused(tmp_path, monkeypatch):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    monkeypatch.setattr(parquet_files, "LARGEST_BLOCK", 1 << 16)
    plain = arrow.table({"en": ["a" * 10_000_000], "it": ["b"]})
    parquet.write_table(plain, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    assert "column en unpacks to more than a thousand times its size" in refusal(tmp_path / "a.parquet")
    lists = arrow.table({"en": [[1] * 2_000_000], "it": ["b"]})
    parquet.write_table(lists, tmp_path / "b.parquet")
    assert "holds lists of more than a thousand values" in refusal(tmp_path / "b.parquet")


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    assert "is not a Parquet file" in refusal(write(tmp_path / "a.parquet", b"one\tuno\n" * 100))


# Columns and languages


@pytest.mark.parametrize(
    ("names", "naming", "expected"),
    [
        (["en", "it"], Naming(), ("en", "it")),
        (["id", "en", "it"], Naming(), ("en", "it")),
        (["en", "it"], Naming(source_language="it", target_language="en"), ("it", "en")),
        (["en", "it"], Naming(source_language="it"), ("it", "en")),
        (["en", "fr", "it"], Naming(source_language="it", target_language="en"), ("it", "en")),
        (["tgt", "src", "score"], Naming(), ("src", "tgt")),
        (["English sentence", "Italian sentence", "id"], Naming(), ("English sentence", "Italian sentence")),
        (["sentence_en", "sentence_it", "row_id"], Naming(), ("sentence_en", "sentence_it")),
        (["question", "answer"], Naming(), ("question", "answer")),
        (["a", "b", "c"], Naming("c", "a"), ("c", "a")),
        (["a", "b", "c"], Naming("3", "1"), ("c", "a")),
        (["a", "b"], Naming(second_column="a"), ("b", "a")),
    ],
)
def test_columns_are_guessed_or_taken_as_named(names, naming, expected):
    assert choose_columns(names, naming, "x")[:2] == expected


@pytest.mark.parametrize(
    ("names", "naming", "words"),
    [
        (
            ["a", "b", "c"],
            Naming(),
            "3 columns .'a', 'b', 'c'.; say which are the pair, by name or number from 1: --set data",
        ),
        (["en", "fr", "it"], Naming(), "say which"),
        (["a", "b"], Naming("d", "a"), "no column 'd'"),
        (["a", "b"], Naming("a", "a"), "the same column"),
        (["a", "b", "c"], Naming("a"), "give both"),
        (["a"], Naming(), "has one column"),
    ],
)
def test_columns_without_telling_names_are_refused(names, naming, words):
    with pytest.raises(DataError, match=words):
        choose_columns(names, naming, "x")


def test_a_header_is_distinguished_from_a_pair():
    assert names_columns(["en", "it"])
    assert names_columns(["source", "target"])
    assert not names_columns(["No", "No"])
    assert not names_columns(["Do you speak English?", "Parli italiano?"])
    assert not names_columns(["question", "answer"])


def test_no_ordinary_word_is_a_language():
    assert [language_of(word) for word in ("text", "sentence", "label", "score", "row_id", "")] == [None] * 6


@pytest.mark.parametrize(
    ("name", "content", "languages", "reason"),
    [
        ("a.csv", "en,it\nx,y\n", ("en", "it"), "from the names en and it"),
        ("books.en-it.tsv", "x\ty\n", ("en", "it"), "from the name books.en-it.tsv"),
        ("books_de_fr.csv", "source,target\nx,y\n", ("de", "fr"), "from the name books_de_fr.csv"),
        ("a.csv", "x,y\n", ("und", "und"), "--set data.source_language=CODE --set data.target_language=CODE"),
        ("a.csv", "English,Translation\nx,y\n", ("en", "und"), "no name gives the language of the target; give --set"),
    ],
)
def test_languages_come_from_names(tmp_path, name, content, languages, reason):
    reading = open_pairs(str(write(tmp_path / name, content)))
    assert reading.languages == languages
    assert reason in reading.reasons["languages"]


def test_the_name_of_a_file_says_which_column_is_the_source(tmp_path):
    assert texts(write(tmp_path / "books.it-en.csv", "en,it\nmorning,mattina\n")) == [("mattina", "morning")]


def test_the_guess_is_given_with_its_reason(tmp_path):
    reading = open_pairs(str(write(tmp_path / "a.csv", "a;b\n")))
    assert reading.columns == Columns("1", "2", "there are two columns, and the first is the source; no header")
    assert reading.reasons["format"] == "from the name a.csv, with ';' between the cells"


# Several files


def test_a_pattern_reads_files_one_after_another_in_the_order_of_their_names(tmp_path):
    for number, pair in enumerate(PAIRS):
        write(tmp_path / f"part-{number}.tsv{'.gz' if number == 1 else ''}", "en\tit\n{}\t{}\n".format(*pair))
    reading = open_pairs(str(tmp_path / "part-*"))
    assert [(pair.source, pair.target) for pair in reading] == PAIRS
    assert [pair.origin for pair in reading] == ["part-0.tsv:2", "part-1.tsv.gz:2", "part-2.tsv:2"]
    assert [file.name for file in reading.files] == ["part-0.tsv", "part-1.tsv.gz", "part-2.tsv"]
    assert reading.reasons["format"].endswith("the first of 3 files")


def test_a_pair_of_patterns_reads_aligned_files(tmp_path):
    for number, (source, target) in enumerate(PAIRS):
        (tmp_path / str(number)).mkdir()
        write(tmp_path / str(number) / "text.en", source + "\n")
        write(tmp_path / str(number) / "text.it", target + "\n")
    patterns = str(tmp_path / "**" / "*.en"), str(tmp_path / "**" / "*.it")
    assert texts(patterns) == PAIRS
    (tmp_path / "2" / "text.it").unlink()
    assert "3 match" in refusal(patterns) and "but 2 match" in refusal(patterns)


def test_files_of_a_pattern_have_the_direction_of_the_first(tmp_path):
    write(tmp_path / "a.tsv", "en\tit\nHi.\tCiao.\n")
    write(tmp_path / "b.csv", csv_text([("it", "en"), *(pair[::-1] for pair in PAIRS)]))
    assert texts(tmp_path / "[ab].?sv") == [("Hi.", "Ciao."), *PAIRS]
    write(tmp_path / "b.tsv", "en\tde\nHi.\tHallo.\n")
    assert "a.tsv goes from en to it; say which columns to take ('en', 'de')" in refusal(tmp_path / "*.tsv")
    assert "no file matches" in refusal(tmp_path / "*.jsonl")


def test_mended_lines_of_several_files_are_counted_together(tmp_path):
    for number in (1, 2):
        write(tmp_path / f"{number}.tsv", "en\tit\r\nHi.\tCiao.\r\nGo.\tVai.\n")
    reading = open_pairs(str(tmp_path / "*.tsv"))
    assert len(list(reading)) == 4
    assert reading.repairs[CARRIAGE_RETURNS] == 4


MANY = [(f"The {n} men see it in the large park.", f"I {n} uomini lo vedono nel grande parco.") for n in range(100)]


def wide(path: Path, header: str) -> Path:
    """A table with text below every cell of the header, by turns English and Italian, and numbers below an id."""
    names = header.split(";")
    numbers = ("id", "score")
    rows = [
        tuple(str(n) if name in numbers else pair[at % 2] for at, name in enumerate(names))
        for n, pair in enumerate(MANY)
    ]
    return write(path, csv_text([tuple(names), *rows], delimiter=";"))


@pytest.mark.parametrize(
    ("header", "columns", "languages"),
    [
        ("TgtTXT_IT;SrcTXT_EN", ("SrcTXT_EN", "TgtTXT_IT"), ("en", "it")),
        ("Traduction;Anglais", ("Anglais", "Traduction"), ("en", "und")),
        ("Italian;Original", ("Original", "Italian"), ("und", "it")),
        ("German translation;English source", ("English source", "German translation"), ("en", "de")),
        ("English;German source", ("German source", "English"), ("de", "en")),
        ("targetText;sourceText", ("sourceText", "targetText"), ("und", "und")),
        ("source;en;it", ("en", "it"), ("en", "it")),
        ("src;mt", ("src", "mt"), ("und", "und")),
        ("en;mt", ("en", "mt"), ("en", "mt")),
    ],
)
def test_a_role_beside_a_language_decides_the_direction(tmp_path, header, columns, languages):
    reading = open_pairs(str(wide(tmp_path / "a.csv", header)))
    assert reading.columns[:2] == columns
    assert reading.languages == languages
    names = header.split(";")
    row = MANY[0]
    assert next(iter(reading))[:2] == tuple(row[names.index(name) % 2] for name in columns)


def test_a_translation_inside_both_keys_is_no_role():
    assert choose_columns(["translation.it", "translation.en"], Naming(), "x")[:2] == (
        "translation.it",
        "translation.en",
    )
    assert choose_columns(["note", "translation.it", "translation.en"], Naming(), "x").positions == (1, 2)
    wanted = Naming(source_language="it", target_language="en")
    assert choose_columns(["src_en", "tgt_it"], wanted, "x")[:2] == ("tgt_it", "src_en"), "the user's word wins"


@pytest.mark.parametrize(
    ("header", "columns", "candidates"),
    [
        ("src;mt;ref;score", (1, 2), "'src' and 'mt' .columns 1 and 2.; 'src' and 'ref' .columns 1 and 3."),
        ("Deutsch;Englisch (Google);Englisch (geprüft)", (1, 3), "'Englisch .Google.' .*'Englisch .geprüft.'"),
        ("EN;IT;EN", (3, 2), "'EN' and 'IT' .columns 1 and 2.; 'IT' and 'EN' .columns 2 and 3."),
        ("Source;Target;Source", (3, 2), "'Source' and 'Target' .columns 1 and 2.; .*columns 3 and 2"),
    ],
)
def test_two_columns_of_one_kind_are_not_decided_by_the_first(tmp_path, header, columns, candidates):
    path = wide(tmp_path / "a.csv", header)
    with pytest.raises(DataError, match=f"{candidates}.*--set data.source_column=1 --set data.target_column=2"):
        open_pairs(str(path))
    reading = open_pairs(str(path), Naming(*map(str, columns), header=True))
    assert next(iter(reading))[:2] == tuple(MANY[0][(number - 1) % 2] for number in columns)


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("en_id;en;it_id;it", ("en", "it")),
        ("English;English notes;Italian", ("English", "Italian")),
        ("English notes;English;Italian", ("English", "Italian")),
        ("Source (DE);Target (EN);Comment (EN)", ("Source (DE)", "Target (EN)")),
        ("id;fr;en", ("fr", "en")),
    ],
)
def test_a_bare_name_comes_before_one_with_an_addition(tmp_path, header, columns):
    assert open_pairs(str(wide(tmp_path / "a.csv", header))).columns[:2] == columns


def test_many_columns_without_a_header_ask_for_it(tmp_path):
    path = wide(tmp_path / "a.csv", "question;answer;remark")
    message = refusal(path)
    assert "Is its first row (question | answer | remark) a header? Then add --set data.header=true" in message
    assert "otherwise name them by number: --set data.source_column=NUMBER" in message
    (doubt,) = open_pairs(str(path), Naming("1", "2")).doubts
    assert "your first row looks like a header" in doubt
    assert "Is its first row" not in refusal(path, Naming(header=False))
    assert texts(path, Naming(trained_columns=("1", "2")))[1:] == MANY, "as the training text was read"


def test_a_column_of_numbers_is_refused_unless_both_are_named(tmp_path):
    path = wide(tmp_path / "a.csv", "id;en")
    assert "column 'id' holds only numbers; say which columns are the pair ('id', 'en'), by name" in refusal(path)
    assert texts(path, Naming("id", "en"))[7][0] == "7"
    assert "column '1' holds only numbers" in refusal(write(tmp_path / "b.tsv", "1\ta b\n2\tc d\n3\te f\n4\tg h\n"))


def test_a_column_is_found_in_other_case_and_the_nearest_is_suggested(tmp_path):
    path = wide(tmp_path / "a.csv", "Question;Answer")
    assert texts(path, Naming("question", "ANSWER")) == MANY
    assert "no column 'qestion'; did you mean 'Question'?" in refusal(path, Naming("qestion", "Answer"))
    with pytest.raises(DataError, match="columns 1 and 2 are both called 'A'; name one by its number"):
        choose_columns(["A", "A", "b"], Naming("A", "b"), "x")
    assert choose_columns(["A", "a"], Naming("a", "A"), "x")[:2] == ("a", "A")


# Quotes that belong to the format


QUOTED = {
    "pandas.tsv": csv_text([("en", "it"), *PAIRS], delimiter="\t"),
    "breaks.tsv": csv_text([("en", "it"), ("Good\nmorning.", "Buon\ngiorno."), *PAIRS], delimiter="\t"),
    "all.tsv": csv_text([("en", "it"), *PAIRS[::2]], delimiter="\t", quoting=csv.QUOTE_ALL),
    "text.tsv": csv_text([(1, *PAIRS[0]), (2, *PAIRS[2])], delimiter="\t", quoting=csv.QUOTE_NONNUMERIC),
    "windows.tsv": csv_text([("en", "it"), *PAIRS], delimiter="\t").replace("\n", "\r\n"),
    "pandas.txt": csv_text(PAIRS, delimiter="\t"),
}


@pytest.mark.parametrize("name", QUOTED)
def test_quoted_cells_of_tsv_are_read_as_pandas_wrote_them_and_said(tmp_path, name):
    path = write(tmp_path / name, QUOTED[name])
    naming = Naming("2", "3") if name == "text.tsv" else Naming()
    assert set(texts(path, naming)) <= {*PAIRS, ("Good\nmorning.", "Buon\ngiorno.")}
    assert "--set data.quoted=false" in open_pairs(str(path), naming).reasons["format"]
    literal = texts(path, Naming("1", "2", header=False, quoted=False)) if name != "breaks.tsv" else [('"',)]
    assert any('"' in side for pair in literal for side in pair)


@pytest.mark.parametrize(
    "rows",
    [
        ['"Come in," he said.\t«Avanti», disse.', '"Come in."\t"Avanti."'],
        ['"Come in.\t«Avanti.', 'Sit down."\tSi sieda.»'] * 5,
        ['«Come in.\t"Avanti.', 'Sit down.»\tSi sieda."'] * 5,
        ['A 5" pipe.\tUn tubo da 5".', '"Yes."\t"Sì."'],
        ['"Yes."\t"Sì."', "No.\tNo."],
    ],
)
def test_quotes_that_stand_as_in_text_are_text(tmp_path, rows):
    path = write(tmp_path / "a.tsv", "".join(f"{row}\n" for row in rows))
    assert texts(path) == [tuple(row.split("\t")) for row in rows]
    assert "quoted" not in open_pairs(str(path)).reasons["format"]


def test_quotes_can_be_said_to_be_text_or_not(tmp_path):
    tsv = write(tmp_path / "a.tsv", '"Yes."\t"Sì."\nNo.\tNo.\n')
    assert texts(tsv, Naming(quoted=True)) == [("Yes.", "Sì."), ("No.", "No.")]
    table = write(tmp_path / "a.csv", '"Come in" she said.,"Avanti" disse.\nYes.,Sì.\n')
    assert "--set data.quoted=false" in refusal(table)
    assert texts(table, Naming(quoted=False))[0] == ('"Come in" she said.', '"Avanti" disse.')
    broken = write(tmp_path / "b.tsv", 'a "b"\tc\nd\n')
    assert "needs quotes, and --set data.quoted=true" in refusal(broken)


# Files as people have them

PACKERS = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
TABLE = FORMATS["headed.tsv"]


def archive(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return path


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("name", ["a.tsv{}", "a.tsv", "a.tsv.gz"])
def test_packed_files_are_read_whatever_they_are_called(tmp_path, name, packing):
    path = tmp_path / name.format(packing)
    path.write_bytes(PACKERS[packing](TABLE.encode()))
    assert texts(path) == PAIRS
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match="packed file"):
        list(read_lines(path))


def test_a_zip_of_two_aligned_files_or_of_a_table_is_read(tmp_path):
    sides = {f"Books.en-it.{code}": "".join(f"{pair[at]}\n" for pair in PAIRS) for at, code in enumerate(("en", "it"))}
    reading = open_pairs(str(archive(tmp_path / "en-it.txt.zip", {"README": "x", **sides, "Books.en-it.xml": "<x/>"})))
    assert [pair[:2] for pair in reading] == PAIRS and reading.languages == ("en", "it")
    assert reading.files == (tmp_path / "en-it.txt.zip",)
    assert texts(archive(tmp_path / "kaggle.zip", {"data/pairs.csv": FORMATS["semicolons.csv"]})) == PAIRS
    message = refusal(archive(tmp_path / "two.zip", {"a.csv": "a,b\n", "b.csv": "c,d\n"}))
    assert "holds 2 files ('a.csv', 'b.csv'), but not one table" in message
    report = prepare_data(
        DataSettings(path=str(tmp_path / "en-it.txt.zip"), dev_size=1, test_size=1), tmp_path / "data"
    )
    assert report.rows == len(PAIRS)


def test_sgm_is_read_segment_by_segment(tmp_path):
    for at, name in enumerate(("src.en.sgm", "ref.it.sgm")):
        segments = "".join(f'<seg id="{n}">{html.escape(pair[at])}</seg>\n' for n, pair in enumerate(PAIRS))
        write(tmp_path / name, f'<?xml version="1.0"?>\n<refset setid="t"><doc docid="d">\n{segments}</doc></refset>\n')
    pair = (str(tmp_path / "src.en.sgm"), str(tmp_path / "ref.it.sgm"))
    assert texts(pair) == PAIRS and open_pairs(pair).languages == ("en", "it")
    assert len(read_references(pair[0], [pair[1]])) == len(PAIRS)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("as_lists", [False, True])
def test_one_json_array_is_read_item_by_item(tmp_path, monkeypatch, indent, as_lists):
    monkeypatch.setattr(lines_module, "_PIECE", 7)
    rows = [list(pair) if as_lists else dict(zip(("en", "it"), pair, strict=True)) for pair in PAIRS]
    assert texts(write(tmp_path / "a.json", json.dumps(rows, indent=indent))) == PAIRS
    cut = write(tmp_path / "a.json", json.dumps(rows, indent=indent)[:-9])
    assert "item 3 of its array is not JSON" in refusal(cut)
    columns = {
        name: {str(at): text for at, text in enumerate(side * 20)}
        for name, side in zip("ab", zip(*PAIRS, strict=True), strict=True)
    }
    for content in ({"data": rows * 20}, columns):
        assert "one JSON object that holds all rows" in refusal(write(cut, json.dumps(content, indent=indent)))


def test_columns_of_records_are_judged_by_many_records(tmp_path):
    rows = [{"en": s, "it": t} for s, t in PAIRS]
    first = '{"en": "The first.", "it": NaN}\n'
    for begin in (first, '{"en": "The first."}\n', '{"id": 3, "en": "The first.", "it": 0}\n'):
        path = write(tmp_path / "a.jsonl", begin + "".join(json.dumps(row) + "\n" for row in rows) * 20)
        assert texts(path)[1:4] == PAIRS
        assert texts(path)[0][1] == ""


def test_texts_in_lists_inside_records_are_found(tmp_path):
    for rows in (
        [{"id": 1, "translation": {"language": ["en", "it"], "text": list(pair)}} for pair in PAIRS],
        [{"id": 1, "texts": list(pair)} for pair in PAIRS],
        [{"en": [source], "it": [target]} for source, target in PAIRS],
    ):
        assert texts(write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))) == PAIRS
    short = write(tmp_path / "a.jsonl", '{"texts": ["a", "b"]}\n{"texts": ["a"]}\n')
    assert "a list of 1, where the first rows have more" in refusal(short)


@pytest.mark.parametrize("delimiter", [";", ",", "\t", "|"])
def test_a_line_that_names_the_delimiter_for_a_spreadsheet_is_no_row(tmp_path, delimiter):
    rows = csv_text([("English", "Italiano"), *PAIRS], delimiter=delimiter)
    reading = open_pairs(str(write(tmp_path / "a.csv", f"\ufeffsep={delimiter}\r\n{rows}")))
    assert [pair[:2] for pair in reading] == PAIRS
    assert next(iter(reading)).origin == "a.csv:3"


def test_carriage_returns_in_the_place_of_line_ends_are_named(tmp_path):
    for name, content in (("a.tsv", TABLE), ("a.csv", FORMATS["semicolons.csv"])):
        path = write(tmp_path / name, content.replace("\n", "\r"))
        for message in (refusal(path), refusal((str(path), str(path)))):
            assert f"with carriage returns alone, as old Macs did; convert it: tr '\\r' '\\n' < {name}" in message
    assert list(read_lines(write(tmp_path / "b.txt", "x\ry" * 9000 + "\nz"))) == ["x\ry" * 9000, "z"]


def test_a_data_set_saved_by_the_datasets_library_is_named(tmp_path):
    for name in ("dataset_info.json", "dataset_dict.json"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / name, "{}")
        with pytest.raises(DataError, match="was saved by the datasets library; save its rows with to_parquet"):
            prepare_data(str(tmp_path / name), tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.txt", '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "t.dtd">\n<tmx version="1.4">', "translation memory"),
        ("a.txt", "\ufeff<xliff version='1.2'>", "XLIFF"),
        ("a.en", "<!DOCTYPE html>\n<html>", "web page"),
        ("a.xml", "<?xml version='1.0'?><resources>", "XML"),
        ("a.msg", '# Italian\n#, fuzzy\nmsgid ""\nmsgstr ""\n', "catalogue"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nHi.\n", "subtitles"),
        ("a.csv", b"PK\x03\x04", "damaged ZIP"),
        ("a.pdf", b"%PDF-1.7\n\xe2", "PDF"),
        ("a.db", b"SQLite format 3\0\1\xce\xce", "a binary file"),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1", "old Word or Excel"),
        ("a.pkl", b"\x80\x04\x95\x10\0.", "a binary file"),
        ("a.png", b"\x89PNG\r\n\x1a\n\0", "a binary file"),
        ("a.zst", b"\x28\xb5\x2f\xfd\0", "zstd"),
        ("a.tsv", "one\tuno\n".encode("utf-16-le") * 9, "UTF-16LE"),
    ],
)
def test_what_is_no_text_or_table_is_named_for_what_it_is(tmp_path, name, content, kind):
    path = write(tmp_path / name, content)
    for message in (refusal(path), refusal((str(path), str(path)))):
        assert kind in message and "iconv -f W" not in message


@pytest.mark.parametrize(("member", "kind"), [("word/document.xml", "Word"), ("xl/a", "Excel")])
def test_documents_that_are_archives_are_named(tmp_path, member, kind):
    path = archive(tmp_path / "a.csv", {member: "x"})
    assert kind in refusal(path)
    with pytest.raises(DataError, match=kind):
        list(read_lines(path))


def test_parquet_is_known_under_any_name(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    parquet.write_table(arrow.Table.from_pylist([{"en": s, "it": t} for s, t in PAIRS]), tmp_path / "rows.data")
    assert texts(tmp_path / "rows.data") == PAIRS


@pytest.mark.parametrize(("cut", "mark"), [("@@ ", "@@"), ("￭ ", "￭")])
def test_text_cut_into_subwords_is_warned_of(tmp_path, cut, mark):
    path = write(tmp_path / "a.tsv", f"good mor{cut}ning\tbuon gior{cut}no\n" * 9)
    (doubt,) = open_pairs(str(path)).doubts
    assert f"is already split into subwords, as {mark!r} shows" in doubt


# Encodings

SPOKEN = {
    "WINDOWS-1250": "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "ISO-8859-2": "Zażółć gęślą jaźń, mężczyzno.",
    "WINDOWS-1252": "Perché è così? Il caffè è già là.",
    "WINDOWS-1251": "Где находится вокзал?",
    "KOI8-R": "Где находится вокзал?",
    "WINDOWS-1253": "Πού είναι ο σταθμός;",
    "WINDOWS-1254": "İstasyon nerede? Bugün hava çok güzel, değil mi?",
    "WINDOWS-1255": "איפה התחנה? אני רוצה שני קפה.",
    "CP932": "駅はどこですか。コーヒーを二つください。",
    "GB18030": "火车站在哪里？我想要两杯咖啡。",
    "CP949": "역이 어디에 있습니까? 커피 두 잔 주세요.",
}


@pytest.mark.parametrize("encoding", SPOKEN)
def test_another_encoding_is_named_by_its_letters_with_two_lines(tmp_path, encoding):
    path = write(tmp_path / "a.tsv", f"Hi.\t{SPOKEN[encoding]}\n".encode(encoding) * 30)
    message = refusal(path)
    assert f"iconv -f {encoding} -t UTF-8" in message and message.count(SPOKEN[encoding]) == 2


def test_an_encoding_is_named_for_two_languages_of_a_pair(tmp_path):
    pair = "Schöne Grüße für Käthe.\tL'élève a mangé à côté, où ça ?\n"
    assert "iconv -f WINDOWS-1252 -t" in refusal(write(tmp_path / "a.tsv", pair.encode("cp1252") * 30))


def test_no_encoding_is_named_that_would_ruin_the_file(tmp_path):
    many = "señor façade Übung år\tøre þorn çok bão\n"
    assert "iconv" not in refusal(write(tmp_path / "a.tsv", many.encode("cp1252") * 30))
    mixed = "così\tperché\n".encode() * 20 + "così\tperché\n".encode("latin-1")
    assert "20 other lines with such characters are UTF-8" in (message := refusal(write(tmp_path / "a.tsv", mixed)))
    assert "iconv" not in message
    message = refusal(write(tmp_path / "b.tsv", mixed + b"Hi.\tCiao.\n" + "così\tperché\n".encode("latin-1") * 2))
    assert "b.tsv:21 is not valid UTF-8" in message and "nor are 2 more lines; 20 other lines" in message
    mostly = "così\tperché\n".encode() + "città\tgià\n".encode("latin-1") * 30
    message = refusal(write(tmp_path / "c.tsv", mostly))
    assert "nor are 29 more lines; as WINDOWS-1252 it reads 'città" in message
    assert message.endswith("but that would spoil those that are UTF-8 already: 1")
    noise = bytes(range(128, 255)) * 3
    assert "iconv" not in refusal(write(tmp_path / "a.tsv", b"a\t" + noise + b"\n"))
