"""Languages that a model translates from and to, and the directions between them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import pydantic

from dragoman.config import Settings
from dragoman.errors import DecodeError
from dragoman.languages import SEVERAL as SEVERAL
from dragoman.languages import LanguageTag, language_of, same_language

Direction = tuple[str, str]
"""A source and a target language."""

_NAME = r"([A-Za-z]{2,}(?:[-_](?:[A-Z][a-z]{3}|[A-Z]{2}|[0-9]{3}))*)"
_DIRECTION = re.compile(rf"\s*{_NAME}\s*[-_>:→]+\s*{_NAME}\s*")
TAG = re.compile(r"\s*>>([A-Za-z]{2,8}(?:[_-][A-Za-z0-9]{1,8})*)<<")
"""A tag before a text, such as >>de<<, that names the language to translate into."""
LISTED = 40
"""Languages that a message lists."""


class Directions(Settings):
    """The directions of a model: `languages` in its `config.json`."""

    source: tuple[LanguageTag, ...] = pydantic.Field(min_length=1, max_length=1_000)
    target: tuple[LanguageTag, ...] = pydantic.Field(min_length=1, max_length=1_000)
    trained: tuple[tuple[LanguageTag, LanguageTag], ...] | None = pydantic.Field(default=None, max_length=100_000)
    """Directions that the model was trained in; None: from each language to each other one."""

    @pydantic.model_validator(mode="after")
    def _are_of_these_languages(self) -> Self:
        for source, target in self.trained or ():
            if source not in self.source or target not in self.target:
                raise ValueError(f"languages do not hold those of the direction {source} to {target}")
        return self

    @classmethod
    def of(cls, trained: Iterable[tuple[str, str]]) -> Self:
        """Return the directions of a model that was trained in these."""
        trained = tuple(dict.fromkeys(trained))
        sources, targets = (tuple(dict.fromkeys(side)) for side in zip(*trained, strict=True))
        return cls(source=sources, target=targets, trained=trained)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield every direction that the model was trained in."""
        if self.trained is not None:
            yield from self.trained
        else:
            yield from ((source, target) for source in self.source for target in self.target if source != target)

    def has(self, source: str, target: str) -> bool:
        """Return True if the model was trained in this direction."""
        return source != target if self.trained is None else (source, target) in self.trained

    def choose(self, source: str | None, target: str | None) -> tuple[str, str]:
        """Return the direction between two languages, in any of their codes. A language that is None must follow from
        the other one.

        Raises:
            DecodeError: the model lacks a language, or does not say which to take.
        """
        source = None if source is None else find(source, self.source, "source")
        target = None if target is None else find(target, self.target)
        if source is None or target is None:
            fitting = [pair for pair in self.pairs() if source in (None, pair[0]) and target in (None, pair[1])]
            if len(fitting) != 1:
                lacking = [side for side, language in (("source", source), ("target", target)) if language is None]
                options = " and ".join(f"--{side}-language" for side in lacking)
                raise DecodeError(f"the model has several directions; give {options}: {named(fitting)}")
            source, target = fitting[0]
        if source == target:
            raise DecodeError(f"source and target are both {source}")
        return source, target


def direction_in(text: str) -> Direction | None:
    """Return the direction that a text names; None if it does not name two languages.

    >>> direction_in("en-it"), direction_in("zho_Hans > pt-BR"), direction_in("read-only")
    (('en', 'it'), ('zh-Hans', 'pt-BR'), None)
    """
    import langcodes

    match = _DIRECTION.fullmatch(text)
    if not match or not all(map(langcodes.tag_is_valid, match.groups())):
        return None
    source, target = map(langcodes.standardize_tag, match.groups())
    return (source, target) if source != target else None


def named(directions: Iterable[tuple[str, str]]) -> str:
    """List directions."""
    return listed([f"{source}-{target}" for source, target in directions])


def find(wanted: str, languages: Iterable[str], side: str = "target") -> str:
    """Return the name among those of `languages` that means the language `wanted`, whatever its code: `fr` is `fra`,
    and `pt` is `pt-BR` if there is no other Portuguese.

    Raises:
        DecodeError: there is none, or several fit.
    """
    languages, code = list(languages), _code(wanted)
    exact = [name for name in languages if wanted in (name, _code(name)) or _code(name) == code]
    exact = exact or [name for name in languages if name in _macrolanguages(wanted)]
    fitting = [wanted] if wanted in languages else exact or [n for n in languages if same_language(_code(n), code)]
    if not fitting:
        raise DecodeError(f"the model has no {side} language {wanted!r}; it has {listed(languages)}")
    if len(fitting) > 1:
        raise DecodeError(f"the model has several {side} languages {wanted!r}: {', '.join(fitting)}")
    return fitting[0]


def listed(names: Sequence[str]) -> str:
    """List the first names, and the number of the others."""
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED:,} others" if len(names) > LISTED else "")


def _macrolanguages(name: str) -> tuple[str, ...]:
    """Return the tag of the macrolanguage of a language, with its script and without.

    >>> _macrolanguages("knc_Arab"), _macrolanguages("prs_Arab"), _macrolanguages("?")
    (('kr-Arab', 'kr'), ('fa-AF', 'fa-AF'), ())
    """
    import langcodes

    if not langcodes.tag_is_valid(name):
        return ()
    tag = langcodes.standardize_tag(name, macro=True)
    return tag, re.sub("-[A-Z][a-z]{3}", "", tag)


def _code(name: str) -> str:
    """Return a language in its shortest code, in lower case: the same for `fra` and `fr`, or for `pt_br` and `pt-BR`.

    >>> [_code(name) for name in ("fra", "fr", "pt_br", "cmn_Hans")]
    ['fr', 'fr', 'pt-br', 'zh-hans']
    """
    language, *region = re.split("[-_]", name)
    return "-".join([language_of(language) or language, *region]).lower()
