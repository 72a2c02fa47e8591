"""Terms: they are found in a source, a translation holds them, and one that it lacks is flagged."""

import random
import re
from pathlib import Path

import pytest
from small_translators import SOURCES, asked, lines, make

from dragoman.cli.train import FINISHED
from dragoman.errors import ConfigError, DataError, DecodeError
from dragoman.formats.terms import read_terms
from dragoman.inference.options import SearchOptions
from dragoman.inference.translator import Translator
from dragoman.surface.terms import Terms

KINDS = ["word", "bpe", "byte_bpe"]
TERMS = [("cat", "cane"), ("station", "gatto rosso", "pane"), ("red dog", "acqua"), ("bread",), ("old", "vecchia")]
GIVEN = tuple(term for term in TERMS if len(term) > 1)


@pytest.fixture(scope="module", params=KINDS)
def translator(request: pytest.FixtureRequest) -> Translator:
    return make(request.param)


NOUNS = {
    "station": ("stazione", "stazioni"),
    "restaurant": ("ristorante", "ristoranti"),
    "hospital": ("ospedale", "ospedali"),
    "stadium": ("stadio", "stadi"),
}
PLACES = ["Where is the {}?", "The {} is closed.", "I am looking for a {}.", "My {} is near here.", "The {}s are open."]


@pytest.fixture(scope="module")
def phrasebook() -> Translator:
    return Translator.load(FINISHED, precision="float32")


def holds(text: str, form: str) -> int:
    return len(re.findall(rf"(?<!\w){re.escape(form)}(?!\w)", text, re.IGNORECASE))


@pytest.mark.parametrize("settings", [{}, {"beam_size": 1}, {"n_best": 3}, {"prefix": "il", "no_repeat_ngram": 4}])
def test_a_translation_holds_the_forms_of_the_terms_of_its_source(
    translator: Translator, settings: dict[str, object]
) -> None:
    options, found = asked(terms=GIVEN, **settings), Terms(GIVEN)
    for one in translator.translate([*SOURCES, *lines(12)], options, progress=False):
        for each in (one, *one.alternatives):
            assert bool(each.unused_terms) == ("term" in each.flags)
            assert list(each.unused_terms) == found.missing(one.source, each.text)
            for number in {number for _, number in found.found(one.source)}:
                is_told = found.sources[number] in each.unused_terms
                assert is_told or any(holds(each.text, form) for form in found.forms[number])


def test_most_terms_come_and_other_texts_stay_as_they_are(translator: Translator) -> None:
    texts = lines(20)
    plain = translator.translate(texts, asked(), progress=False)
    forced = translator.translate(texts, asked(terms=GIVEN), progress=False)
    rule = Terms(GIVEN)
    without = [number for number, text in enumerate(texts) if not rule.found(text)]
    assert [plain[number] for number in without] == [forced[number] for number in without]
    count = sum(len(rule.found(text)) for text in texts)
    assert sum(len(one.unused_terms) for one in forced) <= count / 4  # the model writes at random


def test_a_term_twice_in_a_source_is_twice_in_its_translation() -> None:
    (one,) = make("bpe").translate(["the cat and the cat ."], asked(terms=(("cat", "pane"),)), progress=False)
    assert holds(one.text, "pane") >= 2 or one.unused_terms == ("cat",)
    assert Terms([("cat", "pane")]).missing("cat cat", "pane") == ["cat"]
    assert Terms([("cat", "pane")]).missing("cat cat", "Pane, pane") == []


def test_the_words_before_a_term_agree_with_it(phrasebook: Translator) -> None:
    right = count = 0
    for noun, forms in NOUNS.items():
        wanted = [one.text for one in phrasebook.translate([place.format(noun) for place in PLACES])]
        for other in NOUNS.keys() - {noun}:
            found = phrasebook.translate([place.format(other) for place in PLACES], terms=((other, *forms),))
            assert not any(one.unused_terms for one in found)
            right += sum(one.text == text for one, text in zip(found, wanted, strict=True))
            count += len(wanted)
    assert right >= 0.8 * count


def test_no_letters_make_another_word_of_a_term(phrasebook: Translator) -> None:
    texts = ["The stations are here.", "Where are the stations?", "The train leaves from the station."]
    for form in ("scali", "scalo", "stazio"):  # scalinata, stazione
        for one in phrasebook.translate(texts, terms=(("station", form),)):
            assert holds(one.text, form) and not one.unused_terms


def test_a_script_without_spaces_may_stand_beside_a_term() -> None:
    terms = Terms([("GNOME",), ("menu", "メニュー")])
    assert terms.missing("GNOME has a menu", "GNOMEのメニューです") == []
    assert terms.missing("GNOME", "GNOMEs") == ["GNOME"]
    assert [number for _, number in Terms([("GNOME",)]).found("これはGNOMEの設定画面です")] == [0]


@pytest.mark.parametrize(
    ("term", "text", "found"),
    [
        ("file", "Files and the FILE's name, a profile, filename, filed", ["Files", "FILE", "filed"]),
        ("cat", "cat Cat cats category", ["cat", "Cat"]),
        ("page style", "Page styles and pages styled", ["Page styles"]),
        ("IT", "IT is it", ["IT"]),
        ("file", "open /home/file/x and {file} or https://a.org/file but a file", ["file"]),
        ("l’amico", "l'amico", ["l'amico"]),
        ("猫", "白猫が好き", ["猫"]),
    ],
)
def test_a_source_term_is_found_by_words(term: str, text: str, found: list[str]) -> None:
    assert [text[span.begin : span.end] for span, _ in Terms([(term, "x")]).found(text)] == found


def test_terms_that_differ_in_case_match_their_own() -> None:
    terms, text = Terms([("Polish", "x"), ("polish", "y"), ("nail", "z")]), "Polish polish on POLISH nails, Nails"
    assert [(text[span.begin : span.end], number) for span, number in terms.found(text)] == [
        *(("Polish", 0), ("polish", 1), ("nails", 2), ("Nails", 2))
    ]


def test_longer_terms_come_first_and_none_overlaps() -> None:
    terms = Terms([("file", "x"), ("file manager", "y"), ("manager window", "z")])
    text = "the file manager window of a file"
    assert [(text[span.begin : span.end], number) for span, number in terms.found(text)] == [
        ("file manager", 1),
        ("file", 0),
    ]


def test_two_terms_of_one_form_need_it_twice() -> None:
    terms = Terms([("picture", "immagine"), ("image", "immagine", "figura")])
    assert terms.missing("picture image", "immagine") == ["image"]
    assert terms.missing("picture image", "figura e immagine") == []
    assert terms.missing("image", "immagini") == ["image"]


def test_streamed_pieces_are_the_translation(translator: Translator) -> None:
    for text in SOURCES:
        options = asked(terms=GIVEN)
        (whole,) = translator.translate([text], options, progress=False)
        assert "".join(translator.stream(text, options)) == whole.text


def test_a_text_has_the_same_translation_alone_and_in_any_company(translator: Translator) -> None:
    texts, options = lines(15), asked(terms=GIVEN)
    random.Random(3).shuffle(texts)
    together = translator.translate(texts, options, progress=False)
    assert [one.text for one in together] == [
        translator.translate([text], options, progress=False)[0].text for text in texts
    ]


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([("", "x")], "no source term"),
        ([()], "no source term"),
        ([("cat", " ")], "'cat' an empty form"),
        ([("cat", "x"), ("cat", "y")], "'cat' twice with different forms"),
    ],
)
def test_terms_that_say_nothing_are_refused(terms: list[tuple[str, ...]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SearchOptions().but(terms=terms)
    assert SearchOptions().but(terms=[("cat", "x"), ("Cat", "x")]).terms


def test_samples_have_no_terms() -> None:
    with pytest.raises(ConfigError, match="terms need a search"):
        SearchOptions().but(terms=[("cat", "gatto")], temperature=1.0)


def test_a_form_that_the_vocabulary_lacks_is_refused_although_no_text_has_the_term() -> None:
    with pytest.raises(DecodeError, match="cannot write the form 'il ragno'; it lacks ragno"):
        make("word").translate(["the dog"], asked(terms=(("spider", "il ragno"),)), progress=False)


@pytest.mark.parametrize(
    ("name", "content", "terms"),
    [
        (
            "a.tsv",
            "file\tarchivio\tfile\nGNOME\n\nx y\tz\t\n",
            [("file", "archivio", "file"), ("GNOME",), ("x y", "z")],
        ),
        ("a.csv", 'English,Italian\n"a, b",c\n', [("a, b", "c")]),
        ("a.txt", "source\ttarget\ncat\tgatto\n", [("cat", "gatto")]),
        ("a.txt", "cat\ndog\n", [("cat",), ("dog",)]),
    ],
)
def test_terms_are_read_from_a_table(tmp_path: Path, name: str, content: str, terms: list[tuple[str, ...]]) -> None:
    (tmp_path / name).write_text(content)
    assert read_terms(tmp_path / name) == terms


@pytest.mark.parametrize("row", ["term;translation", "from,to", "Word,Translation", "source term,target term", "en,it"])
def test_a_row_of_names_is_a_header(tmp_path: Path, row: str) -> None:
    (tmp_path / "a.csv").write_text(f"{row}\nfrom;da\n".replace(";", ";" if ";" in row else ","))
    assert read_terms(tmp_path / "a.csv") == [("from", "da")]


@pytest.mark.parametrize(
    "row", ["from,da", "to,a", "term,termine", "word,parola", "translation,traduzione", "term,form"]
)
def test_a_row_of_other_words_is_a_term(tmp_path: Path, row: str) -> None:
    (tmp_path / "a.csv").write_text(f"{row}\ncat,gatto\n")
    assert read_terms(tmp_path / "a.csv") == [tuple(row.split(",")), ("cat", "gatto")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "cat\tgatto\ndog\t\n", "a.tsv:2: 'dog' has an empty form"),
        ("a.tsv", "\tgatto\n", "a.tsv:1: the source term is empty"),
        ("a.tsv", "English\tItalian\n", "holds no terms"),
        ("a.jsonl", '{"a": "b"}\n', "is jsonl"),
    ],
)
def test_a_table_of_other_things_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_terms(tmp_path / name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none.tsv"):
        read_terms(tmp_path / "none.tsv")
