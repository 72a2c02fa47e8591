"""Each step undoes itself: what it took from a text comes back with a translation that is the text it left."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.surface.around import Around, EndMark
from dragoman.surface.conventions import PairConventions
from dragoman.surface.language_tags import LanguageTags
from dragoman.surface.learning import learn_conventions
from dragoman.surface.letters import LanguageSide, Letters
from dragoman.surface.masking import Code, Masking, MissingPlaceholders, NamesAndNumbers
from dragoman.surface.placeholders import PLACEHOLDERS
from dragoman.surface.segment import Context, Restored, Segment, Step
from dragoman.surface.sentences import Sentences
from dragoman.surface.tags import Tags
from dragoman.surface.words import split_words

TEXT = ["Where is the station?", "I don't know Tom.", 'He said "yes" - to me.', "Stop!", "The cat is in London."] * 9
ENGLISH = learn_conventions(TEXT)
PAIR = PairConventions(source=ENGLISH, target=ENGLISH)
SIDE, MASKING = LanguageSide(ENGLISH, ENGLISH, "en"), Masking(("en", "en"), "".join(PLACEHOLDERS))
CONTEXT = Context(longest=1_000)

PIECES = (
    "the cat", "Tom", "Nakamura", "London", "is in", "know", "{name}", "%s", "https://a.org/b", "AB-12", "3.50", "7",
    "(", ")", '"', "“", "”", "-", ",", ".", "!", "?!", "…", "- ", "1. ", "**", "&", "NATO", "Where Is",
)  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map(" ".join)


def undone(step: Step, segment: Segment, inner: Step | None = None) -> str:
    """Apply a step, and after it an inner one, and undo both with the text that they left as translation."""
    (left,) = step.apply(segment, CONTEXT)
    if inner is not None:
        (left,) = inner.apply(left, CONTEXT)
    links = frozenset((word, word) for word in range(len(split_words(left.text))))
    restored = Restored(left.text, links)
    if inner is not None:
        restored = inner.restore(left, [restored])
    return step.restore(left, [restored]).text


def without_spaces(text: str) -> str:
    return "".join(text.split())


@given(texts)
def test_what_surrounds_a_sentence_comes_back(text: str) -> None:
    assert undone(Around(SIDE, SIDE), Segment.from_typed(text)) == text


@given(texts)
def test_an_added_mark_is_taken_off_and_typed_marks_come_back(text: str) -> None:
    assert undone(Around(SIDE, SIDE), Segment.from_typed(text), EndMark(SIDE, SIDE)) == text


@given(texts)
def test_masked_text_comes_back(text: str) -> None:
    assert undone(Code(MASKING), Segment.from_typed(text), NamesAndNumbers(SIDE, MASKING)) == text


@given(
    st.lists(st.sampled_from((*PIECES[:17], "<b>a cat</b>", "<i>Tom</i>,", "in<br/>London")), min_size=1).map(" ".join)
)
def test_tags_come_back(text: str) -> None:
    assert without_spaces(undone(Tags(), Segment.from_typed(text))) == without_spaces(text)


@given(texts)
def test_the_parts_of_a_line_are_joined_to_the_line(text: str) -> None:
    line = Segment.from_typed(text)
    parts = Sentences().apply(line, CONTEXT)
    line = Segment(text, text, parts=tuple(parts))
    assert Sentences().restore(line, [Restored(part.typed) for part in parts]).text.strip() == text.strip()


@pytest.mark.parametrize(
    "text", ["I KNOW TOM.", "Where Is The Station?", "the cat", "It’s “here” — now.", "i know tom."]
)
def test_letters_and_quotes_come_back(text: str) -> None:
    assert undone(Letters(SIDE, SIDE), Segment.from_typed(text)) == text


def test_the_tag_of_a_language_is_noted() -> None:
    (line,) = LanguageTags({"fra": 5}).apply(Segment.from_typed(">>fra<< Hello."), CONTEXT)
    assert (line.typed, line.text, line.language) == ("Hello.", "Hello.", "fra")


def test_a_placeholder_that_is_missing_is_written_before_the_word_that_follows_it() -> None:
    (segment,) = Code(MASKING).apply(Segment.from_typed("Go to {name} now"), CONTEXT)
    written = MissingPlaceholders(PLACEHOLDERS).restore(segment, [Restored("Vai adesso", frozenset({(0, 0), (3, 1)}))])
    assert Code(MASKING).restore(segment, [written]).text == "Vai {name} adesso"
