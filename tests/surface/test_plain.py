"""Plain lines pass no step, and every step would leave them as they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DecodeError
from dragoman.surface.conventions import UNKNOWN_CONVENTIONS, Conventions, PairConventions
from dragoman.surface.learning import learn_conventions
from dragoman.surface.pipeline import Surface
from dragoman.surface.segment import Context

ENGLISH = [
    "Where is the station, Tom?",
    "I don't know what Tom's cat sees.",
    "I'm in London and he'll go to the US.",
    "You're right: we've seen iPhones from Rock'n'Roll.",
    "Don't stop!",
    "Oh no, the old man says it.",
    "The size is L, or not.",
]
ITALIAN = ["Dov'è l'amica?", "L'Italia è bella.", "Non c'è più l'uomo dell'Arno.", "Va bene, Tom!", "Perché?"]
GREEK = ["Πού είναι ο σταθμός;", "Ο Τομ ξέρει την οδό.", "Δεν ξέρω!"]
TURKISH = ["İstanbul nerede?", "Isparta'nın ılık günü iyi.", "Tom'un evi İzmir'de."]
DUTCH = ["IJs is koud.", "Ik zie de ijsbeer.", "'s Avonds is het koud."]
WITHOUT_MARKS = ["open the file", "The old man", "Save", "Go to Tom", "close it"]
TEXTS = {"en": ENGLISH, "it": ITALIAN, "el": GREEK, "tr": TURKISH, "nl": DUTCH, "en-GB": WITHOUT_MARKS}
CONTEXT = Context(1_000)


def surface_of(conventions: Conventions, language: str) -> Surface:
    pair = PairConventions(source=conventions, target=UNKNOWN_CONVENTIONS.target)
    return Surface(pair, (language, "de"), lambda texts: [[*map(ord, text)] for text in texts])


SURFACES = [surface_of(learn_conventions(texts * 9), language) for language, texts in TEXTS.items()]
SURFACES.append(surface_of(UNKNOWN_CONVENTIONS.source, "und"))

WORDS = sorted({word.strip(".,:;?!") for texts in TEXTS.values() for text in texts for word in text.split()})
WORDS += [
    "XD",
    "xD",
    "OK",
    "ﬁn",
    "naïve",
    "nai\u0308ve",
    "Don't",
    "Tom'll",
    "O'Brien",
    "well-known",
    "a" * 101,
    "5",
    "Ǆ",
]
word = st.sampled_from(WORDS)
typed_word = st.one_of(word, word.map(str.lower), word.map(str.upper), word.map(str.capitalize), st.text(max_size=3))
line = st.builds(
    lambda words, spaces, mark: "".join(map(str.__add__, words, [*spaces[: len(words) - 1], mark])),
    st.lists(typed_word, min_size=1, max_size=7),
    st.lists(st.sampled_from([" ", " ", " ", ", ", ",", "  ", "' ", ". ", "-"]), min_size=6, max_size=6),
    st.sampled_from([".", "?", "!", "", "..", "…", ";", " .", "'", ","]),
)


@pytest.mark.parametrize("surface", SURFACES, ids=[*TEXTS, "unknown"])
@given(text=st.one_of(line, st.text(max_size=20)))
def test_a_plain_line_is_read_as_with_all_steps(surface: Surface, text: str) -> None:
    if text not in surface.plain_lines:
        return
    with pytest.MonkeyPatch.context() as patch:
        (plain,) = surface.read([text], CONTEXT)
        patch.setattr(surface, "plain_lines", ())
        (stepped,) = surface.read([text], CONTEXT)
    assert plain._replace(parts=()) == stepped._replace(parts=())
    assert [part._replace(original="") for part in plain.parts] == [*stepped.parts]
    assert not stepped.parts[0].is_rewritten


@pytest.mark.parametrize(("text", "is_plain"), [
    *((text, ":" not in text) for text in ENGLISH),
    ("The old man doesn't know it.", True),  # an unknown word in lower case
    ("The old man doesn't know McDonald.", False),
    ("I'll know it.", True),
    ("Tom'll know it.", False),  # an unknown name
    ("Tom's in London.", True),
    ("L'amica knows it.", False),
    ("L'old man knows it.", True),
    ("US.", False),  # in capitals
    ("Where is the Station?", False),
    ("where is the station?", False),
    ("Where is the station", False),  # it needs a mark
    ("Where is 1 station?", False),
    ("Where is  the station?", False),
    ("Where is the station? I know.", False),
])  # fmt: skip
def test_a_line_is_plain_by_its_words_and_marks(text: str, is_plain: bool) -> None:
    assert (text in SURFACES[0].plain_lines) == is_plain


@pytest.mark.parametrize("text", ["XD", "Oh xDD.", "a" * 101, "So " + "b" * 101 + "."])
def test_smileys_and_long_runs_are_never_plain(text: str) -> None:
    assert text not in SURFACES[-1].plain_lines
    assert "a" * 100 in SURFACES[-1].plain_lines


def test_a_line_is_plain_alone_and_among_others() -> None:
    texts = [*ENGLISH, "Tom'll pay 5 euros.", "", "<b>Where</b> is it?", "OK, Nakamura!"]
    together = SURFACES[0].read(texts, CONTEXT)
    assert together == [SURFACES[0].read([text], CONTEXT)[0] for text in texts]


def test_a_long_plain_line_is_cut_or_refused() -> None:
    text = "Where is the station?"
    with pytest.raises(DecodeError, match="text 1 has 21 tokens, but the model is given at most 10"):
        SURFACES[0].read([text], Context(10, split="never"))
    (line,) = SURFACES[0].read([text], Context(10))
    assert line.flags == ("broken", "split")
    assert " ".join(part.typed for part in line.parts) == text


@pytest.mark.parametrize(("text", "knows"), [
    ("The old man is in London.", True),
    ("The old man is in Nakamura's London.", True),  # one word of seven
    ("THE OLD MAN", True),
    ("Der alte Mann ist in London.", False),
    ("nein nein nein the", False),
    ("你好", False),
    ("The old man is in London. 你好", False),
    ("The old man barks.", False),  # one of four
])  # fmt: skip
def test_a_text_is_known_by_more_than_three_quarters_of_its_different_words(text: str, knows: bool) -> None:
    assert SURFACES[0].plain_lines.knows(text) == knows
    assert not SURFACES[-1].plain_lines.knows(text), "without a training text nothing is known"
