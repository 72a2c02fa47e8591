"""Text in several directions: what is read of it, one split for all, reports, and what is refused."""

import json
from itertools import chain, permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from dragoman.cli.main import app
from dragoman.config import check
from dragoman.directions import direction_in
from dragoman.errors import ConfigError, DataError
from dragoman.languages import base_language
from dragoman.progress import silent
from dragoman.runs.lookup import find_recipe
from dragoman.text.alignment import EXCHANGED
from dragoman.text.inputs import addresses_of
from dragoman.text.prepare import prepare_data
from dragoman.text.prepared import read_split
from dragoman.text.report import DataReport, DirectionsReport, direction_folders, read_report
from dragoman.text.settings import DataSettings
from dragoman.text.split import DEV, TEST, assign, in_language, sentence_key

NAMES = {
    "en": "The {} number {} is here.",
    "it": "Il {} numero {} è qui.",
    "de": "Die {} Nummer {} ist hier.",
    "fr": "Le {} nombre {} est ici.",
}
SETS = ("train", "dev", "test")


def lines(language: str, rows: range, word: str = "red") -> list[str]:
    return [NAMES[language].format(word, row) for row in rows]


def pairs_between(source: str, target: str) -> list[tuple[str, str]]:
    return [*zip(lines(source, range(200)), lines(target, range(200)), strict=True)]


def write_sides(folder: Path, name: str, *languages: str, rows: range = range(200), word: str = "red") -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    for language in languages:
        (folder / f"{name}.{language}").write_text("\n".join(lines(language, rows, word)) + "\n", encoding="utf-8")
    return [str(folder / f"{name}.{language}") for language in languages]


def write_table(path: Path, *languages: str, rows: range = range(200), word: str = "red") -> str:
    cells = [languages, *zip(*(lines(language, rows, word) for language in languages), strict=True)]
    path.write_text("".join("\t".join(row) + "\n" for row in cells), encoding="utf-8")
    return str(path)


def write_memory(path: Path, *languages: str, rows: range = range(200), original: str = "en") -> str:
    units = (
        "<tu>"
        + "".join(f'<tuv xml:lang="{code}"><seg>{NAMES[code].format("red", row)}</seg></tuv>' for code in languages)
        + "</tu>"
        for row in rows
    )
    path.write_text(
        f'<tmx version="1.4"><header srclang="{original}"/><body>{"".join(units)}</body></tmx>', encoding="utf-8"
    )
    return str(path)


def prepared(data, folder: Path, **settings) -> DirectionsReport:
    report = prepare_data(data, folder, silent, **settings)
    assert isinstance(report, DirectionsReport)
    return report


def directions_of(folder: Path) -> list[str]:
    return ["-".join(direction) for direction in direction_folders(folder)]


def pairs_of(folder: Path, *names: str) -> list[tuple[str, str]]:
    return [pair for name in names or SETS for pair in read_split(folder, name)]


def assert_nothing_is_shared(folder: Path) -> None:
    """Check that no sentence of a language is in two sets, in whatever direction and on whatever side."""
    sides: dict[str, set[tuple[str, int]]] = {name: set() for name in SETS}
    for direction, part in direction_folders(folder).items():
        for name in SETS:
            for pair in read_split(part, name):
                sides[name] |= set(zip(direction, map(sentence_key, pair), strict=True))
    for names in permutations(SETS, 2):
        assert not sides[names[0]] & sides[names[1]]
    assert all(sides.values())


# What is read


def test_several_texts_are_several_directions_and_share_one_split(tmp_path: Path):
    files = [
        *write_sides(tmp_path, "a", "en", "de"),
        *write_sides(tmp_path, "b", "en", "fr"),
        *write_sides(tmp_path, "c", "de", "fr"),
    ]
    report = prepared(files, tmp_path / "data")
    assert report.directions == (("en", "de"), ("en", "fr"), ("de", "fr"))
    assert_nothing_is_shared(tmp_path / "data")
    for part in direction_folders(tmp_path / "data").values():
        assert [read_report(part).splits[name].pairs for name in SETS] == [180, 10, 10]
        leaks = read_report(part).splits["dev"].leaks
        assert leaks is not None and leaks.either == 0
    held_out = [
        {pair[0].split()[-3] for pair in read_split(tmp_path / "data" / name, "dev")} for name in ("en-de", "en-fr")
    ]
    assert held_out[0] == held_out[1]  # the same sentences in all directions


def write_rows(path: Path, names: list[str], *ways: str, bad: str = "") -> str:
    """Write a table that names the direction of each row by `{0}` and `{1}` in the names of its first columns."""
    header = [name.partition("=")[0] for name in names]
    rows = [
        [
            *(name.partition("=")[2].format(*way.split("-")) for name in names),
            *(lines(code, range(n, n + 1))[0] for code in way.split("-")),
        ]
        for n in range(200)
        for way in ways
    ]
    path.write_text("".join(",".join(row) + "\n" for row in ([*header, "source", "target"], *rows)) + bad, "utf-8")
    return str(path)


@pytest.mark.parametrize(
    "names",
    [
        ["source_lang={0}", "target_lang={1}"],
        ["TargetLanguage={1}", "SourceLanguage={0}"],
        ["src_lang={0}_XX", "trg_lang={1}"],
        ["langs={0}-{1}"],
        ["id=7", "direction={0} > {1}"],
        ["code=7", "langpair={0}2{1}"],
        ["language pair={0} to {1}"],
        ["locale=pt-BR", "languages={0}|{1}"],
    ],
)
def test_rows_name_their_directions_in_columns(names: list[str], tmp_path: Path):
    rows = write_rows(tmp_path / "rows.csv", names, "en-de", "en-fr", "de-en")
    report = prepared(rows, tmp_path / "data")
    assert {base_language(code) for way in report.directions for code in way} == {"en", "de", "fr"}
    assert len(report.directions) == 3
    for part in direction_folders(tmp_path / "data").values():
        assert [read_report(part).splits[name].pairs for name in SETS] == [180, 10, 10]
    alone = prepare_data(rows, tmp_path / "alone", silent, source_language="de", target_language="en")
    assert isinstance(alone, DataReport) and alone.rows == 200 and alone.source_language == "de"
    assert {*pairs_of(tmp_path / "alone")} == {*pairs_between("de", "en")}


def test_rows_that_name_no_direction_are_left_out_and_counted(tmp_path: Path):
    names = ["source_lang={0}", "target_lang={1}"]
    rows = write_rows(tmp_path / "rows.csv", names, "en-de", bad="en,,Bad.,Böse.\nde,de,Bad.,Böse.\n")
    report = prepare_data(rows, tmp_path / "data", silent)
    assert isinstance(report, DataReport) and (report.source_language, report.target_language) == ("en", "de")
    assert report.rows == 200 and "Bad." not in {source for source, _ in pairs_of(tmp_path / "data")}
    (warning,) = report.warnings
    assert "2 of 202 rows name no direction by 'source_lang' and 'target_lang' (first at rows.csv:202)" in warning


def test_what_is_no_column_of_languages_changes_nothing(tmp_path: Path):
    pairs = pairs_between("en", "it")
    for number, (names, cells) in enumerate((
        (["en", "it", "direction"], ["en-it", "it-en"]),  # columns that name their languages
        (["en", "it", "code"], ["de-fr", "de-fr"]),
        (["source", "target", "locale"], ["pt-BR", "pt-BR"]),
        (["source", "target", "languages"], ["pt-BR", "it-CH"]),
    )):  # fmt: skip
        table = tmp_path / f"{number}.en-it.csv"
        lines = [",".join(names), *(f"{a},{b},{cells[at % 2]}" for at, (a, b) in enumerate(pairs))]
        table.write_text("\n".join(lines) + "\n", "utf-8")
        report = prepare_data(str(table), tmp_path / str(number), silent)
        assert isinstance(report, DataReport) and report.rows == 200
        assert (report.source_language, report.target_language) == ("en", "it")


def test_all_rows_decide_and_regions_of_a_language_belong_to_it(tmp_path: Path):
    way = "{0}-{1}"
    late = [",Early.,Früh.", *[f",Early {n}.,Früh {n}." for n in range(170)]]
    rows = write_rows(tmp_path / "late.csv", [f"languages={way}"], "en-de", "en-it")
    whole = Path(rows).read_text("utf-8").splitlines()
    Path(rows).write_text("\n".join([whole[0], *late, *whole[1:]]) + "\n", "utf-8")
    assert [*map(set, prepared(rows, tmp_path / "late").directions)] == [{"en", "de"}, {"en", "it"}]
    regions = write_rows(tmp_path / "regions.csv", ["src_lang=en-US", "tgt_lang=it"], "en-it")
    text = Path(regions).read_text("utf-8").splitlines()
    text[1:101] = [line.replace("en-US", "en-GB") for line in text[1:101]]
    Path(regions).write_text("\n".join(text) + "\n", "utf-8")
    alone = prepare_data(regions, tmp_path / "alone", silent, source_language="en", target_language="it")
    wanted = prepare_data(regions, tmp_path / "wanted", silent, directions="en-it")
    assert all(isinstance(report, DataReport) and report.rows == 200 for report in (alone, wanted))


def test_columns_named_for_languages_may_hold_the_text(tmp_path: Path):
    table = tmp_path / "table.csv"
    table.write_text(
        "".join(",".join(row) + "\n" for row in [("Source language", "Target language"), *pairs_between("en", "it")]),
        "utf-8",
    )
    report = prepare_data(
        str(table), tmp_path / "data", silent, source_language="en", target_language="it", header=True
    )
    assert isinstance(report, DataReport) and report.rows == 200


def test_pairs_of_one_text_in_both_directions_are_not_lost_without_a_word(tmp_path: Path, caplog):
    rows = write_rows(tmp_path / "rows.csv", ["langs={0}-{1}"], "en-de", "de-en", "en-fr")
    prepared(rows, tmp_path / "data", directions="en-de,en-fr")
    assert directions_of(tmp_path / "data") == ["en-de", "en-fr"]
    assert "rows.csv: its pairs in de-en are left out" in caplog.text


def test_tags_are_directions_if_these_are_named(tmp_path: Path, caplog):
    texts = [(code, *sides) for code in ("de", "fr", "it") for sides in pairs_between("en", code)]
    sources, targets = tmp_path / "train.src", tmp_path / "train.tgt"
    sources.write_text("".join(f">>{code}<< {source}\n" for code, source, _ in texts) + "No tag.\n", "utf-8")
    targets.write_text("".join(f"{target}\n" for *_, target in texts) + "Kein.\n", "utf-8")
    report = prepared([str(sources), str(targets)], tmp_path / "data", directions="en-de,en-fr", source_language="en")
    assert report.directions == (("en", "de"), ("en", "fr"))
    assert all("1 of 601 rows name no direction by tags" in warning for warning in report.warnings)
    assert "train.tgt: its pairs in en-it are left out" in caplog.text
    french = {*pairs_of(tmp_path / "data" / "en-fr")}
    assert french == {*pairs_between("en", "fr")}
    plain = prepare_data([str(sources), str(targets)], tmp_path / "plain", silent, source_language="en")
    assert isinstance(plain, DataReport) and plain.rows == 601  # text of a model that has its own tags


def test_texts_of_one_direction_are_joined_into_it(tmp_path: Path):
    memories = [write_memory(tmp_path / f"{n}.tmx", "en", "it", rows=range(60 * n, 60 * n + 60)) for n in range(3)]
    report = prepare_data(memories, tmp_path / "data", silent)
    assert isinstance(report, DataReport) and report.rows == 180
    table = write_table(tmp_path / "whole.tsv", "en", "it", rows=range(180))
    prepare_data(table, tmp_path / "alone", silent)
    assert sorted(pairs_of(tmp_path / "data", "train")) == sorted(pairs_of(tmp_path / "alone", "train"))


def test_one_text_is_prepared_as_ever_whether_it_is_named_alone_or_chosen(tmp_path: Path):
    table = write_table(tmp_path / "one.tsv", "en", "it")
    many = write_table(tmp_path / "many.tsv", "it", "en", "de")
    expected = prepare_data(table, tmp_path / "one", silent)
    chosen = prepare_data(many, tmp_path / "chosen", silent, directions="en-it")
    assert isinstance(chosen, DataReport) and isinstance(expected, DataReport)
    assert {name: split.sha256 for name, split in chosen.splits.items()} == {
        name: split.sha256 for name, split in expected.splits.items()
    }
    assert "directions" not in expected.settings and "both_directions" not in expected.settings


def test_text_in_three_languages_gives_every_direction_that_is_wanted(tmp_path: Path):
    write_sides(tmp_path / "folder", "train", "en", "de", "fr")
    texts = {
        "tmx": write_memory(tmp_path / "a.tmx", "en", "de", "fr"),
        "tsv": write_table(tmp_path / "a.tsv", "fr", "en", "de"),
        "prefix": str(tmp_path / "folder" / "train"),
        "folder": str(tmp_path / "folder"),
    }
    read = {}
    for name, text in texts.items():
        assert prepared(text, tmp_path / f"out-{name}", directions="de-fr, en-de").directions == (
            ("de", "fr"),
            ("en", "de"),
        )
        read[name] = [sorted(pairs_of(part)) for part in direction_folders(tmp_path / f"out-{name}").values()]
        assert_nothing_is_shared(tmp_path / f"out-{name}")
    assert all(pairs == read["tmx"] for pairs in read.values())
    assert read["tmx"][0] == sorted(zip(lines("de", range(200)), lines("fr", range(200)), strict=True))


def test_a_memory_gives_the_units_that_have_both_languages(tmp_path: Path):
    first, second = (
        write_memory(tmp_path / "a.tmx", "en", "it"),
        write_memory(tmp_path / "b.tmx", "en", "de", rows=range(200, 300)),
    )
    both = (
        Path(first)
        .read_text(encoding="utf-8")
        .replace(
            "</body>",
            Path(second).read_text(encoding="utf-8").partition("<body>")[2].partition("</body>")[0] + "</body>",
        )
    )
    (tmp_path / "c.tmx").write_text(both, encoding="utf-8")
    prepared(str(tmp_path / "c.tmx"), tmp_path / "data", directions=["en-it", "en-de"])
    assert [len(pairs_of(part)) for part in direction_folders(tmp_path / "data").values()] == [200, 100]


def test_both_directions_mirror_each_other(tmp_path: Path):
    text = write_table(tmp_path / "a.tsv", "en", "it")
    prepared(text, tmp_path / "data", both_directions=True)
    assert directions_of(tmp_path / "data") == ["en-it", "it-en"]
    for name in SETS:
        forth, back = (list(read_split(tmp_path / "data" / at, name)) for at in ("en-it", "it-en"))
        assert forth and back == [pair[::-1] for pair in forth]
    assert_nothing_is_shared(tmp_path / "data")
    wanted = prepared(text, tmp_path / "wanted", directions="it-en,en-it")
    assert wanted.directions == (("it", "en"), ("en", "it"))


def test_two_sides_of_one_text_stay_one_text(tmp_path: Path):
    assert isinstance(prepare_data(write_sides(tmp_path, "a", "en", "it"), tmp_path / "data", silent), DataReport)
    for name, language in (("en.csv", "en"), ("it.csv", "it")):  # one column each
        (tmp_path / name).write_text("\n".join(lines(language, range(100))), encoding="utf-8")
    sides = [str(tmp_path / "en.csv"), str(tmp_path / "it.csv")]
    assert isinstance(prepare_data(sides, tmp_path / "columns", silent), DataReport)
    tables = [write_table(tmp_path / "a.tsv", "en", "it"), write_table(tmp_path / "b.tsv", "en", "de")]
    assert prepared(tables, tmp_path / "tables").directions == (("en", "it"), ("en", "de"))


def test_given_sets_are_kept_and_leaks_from_all_directions_are_counted(tmp_path: Path):
    files = [*write_sides(tmp_path, "a", "en", "de"), *write_sides(tmp_path, "b", "de", "fr", rows=range(300, 400))]
    dev = [*write_sides(tmp_path, "dev", "en", "fr", rows=range(500, 520))]
    german = write_sides(tmp_path, "dev", "de", rows=range(150, 170))[0]  # trained on as the target of en-de
    report = prepared(files, tmp_path / "data", dev_path=[(dev[0], german), (german, dev[1])])
    splits = {at[0]: read_report(part).splits for at, part in direction_folders(tmp_path / "data").items()}
    assert [splits[at]["dev"].pairs for at in ("en", "de")] == [20, 20]
    leaks = [splits[at]["dev"].leaks for at in ("en", "de")]
    assert [leak and leak.either for leak in leaks] == [20, 20]  # de-fr trains on none of them
    assert [warning[:5] for warning in report.warnings if "also in training" in warning] == ["en-de", "de-fr"]


def test_folders_with_sets_of_their_own_keep_them(tmp_path: Path):
    for code in ("it", "de"):
        for name, rows in (("train", range(100)), ("dev", range(100, 120)), ("test", range(120, 140))):
            write_sides(tmp_path / f"en-{code}", name, "en", code, rows=rows)
    prepared([str(tmp_path / "en-it"), str(tmp_path / "en-de")], tmp_path / "data")
    assert_nothing_is_shared(tmp_path / "data")
    assert [read_report(part).splits["test"].pairs for part in direction_folders(tmp_path / "data").values()] == [
        20,
        20,
    ]


def test_prepared_directions_are_copied_and_found_again(tmp_path: Path):
    texts = [write_table(tmp_path / "a.tsv", "en", "it"), write_table(tmp_path / "b.tsv", "en", "de")]
    first = prepared(texts, tmp_path / "first")
    assert prepared(texts, tmp_path / "first") == first
    prepared(str(tmp_path / "first"), tmp_path / "second")
    for name in ("en-it", "en-de"):
        for split in SETS:
            files = [tmp_path / folder / name / f"{split}.jsonl" for folder in ("first", "second")]
            assert files[0].read_bytes() == files[1].read_bytes()
    (tmp_path / "first" / "en-it" / "dev.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="missing or was changed"):
        prepare_data(texts, tmp_path / "first", silent)
    with pytest.raises(DataError, match="prepared from other text or settings"):
        prepare_data(texts[0], tmp_path / "second", silent)
    with pytest.raises(DataError, match="directions were en-it, en-de"):
        prepare_data(texts[::-1], tmp_path / "second", silent, both_directions=True)


# The split


pairs = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30)


@given(
    st.lists(st.tuples(st.permutations("abc"), pairs), min_size=1, max_size=3),
    st.integers(0, 6),
    st.integers(0, 6),
    pairs,
)
def test_no_sentence_is_in_two_sets_of_any_direction(texts, dev, test, separate):
    languages = [tuple(order[:2]) for order, _ in texts]
    keys = [np.array(rows, np.uint64).reshape(-1, 2) for _, rows in texts]
    marked = [
        [in_language(side, code) for side, code in zip(own.T, of, strict=True)]
        for own, of in zip(keys, languages, strict=True)
    ]
    given_set = in_language(np.array(separate, np.uint64).ravel(), "a")
    lengths = [len(own) for own in keys]
    sources, targets = map(np.concatenate, zip(*marked, strict=True))
    sides = assign(
        sources,
        targets,
        [dev] * len(texts),
        [test] * len(texts),
        1,
        [(given_set, given_set)],
        lengths,
    )
    places: dict[tuple[str, int], set[int]] = {}
    for own, of, numbers in zip(keys, languages, np.split(sides, np.cumsum(lengths)[:-1]), strict=True):
        assert (numbers == DEV).sum() <= dev and (numbers == TEST).sum() <= test
        for row, number in zip(own.tolist(), numbers.tolist(), strict=True):
            for code, sentence in zip(of, row, strict=True):
                places.setdefault((code, sentence), set()).add(number)
    assert all(len(numbers) == 1 for numbers in places.values())
    assert all(places.get(("a", sentence), {0}) == {0} for sentence in chain(*separate))


def test_sizes_count_in_each_direction():
    rows = np.arange(1000, dtype=np.uint64)
    english, more = in_language(rows, "en"), in_language(rows[:200] + np.uint64(5000), "en")
    sources = np.concatenate([english, english, more])
    targets = np.concatenate([in_language(rows, "it"), in_language(rows, "de"), in_language(rows[:200], "fr")])
    sides = assign(sources, targets, [50, 50, 10], [20, 20, 0], 1, (), [1000, 1000, 200])
    assert [np.bincount(part, minlength=3).tolist() for part in np.split(sides, [1000, 2000])] == [
        [930, 50, 20],
        [930, 50, 20],
        [190, 10, 0],
    ]


# Reports and refusals


def test_the_command_shows_a_row_for_each_direction(tmp_path: Path):
    files = [*write_sides(tmp_path, "a", "en", "de"), *write_sides(tmp_path, "b", "fr", "de", word="blue")]
    result = CliRunner().invoke(app, ["prepare-data", *files, "--both-directions", "--folder", str(tmp_path / "data")])
    assert result.exit_code == 0, result.output
    assert all(shown in result.output for shown in ("en → de", "de → en", "fr → de", "de → fr"))
    facts = json.loads((tmp_path / "data" / "data.json").read_text(encoding="utf-8"))
    assert facts["directions"] == [["en", "de"], ["de", "en"], ["fr", "de"], ["de", "fr"]]


def test_exchanged_sides_are_named_with_their_direction(tmp_path: Path):
    texts = [write_table(tmp_path / "a.tsv", "en", "it"), write_table(tmp_path / "b.tsv", "en", "de")]
    rows = Path(texts[1]).read_text(encoding="utf-8").splitlines()
    turned = ["\t".join(row.split("\t")[::-1]) if 20 <= number < 40 else row for number, row in enumerate(rows)]
    Path(texts[1]).write_text("\n".join(turned), encoding="utf-8")
    report = prepared(texts, tmp_path / "data")
    assert [warning[:6] for warning in report.warnings if EXCHANGED in warning] == ["en-de:"]


@pytest.mark.parametrize(
    ("directions", "message"),
    [
        ("en-it,xx-en", "'xx-en' names no two languages"),
        ("en", "as en-it does"),
        ("en-en", "names no two"),
        (["en-it", "it"], "'it' names"),
    ],
)
def test_directions_are_two_languages(directions, message):
    with pytest.raises(ConfigError, match=message):
        check({"directions": directions}, "here", DataSettings)


def test_directions_are_found_in_names():
    assert direction_in("English-Italian") is None and direction_in("fr-CA") == ("fr", "ca")
    assert direction_in("pt-BR-en") == ("pt-BR", "en") and direction_in("en>pt_BR") == ("en", "pt-BR")
    assert check({"directions": ["en-it", "en-de", "en-it"]}, "here", DataSettings).wanted == [
        ("en", "it"),
        ("en", "de"),
    ]


def test_what_cannot_be_read_is_one_clear_error(tmp_path: Path):
    english = write_table(tmp_path / "a.tsv", "en", "it")
    nameless = tmp_path / "nameless.tsv"
    nameless.write_text("".join(f"Word {n}.\tParola {n}.\n" for n in range(100)), encoding="utf-8")
    same = write_table(tmp_path / "same.tsv", "en", "de", rows=range(2))
    sides = write_sides(tmp_path, "c", "en", "de", "fr")
    rows = write_rows(tmp_path / "rows.csv", ["langs={0}-{1}"], "en-de", "de-en")
    for data, settings, message in (
        ([english, str(nameless)], {}, "nameless.tsv: no name gives the language"),
        (english, {"directions": "en-it,en-fr"}, "no text goes from en to fr; there are en-it"),
        (
            rows,
            {"source_language": "en", "target_language": "fr"},
            "no row is en-fr by 'langs'; there are en-de, de-en",
        ),
        (sides, {}, "c.fr is one side of a text; name the file that is aligned"),
        ([english, str(tmp_path / "missing.tmx")], {}, "missing.tmx does not exist"),
        (write_table(tmp_path / "d.tsv", "en", "de", "it"), {}, "or train in several directions, as in --directions"),
        ([english, same], {}, "en-de: .*2 usable pairs: too few"),
        (str(tmp_path / "d.tsv"), {"directions": "en-fr"}, "no pairs in en-fr: .*several columns may be the pair"),
        (
            [str(nameless), same],
            {"source_language": "en", "target_language": "it"},
            "same.tsv names its languages en-de, but data.source_language or data.target_language another",
        ),
    ):
        with pytest.raises(DataError, match=message):
            prepare_data(data, tmp_path / "data", silent, **settings)
        assert not (tmp_path / "data").exists()
    Path(same).write_text("en\ten\n" + "".join(f"Word {n}.\tWords {n}.\n" for n in range(100)), encoding="utf-8")
    with pytest.raises(DataError, match="no text goes from en to en"):
        prepare_data(
            same,
            tmp_path / "data",
            silent,
            both_directions=True,
            source_column="1",
            target_column="2",
            source_language="en",
            target_language="en",
        )


def test_a_language_named_with_and_without_its_region_is_one(tmp_path: Path):
    texts = [write_table(tmp_path / f"{number}.tsv", "en", "it") for number in range(3)]
    for text, header in zip(texts, ("en-US\tit", "en\tpt-BR", "en\tpt-PT"), strict=True):
        Path(text).write_text(Path(text).read_text(encoding="utf-8").replace("en\tit", header), encoding="utf-8")
    report = prepared(texts, tmp_path / "data")
    assert report.directions == (("en", "it"), ("en", "pt-BR"), ("en", "pt-PT"))
    assert read_report(tmp_path / "data/en-it").source_language == "en"
    chosen = prepared(texts, tmp_path / "chosen", directions="en-US-it,en-pt-BR")
    assert chosen.directions == (("en-US", "it"), ("en", "pt-BR"))
    assert prepared(str(tmp_path / "chosen"), tmp_path / "again").directions == chosen.directions


def test_reports_in_one_direction_and_several_are_told_apart(tmp_path: Path):
    prepared([write_table(tmp_path / f"{code}.tsv", "en", code) for code in ("it", "de")], tmp_path / "data")
    with pytest.raises(DataError, match="holds text in several directions; name the folder of one, as in .*en-it"):
        read_report(tmp_path / "data")
    (tmp_path / "data/data.json").write_text("{")
    with pytest.raises(DataError, match="data.json"):
        direction_folders(tmp_path / "data")


def test_text_in_a_direction_that_is_not_wanted_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    texts = [write_table(tmp_path / "a.tsv", "en", "it"), write_table(tmp_path / "b.tsv", "en", "de")]
    prepare_data(texts, tmp_path / "data", silent, directions="en-it")
    assert "b.tsv: its pairs in en-de are left out" in caplog.text


def test_only_preparing_on_one_machine_reads_several_texts(tmp_path: Path):
    texts = [write_table(tmp_path / f"{code}.tsv", "en", code) for code in ("it", "de", "fr")]
    for path, settings in ((texts, {}), (texts[0], {"both_directions": True}), (texts[0], {"directions": "it-en"})):
        with pytest.raises(
            DataError, match="several texts or directions are read only by prepare-data, on one machine"
        ):
            addresses_of(check({"path": path, **settings}, "here", DataSettings))


def test_a_run_is_named_for_its_texts(tmp_path: Path):
    sides = write_sides(tmp_path, "a", "en", "it")
    assert find_recipe(sides).name == "a"
    assert find_recipe([*sides, str(tmp_path / "en-de.tmx")]).name == "a+en-de"
    with pytest.raises(ConfigError, match=r"recipe.toml is no text; a recipe or a run is given alone"):
        find_recipe([sides[0], "recipe.toml"])


def test_equal_texts_in_two_languages_are_two_sentences(tmp_path: Path) -> None:
    for source, target in (("en", "it"), ("de", "fr")):
        rows = "".join(f"Radio {number} Berlin.\t{target} {number} {source}.\n" for number in range(80))
        (tmp_path / f"{source}-{target}.tsv").write_text(f"{source}\t{target}\n{rows}", "utf-8")
    paths = [str(tmp_path / name) for name in ("en-it.tsv", "de-fr.tsv")]
    prepare_data(paths, tmp_path / "data", silent, dev_size=20, test_size=20)
    english, german = (
        {source for source, _ in read_split(part, "dev")} for part in direction_folders(tmp_path / "data").values()
    )
    assert len(english) == len(german) == 20 and english != german
