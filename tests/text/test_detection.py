"""The detector tells its languages from each other and from all others, and is unsure of short texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.alignment import words_of
from dragoman.text.detection import ColumnLanguage, LanguageDetector, best_guess

ENGLISH_ITALIAN = LanguageDetector(["en", "it"])


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("I do not know where the station is.", "en"),
        ("WHERE IS THE STATION?", "en"),
        ("Non so dove sia la stazione.", "it"),
        ("La casa è grande e bella.", "it"),
    ],
)
def test_a_sentence_is_in_the_language_that_is_most_probable(text: str, language: str) -> None:
    first, second = ENGLISH_ITALIAN.guesses(text)
    assert first.language == language and first.confidence > 0.9 > 0.1 > second.confidence
    assert ENGLISH_ITALIAN.other(text) is None


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Ich weiß nicht, wo der Bahnhof ist.", "de"),
        ("Où est la gare, s'il vous plaît ?", "fr"),
        ("Мы не знаем, где сейчас находится наша кошка.", "ru"),
        ("駅はどこですか。", "ja"),
        ("Η γάτα δεν είναι στο σπίτι.", "el"),
        ("لا أعرف أين المحطة.", "ar"),
    ],
)
def test_a_sentence_in_none_of_the_languages_is_told(text: str, language: str) -> None:
    assert ENGLISH_ITALIAN.other(text) == language
    assert max(guess.confidence for guess in ENGLISH_ITALIAN.guesses(text)) < 0.5
    assert LanguageDetector([language]).other(text) is None


@pytest.mark.parametrize(
    "text", ["OK", "Tom", "Maria Rossi", "Roma", "x = 12", "Hotel", "Gwen Stefani", "???a", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ"]
)
def test_text_that_could_be_in_any_language_has_a_low_confidence_and_is_no_strangers(text: str) -> None:
    assert max(guess.confidence for guess in ENGLISH_ITALIAN.guesses(text)) < 0.8
    assert ENGLISH_ITALIAN.other(text) is None


@pytest.mark.parametrize("text", ["", " \n", "42", "12:30 – 13:45", "?!", "😀"])
def test_text_without_letters_is_in_no_language(text: str) -> None:
    assert ENGLISH_ITALIAN.guesses(text) == [] and ENGLISH_ITALIAN.other(text) is None


@given(st.text())
def test_confidences_of_any_text_are_probabilities_in_order(text: str) -> None:
    confidences = [guess.confidence for guess in ENGLISH_ITALIAN.guesses(text)]
    assert confidences == sorted(confidences, reverse=True)
    assert all(0 <= confidence <= 1 for confidence in confidences) and sum(confidences) <= 1 + 1e-6


def test_languages_are_named_by_the_tags_that_were_given() -> None:
    detector = LanguageDetector(["nb-NO", "zh-Hant", "en-GB", "fil", "scn"])
    assert detector.guesses("Jeg vet ikke hvor stasjonen er.")[0].language == "nb-NO"
    assert detector.guesses("我不知道車站在哪裡。")[0].language == "zh-Hant"
    assert detector.guesses("Hindi ko alam kung nasaan ang istasyon.")[0].language == "fil"


@pytest.mark.parametrize("languages", [[], ["und"], ["scn"]])
def test_a_language_that_is_not_known_is_never_detected(languages: list[str]) -> None:
    detector = LanguageDetector(languages)
    text = "Wo ist der Bahnhof, bitte?"
    assert detector.guesses(text) == [] and detector.other(text) is None


@pytest.mark.parametrize("language", ["de", "fr"])
def test_short_real_sentences_of_strangers_are_told(shared_data, language: str) -> None:
    lines = (shared_data / f"multi30k/train.{language}").read_text(encoding="utf-8").split("\n")[:3_000]
    short = [line for line in lines if 3 <= len(line.split()) <= 10]
    found = [ENGLISH_ITALIAN.other(line) for line in short]
    assert found.count(None) < 0.05 * len(short) and found.count(language) > 0.9 * len(short)


@pytest.mark.parametrize(
    "name", ["tatoeba-en-it/test", "gnome-docs-en-it/gnome_user_docs", "pinocchio-en-it/pinocchio"]
)
@pytest.mark.parametrize("language", ["en", "it"])
def test_real_text_short_or_long_is_hardly_ever_taken_for_a_strangers(shared_data, name: str, language: str) -> None:
    lines = (shared_data / f"{name}.{language}").read_text(encoding="utf-8").split("\n")
    assert sum(ENGLISH_ITALIAN.other(line) is not None for line in lines) <= len(lines) / 1000


def column(told: str, texts: list[str]) -> ColumnLanguage:
    learnt = ColumnLanguage(told)
    for text in texts:
        learnt.learn(best_guess(text), words_of(text))
    return learnt


def test_a_column_learns_its_language_and_lacks_others() -> None:
    italian = [f"La casa numero {n} è grande e molto bella." for n in range(30)]
    german = "Der Mann ist mit der Katze im Haus."
    assert column("it", italian).lacks(german, words_of(german))
    assert column("und", italian).name == "it"
    assert column("en", italian).name is None
    assert column("it", italian[:10]).name is None, "too few rows"
    assert column("it", [*italian, *[german] * 25]).name is None, "two languages"
    assert not column("en", italian).lacks(german, words_of(german))


def test_what_a_column_lacks_does_not_become_usual_in_it() -> None:
    italian = column("it", [f"La casa numero {n} è grande e molto bella." for n in range(30)])
    german = [f"Der Mann ist mit {n} Katzen im Haus." for n in range(20)]
    assert all(italian.lacks(text, words_of(text)) for text in german)
