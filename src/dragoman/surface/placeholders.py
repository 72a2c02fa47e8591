"""Placeholders: characters that stand in a text for something that a model should copy and not translate.

Each is one character of a private plane of Unicode. A vocabulary has them as pieces, and training teaches that each
comes out once, in its place. There are two kinds, because a number is another part of a sentence than a name.
"""

_FIRST = 0x100000
WORDS = tuple(chr(_FIRST + number) for number in range(8))
"""Stand for names, and for what is no language: addresses, variables, code."""
NUMBERS = tuple(chr(_FIRST + number) for number in range(8, 16))
"""Stand for numbers."""
PLACEHOLDERS = WORDS + NUMBERS
ANY_PLACEHOLDER = f"[{PLACEHOLDERS[0]}-{PLACEHOLDERS[-1]}]"
"""Matches each, as a regular expression."""


def readable(text: str) -> str:
    """A text with its placeholders as a person reads them.

    >>> readable(f"{WORDS[0]} is {NUMBERS[1]}.")
    '[word 1] is [number 2].'
    """
    return text.translate(_NAMES)


_NAMES = {
    ord(one): f"[{kind} {number}]"
    for kind, ones in (("word", WORDS), ("number", NUMBERS))
    for number, one in enumerate(ones, 1)
}


_SHOWN = str.maketrans({**dict.fromkeys(WORDS, "X"), **dict.fromkeys(NUMBERS, "1")})


def shown(text: str) -> str:
    """Return the text with a capital for each placeholder of a word, and a 1 for each of a number, to see its case."""
    return text.translate(_SHOWN)
