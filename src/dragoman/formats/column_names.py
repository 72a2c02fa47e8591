"""Names of columns: the role (source, target, or text of either side) and the language that a name gives.

A name is a header of a table, a key of a record, or the ending of a file. `text` chooses columns by these names, and
formats recognise by them a row that names columns. This file does not read columns.
"""

import re
from collections.abc import Sequence

from dragoman.languages import language_of

SOURCE, TARGET, TEXT = "source", "target", "text"

_NAMES = {
    SOURCE: (
        "source src input original originale origine origen orig оригинал источник 原文 源文 ausgangstext quelle "
        "quelltext sorgente fuente origem originál originalni předloha predloha zdroj izvornik izvor oryginał źródło "
        "bron brontekst källa källtext kilde lähde alkuteksti eredeti forrás sursă оригінал джерело изворник "
        "πρωτότυπο πηγή kaynak orijinal מקור المصدر الأصل متن मूल स्रोत 원문 원본 gốc nguồn ต้นฉบับ asli sumber"
    ),
    TARGET: (
        "target tgt trg output translation translated traduzione traduction traducción traduccion tradução traducao "
        "übersetzung uebersetzung zieltext ziel cible destino перевод 訳文 翻訳 译文 翻译 譯文 překlad preklad prevod "
        "prijevod превод переклад пераклад tłumaczenie przekład vertaling översättning oversættelse oversettelse "
        "käännös fordítás traducere tõlge tulkojums vertimas μετάφραση çeviri תרגום ترجمة ترجمه अनुवाद 번역 번역문 dịch "
        "คำแปล terjemahan"
    ),
    TEXT: (
        "text txt texte testo texto sentence sentences satz frase frases phrase oración предложение фраза текст 文 "
        "věta veta zdanie tekst mondat stavek rečenica речення"
    ),
}
"""Names of the sides of a pair, and of text on either side."""
_ROLE_OF_WORD = {name: role for role, names in _NAMES.items() for name in names.split()}
_LANGUAGE_WORDS = frozenset("lang langs language languages langpair lp direction directions".split())
_CODE_WORDS = frozenset("code codes tag tags locale pair id".split())


def role_of(name: str) -> str | None:
    """Return the role that a name gives if it names no language: source, target, or text of either side.

    >>> [role_of(name) for name in ("src", "Übersetzung", "sentence", "target_text", "en")]
    ['source', 'target', 'text', 'target', None]
    """
    roles = {_ROLE_OF_WORD.get(word) for word in _words(name)} or {None}
    sides = roles - {TEXT}
    return None if None in roles or len(sides) > 1 else (sides or roles).pop()


def side_of(name: str) -> str | None:
    """Return the side that a name gives, even if it names a language too.

    >>> [side_of(name) for name in ("TgtTXT_IT", "Source (DE)", "German translation", "source_id", "text")]
    ['target', 'source', 'target', None, None]
    """
    sides = {_ROLE_OF_WORD.get(word) for word in _words(name)} & {SOURCE, TARGET}
    return sides.pop() if len(sides) == 1 and meaning_of(name) else None


def meaning_of(name: str) -> str | None:
    """Return the role or the language that a name gives, or None.

    >>> [meaning_of(name) for name in ("source", "Italiano", "id number")]
    ['source', 'it', None]
    """
    return role_of(name) or language_of(name)


def holds_language_of(name: str) -> str | None:
    """Return the side whose language a column of codes would hold by its name; `text` if it is both.

    >>> [holds_language_of(name) for name in ("srclang", "TargetLanguage", "langpair", "language pair", "code")]
    ['source', 'target', 'text', 'text', None]
    """
    words = _words(re.sub("(?i)^(source|src|target|tgt|trg)(?=lang)", r"\1 ", name))
    rest = [word for word in words if word not in _LANGUAGE_WORDS]
    sides = [word for word in rest if word not in _CODE_WORDS]
    if len(sides) == 1 and (len(rest) < len(words) or "locale" in rest):
        return _ROLE_OF_WORD.get(sides[0])
    return TEXT if not sides and len(rest) < len(words) else None


def names_columns(cells: Sequence[str]) -> bool:
    """Return True if at least two cells name different languages or roles.

    >>> names_columns(["English", "Italian"]), names_columns(["No.", "No."]), names_columns(["source", "target", "id"])
    (True, False, True)
    """
    return len({meaning_of(cell) for cell in cells} - {None}) >= 2


def language_column(code: str) -> str:
    """Return the name of the column for a language that a file calls by this code; empty if it is no code.

    >>> [language_column(code) for code in ("EN-us", "pt_BR.UTF-8", "zh-hant", "*all*")]
    ['en-US', 'pt-BR', 'zh-Hant', '']
    """
    language, *rest = re.split("[-_]", re.split("[.@]", code.strip())[0])
    forms = (part.upper() if len(part) == 2 else part.title() if len(part) == 4 else part for part in rest)
    return "-".join((language.lower(), *forms)) if re.fullmatch("[A-Za-z]{2,8}", language) else ""


def _words(name: str) -> list[str]:
    """Return the words of a name, even of srcText and TgtTXT_IT."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word for word in re.split(r"[\W_]+", apart.lower()) if word]
