"""What a column is called for, besides its language: source, target, or text of either side, in many languages."""

import re

from dragoman.text.reading.languages import language_of

SOURCE, TARGET, TEXT = "source", "target", "text"
OUTPUTS = frozenset("mt ref reference hyp hypothesis".split())
"""Names of translations beside a source, where no other name says target."""


def role_of(name: str) -> str | None:
    """The role that a name gives, if it names no language: source, target, or text of either side.

    >>> [role_of(name) for name in ("src", "Übersetzung", "sentence", "target_text", "en")]
    ['source', 'target', 'text', 'target', None]
    """
    roles = {_ROLES.get(word) for word in _words(name)} or {None}
    sides = roles - {TEXT}
    return None if None in roles or len(sides) > 1 else (sides or roles).pop()


def side_of(name: str) -> str | None:
    """The side that a name gives, even beside a language.

    >>> [side_of(name) for name in ("TgtTXT_IT", "Source (DE)", "German translation", "source_id", "text")]
    ['target', 'source', 'target', None, None]
    """
    sides = {_ROLES.get(word) for word in _words(name)} & {SOURCE, TARGET}
    return sides.pop() if len(sides) == 1 and (role_of(name) or language_of(name)) else None


def language_beside(name: str, other: str) -> str | None:
    """The language of a name beside another; "mt" beside a source is a machine's translation, not Maltese."""
    return None if name.lower() in OUTPUTS and side_of(other) == SOURCE else language_of(name)


def _words(name: str) -> list[str]:
    """The words of a name, even in srcText and TgtTXT_IT."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word for word in re.split(r"[\W_]+", apart.lower()) if word]


_ROLES = {
    name: role
    for role, names in (
        (SOURCE, "source src input original originale origine origen orig оригинал источник 原文 源文"),
        (SOURCE, "ausgangstext quelle quelltext sorgente fuente origem"),
        (
            TARGET,
            "target tgt trg output translation translated traduzione traduction traducción traduccion",
        ),
        (
            TARGET,
            "tradução traducao übersetzung uebersetzung zieltext ziel cible destino перевод 訳文 翻訳 译文 翻译 譯文",
        ),
        (
            TEXT,
            "text txt texte testo texto sentence sentences satz frase frases phrase oración предложение фраза текст 文",
        ),
    )
    for name in names.split()
}
