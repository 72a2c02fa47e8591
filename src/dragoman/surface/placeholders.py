"""Placeholders: characters that replace something in a text that a model should copy and not translate.

Each is one private-use character of Unicode and one piece of the vocabulary. A model learns to write it once, in
the right place. There are two kinds, because numbers and names have different roles in a sentence.
"""

_FIRST = 0x100000
WORDS = tuple(chr(_FIRST + number) for number in range(8))
"""Placeholders of names, addresses, variables and code."""
NUMBERS = tuple(chr(_FIRST + number) for number in range(8, 16))
"""Placeholders of numbers."""
PLACEHOLDERS = WORDS + NUMBERS
ANY_PLACEHOLDER = f"[{PLACEHOLDERS[0]}-{PLACEHOLDERS[-1]}]"
"""Regular expression for one placeholder."""


def readable(text: str) -> str:
    """Return a text with its placeholders in readable form.

    >>> readable(f"{WORDS[0]} is {NUMBERS[1]}.")
    '[word 1] is [number 2].'
    """
    return text.translate(_NAMES)


_NAMES = {
    ord(placeholder): f"[{kind} {number}]"
    for kind, placeholders in (("word", WORDS), ("number", NUMBERS))
    for number, placeholder in enumerate(placeholders, 1)
}
_SHOWN = str.maketrans({**dict.fromkeys(WORDS, "X"), **dict.fromkeys(NUMBERS, "1")})


def shown(text: str) -> str:
    """Return the text with X for placeholders of words and 1 for those of numbers, to judge its letter case."""
    return text.translate(_SHOWN)
