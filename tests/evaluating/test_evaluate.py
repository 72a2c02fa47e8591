"""`evaluate` and `compare`: systems on test sets, with all that belongs to a score."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.errors import ConfigError, DataError
from dragoman.evaluating.direction import exchange_gain, warn_of_exchanged_sides
from dragoman.evaluating.evaluation import Evaluation, describe, evaluate
from dragoman.evaluating.metrics import bleu_and_chrf, language_or_script
from dragoman.evaluating.references import ReferenceSet, read_references
from dragoman.evaluating.scores import score_rows, write_scores
from dragoman.evaluating.significance import compare_systems
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.progress import Progress
from dragoman.text.columns import Naming
from dragoman.text.prepare import prepare_data
from dragoman.text.settings import DataSettings

SOURCES = ["the cat sat", "a dog ran", "", "Rome", "one two three"]
TARGETS = ["il gatto sedeva", "un cane correva", "", "Rome", "uno due tre"]


class Dictionary:
    """A translator that knows some sentences by heart."""

    def __init__(self, known: dict[str, str], target: str = "it") -> None:
        self.known, self.languages = known, ("en", target)
        self.options, self.device, self.precision = SearchOptions(beam_size=1), "cpu", "float32"
        self.asked: list[SearchOptions] = []

    def translate(self, texts: Sequence[str], options: SearchOptions, progress: Progress) -> list[Translation]:
        self.asked.append(options)
        return [Translation(text, self.known.get(text, ""), flags=("split",) * (text == "Rome")) for text in texts]


def write(path: Path, lines: Sequence[str]) -> Path:
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    return path


@pytest.fixture
def test_set(tmp_path: Path) -> ReferenceSet:
    return read_references(write(tmp_path / "test.en", SOURCES), [write(tmp_path / "test.it", TARGETS)])


# Test sets


def test_reference_files_stand_line_by_line_beside_the_source(tmp_path):
    second = write(tmp_path / "more.it", [line.upper() for line in TARGETS])
    found = read_references(write(tmp_path / "a.en", SOURCES), [write(tmp_path / "a.it", TARGETS), second])
    assert found.sources == tuple(SOURCES)
    assert found.references[0] == ("il gatto sedeva", "IL GATTO SEDEVA")
    assert (found.name, found.language, str(found)) == ("a.en", "it", "a.en: 5 lines, 2 references each")


def test_reference_files_of_another_length_are_refused_with_both_counts(tmp_path):
    source, short = write(tmp_path / "a.en", SOURCES), write(tmp_path / "a.it", TARGETS[:4])
    with pytest.raises(DataError, match=r"a\.it has 4 lines but .*a\.en 5; references must be aligned"):
        read_references(source, [short])


def test_a_multiref_file_may_hold_any_number_of_references_a_line(tmp_path):
    path = write(tmp_path / "test.multiref.tsv", ["Call me.\tChiamami.\tMi chiami.", "Stop!\tFermo!", "Go.\t\tVai.\t"])
    found = read_references(path)
    assert found.sources == ("Call me.", "Stop!", "Go.")
    assert found.references == (("Chiamami.", "Mi chiami."), ("Fermo!",), ("Vai.",))
    assert str(found) == "test.multiref.tsv: 3 lines, 1 to 2 references each"


def test_a_multiref_line_without_reference_is_refused_by_number(tmp_path):
    path = write(tmp_path / "test.multiref.tsv", ["Stop!\tFermo!", "Go."])
    with pytest.raises(DataError, match=r"test\.multiref\.tsv:2 has a source but no reference"):
        read_references(path)


def test_a_line_of_a_test_set_ends_at_a_newline_alone(tmp_path):
    strange = ["a\u2028b\x0cc\x85", "d\x1ce"]
    found = read_references(write(tmp_path / "s.txt", strange), [write(tmp_path / "r.txt", strange)])
    assert found.sources == tuple(strange)


def test_prepared_data_is_a_test_set(tmp_path):
    write(tmp_path / "test.jsonl", [json.dumps(list(pair)) for pair in zip(SOURCES[:2], TARGETS[:2], strict=True)])
    for path in (tmp_path, tmp_path / "test.jsonl"):
        assert read_references(path).references == (("il gatto sedeva",), ("un cane correva",))


def test_an_empty_reference_of_prepared_data_is_a_reference_of_no_words(tmp_path):
    rows = [["the cat sat", "il gatto sedeva"], ["a dog ran", ""], ["", "un cane"], ["", ""]]
    prepared = read_references(write(tmp_path / "test.jsonl", [json.dumps(row) for row in rows]))
    sources, targets = (
        write(tmp_path / name, side) for name, side in zip(("a.en", "a.it"), zip(*rows, strict=True), strict=True)
    )
    assert prepared.references == read_references(sources, [targets]).references
    found = evaluate(Dictionary({"the cat sat": "il gatto sedeva", "a dog ran": "un cane"}), prepared)
    assert len(found.hypotheses) == 4
    assert found.scores["chrf"].value > 0


@pytest.mark.parametrize("line", ["{", '{"source": 1}', '["alone"]', '["a", 2]'])
def test_damaged_prepared_data_is_refused_by_line(tmp_path, line):
    write(tmp_path / "test.jsonl", ['["a", "b"]', line])
    with pytest.raises(DataError, match=r"test\.jsonl:2 is not"):
        read_references(tmp_path)


def test_pairs_in_any_form_of_the_readers_are_a_test_set(tmp_path):
    (tmp_path / "pairs.csv").write_text('en,it\n"Come, now","Su,\nvieni"\nGo,Vai\n')
    found = read_references(tmp_path / "pairs.csv")
    assert found.references == (("Su, vieni",), ("Vai",))
    assert found.language == "it"


def test_the_same_test_set_is_recognised_in_another_file(tmp_path):
    rows = list(zip(SOURCES[:2], TARGETS[:2], strict=True))
    multiref = read_references(write(tmp_path / "x.multiref.tsv", ["\t".join(row) for row in rows]))
    prepared = read_references(write(tmp_path / "test.jsonl", [json.dumps(row) for row in rows]))
    assert multiref.identity == prepared.identity
    assert multiref.identity != read_references(write(tmp_path / "y.multiref.tsv", ["a\tb"])).identity


def test_the_tatoeba_test_set_has_all_its_references(shared_data):
    found = read_references(shared_data / "tatoeba-en-it" / "test.multiref.tsv")
    assert str(found) == "test.multiref.tsv: 2,211 lines, 1 to 12 references each"
    assert found.language == "it"


# The direction of a test set


def csv_of(path: Path, header: str, rows: Sequence[tuple[str, ...]]) -> Path:
    return write(path, [header, *(",".join(row) for row in rows)])


def test_columns_are_taken_by_the_languages_of_the_model(tmp_path):
    rows = list(zip(TARGETS[3:], SOURCES[3:], strict=True))
    path = csv_of(tmp_path / "a.csv", "Italiano,Inglese", rows)
    found = evaluate(Dictionary({}), path, samples=0).test
    assert found.sources == tuple(SOURCES[3:]) and found.language == "it"


def test_a_test_set_in_another_language_is_refused(tmp_path):
    path = csv_of(tmp_path / "a.csv", "French,English", [("oui", "yes")])
    with pytest.raises(DataError, match="'French' .fr.*the model goes from en to it.*--set data.source_column"):
        evaluate(Dictionary({}), path, samples=0)
    (tmp_path / "data").mkdir()
    text = write(tmp_path / "fr.tsv", ["fr\ten", *(f"oui {n}\tyes {n}" for n in range(40))])
    prepare_data(DataSettings(path=str(text)), tmp_path / "prepared")
    with pytest.raises(DataError, match="prepared/test.jsonl is fr to en, but the model goes from en to it"):
        evaluate(Dictionary({}), tmp_path / "prepared", samples=0)


def test_files_in_the_wrong_order_are_refused_with_the_right_one(tmp_path):
    source, target = write(tmp_path / "a.en", ["yes"]), write(tmp_path / "a.it", ["sì"])
    known = Naming(expected=("en", "it"))
    with pytest.raises(DataError, match=f"give them in this order: {source} {target}"):
        read_references(target, [source], known)
    assert read_references(source, [target], known).language == "it"
    named = read_references(target, [source], known._replace(source_language="it", target_language="en"))
    assert (named.source_language, named.language) == ("it", "en"), "the user's word wins"


def test_broken_rows_of_a_test_set_stay_as_empty_lines_with_a_warning(tmp_path, caplog):
    rows: list[tuple[str, ...]] = [(f"one {n}", f"uno {n}") for n in range(40)]
    rows[6] = ("a", "b", "c")
    found = read_references(csv_of(tmp_path / "a.csv", "en,it", rows))
    assert len(found) == 40 and (found.sources[6], found.references[6]) == ("", ("",))
    assert (
        "a different number of cells than in the first row, first at a.csv:8 (1 of 40 rows): scored as empty lines"
        in caplog.text
    )


def test_tags_in_a_test_set_are_counted_with_a_warning(tmp_path, caplog):
    rows = [("one", "uno"), ("<b>two</b>", "<b>due</b>"), ("a < b", "a < b")]
    read_references(csv_of(tmp_path / "a.csv", "en,it", rows))
    assert "a.csv: 1 of 3 pairs have tags such as <b>, which scores count as words" in caplog.text


class Italian:
    """A translator that finds Italian likely, after whatever source."""

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[Translation]:
        likely = [-1.0 if target.startswith("uno") else -6.0 for target in targets]
        return [
            Translation(source, target, log_prob=2 * each, token_log_probs=(each, each))
            for source, target, each in zip(sources, targets, likely, strict=True)
        ]


@pytest.mark.parametrize(("exchanged", "gain"), [(False, -5.0), (True, 5.0)])
def test_the_model_detects_exchanged_sides(exchanged, gain, caplog):
    pairs = [(f"one {n}", f"uno {n}") for n in range(40)] + [("", "")]
    pairs = [(target, source) for source, target in pairs] if exchanged else pairs
    assert exchange_gain(Italian(), pairs) == gain
    warn_of_exchanged_sides(Italian(), pairs, "a.csv")
    assert ("a.csv: the columns look exchanged" in caplog.text) == exchanged


class Scoring(Dictionary, Italian):
    """A translator that can say how likely a translation is."""


@pytest.mark.parametrize("exchanged", [False, True])
def test_the_model_detects_exchanged_sides_below_a_header_with_languages(exchanged, tmp_path, caplog):
    pairs = [(f"one {n}", f"uno {n}") for n in range(40)]
    rows: list[tuple[str, ...]] = [(target, source) if exchanged else (source, target) for source, target in pairs]
    evaluate(Scoring({}), csv_of(tmp_path / "a.csv", "English,Italian", rows), samples=0)
    assert ("a.csv: the columns look exchanged" in caplog.text) == exchanged


def test_few_or_contradictory_pairs_cause_no_warning():
    pairs = [(f"one {n}", f"uno {n}") for n in range(20)]
    assert exchange_gain(Italian(), pairs + [(target, source) for source, target in pairs]) is None
    assert exchange_gain(Italian(), pairs[:3]) is None


# Systems


def test_a_translator_and_the_file_of_its_translations_score_the_same(test_set, tmp_path):
    translator = Dictionary(dict(zip(SOURCES, ["il gatto stava", *TARGETS[1:]], strict=True)))
    ours = evaluate(translator, test_set, options=SearchOptions(beam_size=1))
    theirs = evaluate(write(tmp_path / "output.it", ours.hypotheses), test_set)
    assert ours.scores == theirs.scores
    assert (ours.search, theirs.search) == ("greedy, float32 on cpu", "translations read from a file")
    assert ours.scores["bleu"].value == bleu_and_chrf(ours.hypotheses, test_set.references)["bleu"]


def test_the_table_of_scores_has_interval_and_signature(test_set, tmp_path):
    rows = score_rows(evaluate(write(tmp_path / "output.it", TARGETS), test_set, samples=20).scores.values())
    assert [row[0] for row in rows] == ["BLEU", "chrF2", "TER"]
    assert rows[1][1:3] == ("100.0", "100.0 to 100.0")
    assert "bs:20" in rows[1][3]


def test_the_options_reach_the_translator_and_are_its_own_where_none_are_given(test_set):
    translator = Dictionary({})
    evaluate(translator, test_set, options=SearchOptions(beam_size=3), samples=0)
    evaluate(translator, test_set, samples=0)
    assert [options.beam_size for options in translator.asked] == [3, 1]


def test_an_unknown_metric_is_refused_before_anything_is_translated(test_set):
    translator = Dictionary({})
    with pytest.raises(ConfigError, match="'comet' is not a metric"):
        evaluate(translator, test_set, metrics=["bleu", "comet"])
    assert not translator.asked


def test_obvious_faults_are_counted(test_set):
    translator = Dictionary({"the cat sat": "the cat sat", "a dog ran": "  ", "Rome": "Rome", "one two three": "uno"})
    # "Rome" is its own translation, and an empty line stays empty
    assert evaluate(translator, test_set, samples=0).counts == {
        "lines": 5,
        "references": 5,
        "empty": 1,
        "copies of the source": 1,
        "split": 1,
    }


def test_a_translator_with_line_breaks_in_its_output_is_refused(test_set):
    with pytest.raises(DataError, match="translation 1 contains a line break"):
        evaluate(Dictionary({"the cat sat": "il gatto\nsedeva"}), test_set, samples=0)


def test_the_target_language_of_the_model_comes_before_that_of_the_file(test_set):
    assert evaluate(Dictionary({}, "zh"), test_set, samples=0).language == "zh"
    assert evaluate(Dictionary({}, "und"), test_set, samples=0).language == "it"


def test_a_file_of_translations_with_another_number_of_lines_is_refused_with_both_counts(test_set, tmp_path):
    path = write(tmp_path / "output.it", TARGETS[:3])
    with pytest.raises(DataError, match=r"output\.it has 3 lines but the test set test\.en 5"):
        evaluate(path, test_set)


def test_a_missing_file_of_translations_is_named(test_set, tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.it does not exist"):
        evaluate(tmp_path / "nowhere.it", test_set)


def test_the_language_of_the_references_chooses_the_tokenizer(tmp_path):
    source, reference = write(tmp_path / "a.en", ["I like cats."]), write(tmp_path / "a.zh", ["我喜欢猫。"])
    found = evaluate(reference, source, [reference], samples=0)
    assert "tok:zh" in found.scores["bleu"].signature
    other = evaluate(reference, source, [reference], samples=0, tokenizer="char")
    assert "tok:char" in other.scores["bleu"].signature


@pytest.mark.parametrize(
    ("options", "words"),
    [(SearchOptions(beam_size=1), "greedy"), (SearchOptions(beam_size=5), "beam 5, length penalty 0.6")],
)
def test_a_search_is_described_in_words(options, words):
    assert describe(options) == words


# Two systems, and the file of scores


def systems(test_set: ReferenceSet, tmp_path: Path) -> tuple[Evaluation, Evaluation]:
    good = write(tmp_path / "good.it", TARGETS)
    bad = write(tmp_path / "bad.it", [target.replace("o", "a") for target in TARGETS])
    return evaluate(good, test_set, name="good", samples=50), evaluate(bad, test_set, name="bad", samples=50)


def test_two_systems_are_compared_by_every_metric_that_both_have(test_set, tmp_path):
    good, bad = systems(test_set, tmp_path)
    found = compare_systems([good], [bad], samples=100)
    assert list(found) == ["bleu", "chrf", "ter"]
    assert found["chrf"].delta == good.scores["chrf"].value - bad.scores["chrf"].value
    assert found["chrf"].names == ("good", "bad")
    assert list(compare_systems([good], [evaluate(tmp_path / "bad.it", test_set, metrics=["chrf"])], samples=10)) == [
        "chrf"
    ]


def test_systems_are_compared_as_they_were_measured(test_set, tmp_path):
    files = write(tmp_path / "good.it", TARGETS), write(tmp_path / "loud.it", [target.upper() for target in TARGETS])
    for lowercase, alike in ((True, True), (False, False)):
        good, loud = (evaluate(file, test_set, samples=0, lowercase=lowercase) for file in files)
        assert (compare_systems([good], [loud], samples=10)["chrf"].delta == 0) == alike


def test_systems_on_different_test_sets_are_not_compared(test_set, tmp_path):
    good, _ = systems(test_set, tmp_path)
    other = read_references(write(tmp_path / "b.en", SOURCES), [write(tmp_path / "b.it", TARGETS[::-1])])
    with pytest.raises(DataError, match=r"on test\.en and .* on b\.en; only systems on the same test set"):
        compare_systems([good], [evaluate(tmp_path / "bad.it", other, samples=0)])


def test_the_file_of_scores_holds_every_score_with_its_signature_and_interval(test_set, tmp_path):
    good, bad = systems(test_set, tmp_path)
    write_scores(tmp_path / "scores.json", [good, bad], list(compare_systems([good], [bad], samples=20).values()))
    facts = json.loads((tmp_path / "scores.json").read_text())
    assert facts["format"] == 1
    first = facts["evaluations"][0]
    assert (first["system"], first["search"]) == ("good", "translations read from a file")
    assert first["test"] == {"name": "test.en", "lines": 5, "sha256": test_set.identity}
    assert set(first["scores"]) == {"bleu", "chrf", "ter"}
    for found in first["scores"].values():
        assert found["low"] <= found["value"] <= found["high"]
        assert "bs:50|seed:12345" in found["signature"]
    assert facts["comparisons"][0]["metric"] == "BLEU" and facts["comparisons"][0]["sentence"]


def test_the_script_of_references_decides_where_nothing_names_the_language(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [f"机の上に本が{number}冊あります。" for number in "一二三四五六七八九十"]
    (tmp_path / "out").write_text("".join(f"{line}\n" for line in lines))
    test = ReferenceSet("given", tuple(lines), tuple((line,) for line in lines))
    with caplog.at_level("INFO", "dragoman"):
        found = evaluate(tmp_path / "out", test, samples=10)
    assert found.language == "ja" and "tok:13a" not in found.scores["bleu"].signature
    assert "words as in ja, by the script of the references" in caplog.text
    assert language_or_script("und", [["the 猫 is a cat"]]) == "und"
    assert language_or_script("und", [["我有一本书"]]) == "zh"
    assert language_or_script("und", [["나는 책이 있다"]]) == "ko"
    assert language_or_script("und", [["ฉันมีหนังสือ"]]) == "th"
    assert language_or_script("und", [[""]]) == "und"


@pytest.mark.parametrize("count", [1, 4, 200])
def test_a_test_set_too_small_to_judge_by_is_said(count: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = [f"the cat number {number} sits on the mat" for number in range(count)]
    written = [line if number % 2 else "something else altogether" for number, line in enumerate(lines)]
    (tmp_path / "out").write_text("".join(f"{line}\n" for line in written))
    evaluate(tmp_path / "out", ReferenceSet("given", tuple(lines), tuple((line,) for line in lines)))
    assert ("too few to judge by" in caplog.text) == (count < 200)
