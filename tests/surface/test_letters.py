"""Letters: small, capital and title, by language, and the usual forms of words."""

import pytest

from dragoman.surface.letters import Truecaser, begins_small, capitalised, lower, title, upper, usual_forms


@pytest.mark.parametrize(
    ("language", "small", "capital"),
    [
        ("en", "don't go", "DON'T GO"),
        ("tr", "ışık iyi değil", "IŞIK İYİ DEĞİL"),
        ("az", "iki ılıq", "İKİ ILIQ"),
        ("de", "straße", "STRASSE"),
        ("el", "η οδός είναι μαΐου", "Η ΟΔΟΣ ΕΙΝΑΙ ΜΑΪΟΥ"),
        ("lt", "i\u0307\u0300", "I\u0300"),
        ("nl", "het ijs", "HET IJS"),
        ("ru", "где вокзал", "ГДЕ ВОКЗАЛ"),
        ("ja", "駅はどこ", "駅はどこ"),
    ],
)
def test_capitals_of_a_language(language: str, small: str, capital: str) -> None:
    assert upper(small, language) == capital


@pytest.mark.parametrize(
    ("language", "capital", "small"),
    [("tr", "IŞIK İYİ", "ışık iyi"), ("el", "Ο ΔΡΟΜΟΣ ΤΗΣ", "ο δρομος της"), ("tr-TR", "I", "ı"), ("en", "I", "i")],
)
def test_small_letters_of_a_language(language: str, capital: str, small: str) -> None:
    assert lower(capital, language) == small


def test_a_capital_first_behind_marks_and_never_behind_a_number() -> None:
    assert capitalised("«(ciao) a te", "it") == "«(Ciao) a te"
    assert capitalised("ijs en ijzer", "nl") == "IJs en ijzer"
    assert capitalised("istanbul", "tr") == "İstanbul"
    assert capitalised("3 boys", "en") == "3 boys"
    assert capitalised("", "en") == ""


def test_what_begins_small() -> None:
    assert begins_small("“dog") and begins_small("dog")
    assert not any(map(begins_small, ["Dog", "2 dogs", "犬 dog", "", "…"]))


def test_titles_with_and_without_small_short_words() -> None:
    assert title("il signore degli anelli di Tom", "it", keep_short=False) == "Il Signore Degli Anelli Di Tom"
    assert title("il signore degli anelli di Tom", "it", keep_short=True) == "Il Signore Degli Anelli di Tom"
    assert title("“het ijs” is koud", "nl", keep_short=False) == "“Het IJs” Is Koud"


def test_a_word_has_the_form_that_it_has_most_often_inside_sentences() -> None:
    sentences = [
        "I saw Tom and the dog.",
        "The tom saw Tom's dog, I think.",
        "Dogs and I met Mary Straße.",
        "NO DOG IS HERE",
    ]
    usual = Truecaser(usual_forms(sentences), "en")
    assert usual.recased("TOM AND I THINK THE DOG SAW MARY") == "Tom and I think the dog saw Mary"
    assert usual.recased("STRASSE") == "Straße"
    assert usual.recased("THE U.S. AND THE 1ST DOG") == "the U.S. and the 1ST dog"
    assert usual.usual("Xanadu") is None and usual.recased("XANADU") == "xanadu"
    assert usual.usual("here") is None  # a line in capitals is ignored


def test_the_most_frequent_words_are_kept() -> None:
    assert usual_forms(["X one", "X one two", "X three two one"])[:2] == ["one", "x"]


def test_greek_capitals_are_found_without_accents() -> None:
    usual = Truecaser(usual_forms(["αυτή είναι η οδός μου"]), "el")
    assert usual.recased("ΕΙΝΑΙ Η ΟΔΟΣ ΜΟΥ") == "είναι η οδός μου"
