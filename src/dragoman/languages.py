"""Codes of languages, BCP 47 tags such as `en`, `pt-BR` or `zh-Hant`, and the languages that names refer to: by a code,
a code inside a name, or the name of a language in any language.

Names of columns, keys of records and endings of files are read in the same way. The names of languages are Unicode's
(CLDR), from the language_data library.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import pydantic


def _tag(name: str) -> str:
    """Return a valid tag with the hyphens of BCP 47; many files write `pt_BR`."""
    tag = name.replace("_", "-")
    if len(tag) > 60 or not re.fullmatch(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*", tag):
        raise ValueError(
            f"a language is given by its BCP 47 tag (letters and digits between hyphens, as in en, pt-BR or zh-Hant; "
            f"und where it is unknown), but this is {name[:60]!r}"
        )
    return tag


LanguageTag = Annotated[str, pydantic.AfterValidator(_tag)]
"""The language of a text in a setting or a file."""

UNKNOWN_LANGUAGE, SEVERAL = "und", "mul"  # BCP 47: undetermined; multiple languages

# Scripts written without spaces between words, as a class of a regular expression: Thai, Lao, Tibetan, Burmese, Khmer,
# the Tai scripts, Balinese, Javanese, Han, kana, Yi, and full-width forms.
SPACELESS = (
    "\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\u2e80-\ua4cf\ua980-\uaadf"
    "\uf900-\ufaff\uff01-\uff9f\U0001b000-\U0001b2ff\U00020000-\U0003ffff"
)
SPACELESS_CHARACTER = re.compile(f"[{SPACELESS}]")


def is_spaceless(text: str) -> bool:
    """Return True if most characters of a text belong to scripts without spaces between words.

    >>> is_spaceless("駅はどこですか。"), is_spaceless("Where is 駅?")
    (True, False)
    """
    return 2 * len(SPACELESS_CHARACTER.findall(text)) > len("".join(text.split()))


@lru_cache(maxsize=4096)
def language_of(name: str) -> str | None:
    """Return the language that the name of a column or the ending of a file refers to, if any.

    >>> [language_of(name) for name in ("en", "English", "Inglese", "フランス語", "text_it", "src-en", "pt-BR", "deu")]
    ['en', 'en', 'en', 'fr', 'it', 'en', 'pt-BR', 'de']
    >>> [language_of(name) for name in ("id", "target", "row_id", "It is.", "Do you speak English?")]
    ['id', None, None, None, None]
    """
    name = name.strip()
    if len(name) > 40 or name.endswith(_SENTENCE_ENDS):
        return None
    return _from_code(name.lower()) or _with_region(name) or _from_code_inside(name) or _from_words(name)


def languages_in(file_name: str) -> tuple[str, str] | None:
    """Return the two languages in the name of a file or a configuration, if any.

    >>> languages_in("books.en-it.tsv"), languages_in("en_it"), languages_in("train.tsv")
    (('en', 'it'), ('en', 'it'), None)
    """
    pieces = re.split(r"[._:@#-]", Path(file_name).name)
    for first, second in reversed(list(pairwise(pieces))):
        sides = [_from_code(code) if len(code) == 2 and code.islower() else None for code in (first, second)]
        if first != second and all(sides):
            return str(sides[0]), str(sides[1])
    return None


def same_language(first: str, second: str) -> bool:
    """Return True if two codes agree in all parts that both specify.

    >>> same_language("pt", "pt_br"), same_language("zh-Hans", "zh-Hant"), same_language("en", "it")
    (True, False, False)
    """
    parts = (re.split("[-_]", code.lower()) for code in (first, second))
    return all(a == b for a, b in zip(*parts, strict=False))


def differing(named: Sequence[str | None], wanted: Sequence[str | None]) -> list[int]:
    """Return the sides (0 source, 1 target) whose two languages are known and differ.

    >>> differing(("en", "fr"), ("eng", "fra")), differing(("en", "pt"), ("it", "und"))
    ([], [0])
    """
    return [
        side
        for side, (name, want) in enumerate(zip(named, wanted, strict=True))
        if name and want and not {UNKNOWN_LANGUAGE, SEVERAL} & {name, want}
        if not same_language(language_of(name) or name, language_of(want) or want)
    ]


def english_name(code: str) -> str:
    """Return the English name of a language, or the code itself if it is invalid.

    >>> english_name("it"), english_name("pt-BR"), english_name("zh-Hans"), english_name("a/b")
    ('Italian', 'Portuguese (Brazil)', 'Chinese (Simplified)', 'a/b')
    """
    import langcodes

    try:
        return langcodes.Language.get(code).display_name()
    except ValueError:
        return code


def base_language(code: str) -> str:
    """Return the language of a code, without script and region.

    >>> [base_language(code) for code in ("en", "EN-GB", "PT-BR", "zh-Hans", "POR", "eng-Latn")]
    ['en', 'en', 'pt', 'zh', 'pt', 'en']
    """
    base = (language_of(code) or code).partition("-")[0].lower()
    return language_of(base) or base


def is_code(name: str) -> bool:
    """Return True if a name is a bare code of two or three letters, which may also be a word.

    >>> is_code("en"), is_code("It"), is_code("English")
    (True, True, False)
    """
    return _from_code(name.strip().lower()) is not None


def _from_code(code: str) -> str | None:
    """Return the shortest code of a language from a code of two letters, or of three that has a shorter one.

    >>> [_from_code(code) for code in ("en", "deu", "ger", "cmn", "src", "row")]
    ['en', 'de', 'de', 'zh', None, None]
    """
    if code in _CODES or code in _OTHER_CODES:
        return _OTHER_CODES.get(code, code)
    if not re.fullmatch("[a-z]{3}", code):
        return None
    import langcodes

    short = langcodes.Language.get(code).language
    return short if short in _CODES else None


def _with_region(name: str) -> str | None:
    """Return the tag of a language that has a short code with a region or script, or of any other with a script.

    >>> [_with_region(name) for name in ("pt_BR", "zh-Hans", "ace_Arab", "src-IT", "row_Text")]
    ['pt-BR', 'zh-Hans', 'ace-Arab', None, None]
    """
    import langcodes

    parts, tag = re.fullmatch(r"([a-z]{2,3})[-_]([A-Z]{2}|[A-Z][a-z]{3}|\d{3})", name), name.replace("_", "-")
    if parts and (_from_code(parts[1]) or (len(parts[2]) == 4 and langcodes.tag_is_valid(tag))):
        return tag
    return None


def _from_code_inside(name: str) -> str | None:
    """Return the language of the only code among other words, as in en_text, src-en, lang:en and "Text (en)".

    Between spaces, only a code in brackets or capitals counts, because "it works" is a sentence.
    """
    words = [word for word in re.split(r"[^a-zA-Z0-9]+", name) if word]
    if len(words) < 2 or re.search(r"[^\x00-\x7f]", name):
        return None
    if " " in name and not (re.search(r"[(\[][a-zA-Z]{2,3}[)\]]$", name) or words[-1].isupper()):
        return None
    codes = [word for word in words if word.lower() in _CODES | _UNLIKE_WORDS]
    if len(codes) != 1 or codes[0].lower() == "id" or (codes[0] == words[0] and codes[0].lower() in _WORDS):
        return None  # "row_id" is not Indonesian, and "is_valid" not Icelandic
    return _from_code(codes[0].lower())


def _from_words(name: str) -> str | None:
    """Return the only language that the words name, as in "English sentence" and "язык: русский"."""
    if whole := _known_name(name):
        return whole
    words = re.findall(r"[^\W\d_]+", name)
    codes = {code for word in words if (code := _known_name(word))}
    return codes.pop() if len(codes) == 1 and len(words) <= 3 else None


def _known_name(name: str) -> str | None:
    """Return the language with exactly this name, or adjective, in some language."""
    lowered = name.strip().lower()
    if len(lowered) < (4 if lowered.isascii() else 2):
        return None
    stems = [lowered]
    if len(lowered) > 5:
        # German (englischer Satz), French (phrase anglaise), Italian and Spanish (frase inglese, frase tedesca)
        stems += [re.sub("(?<=sch)e[rns]?$", "", lowered), re.sub("[ea]$", "", lowered), re.sub("a$", "o", lowered)]
    if len(lowered) > 4:
        stems += [re.sub(ending, noun, lowered) for ending, noun in _FORMS.items()]
    names, trie = _names()
    for stem in stems:
        key = names.normalize_name(stem)  # a whole name: the library's own search takes "person" for "pers"
        code = _MORE_NAMES.get(stem) or (names.get_trie_value(trie, key) if key in trie else None)
        if code and (code.split("-")[0] in _CODES or code in _OTHER_CODES.values()):
            return code
    return None


@lru_cache(maxsize=1)
def _names() -> tuple[Any, Any]:
    from language_data import names
    from language_data.util import data_filename

    return names, names.load_trie(data_filename("trie/und/name_to_language.marisa"))


_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", ",", ";")
# ISO 639-1.
_CODES = frozenset(
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en "
    "eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv "
    "ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne "
    "ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st "
    "su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu".split()
)
# Codes of three letters for languages that are common in parallel text and have no short one.
_OTHER_CODES = {code: code for code in "yue fil ceb ast".split()} | {"cmn": "zh"}
# Countries that people write for their languages, as far as the code is that of no language and no common word.
_COUNTRIES = "cz jp cn ua gr dk vn rs gb kz".split()
_OTHER_CODES |= dict(zip(_COUNTRIES, "cs ja zh uk el da vi sr en kk".split(), strict=True))
# Codes of three letters that are no words ("may", "her" and "cat" are codes too).
_UNLIKE_WORDS = frozenset("eng deu fra ita spa por rus jpn zho kor nld".split())
# English words that begin names of columns (is_valid, no_words, to_text, my_text).
_WORDS = frozenset("is no to so or as am my he id".split())
# Endings of adjectives, and of adverbs such as "in English", and those of the names that Unicode lists: Czech and
# Slovak (anglicky, česká věta), Slovene, Polish (po angielsku), Hungarian, Russian (по-английски), Ukrainian.
_FORMS = {
    "^n[ěe]meck[yáéý]$": "němčina",
    "ck[yáéý]$": "čtina",
    "sk[yáéý]$": "ština",
    "[cs]k[yáéý]$": "čina",
    "[sš]k[ioae]$": "ščina",
    "sk(u|a|ie)$": "ski",
    "ául$": "a",
    "[uü]l$": "",
    "ск(и|ая|ое|ие|ом|ой)$": "ский",
    "ською$": "ська",
}
# Common names that Unicode does not list.
_MORE_NAMES = {
    "castellano": "es",
    "mandarin": "zh",
    "汉语": "zh",
    "漢語": "zh",
    "国语": "zh",
    "國語": "zh",
    "英语": "en",
    "英語": "en",
}
