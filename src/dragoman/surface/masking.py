"""Placeholders for names, numbers and code of a source. The search copies them; the translation gets the texts back.

Names are masked if the training text lacks them, because a model cannot write what it has never seen. Translations of a
model that has not learned placeholders are only checked.
"""

import re
from collections.abc import Collection, Sequence

from dragoman.surface import protected
from dragoman.surface.conventions import END_MARKS
from dragoman.surface.letters import LanguageSide
from dragoman.surface.placeholders import PLACEHOLDERS, WORDS
from dragoman.surface.protected import Names, Span, code_in, localised, replaced, spans_matching, without_overlaps
from dragoman.surface.segment import Context, Kept, Restored, Segment, Step
from dragoman.surface.tags import with_missing
from dragoman.surface.words import spaceless

_IN_WORDS = {
    "en": r"zero one|an?\b|first two|second|both three|third four fi six seven eight nin ten eleven twel thirt fourt "
    "fift sixt sevent eighte ninet twent",
    "it": "zero un|prim du|second tre|terz quatt|quart cinqu|quint se[is]|sest sett ott nov|non diec|decim undic dod "
    "tredic quatto quindi sedic diciass diciott diciann vent",
    "de": "null ein|erst zwei|beide drei|dritt vier fünf sechs sieb acht neun zehn elf zwölf dreiz vierz fünfz sechz "
    "siebz achtz neunz zwanz",
    "fr": "zéro une?|premi deux|second trois quatr cinq six sept huit neu[fv] di[xz] onz douz treiz quator quinz seiz "
    "dix-s dix-h dix-n vingt",
    "es": "cero un|primer dos|segund tres|tercer cuatr cinc|quint seis|sext siete|sépt och|oct nuev|nov die once doce "
    "trece cator quinc dieciséi diecisi diecio diecin veint",
}
"""Beginnings of words for the numbers from 0 to 20, which languages often write in words."""
_SAID = {"$": "d.l+ar", "€": "eur", "£": "p.und|ster|li.r", "%": "p..?r ?c|proz", "°": "gr", "&": r"\b(and|[eyu])"}
_SAID |= dict.fromkeys(
    "million milion millon milliard billion trillion thousand tausend".split(),
    r"\b(?:mi[lo]|mrd|taus|thous|bil|tril)",
)
_SAID |= dict.fromkeys(
    "am a.m pm p.m".split(), r"\b(?:[ap]\.?m|mat|pom|ser|not|nach|aben|soir|après|tard|mañ|noch|mor|mez|mid)"
)
_SAID |= dict.fromkeys("–—", "[–—―,:;(-]")
"""Signs and words next to numbers, and beginnings of words, or other signs, for them."""
_BARE = re.compile(
    rf"(?<=[\d{PLACEHOLDERS[0]}-{PLACEHOLDERS[-1]}] )"
    r"(?:mill?i?(?:on|ard)|[bt]r?illion|t(?:hous|aus)and|[ap]\.?m(?!\w))"
    r"|(?<=\S )[–—/|>→•·\\](?= \S)",
    re.IGNORECASE,
)
"""Words and signs that have no placeholder, and that no translation should lose."""
_ENDING = re.compile(r"(?:[ºªo]|[nrt]?[dhst]|s[tn]?|t[en]|[èe]mes?|[ei]re?|mo|ma|esim\w)(?!\w)", re.IGNORECASE)
"""Ending of an ordinal, or of a name, that directly follows a placeholder."""
_NUMBER_BEFORE, _NUMBER_AFTER = re.compile(r"\d[.,:/]?\Z"), re.compile(r"[.,:/]?\d")
_BLOCK = re.compile(r"\{\{(?:[#/^]|else)|\{%|\[%|<%")
"""Code of a template that depends on its order."""


class Masking:
    """Placeholders of a model, to replace spans of a text."""

    def __init__(self, languages: tuple[str, str], placeholders: str) -> None:
        self._languages, self._placeholders = languages, placeholders

    def masked(self, text: str, spans: Sequence[Span], kept: Kept, labels: Collection[Span] = ()) -> tuple[str, Kept]:
        """Return the text with placeholders for `spans`, and the texts that its translation should contain.

        Numbers get the decimal and thousands marks of the target language, except `labels` (sections, versions, times).
        """
        if not spans:
            return text, kept
        keys, added = [], dict(kept)
        for span in spans:
            typed = text[span.begin : span.end]
            # a number may get a placeholder of words if no other is free; 1 gets none, because it is often an article
            usable = (*span.placeholders, *WORDS) if typed != "1" else ()
            keys.append(next((key for key in usable if key in self._placeholders and key not in added), typed))
            languages = self._languages if span.kind == "number" and span not in labels else ("", "")
            if keys[-1] in PLACEHOLDERS:
                added[keys[-1]] = localised(typed, *languages)
            else:
                added |= {part: localised(part, *languages) for part in _parts(span.kind, typed)}
        return replaced(text, spans, keys), added


class Code(Step):
    """Step that masks addresses, variables and other code, and the matches of `protect`. Undoing it restores the texts
    of all placeholders.
    """

    def __init__(self, masking: Masking) -> None:
        self._masking = masking

    def apply(self, segment: Segment, context: Context) -> list[Segment]:
        """Mask the code of a sentence.

        Raises:
            DecodeError: an expression cannot be used.
        """
        spans = without_overlaps(segment.text, spans_matching(context.protect, segment.text), code_in(segment.text))
        if not spans:
            return [segment]
        text, kept = self._masking.masked(segment.text, spans, segment.kept)
        return [segment._replace(text=text, kept=kept)]

    def restore(self, segment: Segment, translations: Sequence[Restored]) -> Restored:
        """Replace all placeholders by their texts."""
        (translation,) = translations
        return translation._replace(text=unmask(translation.text, segment.kept, segment.text))


class NamesAndNumbers(Step):
    """Step that masks identifiers, numbers, and the names and signs that the training text lacks, but no terms. Without
    conventions of a training text, it masks no names. `Code` restores the texts.
    """

    def __init__(self, source: LanguageSide, masking: Masking) -> None:
        self._conventions, self._masking = source.conventions, masking
        self._names = Names(source.truecaser, source.language, source.names.intersection(source.conventions.words))

    def apply(self, segment: Segment, context: Context) -> list[Segment]:
        """Mask spans of a sentence whose code is masked already."""
        text, kept = segment.text, segment.kept
        terms = [span for span, _ in context.terms.found(text)] if context.terms else []
        literal = spans_matching([re.escape(key) for key in kept if key not in PLACEHOLDERS], text) if kept else []
        signs, numbers = protected.signs_in(text, self._conventions.knows), protected.quantities_in(text)
        in_words = [span for span in signs if text[span.begin].isalnum()]
        measured = {place for span in numbers for place in range(span.begin, span.end)}
        names = self._names.unknown(text) if self._conventions.sentences else []
        names = [name for name in names if name.begin not in measured]  # the GB of 64 GB
        spans = without_overlaps(text, terms, literal, protected.identifiers_in(text), in_words, names, numbers, signs)
        labels = protected.numberings_in(text, numbers, " ".join(kept.values())) if numbers else []
        text, kept = self._masking.masked(text, [span for span in spans if span.kind != "term"], kept, labels)
        kept = {**kept, **{bare.lower(): bare.lower() for bare in _BARE.findall(text)}}
        return [segment._replace(text=text, kept=kept)] if kept != segment.kept or text != segment.text else [segment]


class MissingPlaceholders(Step):
    """Step that changes no source, and gives a translation the placeholders that the search left out."""

    def __init__(self, placeholders: Collection[str]) -> None:
        """Build from the placeholders that the model can write."""
        self._placeholders = placeholders

    def left_out(self, segment: Segment, written: str) -> list[str]:
        """Return the placeholders of a segment that are missing in its translation as the model wrote it."""
        return [key for key in segment.kept if key in self._placeholders and key not in written]

    def restore(self, segment: Segment, translations: Sequence[Restored]) -> Restored:
        """Insert the placeholders that are missing, if links between words are known."""
        (translation,) = translations
        missing = self.left_out(segment, translation.text) if translation.links else []
        if not missing or translation.links is None:
            return translation
        return translation._replace(text=with_missing(segment.text, translation.text, missing, translation.links))


def unmask(text: str, kept: Kept, read: str) -> str:
    """Return the translation with the texts of its placeholders, and with its numbers as its language writes them.
    Placeholders get spaces around them where they have some in the source that was `read`.

    >>> key = WORDS[0]
    >>> unmask(f"È qui.{key}", {key: "a@b.org"}, f"It is {key} here.")
    'È qui a@b.org.'
    """
    for key, written in kept.items():
        if key in PLACEHOLDERS:
            text = _separated(text, key, read)
        elif written not in text:
            text = text.replace(key, written, 1)
    return text.translate({ord(key): written for key, written in kept.items() if key in PLACEHOLDERS})


def _separated(text: str, placeholder: str, read: str) -> str:
    """Return the text with spaces between a placeholder and the words that the search joined to it. If the search wrote
    the placeholder after the end mark, move the mark.
    """
    if placeholder not in text:
        return text
    before, _, after = text.partition(placeholder)
    read_before, _, read_after = read.partition(placeholder)
    if not after and before[-1:] in END_MARKS and read_after:
        before, after = before[:-1], before[-1]
    if _is_word(before[-1:]) and not _is_word(read_before[-1:]):
        before += " "
    is_joined = _is_word(read_after[:1]) and (not _ENDING.match(read_after) or _ENDING.match(after))
    if _is_word(after[:1]) and not is_joined:
        after = " " + after
    return before + placeholder + after


def _is_word(character: str) -> bool:
    """Return True for a placeholder, or for part of a word in a script that separates words by spaces."""
    return character in PLACEHOLDERS or (character.isalnum() and not spaceless(character))


def missing(text: str, kept: Kept, read: str, language: str) -> list[str]:
    """Return the texts of `kept` that a translation lacks, each as often as it is lacking. A repeated name may become a
    pronoun; signs and small numbers may become words of the `language`. A number inside a longer one does not count.

    >>> missing("Costa 330 euro.", {"30": "30", "{x}": "{x}", "€": "€", "2": "2"}, "{x} and {x} for 30, 2", "it")
    ['30', '{x}', '{x}', '2']
    """
    lost: list[str] = []
    whole, blocks = text, [written for written in kept.values() if _BLOCK.match(written)]
    for key, written in sorted(kept.items(), key=lambda item: -len(item[1])):  # a name may be part of a longer one
        read, count = _without(key, read, len(read))
        needed = 1 if key in PLACEHOLDERS or key[0].isalpha() or key in _SAID else max(1, count)
        pattern = None if key in PLACEHOLDERS else _pattern(written, language)
        if pattern is None:
            text, count = _without(written, text, needed)
        else:
            text, count = re.subn(pattern, " ", text, count=needed, flags=re.IGNORECASE)
        lost += [written] * (needed - count)
    lost += blocks if [*map(whole.find, blocks)] != sorted(map(whole.find, blocks)) else []
    return sorted(lost, key=[*kept.values()].index)


def _without(written: str, text: str, most: int) -> tuple[str, int]:
    """Return a text with spaces in place of the first `most` occurrences of what was written, except those in a longer
    number, and their count.
    """
    count, place = 0, text.find(written)
    while place >= 0 and count < most:
        end = place + len(written)
        is_part = written[0].isdigit() and _NUMBER_BEFORE.search(text, max(0, place - 2), place)
        if not is_part and not (written[-1].isdigit() and _NUMBER_AFTER.match(text, end)):
            text, count = f"{text[:place]} {text[end:]}", count + 1
        place = text.find(written, place + 1)
    return text, count


def _pattern(written: str, language: str) -> str | None:
    """Return an expression for words of a language for a sign or number, and for the number with other marks."""
    if written in _SAID:
        return f"{re.escape(written)}|{_SAID[written]}"
    if not re.fullmatch(r"\d+(?:[.,:\u00a0\u202f'’]\d+)*", written):
        return None
    whole, *groups = re.findall(r"\d+", written)
    between = r"[.,\s'’]?" if all(len(group) == 3 for group in groups) else r"[.,:\s'’]"
    pattern = rf"(?<!\d)(?<!\d[.,:/]){between.join((whole, *groups))}(?![.,:/]?\d)"
    words = _IN_WORDS.get(language.partition("-")[0], "").split() or [""] * 21  # "" is in every text
    return rf"{pattern}|\b(?:{words[int(whole)]})" if not groups and int(whole) < len(words) else pattern


def mask(text: str, kept: Kept) -> str:
    """Return a given translation with placeholders for their texts, as far as it contains them."""
    for placeholder, written in kept.items():
        text = text.replace(written, placeholder, 1)
    return text


def _parts(kind: str, typed: str) -> list[str]:
    """Return the parts that a translation may separate: a number and its signs, as in *20 dollars*."""
    signs = [sign for sign in typed if sign in _SAID]
    signs += re.findall(r"[kMGT]i?B|[kMG]?Hz|[kM]?Wh", typed)
    return [*re.findall(r"\d.*\d|\d", typed), *signs] if kind == "number" and (signs or " " in typed) else [typed]
