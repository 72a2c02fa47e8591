"""Text becomes a folder of splits and a report that tells the truth about them."""

import hashlib
import json
import logging
import random
import re
import tracemalloc
import unicodedata
from contextlib import suppress
from itertools import chain, combinations, product
from pathlib import Path
from typing import Literal

import pytest
from one_direction import prepare_data
from small import Counting, parse

from dragoman.config import check, render
from dragoman.errors import ConfigError, DataError
from dragoman.formats.lines import CARRIAGE_RETURNS
from dragoman.progress import silent
from dragoman.text.alignment import EXCHANGED, ONE_LANGUAGE
from dragoman.text.checks import (
    CONTROL,
    COPY,
    DUPLICATE,
    EMPTY,
    HEADER,
    JOINED,
    LINE_BREAKS,
    MISREAD,
    OTHER_LANGUAGE,
    PLACEHOLDER,
    RATIO,
    SPREADSHEET,
    TRIMMED,
    CheckSettings,
    is_misread,
)
from dragoman.text.inputs import open_inputs
from dragoman.text.pair_set import ENTITIES, TAGS
from dragoman.text.phrasebook import read_phrasebook
from dragoman.text.prepare_pairs import PairText
from dragoman.text.prepared import read_split
from dragoman.text.readers import RAGGED
from dragoman.text.report import DataReport, Tally, read_report, report_rows
from dragoman.text.settings import DataSettings, name_on_card

TATOEBA = Path(__file__).parents[3] / "shared" / "data" / "tatoeba-en-it"


def corpus(rows: int, word: str = "") -> list[tuple[str, str]]:
    """Distinct pairs."""
    return [(f"This is {word}sentence number {n}.", f"Questa è la {word}frase numero {n}.") for n in range(rows)]


def write_tsv(path: Path, pairs: list[tuple[str, str]], header: str = "en\tit\n") -> str:
    path.write_text(
        header + "".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8", newline="\n"
    )
    return str(path)


def write_plain(prefix: Path, pairs: list[tuple[str, str]]) -> str:
    for ending, side in (("en", 0), ("it", 1)):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        prefix.with_name(f"{prefix.name}.{ending}").write_text(text, encoding="utf-8", newline="\n")
    return str(prefix)


def splits(folder: Path, *names: str) -> list[list[tuple[str, str]]]:
    return [list(read_split(folder, name)) for name in names or ("train", "dev", "test")]


def files(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def identity_of(settings: DataSettings) -> str:
    with open_inputs(settings) as inputs:
        return PairText(settings, inputs, silent).identity


def changes_since(report: DataReport, settings: DataSettings) -> list[str]:
    with open_inputs(settings) as inputs:
        return PairText(settings, inputs, silent).changes(report)


def test_every_pair_lands_in_one_split_and_order_is_kept(tmp_path):
    pairs = corpus(1000)
    report = prepare_data(DataSettings(path=write_tsv(tmp_path / "a.tsv", pairs)), tmp_path / "data")
    train, dev, test = splits(tmp_path / "data")
    assert (len(train), len(dev), len(test)) == (900, 50, 50)
    assert sorted(train + dev + test) == sorted(pairs)
    for split in (train, dev, test):
        assert split == [pair for pair in pairs if pair in set(split)]
    assert {name: split.pairs for name, split in report.splits.items()} == {"train": 900, "dev": 50, "test": 50}
    assert (report.source_language, report.target_language) == ("en", "it")
    assert report.splits["test"].origin.endswith("5 % of 1,000 pairs each")


def test_a_split_is_json_lines_with_line_feeds_alone(tmp_path):
    pairs = [*corpus(50), ('A "quote"\\ and\u00a0more', "è così")]
    prepare_data(DataSettings(path=write_tsv(tmp_path / "a.tsv", pairs)), tmp_path / "data")
    lines = (tmp_path / "data" / "train.jsonl").read_bytes().decode().split("\n")
    assert lines.pop() == ""
    assert all(isinstance(json.loads(line), list) for line in lines)
    assert '["A \\"quote\\"\\\\ and\u00a0more", "è così"]' in lines


def test_the_report_is_read_back_and_names_the_files(tmp_path):
    report = prepare_data(DataSettings(path=write_tsv(tmp_path / "a.tsv", corpus(100))), tmp_path / "data")
    assert read_report(tmp_path / "data") == report
    hashes = files(tmp_path / "data")
    assert {f"{name}.jsonl": split.sha256 for name, split in report.splits.items()}.items() <= hashes.items()
    assert set(hashes) == {"train.jsonl", "dev.jsonl", "test.jsonl", "data.json"}


def test_dropped_pairs_are_counted_with_reason_and_first_place(tmp_path):
    pairs = [
        *corpus(100),
        ("Rome", "Rome"),
        ("", "x"),
        ("Hi.", " "),
        ("No.", "x" * 300),
        *corpus(3),
        (" spaces ", "spazi"),
    ]
    report = prepare_data(DataSettings(path=write_tsv(tmp_path / "a.tsv", pairs)), tmp_path / "data")
    assert {reason: (tally.pairs, tally.first) for reason, tally in report.dropped.items()} == {
        COPY: (1, "a.tsv:102"),
        EMPTY: (2, "a.tsv:103"),
        RATIO: (1, "a.tsv:105"),
        DUPLICATE: (3, "a.tsv:106"),
    }
    assert (
        report.rows
        == len(pairs)
        == sum(tally.pairs for tally in report.dropped.values()) + sum(split.pairs for split in report.splits.values())
    )
    assert report.repairs[TRIMMED] == 2  # one of them was all spaces
    assert any(("spaces", "spazi") in split for split in splits(tmp_path / "data"))
    rows = report_rows(report)
    assert ("dropped: duplicate of an earlier pair", "3", "first at a.tsv:106") in rows


def test_a_broken_row_is_dropped_counted_and_reported_with_its_line(tmp_path):
    rows = [f"{source}\t{target}\n" for source, target in corpus(60)]
    rows[7] = "one cell\n"
    (tmp_path / "a.tsv").write_text("en\tit\n" + "".join(rows))
    (tmp_path / "test.tsv").write_text("en\tit\n" + "".join(f"x {n}\ty {n}\n" for n in range(30)) + "a\tb\tc\n")
    settings = DataSettings(path=str(tmp_path / "a.tsv"), test_path=str(tmp_path / "test.tsv"), dev_size=5)
    report = prepare_data(settings, tmp_path / "data")
    assert report.dropped[RAGGED] == Tally(pairs=1, first="a.tsv:9")
    assert report.kept_faults[RAGGED] == Tally(pairs=1, first="test.tsv:32")
    assert splits(tmp_path / "data", "test")[0][30] == ("", ""), "aligned line by line"
    assert (f"dropped: {RAGGED}", "1", "first at a.tsv:9") in report_rows(report)


def test_an_absolute_path_may_stand_beside_a_relative_one(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a.en").write_text("".join(f"one {n}\n" for n in range(20)))
    (tmp_path / "a.it").write_text("".join(f"uno {n}\n" for n in range(20)))
    monkeypatch.chdir(tmp_path)
    report = prepare_data(DataSettings(path=("here/a.en", str(tmp_path / "a.it"))), tmp_path / "data")
    assert list(report.inputs["train"].sha256) == ["here/a.en", "a.it"]


def test_a_row_that_looks_like_a_header_causes_a_warning(tmp_path):
    path = write_tsv(tmp_path / "a.tsv", [(f"One {n}, please.", f"Uno {n}, prego.") for n in range(60)], "ask\tdiga\n")
    report = prepare_data(DataSettings(path=path), tmp_path / "data")
    assert any("your first row looks like a header (ask | diga)" in warning for warning in report.warnings)


def test_sets_beside_the_training_text_are_read_like_it(tmp_path):
    train = write_tsv(tmp_path / "train.tsv", corpus(60), "Inglese\tItaliano\n")
    turned = write_tsv(tmp_path / "turned.tsv", [("y", "x")], "Italiano\tInglese\n")
    prepare_data(DataSettings(path=train, test_path=turned), tmp_path / "data")
    assert splits(tmp_path / "data", "test") == [[("x", "y")]]
    other = write_tsv(tmp_path / "other.tsv", [("y", "x")], "French\tItalian\n")
    with pytest.raises(DataError, match="'French' .fr.*the training text goes from en to it"):
        prepare_data(DataSettings(path=train, test_path=other), tmp_path / "more")


def test_dropped_pairs_are_noted_in_the_report(tmp_path):
    path = write_tsv(tmp_path / "a.tsv", [*corpus(100), *corpus(3)])
    report = prepare_data(DataSettings(path=path), tmp_path / "data")
    assert f"dropped: 3 pairs of 103: {DUPLICATE}, first at a.tsv:102" in report.notes()


@pytest.mark.parametrize("rows", [150, 1_000, 1_001, 2_000])
def test_progress_counts_every_pair_that_is_read(tmp_path, rows):
    counting = Counting()
    prepare_data(DataSettings(path=write_tsv(tmp_path / "a.tsv", corpus(rows))), tmp_path / "data", counting)
    assert counting.done[f"read {tmp_path / 'a.tsv'}"] == rows


def test_duplicates_and_copies_are_kept_on_request(tmp_path):
    path = write_tsv(tmp_path / "a.tsv", [*corpus(60), *corpus(60), ("Rome", "Rome")])
    settings = check({"path": path, "checks": {"drop_duplicates": False, "drop_copies": False}}, "x", DataSettings)
    report = prepare_data(settings, tmp_path / "data")
    assert report.dropped == {}
    train, dev, test = map(set, splits(tmp_path / "data"))
    assert not train & test
    assert not train & dev
    assert not dev & test


def test_the_longest_sentence_of_each_side_is_kept(tmp_path):
    pairs = [*corpus(50), ("one two three four five six seven", "uno"), ("uno", "a b c d e f g h")]
    report = prepare_data(DataSettings(path=write_tsv(tmp_path / "a.tsv", pairs)), tmp_path / "data")
    longest = report.longest_source
    assert (longest.words, longest.text, longest.origin) == (7, "one two three four five six seven", "a.tsv:52")
    assert (report.longest_target.words, report.longest_target.origin) == (8, "a.tsv:53")


def test_pairs_that_share_a_sentence_stay_together(tmp_path):
    pairs = [(f"Sentence {n // 4}.", f"Frase {n}!") for n in range(400)] + [
        (f"Other {n}.", f"FRASE {n}") for n in range(50)
    ]
    prepare_data(DataSettings(path=write_tsv(tmp_path / "a.tsv", pairs)), tmp_path / "data")
    for side in (0, 1):
        seen = [{pair[side].casefold().rstrip(".!") for pair in split} for split in splits(tmp_path / "data")]
        assert all(not one & other for number, one in enumerate(seen) for other in seen[number + 1 :])
        assert all(seen)


# Leaks, looked for by a check that knows nothing of the splitter


def plain(sentence: str) -> str:
    """A sentence as a reader hears it: letters and digits alone, without case or Unicode form."""
    letters = unicodedata.normalize("NFKD", sentence.casefold())
    return unicodedata.normalize(
        "NFC", "".join(each if each.isalnum() or unicodedata.category(each) == "Mn" else " " for each in letters)
    ).strip()


def shared(folder: Path) -> dict[tuple[str, str], int]:
    """How many sentences, of both sides, each two sets of prepared data have in common."""
    seen = {
        name: [{plain(pair[side]) for pair in split} for side in (0, 1)]
        for name, split in zip(SETS, splits(folder), strict=True)
    }
    return {
        (one, other): sum(len(mine & theirs) for mine, theirs in zip(seen[one], seen[other], strict=True))
        for one, other in combinations(SETS, 2)
    }


SETS = ("train", "dev", "test")


def accented(rows: int, form: Literal["NFC", "NFD"]) -> list[tuple[str, str]]:
    """Distinct pairs full of accents, in one of Unicode's forms."""
    pairs = [(f"Señor Núñez está aquí, número {n}.", f"Perché è così, città numero {n}?") for n in range(rows)]
    return [(unicodedata.normalize(form, source), unicodedata.normalize(form, target)) for source, target in pairs]


def test_twins_in_another_unicode_form_are_duplicates(tmp_path):
    pairs = [*accented(200, "NFC"), *accented(200, "NFD"), ("ﬁne", "bene"), ("fine", "bene")]
    report = prepare_data(DataSettings(path=write_tsv(tmp_path / "a.tsv", pairs)), tmp_path / "data")
    assert report.dropped[DUPLICATE].pairs == 201
    assert set(shared(tmp_path / "data").values()) == {0}


def test_twins_in_another_unicode_form_stay_on_one_side(tmp_path):
    pairs = accented(200, "NFC") + [(source, f"{target} Altro.") for source, target in accented(200, "NFD")]
    prepare_data(DataSettings(path=write_tsv(tmp_path / "a.tsv", pairs)), tmp_path / "data")
    assert set(shared(tmp_path / "data").values()) == {0}


def test_twins_in_a_given_set_are_reported(tmp_path):
    settings = DataSettings(
        path=write_tsv(tmp_path / "a.tsv", accented(200, "NFC")),
        test_path=write_tsv(tmp_path / "test.tsv", accented(40, "NFD")),
    )
    leaks = prepare_data(settings, tmp_path / "data").splits["test"].leaks
    assert leaks is not None and (leaks.sources, leaks.targets) == (40, 40)


@pytest.mark.parametrize(("given", "split_off"), [("test", "dev"), ("dev", "test")])
def test_a_set_split_off_shares_no_sentence_with_a_given_one(tmp_path, given, split_off):
    settings = DataSettings(path=write_tsv(tmp_path / "a.tsv", corpus(200)))
    given_set = write_tsv(tmp_path / f"{given}.tsv", corpus(150))
    settings = settings.but(**{f"{given}_path": given_set, f"{split_off}_size": 20})
    report = prepare_data(settings, tmp_path / "data")
    assert report.splits[split_off].pairs == 20
    found = shared(tmp_path / "data")
    assert found["dev", "test"] == 0
    assert found["train", given] == 300
    leaks = report.splits["test"].leaks_from_dev
    assert leaks is not None and leaks.either == 0


def test_a_corpus_inside_the_given_test_set_leaves_nothing_to_split_off(tmp_path):
    path = write_tsv(tmp_path / "a.tsv", corpus(200))
    report = prepare_data(DataSettings(path=path, test_path=path), tmp_path / "data")
    assert report.splits["dev"].pairs == 0
    assert any("the dev set holds 0 pairs, not 10: too many pairs share sentences" in text for text in report.warnings)


def test_sentences_that_given_dev_and_test_sets_share_are_reported(tmp_path):
    settings = DataSettings(
        path=write_tsv(tmp_path / "a.tsv", corpus(100)),
        dev_path=write_tsv(tmp_path / "dev.tsv", corpus(30, "new ")),
        test_path=write_tsv(tmp_path / "test.tsv", [*corpus(10, "other "), *corpus(5, "new ")]),
    )
    report = prepare_data(settings, tmp_path / "data")
    leaks = report.splits["test"].leaks_from_dev
    assert leaks is not None and (leaks.either, leaks.first) == (5, "test.tsv:12")
    assert any(
        "5 of 15 test pairs have a sentence that is also in dev (first at test.tsv:12)" in text
        for text in report.warnings
    )
    assert ("test pairs found in dev", "5 (33.3 %)", "5 by source, 5 by target; first at test.tsv:12") in report_rows(
        report
    )
    assert shared(tmp_path / "data")["dev", "test"] == 10


# Sets that are given


def test_given_sets_keep_every_pair_and_report_faults(tmp_path, caplog):
    test = [("This is sentence number 7!", "altro"), ("", ""), ("Rome", "Rome"), ("New.", "Nuovo."), ("New.", "Nuovo.")]
    settings = DataSettings(
        path=write_tsv(tmp_path / "a.tsv", corpus(200)), test_path=write_plain(tmp_path / "test", test), dev_size=10
    )
    with caplog.at_level(logging.WARNING):
        report = prepare_data(settings, tmp_path / "data")
    train, dev, kept = splits(tmp_path / "data")
    assert kept == test
    assert (len(train), len(dev)) == (190, 10)
    assert {reason: tally.pairs for reason, tally in report.kept_faults.items()} == {EMPTY: 1, COPY: 1}
    leaks = report.splits["test"].leaks
    assert leaks is not None and (leaks.sources, leaks.targets, leaks.first) == (1, 0, "test.en:1")
    assert "1 of 5 test pairs have a sentence that is also in training (first at test.en:1)" in caplog.text
    assert (
        "test pairs found in training",
        "1 (20.0 %)",
        "1 by source, 0 by target; first at test.en:1",
    ) in report_rows(report)


def test_empty_sides_of_given_sets_cause_a_warning_with_their_place(tmp_path):
    settings = DataSettings(
        path=write_tsv(tmp_path / "a.tsv", corpus(50)),
        dev_path=write_plain(tmp_path / "dev", [("A.", "Uno."), ("B.", " ")]),
        test_path=write_plain(tmp_path / "test", [("A.", "Uno."), ("", "Due."), ("C.", ""), ("D.", "")]),
    )
    report = prepare_data(settings, tmp_path / "data")
    assert report.warnings[:3] == (
        "an empty reference in 1 of 2 dev rows (first at dev.en:2): it is left out of validation",
        "an empty source in 1 of 4 test rows (first at test.en:2): its translation is empty",
        "an empty reference in 2 of 4 test rows (first at test.en:3): any translation of it counts as wrong",
    )


def test_a_folder_is_read_by_its_names(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    write_plain(folder / "train", corpus(50))
    write_tsv(folder / "val.tsv", corpus(5, "new "))
    report = prepare_data(DataSettings(path=str(folder)), tmp_path / "data")
    assert splits(tmp_path / "data", "dev") == [corpus(5, "new ")]
    assert {name: split.pairs for name, split in report.splits.items()} == {"train": 48, "dev": 5, "test": 2}


def test_the_phrasebook_keeps_its_own_split(tmp_path, monkeypatch):
    def write_phrasebook(folder):
        for name in ("train", "dev", "test", "new_patterns"):
            write_plain(Path(folder) / name, corpus(10, f"{name} "))

    monkeypatch.setattr("dragoman.text.inputs.write_phrasebook", write_phrasebook)
    report = prepare_data(DataSettings(), tmp_path / "data")
    for name, pairs in zip(report.splits, splits(tmp_path / "data", *report.splits), strict=True):
        assert pairs == corpus(10, f"{name} ")
    assert list(report.splits) == ["train", "dev", "test", "new_patterns"]
    assert (report.source_language, report.target_language) == ("en", "it")
    for number, change in enumerate(({}, {"source_column": "1", "target_column": "2"}, {"test_size": 1})):
        again = prepare_data(DataSettings(path=str(tmp_path / "data")).but(**change), tmp_path / f"again-{number}")
        assert again.splits["new_patterns"].sha256 == report.splits["new_patterns"].sha256


# Warnings


def test_unknown_languages_cause_a_warning_with_the_remedy(tmp_path):
    path = write_tsv(tmp_path / "a.tsv", corpus(50), header="")
    report = prepare_data(DataSettings(path=path), tmp_path / "data")
    assert (report.source_language, report.target_language) == ("und", "und")
    assert "--set data.source_language=CODE --set data.target_language=CODE" in report.warnings[0]
    named = DataSettings(path=path, source_language="en", target_language="it")
    assert prepare_data(named, tmp_path / "named").warnings == ()


def test_shifted_rows_cause_a_warning_with_their_line(tmp_path):
    pairs = [(f"{n} " + "w" * (n * 37 % 150), f"{n} " + "p" * (n * 37 % 150)) for n in range(1000)]
    sources, targets = zip(*pairs, strict=True)
    slid = list(zip(sources[:-1], targets[:400] + targets[401:], strict=True))
    report = prepare_data(DataSettings(path=write_plain(tmp_path / "a", slid)), tmp_path / "data")
    (warning,) = report.warnings
    assert warning.startswith(("a.en:399:", "a.en:400:", "a.en:401:"))


def test_a_corpus_of_one_component_causes_a_warning(tmp_path):
    path = write_tsv(tmp_path / "a.tsv", [("The same.", f"Frase {n}.") for n in range(100)])
    report = prepare_data(DataSettings(path=path), tmp_path / "data")
    assert [split.pairs for split in report.splits.values()] == [100, 0, 0]
    assert any("the test set holds 0 pairs, not 5: too many pairs share sentences" in text for text in report.warnings)


# What is noted, and what is mended


def some_italian(rows: int) -> list[tuple[str, str]]:
    return [
        (f"the cat of the man sees the {n} red houses", f"il gatto di un uomo vede {n} case rosse") for n in range(rows)
    ]


def test_rows_in_the_wrong_language_are_counted_and_cause_a_warning(tmp_path):
    pairs = some_italian(400)
    pairs[100:103] = [(target, source) for source, target in pairs[100:103]]
    pairs[200] = (pairs[200][0], "the red cat")  # too short to be dropped for its language
    test = [(target, source) for source, target in some_italian(450)[400:]]
    settings = DataSettings(path=write_tsv(tmp_path / "a.tsv", pairs), test_path=write_plain(tmp_path / "test", test))
    report = prepare_data(settings, tmp_path / "data")
    assert (report.noted[EXCHANGED].pairs, report.noted[EXCHANGED].first) == (53, "a.tsv:102")
    assert (report.noted[ONE_LANGUAGE].pairs, report.noted[ONE_LANGUAGE].first) == (1, "a.tsv:202")
    assert f"3 of 400 {EXCHANGED} (first at a.tsv:102)" in report.warnings[0]
    assert any(text.startswith(f"50 of 50 {EXCHANGED} (first at test.en:1)") for text in report.warnings)
    assert (f"kept: {EXCHANGED}", "53", "first at a.tsv:102") in report_rows(report)


ERRORS = ["#N/A", "#REF!", "#NV", "#¿NOMBRE?", "#DIV/0!", "Err:502", "#####"]


def test_spreadsheet_errors_are_dropped_and_all_their_lines_are_told(tmp_path):
    pairs = some_italian(100)
    for at, error in enumerate(ERRORS):
        pairs[10 * at] = (pairs[10 * at][0], error)
    pairs[99] = ("We are number 1 with #hashtag!", "Siamo il numero 1 con #hashtag!")
    report = prepare_data(DataSettings(path=write_tsv(tmp_path / "a.tsv", pairs)), tmp_path / "data")
    assert report.dropped[SPREADSHEET].lines == tuple(f"a.tsv:{10 * at + 2}" for at in range(len(ERRORS)))
    assert set(report.dropped) == {SPREADSHEET}


WORDS = """dog cane cat gatto house casa car macchina street strada friend amico teacher maestro doctor medico water
acqua window finestra garden giardino kitchen cucina"""
VERBS = """sees vede buys compra sells vende knows conosce loves ama finds trova waits-for aspetta draws disegna"""
ENDS = """today oggi tomorrow domani every-day ogni-giorno with-me con-me without-money senza-soldi after-dinner
dopo-cena"""


def sentences(rows: int) -> list[tuple[str, str]]:
    """Distinct pairs whose words vary."""
    pairs = [
        (f"My {one[0]} {verb[0]} the {other[0]} {end[0]}.", f"Mio {one[1]} {verb[1]} il {other[1]} {end[1]}.")
        for one, verb, other, end in product(*map(couples, (WORDS, VERBS, WORDS, ENDS)))
    ]
    return random.Random(1).sample(pairs, rows)


def exchange(pair: tuple[str, str]) -> tuple[str, str]:
    return pair[1], pair[0]


def couples(words: str) -> list[tuple[str, str]]:
    found = [word.replace("-", " ") for word in words.split()]
    return list(zip(found[::2], found[1::2], strict=True))


@pytest.mark.parametrize("header", ["en\tit\n", "source\ttarget\n"])
@pytest.mark.parametrize("count", [30, 150, 270, 300])
def test_exchanged_rows_are_found_whatever_their_share(tmp_path, count, header):
    pairs = sentences(300)
    exchanged = set(random.Random(2).sample(range(300), count))
    mixed = [exchange(pair) if at in exchanged else pair for at, pair in enumerate(pairs)]
    settings = DataSettings(path=write_tsv(tmp_path / "a.tsv", mixed, header), dev_size=0, test_size=0)
    report = prepare_data(settings, tmp_path / "data")
    lines = list(report.noted[EXCHANGED].lines) if EXCHANGED in report.noted else []
    either = [[f"a.tsv:{at + 2}" for at in sorted(rows)] for rows in (exchanged, set(range(300)) - exchanged)]
    assert lines == either[0] if "en" in header else lines in either and len(lines) <= 150  # unnamed: as most rows run
    assert not any("misaligned" in text for text in report.warnings)
    if "en" in header:
        assert any(text.startswith(f"{count} of 300 {EXCHANGED} (first at {lines[0]})") for text in report.warnings)
        report = prepare_data(settings.but(exchanged="swap"), tmp_path / "swapped")
        assert splits(tmp_path / "swapped", "train") == [pairs] and not report.warnings


@pytest.mark.parametrize("rows", [12, 40])
def test_exchanged_rows_of_a_small_table_are_found_by_its_header(tmp_path, rows):
    pairs = [exchange(pair) if at % 2 else pair for at, pair in enumerate(sentences(rows))]
    settings = DataSettings(path=write_tsv(tmp_path / "a.tsv", pairs), dev_size=0, test_size=0)
    assert prepare_data(settings, tmp_path / "data").noted[EXCHANGED].pairs == rows / 2


def test_rows_of_one_language_do_not_look_exchanged(tmp_path):
    texts = [(pair.source, pair.target) for pair in read_phrasebook().train[::50]]
    for at in range(200, 210):
        texts[at] = texts[at + 300][1], texts[at][1]
    report = prepare_data(DataSettings(path=write_tsv(tmp_path / "a.tsv", texts, "en\tit\n")), tmp_path / "data")
    assert EXCHANGED not in report.noted and report.dropped[OTHER_LANGUAGE].pairs == 10


def test_languages_that_only_the_names_tell_do_not_make_rows_look_exchanged(tmp_path):
    rows = [(f"Der Mann Nummer {n} ist im Haus.", f"L'homme numéro {n} est dans la maison.") for n in range(60)]
    for at, pairs in enumerate((rows, list(map(exchange, rows)))):
        report = prepare_data(DataSettings(path=write_tsv(tmp_path / "a.tsv", pairs)), tmp_path / f"data-{at}")
        assert EXCHANGED not in report.noted, "neither side is English or Italian"


@pytest.mark.parametrize(
    "texts",
    [("TODO", "DA TRADURRE"), ("N/A", "[traduzione mancante]"), ("No source here today.", "Non c'è ancora il testo.")],
)
@pytest.mark.parametrize("side", [0, 1])
def test_one_text_in_the_place_of_many_is_dropped(tmp_path, texts, side):
    pairs, text = sentences(300), texts[side]
    for at in range(20, 35):
        pairs[at] = (text, pairs[at][1]) if side == 0 else (pairs[at][0], text)
    pairs[40:55] = [(f"{word}!", "Sì.") for word in "yes yeah yep sure right fine okay done good well so aye".split()]
    thanks = "Thanks|Thank you|Thanks a lot|Many thanks|Thank you very much|Thank you so much|Thanks for that|Cheers"
    pairs[60:70] = [(f"{some}.", "Grazie.") for some in f"{thanks}|Thank you for all of it|No, thank you".split("|")]
    settings = DataSettings(path=write_tsv(tmp_path / "a.tsv", pairs))
    report = prepare_data(settings, tmp_path / "data")
    lines = tuple(f"a.tsv:{at + 2}" for at in range(20, 35))
    assert {kind: tally.lines for kind, tally in report.dropped.items()} == {PLACEHOLDER: lines}
    assert not report.noted
    report = prepare_data(settings.but(checks={"drop_placeholders": False}), tmp_path / "kept")
    assert report.noted[PLACEHOLDER].lines == lines and not report.dropped
    assert any(text.startswith(f"{PLACEHOLDER} in 15 of {len(pairs)} train rows") for text in report.warnings)


def test_a_text_whose_many_partners_differ_in_a_number_is_kept(tmp_path):
    rows = [("Where is the station?", f"Dov'è la stazione numero {number}?") for number in range(30)]
    report = prepare_data(DataSettings(path=write_tsv(tmp_path / "a.tsv", rows)), tmp_path / "data")
    assert PLACEHOLDER not in report.dropped


def test_a_given_set_keeps_what_stands_for_no_translation_with_a_warning(tmp_path):
    *pairs, one, other = sentences(402)
    test = [(source, "DA TRADURRE" if at % 10 == 5 else target) for at, (source, target) in enumerate(pairs[:200])]
    test += [("It says:", "Perché".encode().decode("cp1252")), one]
    paths = write_tsv(tmp_path / "a.tsv", [*pairs[200:], other]), write_plain(tmp_path / "test", test)
    report = prepare_data(DataSettings(path=paths[0], test_path=paths[1]), tmp_path / "data")
    assert splits(tmp_path / "data", "test") == [test]
    assert any(
        text.startswith(f"{PLACEHOLDER} in 20 of 202 test rows (first at test.en:6)") for text in report.warnings
    )
    assert any(text.startswith(f"{MISREAD} in 1 of 202 test rows (first at test.en:201)") for text in report.warnings)


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "mac_roman", "cp850", "cp437"])
@pytest.mark.parametrize("text", ["Perché?", "È vero.", "L’età", "Città", "10 €", "Привет, мир", "żółć", "日本語"])
def test_text_that_was_read_in_another_encoding_is_told_from_what_was_meant(text, encoding):
    assert not is_misread(text)
    with suppress(UnicodeDecodeError):  # cp1252 lacks some characters
        assert is_misread(text.encode().decode(encoding))


@pytest.mark.parametrize(
    "text",
    ["„Spaß“", "«CAFÉ»", "“È…”", "l’été", "Ah…«è»", "À\u00a0toi", "MANHÃ.", "5\u00a0€", "‚Ärger‘", "√2 ≈ 1,4", "¿Qué?"],
)
def test_marks_beside_letters_with_accents_are_not_taken_for_another_encoding(text):
    assert not is_misread(text)


def test_the_header_of_a_table_that_was_joined_to_another_is_no_pair(tmp_path):
    pairs = sentences(100)
    for at, again in enumerate((("en", "it"), ("it", "en"))):
        path = write_tsv(tmp_path / "a.tsv", [*pairs[:50], again, *pairs[50:]])
        report = prepare_data(DataSettings(path=path, dev_size=0, test_size=0), tmp_path / f"data-{at}")
        assert splits(tmp_path / f"data-{at}", "train") == [pairs]
        assert (report.dropped[HEADER].pairs, report.dropped[HEADER].first) == (1, "a.tsv:52")


OTHERS = [
    "Der Mann ist mit der Katze im Haus und sieht nicht auf die Uhr.",
    "Le chat est dans la maison et il ne voit pas les oiseaux.",
    "El gato no está en la casa porque los perros están en el jardín.",
    "O gato não está em casa porque ele foi com os seus amigos.",
    "Мы не знаем, где сейчас находится наша кошка.",
    "猫は家にいませんので、今日はどこにいるのか分かりません。",
    "Η γάτα δεν είναι στο σπίτι, και δεν ξέρουμε πού πήγε.",
]


@pytest.mark.parametrize("is_dropped", [True, False])
def test_rows_in_another_language_than_their_column_are_dropped_unless_asked_for(tmp_path, is_dropped):
    pairs = some_italian(200)
    for at, text in enumerate(OTHERS):
        pairs[10 * at] = pairs[10 * at][0], text
        pairs[10 * at + 5] = text, pairs[10 * at + 5][1]
    settings = DataSettings(
        path=write_tsv(tmp_path / "a.tsv", pairs, header="source\ttarget\n"),
        test_path=write_tsv(tmp_path / "test.tsv", pairs[:1]),
        checks=CheckSettings(drop_other_languages=is_dropped),
    )
    report = prepare_data(settings, tmp_path / "data")
    found = (report.dropped if is_dropped else report.noted)[OTHER_LANGUAGE].lines
    assert found[: 2 * len(OTHERS)] == tuple(f"a.tsv:{5 * at + 2}" for at in range(2 * len(OTHERS)))
    assert report.splits["test"].pairs == 1
    assert report.settings["checks.drop_other_languages"] is is_dropped


@pytest.mark.parametrize(
    ("language", "other"),
    [
        ("it", ["Non è in casa."] * 3 + ["Der Mann ist nicht im Haus."] * 2),  # a column of two languages
        ("scn", ["Der Mann ist nicht im Haus."]),  # one that is not what it is said to be
        ("it", ["Vado a letto."] * 9 + ["Der Mann da."]),  # short rows
        ("it", ["Le parole «der», «die» e «das» non sono le stesse in tutti i casi."]),
    ],
)
def test_rows_are_not_dropped_for_their_language_where_it_is_uncertain(tmp_path, language, other):
    pairs = [(f"This is the sentence number {n}.", f"{n} {other[n % len(other)]}") for n in range(200)]
    path = write_tsv(tmp_path / "a.tsv", pairs)
    report = prepare_data(DataSettings(path=path, target_language=language), tmp_path / "data")
    assert OTHER_LANGUAGE not in report.dropped


@pytest.mark.parametrize("exchanged", ["keep", "drop", "swap"])
def test_exchanged_rows_are_kept_dropped_or_swapped_back(tmp_path, exchanged):
    pairs = some_italian(400)
    mixed = [(it, en) if 100 <= at < 120 else (en, it) for at, (en, it) in enumerate(pairs)]
    settings = DataSettings(path=write_tsv(tmp_path / "a.tsv", mixed), exchanged=exchanged)
    report = prepare_data(settings, tmp_path / "data")
    (found,) = [tally for kind, tally in {**report.dropped, **report.noted}.items() if "exchanged" in kind]
    assert found.lines == tuple(f"a.tsv:{at + 2}" for at in range(100, 120))
    wanted = {"keep": mixed, "swap": pairs, "drop": pairs[:100] + pairs[120:]}[exchanged]
    assert sorted(chain.from_iterable(splits(tmp_path / "data", "train", "dev", "test"))) == sorted(wanted)


def test_line_breaks_inside_a_side_become_spaces(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"en": f"one {n} \n two", "it": f"uno {n}\r\n\ndue"} for n in range(50)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = prepare_data(DataSettings(path=str(path)), tmp_path / "data")
    assert sorted(read_split(tmp_path / "data", "test"))[0][1].startswith("uno ")
    assert all("\n" not in source + target for source, target in read_split(tmp_path / "data", "train"))
    assert report.repairs[JOINED] == 100
    assert report.noted[LINE_BREAKS].lines == tuple(f"a.jsonl:{n + 1}" for n in range(50))


HTML = [
    ("Rock &amp; Roll &#39;n more", "Rock &amp; Roll"),
    ("AT&T; &copy 2020 &bogus;", "AT&T"),
    ("&lt;b&gt; R&eacute;my", "&quot;b&#x22;"),
]


def test_html_entities_are_counted_with_advice_to_replace_them(tmp_path):
    path = write_tsv(tmp_path / "a.tsv", [*corpus(2_500), *HTML])  # so few that a guess would not be reported
    report = prepare_data(DataSettings(path=path, dev_size=0, test_size=0), tmp_path / "data")
    assert (report.noted[ENTITIES].pairs, report.noted[ENTITIES].first) == (2, "a.tsv:2502")
    assert report.warnings[0].startswith("HTML entities such as &amp; in 2 of 2,503 train rows (first at a.tsv:2502)")
    assert splits(tmp_path / "data", "train")[0][2_500:] == HTML


def test_tags_are_counted_with_advice_to_remove_them(tmp_path):
    rows = [("a &lt;b <3", "<name> & **c**"), ("<b>The dog</b> sleeps.", "Il cane dorme."), ("Cats", "Gatti<br/>")]
    path = write_tsv(tmp_path / "a.tsv", [*corpus(60), *rows])
    report = prepare_data(DataSettings(path=path, dev_size=0, test_size=0), tmp_path / "data")
    assert (report.noted[TAGS].pairs, report.noted[TAGS].first) == (2, "a.tsv:63")
    assert any(re.search(r"^tags .* in 2 of 63 train rows .*remove them$", warning) for warning in report.warnings)


def test_invisible_characters_drop_a_pair_and_line_ends_in_a_cell_are_mended(tmp_path):
    rows = ["a\rb", "a\ufeffb", "a\x00b", "a\u2028b", "a\x85b", "c\r\nd", "e\nf"]
    lines = [json.dumps({"en": source, "it": f"{number} tradotto"}) for number, source in enumerate(rows)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = prepare_data(DataSettings(path=str(tmp_path / "a.jsonl"), dev_size=0, test_size=0), tmp_path / "data")
    assert (report.dropped[CONTROL].pairs, report.dropped[CONTROL].first) == (5, "a.jsonl:1")
    assert [source for source, _ in read_split(tmp_path / "data", "train")] == ["c d", "e f"]
    assert report.repairs[CARRIAGE_RETURNS] == 1


# Refusals


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("Hi.\tCiao.\n", "a.tsv holds 1 usable pair: too few to split off 1 for dev and 1 for test"),
        ("Rome\tRome\nOslo\tOslo\n", "none of the 2 rows of .*a.tsv can be used .2 source copied to target"),
        ("  \n \n", "a.tsv holds only blank lines"),
        ("", "a.tsv is empty"),
        ("a\tb\nc\n", "a.tsv:2 has 1 column"),
    ],
)
def test_text_that_cannot_be_used_is_refused_and_leaves_nothing(tmp_path, content, words):
    (tmp_path / "a.tsv").write_text(content)
    with pytest.raises(DataError, match=words):
        prepare_data(DataSettings(path=str(tmp_path / "a.tsv")), tmp_path / "data")
    assert [file.name for file in tmp_path.iterdir()] == ["a.tsv"]


def test_only_blank_lines_in_aligned_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="none of the 5 rows of .* can be used .5 empty side"):
        prepare_data(DataSettings(path=write_plain(tmp_path / "a", [(" ", "\t")] * 5)), tmp_path / "data")


def test_a_folder_without_training_text_is_refused(tmp_path):
    with pytest.raises(DataError, match="is a folder, and holds no file named train"):
        prepare_data(DataSettings(path=str(tmp_path)), tmp_path / "data")


def test_one_pair_is_enough_when_nothing_is_split_off(tmp_path):
    path = write_tsv(tmp_path / "a.tsv", corpus(1))
    prepare_data(DataSettings(path=path, dev_size=0, test_size=0), tmp_path / "data")
    assert splits(tmp_path / "data") == [corpus(1), [], []]


def test_a_set_given_and_split_off_is_refused():
    with pytest.raises(ConfigError, match="test_path gives a set and test_size splits one off"):
        check({"test_path": "x", "test_size": 5}, "recipe.toml", DataSettings)


def test_settings_survive_toml(tmp_path):
    settings = DataSettings(path=("a.en", "a.it"), test_size=7, format="plain")
    assert parse(render(settings), "recipe.toml", DataSettings) == settings


# The same data again


def test_the_result_depends_only_on_text_and_settings(tmp_path):
    one = write_tsv(tmp_path / "one.tsv", corpus(200))
    two = write_tsv(tmp_path / "two.tsv", corpus(200))
    reports = [prepare_data(DataSettings(path=path), tmp_path / f"data-{Path(path).name}") for path in (one, two)]
    assert reports[0].identity == reports[1].identity == identity_of(DataSettings(path=one))
    assert reports[0].splits == reports[1].splits
    other = DataSettings(path=one, seed=2)
    assert identity_of(other) != reports[0].identity
    assert prepare_data(other, tmp_path / "other").splits["test"].sha256 != reports[0].splits["test"].sha256


def test_a_folder_made_from_the_same_text_is_used_as_it_is(tmp_path, monkeypatch):
    settings = DataSettings(path=write_tsv(tmp_path / "a.tsv", corpus(100)))
    report = prepare_data(settings, tmp_path / "data")
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / "data").iterdir()}
    assert prepare_data(settings, tmp_path / "data") == report
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "data").iterdir()} == times
    assert changes_since(report, settings) == []


def test_changed_data_or_settings_are_refused_by_name(tmp_path):
    settings = DataSettings(path=write_tsv(tmp_path / "a.tsv", corpus(100)))
    report = prepare_data(settings, tmp_path / "data")
    with pytest.raises(DataError, match="prepared from other text or settings .seed was 1, is 2.; name another folder"):
        prepare_data(settings.but(seed=2), tmp_path / "data")
    write_tsv(tmp_path / "a.tsv", corpus(101))
    assert changes_since(report, settings) == ["the train text changed"]
    with pytest.raises(DataError, match="the train text changed"):
        prepare_data(settings, tmp_path / "data")


def test_a_damaged_split_is_refused(tmp_path):
    settings = DataSettings(path=write_tsv(tmp_path / "a.tsv", corpus(100)))
    prepare_data(settings, tmp_path / "data")
    with (tmp_path / "data" / "test.jsonl").open("a") as file:
        file.write("[")
    with pytest.raises(DataError, match="test.jsonl is missing or was changed"):
        prepare_data(settings, tmp_path / "data")
    with pytest.raises(DataError, match="test.jsonl:6 is not a JSON list"):
        list(read_split(tmp_path / "data", "test"))
    with pytest.raises(DataError, match="has no valid set; it has train, dev, test"):
        read_split(tmp_path / "data", "valid")


@pytest.mark.parametrize("content", ["", "{}", "[1", '{"format_number": "x"}', '{"format_number": 3}', "[" * 100_000])
def test_a_damaged_report_is_refused(tmp_path, content):
    (tmp_path / "data.json").write_text(content)
    with pytest.raises(DataError, match=r"data\.json (is not Dragoman's|is damaged|cannot be read)"):
        read_report(tmp_path)
    with pytest.raises(DataError, match=r"data\.json is missing"):
        read_report(tmp_path / "elsewhere")


# Size, and real text


def peak(path: str, folder: Path) -> int:
    tracemalloc.start()
    try:
        prepare_data(DataSettings(path=path), folder)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.thorough
def test_memory_holds_numbers_and_no_text(tmp_path):
    few, many = 1_000, 6_000
    filling = "x" * 1500 + " "
    paths = [write_tsv(tmp_path / f"{rows}.tsv", corpus(rows, filling)) for rows in (few, many)]
    peak(paths[0], tmp_path / "first")  # loads modules
    # Python's table of interned strings may grow in either run, but not in both
    peaks = [min(peak(path, tmp_path / f"{path}-{run}") for run in range(2)) for path in paths]
    assert peaks[1] - peaks[0] < 300 * (many - few)  # bytes a pair, of 3,000 bytes of text


@pytest.mark.skipif(not TATOEBA.is_dir(), reason="../shared/data/tatoeba-en-it is absent")
def test_no_sentence_of_real_text_leaks(tmp_path):
    settings = DataSettings(
        path=str(TATOEBA / "dev"), source_language="en", target_language="it", dev_size=200, test_size=300
    )
    report = prepare_data(settings, tmp_path / "data")
    assert isinstance(report, DataReport)
    assert [report.splits[name].pairs for name in ("dev", "test")] == [200, 300]
    assert all(split.leaks.either == 0 for split in report.splits.values() if split.leaks)
    assert report.warnings == ()


def test_a_card_names_files_without_folders() -> None:
    of = {
        name: name_on_card(DataSettings(path=name), name)
        for name in ("/home/ada/a.tsv", "hub:Helsinki-NLP/books:en-it")
    }
    assert list(of.values()) == ["a.tsv", "hub:Helsinki-NLP/books:en-it"]
    assert name_on_card(DataSettings(), "/tmp/dragoman-1/train.en and train.it") == "the built-in phrasebook"
