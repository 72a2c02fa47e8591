"""Which first rows are headers: named in many languages, told from pairs, doubted where only the look speaks for it."""

import csv
import io
from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.languages import language_of
from dragoman.text.columns import Naming
from dragoman.text.header import judge_header
from dragoman.text.pair_columns import choose_columns
from dragoman.text.readers import open_pairs

SENTENCES = [(f"The {n} men see it in the park.", f"I {n} uomini lo vedono nel parco.") for n in range(60)]
WORDS = [(f"word{chr(97 + n)}", f"parola{chr(97 + n)}") for n in range(26)]
NUMBERED = [(str(n), *pair) for n, pair in enumerate(SENTENCES)]


@pytest.mark.parametrize(
    ("header", "languages"),
    [
        ("English,Italian", ("en", "it")),
        ("Inglese,Italiano", ("en", "it")),
        ("English,Français", ("en", "fr")),
        ("anglais,français", ("en", "fr")),
        ("Englisch,Deutsch", ("en", "de")),
        ("Englischer Satz,Deutscher Satz", ("en", "de")),
        ("Inglés,Español", ("en", "es")),
        ("frase inglesa,frase española", ("en", "es")),
        ("英語,フランス語", ("en", "fr")),
        ("Английский,Французский", ("en", "fr")),
        ("en,it", ("en", "it")),
        ("EN,IT", ("en", "it")),
        ("En,It", ("en", "it")),
        ("en-US,pt-BR", ("en-US", "pt-BR")),
        ("en_text,fr_text", ("en", "fr")),
        ("text-en,text-fr", ("en", "fr")),
        ("sentence_fr,sentence_en", ("fr", "en")),
        ("src_en,tgt_it", ("en", "it")),
        ("sentence_eng,sentence_ita", ("en", "it")),
        ("lang:en,lang:fr", ("en", "fr")),
        ("Text (en),Text (it)", ("en", "it")),
        ("original,traduzione", ("und", "und")),
        ("Originál,Překlad", ("und", "und")),
        ("Oryginał,Tłumaczenie", ("und", "und")),
        ("EN,CZ", ("en", "cs")),
        ("JP,EN", ("ja", "en")),
        ("Anglicky,Česky", ("en", "cs")),
        ("anglická věta,německý překlad", ("en", "de")),
        ("Englisch,německy", ("en", "de")),
        ("po angielsku,po polsku", ("en", "pl")),
        ("Angolul,Magyarul", ("en", "hu")),
        ("По-английски,По-русски", ("en", "ru")),
        ("English,Übersetzung", ("en", "und")),
        ("text_1,text_2", ("und", "und")),
    ],
)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_header_is_no_pair(tmp_path: Path, header: str, languages: tuple[str, str], delimiter: str) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows([header.split(","), *SENTENCES])
    path = tmp_path / ("a.tsv" if delimiter == "\t" else "a.csv")
    path.write_text("\ufeff" + text.getvalue(), encoding="utf-8", newline="")
    reading = open_pairs(str(path))
    assert [pair[:2] for pair in reading] == SENTENCES
    assert reading.languages == languages
    assert "is a header" in reading.reasons["columns"] and "--set data.header=false" in reading.reasons["columns"]
    as_told = open_pairs(str(path), Naming(header=False))
    assert next(iter(as_told))[:2] == tuple(header.split(","))


@pytest.mark.parametrize(
    ("first", "rows"),
    [
        (("No.", "No."), SENTENCES),
        (("It", "Lo"), SENTENCES),
        (("Hello, Tom!", "Ciao, Tom!"), SENTENCES),
        (("Polish", "Polacco"), WORDS),
        (("English", "Inglese"), WORDS),
        (("English", "Inglese"), SENTENCES),
        (("Sentence", "Frase"), WORDS),
        (("cat", "gatto"), WORDS),
        (("Hi", "Ciao"), [("yes", "sì"), ("no", "no"), ("good", "bene"), ("bad", "male")]),
    ],
)
def test_a_pair_is_no_header(first: tuple[str, str], rows: list[tuple[str, str]]) -> None:
    found = judge_header(first, rows, Naming())
    assert (found.is_header, found.doubt) == (False, "")


@pytest.mark.parametrize(
    ("first", "rows", "words"),
    [
        (("question", "answer"), SENTENCES, "shorter than the rows below"),
        (("Hi", "Ciao"), SENTENCES, "shorter than the rows below"),
        (("Hi", "Ciao"), SENTENCES[:10], "shorter than the rows below"),
        (("The park", "Il parco"), SENTENCES, "shorter than the rows below"),
        (("da", "a"), SENTENCES, "shorter than the rows below"),
        (("in", "out"), SENTENCES, "shorter than the rows below"),
        (("Q", "A"), SENTENCES, "shorter than the rows below"),
        (
            ("Réponse", "Question"),
            [("La question est là.", "The question is here.")] * 5,
            "shorter than the rows below",
        ),
        (("It", "Lo"), WORDS, "it names it and lo"),
        (("I speak English", "Parlo italiano"), SENTENCES[:5], "it names en and it"),
    ],
)
def test_a_row_that_only_looks_like_a_header_is_read_with_a_warning(
    tmp_path: Path, first: tuple[str, str], rows: list[tuple[str, str]], words: str
) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in [first, *rows]), encoding="utf-8")
    reading = open_pairs(str(path))
    assert next(iter(reading))[:2] == first
    (doubt,) = reading.doubts
    assert "your first row looks like a header" in doubt and words in doubt and "--set data.header=true" in doubt
    for header in (True, False):
        told = open_pairs(str(path), Naming(header=header))
        assert not told.doubts and len(list(told)) == len(rows) + (not header)


def test_one_language_is_enough_above_many_sentences() -> None:
    assert judge_header(("English", "Klingon"), SENTENCES * 10, Naming()).is_header
    assert not judge_header(("English", "Klingon"), SENTENCES[:2], Naming()).is_header


def test_numbers_below_a_word_make_it_a_header() -> None:
    assert judge_header(("nr", "alfa", "beta"), NUMBERED, Naming()).is_header
    assert not judge_header(NUMBERED[0], NUMBERED[1:], Naming()).is_header


ABOUT = {
    "numbers and dates": [(str(n), f"2021-03-{n % 28 + 1:02d}", *pair, "ok") for n, pair in enumerate(SENTENCES)],
    "times": [(f"2021-03-04T10:{n:02d}:00Z", *pair) for n, pair in enumerate(SENTENCES)],
    "keys": [(*pair, f"app.menu_{n}", "done" if n % 3 else "draft") for n, pair in enumerate(SENTENCES)],
    "addresses": [(pair[0], f"https://example.org/{n}", pair[1], "") for n, pair in enumerate(SENTENCES)],
    "numbers between": [(str(n), pair[0], str(900 + n), pair[1]) for n, pair in enumerate(SENTENCES)],
}


@pytest.mark.parametrize("kind", ABOUT)
@pytest.mark.parametrize("with_header", [True, False])
def test_the_only_two_columns_of_texts_are_the_pair(tmp_path: Path, kind: str, with_header: bool) -> None:
    rows = ABOUT[kind]
    header = [tuple(f"{name}x" for name in "abcde"[: len(rows[0])])] if with_header else []
    path = tmp_path / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([*header, *rows])
    reading = open_pairs(str(path))
    assert [pair[:2] for pair in reading] == SENTENCES
    assert "the other columns hold no texts" in reading.reasons["columns"]


def test_given_languages_help_to_tell_codes_from_words() -> None:
    assert judge_header(("no", "si"), WORDS, Naming()).is_header
    assert not judge_header(("no", "si"), WORDS, Naming(source_language="en", target_language="it")).is_header
    assert judge_header(("en", "si"), WORDS, Naming(source_language="en", target_language="it")).is_header


@pytest.mark.parametrize(
    ("names", "naming", "expected"),
    [
        (["French", "English"], Naming(expected=("en", "fr")), ("English", "French")),
        (["id", "Inglese", "Tedesco", "Italiano"], Naming(expected=("en", "it")), ("Inglese", "Italiano")),
        (["Portuguese", "English"], Naming(expected=("en", "pt-BR")), ("English", "Portuguese")),
        (["French", "English"], Naming("French", "English", expected=("en", "fr")), ("French", "English")),
        (["b", "a"], Naming(expected=("en", "fr"), trained_columns=("a", "b")), ("a", "b")),
        (["b", "c"], Naming(expected=("en", "fr"), trained_columns=("a", "b")), ("b", "c")),
        (["Translation", "English"], Naming(), ("English", "Translation")),
        (["id", "frase", "traduzione"], Naming(), ("frase", "traduzione")),
    ],
)
def test_columns_come_from_the_user_then_the_run_then_names(
    names: list[str], naming: Naming, expected: tuple[str, str]
) -> None:
    assert choose_columns(names, naming, "x")[:2] == expected


def test_other_languages_than_the_expected_ones_are_refused_with_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("English,German\nyes,ja\n")
    with pytest.raises(DataError, match=r"'German' \(de\).*goes from en to it.*data.source_column"):
        open_pairs(str(path), Naming(expected=("en", "it")))
    assert open_pairs(str(path), Naming(target_language="de", expected=("en", "it"))).languages == ("en", "de")
    assert open_pairs(str(path), Naming("1", "2", expected=("en", "it"))).columns[:2] == ("English", "German")
    turned = tmp_path / "a.it-en.tsv"
    turned.write_text("sì\tyes\n")
    with pytest.raises(DataError, match="--set data.source_column=2 --set data.target_column=1"):
        open_pairs(str(turned), Naming(expected=("en", "it")))


def test_two_files_in_the_wrong_order_are_refused_with_the_right_one(tmp_path: Path) -> None:
    one, other = tmp_path / "a.it", tmp_path / "a.en"
    one.write_text("sì\n")
    other.write_text("yes\n")
    with pytest.raises(DataError, match=f"give them in this order: {other} {one}"):
        open_pairs((str(one), str(other)), Naming(expected=("en", "it")))
    assert open_pairs((str(other), str(one)), Naming(expected=("en", "it"))).languages == ("en", "it")


def test_ordinary_words_are_no_languages() -> None:
    words = "person letter second index male comics indirizzo persona basket label category title name"
    found = {word: language_of(word) for word in words.split() if language_of(word)}
    assert found == {"male": "ms"}, "a name of Malay, and one word alone makes no header"


@pytest.mark.parametrize(
    ("prefix", "source", "target"),
    [
        ("tatoeba-en-it/train", "en", "it"),
        ("tatoeba-en-it/dev", "en", "it"),
        ("tatoeba-en-it/test", "en", "it"),
        ("multi30k/train", "de", "en"),
        ("multi30k/val", "en", "fr"),
        ("gnome-docs-en-it/gnome_user_docs", "en", "it"),
        ("pinocchio-en-it/pinocchio", "en", "it"),
    ],
)
def test_real_text_without_a_header_is_not_doubted(
    shared_data: Path, tmp_path: Path, prefix: str, source: str, target: str
) -> None:
    sides = [
        (shared_data / f"{prefix}.{code}").read_text(encoding="utf-8").split("\n")[:400] for code in (source, target)
    ]
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{one}\t{other}\n" for one, other in zip(*sides, strict=True)), encoding="utf-8")
    reading = open_pairs(str(path))
    assert not reading.doubts and "no header" in reading.reasons["columns"]
