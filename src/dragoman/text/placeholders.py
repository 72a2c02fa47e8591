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


def placeholder_name(character: str) -> str:
    """How a person reads a placeholder.

    >>> placeholder_name(WORDS[0]), placeholder_name(NUMBERS[1])
    ('[word 1]', '[number 2]')
    """
    kind = "word" if character in WORDS else "number"
    return f"[{kind} {PLACEHOLDERS.index(character) % len(WORDS) + 1}]"
