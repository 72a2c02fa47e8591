"""Plural forms: which of a source's forms is translated for each category of the target language (CLDR)."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from dragoman.errors import optional

CATEGORIES = ("zero", "one", "two", "few", "many", "other")
"""The names of the forms of a number, as CLDR, Android, iOS, Rails and ICU call and order them."""


class Categories(NamedTuple):
    """The categories of a language, those of them for whole numbers below 200, and whether `one` means 1 alone."""

    names: Collection[str]
    small: Collection[str]
    is_one_alone: bool


def plural_sources(
    forms: Mapping[str, str], language: str, always: Collection[str] = (), ordinal: bool = False
) -> dict[str, str]:
    """Return for each category of `language` the category of the source's `forms` that is translated for it.

    The categories `always` stay if the source has them, whatever the language. A category that the source lacks gets
    the form `other`. So does `one` if the language uses it for more than the number 1 and its form lacks the number.
    Forms without `other` are returned as they are.

    Raises:
        MissingExtra: babel is not installed.
    """
    if "other" not in forms:
        return {category: category for category in forms}
    names, _, is_one_alone = categories(language, ordinal)
    sources = {name: name if name in forms else "other" for name in names}
    if "one" in sources and not is_one_alone and _numbers(forms[sources["one"]]) < _numbers(forms["other"]):
        sources["one"] = "other"
    sources |= {name: name for name in always if name in forms}
    order = forms if forms.keys() == sources.keys() else sorted(sources, key=_rank)
    return {name: sources[name] for name in order}


@cache
def categories(language: str, ordinal: bool = False) -> Categories:
    """Return the categories of a language; of one that CLDR does not know, those of English."""
    with optional("babel", "documents"):
        from babel import Locale, UnknownLocaleError
    try:
        locale = Locale.parse(language.replace("-", "_"))
    except (UnknownLocaleError, ValueError):
        locale = Locale("en")
    rule = locale.ordinal_form if ordinal else locale.plural_form
    small = [rule(number) for number in range(200)]
    return Categories({*rule.tags, "other"}, {*small}, "one" not in (small[0], *small[2:]))


def note_on_forms(places: Sequence[str]) -> list[str]:
    """Return a note if plural forms at these places have got the words of another form."""
    count = "1 plural form" if len(places) == 1 else f"{len(places):,} plural forms"
    return [f"{count} (first: {places[0]}) with the words of another form: check the grammar"] if places else []


def _numbers(form: str) -> int:
    """Return the number of signs in a form that may represent the number."""
    return sum(map(form.count, "%{#"))


def _rank(category: str) -> int:
    return CATEGORIES.index(category) if category in CATEGORIES else -1
