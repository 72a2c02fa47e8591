"""Conventions are learned from a text, and other text is written like it."""

from pathlib import Path

import pytest

from dragoman.errors import CheckpointError
from dragoman.surface.conventions import UNKNOWN_CONVENTIONS, Conventions, LanguageConventions, load_conventions
from dragoman.surface.learning import learn_conventions, learn_pair_conventions
from dragoman.surface.letters import Normaliser

ENGLISH = ["Where is the station?", "I don't know.", 'He said "yes" - to me.', "Tom left.", "Stop!"] * 4
GERMAN = ["Er sagte „ja“ – zu mir.", "Wo ist der Bahnhof?", "Tom’s Hund.", "Er ging."] * 4


@pytest.mark.parametrize(
    ("typed", "normalised"),
    [
        ("I don’t know.", "I don't know."),
        ("I don`t know.", "I don't know."),
        ("He said “yes” to me.", 'He said "yes" to me.'),
        ("He said « yes » to me.", 'He said " yes " to me.'),
        ("yes — no – yes ― no", "yes - no - yes - no"),
        ("twenty‑one, −5", "twenty-one, -5"),
        ("a\u00a0no-break\u202fspace\tand  two   more", "a no-break space and two more"),
        ("in\u00advisible\u2060\ufeff\u200e", "invisible"),
        ("two\u200bwords", "two words"),
        ("ｆｕｌｌ　ｗｉｄｔｈ？", "full width?"),
        ("ﬁne ﬂow", "fine flow"),
        ("cafe\u0301", "café"),
        ("Well… yes", "Well... yes"),
        ("5 m² is № 7", "5 m² is No 7"),
        ("Plain text, 3 words: «", 'Plain text, 3 words: "'),
        ("emoji 😀 👩\u200d🚀 stay", "emoji 😀 👩\u200d🚀 stay"),
    ],
)
def test_characters_are_those_of_the_text(typed: str, normalised: str) -> None:
    assert Normaliser(learn_conventions(ENGLISH)).normalised(typed) == normalised


def test_every_text_keeps_its_own_style() -> None:
    german = Normaliser(learn_conventions(GERMAN))
    assert german.normalised('Er sagte "ja" und “nein” - \'n Hund.') == "Er sagte „ja“ und „nein“ - ’n Hund."
    assert all(german.normalised(sentence) == sentence for sentence in GERMAN)
    assert all(Normaliser(learn_conventions(ENGLISH)).normalised(sentence) == sentence for sentence in ENGLISH)


def test_a_character_that_the_text_knows_in_its_own_right_stays() -> None:
    both = Normaliser(learn_conventions([*ENGLISH, "Tom’s dog.", "a\u00a0b", "ﬁne"]))
    assert both.normalised("It’s a\u00a0ﬁne 'dog'") == "It’s a\u00a0ﬁne 'dog'"


def test_where_nothing_is_known_only_spaces_and_what_is_invisible_change() -> None:
    unknown = Normaliser(UNKNOWN_CONVENTIONS.source)
    assert unknown.normalised("“It’s  a\u00a0ﬁne\u00ad…” — ｙｅｓ") == "“It’s a ﬁne…” — ｙｅｓ"


def test_what_stands_around_sentences_often_is_known() -> None:
    assert learn_conventions(["“Yes.”", "Why?", "No."] * 9).around_known == {"quotes"}
    assert learn_conventions(["“Yes.”", *["No."] * 99]).around_known == set()


@pytest.mark.parametrize(
    ("typed", "usual"), [("?!", "?"), ("!!!", "!"), ("…", "."), (":", "."), ("??", "?"), ("！！", "!")]
)
def test_the_usual_mark_for_marks(typed: str, usual: str) -> None:
    assert learn_conventions(ENGLISH).mark(typed) == usual


def test_marks_are_those_of_the_script_and_none_where_titles_have_none() -> None:
    japanese = learn_conventions(["駅はどこ？", "ここです。", "やめて！"])
    assert [japanese.mark(typed) for typed in ("?!", "...", "!!")] == ["？", "。", "！"]
    assert learn_conventions(["Installation", "Usage of files"]).mark("…") == ""


def test_conventions_are_read_as_they_were_written(tmp_path: Path) -> None:
    learnt = learn_pair_conventions(list(zip(ENGLISH, GERMAN, strict=False)))
    learnt.save(tmp_path)
    assert load_conventions(tmp_path) == learnt
    assert load_conventions(tmp_path / "none") is None


def test_a_strange_file_is_read_as_far_as_it_is_one() -> None:
    strange = Conventions(sentences=0, ends={"\x1b": 3}, vocabulary=" \n ", characters={"«": 5, "»": 5})
    assert str(strange) and strange.words == [] and Normaliser(strange).normalised("a\u00a0“b”") == "a «b»"


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "conventions.json").write_text('{"format": 1, "source": {"sentences": -1}}')
    with pytest.raises(CheckpointError, match="conventions.json"):
        load_conventions(tmp_path)


def test_conventions_of_several_languages_give_those_of_a_direction(tmp_path: Path) -> None:
    english, german = (learn_conventions(texts) for texts in (ENGLISH, GERMAN))
    copied = {"en-de": {"words": 60, "numbers": 3}, "de-en": {"words": 50}}
    several = LanguageConventions(languages={"en": english, "de": german}, placeholders=True, copied=copied)
    several.save(tmp_path)
    assert load_conventions(tmp_path) == several
    both = several.of("de", "en")
    assert (both.source, both.target, both.copied) == (german, english, {"words": 50})
    unseen = several.of("de", "fr")
    assert unseen.target.sentences == 0 and unseen.copied == {"words": 110, "numbers": 3}, "as in all directions"
    assert both.of("de", "en") is both, "a model of one direction has only that"
