"""The part of speech of each word of an English sentence, as Universal Dependencies names them
(universaldependencies.org/u/pos).

What fills a slot has that of its lexeme; other words stand in ``words/english.txt``. Where a word has two readings, a
rule below looks at its neighbours. Words are cut as in the UD treebanks of English: *don't* is *do* and *n't*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.text.phrasebook import TOKEN
from phrasebook.lexemes import Adjective, Lexeme, Noun, Subject, Verb
from phrasebook.patterns import Part
from phrasebook.rendering import Fillers, english_words, render_english
from phrasebook.source import numbered_lines

BE = frozenset("am are be been is was were 's 'm 're".split())
CLOSED = frozenset("DET PRON ADP CCONJ SCONJ AUX PART NUM".split())
"""Parts of speech that a word keeps inside a lexeme of several words."""


class Token(NamedTuple):
    """A word or a mark, and its part of speech; none where it is to be judged."""

    text: str
    tag: str | None

    @property
    def lower(self) -> str:
        return self.text.lower()


def tag_words(template: tuple[Part, ...], fillers: Fillers) -> tuple[list[str], list[str]]:
    """The words of the English sentence that a pattern makes, and the part of speech of each.

    Raises:
        DataError: a word of a pattern is missing in ``words/english.txt``.
    """
    tokens = [token for part in template for token in _tokens(part, fillers)]
    tags = [_judged(tokens, at) for at in range(len(tokens))]
    words = TOKEN.findall(render_english(template, fillers))
    assert [word.lower() for word in words] == [token.lower for token in tokens], words
    return words, tags


def _tokens(part: Part, fillers: Fillers) -> Iterator[Token]:
    if isinstance(part, str):
        yield from (Token(word, None) for word in TOKEN.findall(part))
        return
    for word, text in zip(part, english_words(part, fillers), strict=True):
        cut = TOKEN.findall(text)
        yield from _of_lexeme(cut, fillers[word.text]) if word.tag else (Token(each, None) for each in cut)


def _of_lexeme(words: Sequence[str], lexeme: Lexeme) -> Iterator[Token]:
    """The words of a filler. Its head has the part of speech of its kind, and names are proper nouns."""
    for at, word in enumerate(words):
        match lexeme:
            case Adjective():
                yield Token(word, "ADJ")
            case _ if _is_name(word) and (not isinstance(lexeme, Noun) or _is_name(words[-1])):
                yield Token(word, "PROPN")
            case Verb():
                yield Token(word, _inside_verb(words, at))
            case Noun() | Subject():
                yield Token(word, _inside_noun(words, at))
            case _:
                yield Token(word, None if word.lower() in table() else "NOUN")


def _is_name(word: str) -> bool:
    return word[0].isupper() and word != "I"


def _inside_verb(words: Sequence[str], at: int) -> str:
    """*take a walk*: the first word is the verb, and open words after it are nouns; *go shopping* has two verbs."""
    if at == 0 or (words[0].startswith(("go", "went")) and words[at].endswith("ing")):
        return "VERB"
    return _only(words[at], CLOSED | {"ADV"} if at == len(words) - 1 else CLOSED | {"ADJ", "ADV"}) or "NOUN"


def _inside_noun(words: Sequence[str], at: int) -> str:
    """*half past one*, *seat near the door*, *my old friend*: open words are nouns, but for adjectives before the
    last.
    """
    if words[at] == "'s":
        return "PART"
    return _only(words[at], CLOSED if at == len(words) - 1 else CLOSED | {"ADJ"}) or "NOUN"


def _only(word: str, wanted: frozenset[str]) -> str | None:
    """The part of speech of a word, if it is one of those wanted."""
    return next((tag for tag in table().get(word.lower(), ()) if tag in wanted), None)


@cache
def table() -> Mapping[str, tuple[str, ...]]:
    """Word -> its parts of speech, the one that it has unless a rule says otherwise first."""
    found: dict[str, tuple[str, ...]] = {}
    tag = ""
    for line, _ in numbered_lines("words", "english.txt"):
        if line.startswith("["):
            tag = line.strip("[]")
            continue
        for word in line.split():
            found[word] = (*found.get(word, ()), tag)
    return found


def _judged(tokens: Sequence[Token], at: int) -> str:
    """The part of speech of a word: that of its lexeme, by a rule, or from the table."""
    token = tokens[at]
    if token.tag is not None:
        return token.tag
    if not token.text[0].isalnum() and "'" not in token.text:
        return "PUNCT"
    if token.text.isdecimal():
        return "NUM"
    rule = RULES.get(token.lower)
    known = table().get(token.lower, ())
    found = rule(Around(tokens, at)) if rule else None
    if found is None and not known:
        if token.text[0].isupper() and at:
            return "PROPN"
        raise DataError(f"{token.text!r} has no part of speech; add it to words/english.txt of the phrasebook")
    return found or known[0]


class Around:
    """A word among its neighbours."""

    def __init__(self, tokens: Sequence[Token], at: int) -> None:
        self._tokens, self._at = tokens, at

    def word(self, offset: int) -> str:
        """A neighbour, in lower case; empty beyond the ends of the sentence."""
        at = self._at + offset
        return self._tokens[at].lower if 0 <= at < len(self._tokens) else ""

    def tag(self, offset: int) -> str:
        """What a neighbour may be at first sight, by its lexeme or the table."""
        at = self._at + offset
        if not 0 <= at < len(self._tokens):
            return ""
        token = self._tokens[at]
        return token.tag or (table().get(token.lower) or ("",))[0]

    def next_of(self, skipped: frozenset[str]) -> int:
        """The offset of the first word after this one whose part of speech is not among those skipped."""
        offset = 1
        while self.tag(offset) in skipped:
            offset += 1
        return offset


Rule = Callable[[Around], str]


def _to(here: Around) -> str:
    return "PART" if here.tag(1) in ("VERB", "AUX") else "ADP"


def _that(here: Around) -> str:
    if here.word(-1) in ("say", "says", "think", "true"):
        return "SCONJ"
    return "PRON" if here.tag(-1) == "NOUN" else _this(here)


def _this(here: Around) -> str:
    return "DET" if here.tag(1) in ("NOUN", "ADJ", "NUM") or here.word(1) == "ones" else "PRON"


def _one(here: Around) -> str:
    return "NOUN" if here.tag(-1) in ("DET", "ADJ") and here.tag(1) != "NOUN" else "NUM"


def _have(here: Around) -> str:
    """*Has your arm been hurting*: it is an auxiliary before another verb."""
    then = here.next_of(frozenset(("PRON", "ADV", "PART", "DET", "NOUN", "PROPN")))
    return "AUX" if here.tag(then) == "VERB" or here.word(then) in ("been", "had", "lost") else "VERB"


def _be(here: Around) -> str:
    """*There has been an accident*: a verb of existence; else an auxiliary, before nouns and adjectives too."""
    before = here.word(-2) if here.word(-1) in ("has", "will") else here.word(-1)
    return "VERB" if "there" in (before, here.word(1)) else "AUX"


def _s(here: Around) -> str:
    if here.word(-1) == "let":
        return "PRON"
    return "AUX" if here.word(-1) in ("it", "where", "what", "who", "that", "there") else "PART"


def _there(here: Around) -> str:
    exists = here.word(1) in BE | {"has", "will"} or (here.word(-1) in BE and here.word(-2) in ("", ",", ";"))
    return "PRON" if exists else "ADV"


def _do(here: Around) -> str:
    return "VERB" if (here.word(-2), here.word(-1)) == ("must", "i") else "AUX"


def _before_noun(yes: str, no: str) -> Rule:
    return lambda here: yes if here.tag(1) == "NOUN" else no


def _after(words: str, yes: str, no: str) -> Rule:
    """`yes` after one of some words, else `no`."""
    return lambda here: yes if here.word(-1) in words.split() else no


def _as(here: Around) -> str:
    return "ADV" if here.tag(1) == "ADJ" or here.word(1) == "well" else "ADP"


def _more(here: Around) -> str:
    return "ADV" if here.tag(1) in ("ADJ", "ADV") else "ADJ"


def _left(here: Around) -> str:
    return {"turn": "ADV", "the": "NOUN"}.get(here.word(-1), "VERB")


def _right(here: Around) -> str:
    return "ADV" if here.word(-1) == "turn" else "ADJ" if here.tag(1) == "NOUN" else "NOUN"


def _weather(here: Around) -> str:
    """*In the rain*, *will it rain*."""
    return "NOUN" if here.tag(-1) in ("DET", "ADJ", "ADP") or here.word(-1) in BE else "VERB"


RULES: Mapping[str, Rule] = {
    "to": _to,
    "that": _that,
    **dict.fromkeys(("this", "these", "those"), _this),
    **dict.fromkeys(("one", "ones"), _one),
    **dict.fromkeys(("have", "has", "had"), _have),
    **dict.fromkeys(BE - {"'s"}, _be),
    "'s": _s,
    "there": _there,
    "do": _do,
    **dict.fromkeys(("what", "which"), _before_noun("DET", "PRON")),
    "much": _before_noun("ADJ", "ADV"),
    "as": _as,
    "more": _more,
    "left": _left,
    "right": _right,
    **dict.fromkeys(("rain", "snow"), _weather),
    "half": lambda here: "DET" if here.word(1) in ("a", "an") else "NOUN",
    "like": _after("weather", "ADP", "VERB"),
    "long": _after("how", "ADV", "ADJ"),
    "on": _after("straight", "ADV", "ADP"),
    "open": _after("to n't", "VERB", "ADJ"),
    "work": _after("start starts", "NOUN", "VERB"),
    "park": _after("car", "NOUN", "VERB"),
    "lost": _after("am the", "ADJ", "VERB"),
    "stop": lambda here: "NOUN" if here.tag(-1) == "ADJ" else "VERB",
    "next": lambda here: "ADV" if here.word(1) == "to" else "ADJ",
}
"""How words with two readings are judged."""
