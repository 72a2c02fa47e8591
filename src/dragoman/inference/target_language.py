"""Into which language a text is translated, by a model that has several: Marian's want its tag before each text, as in
`>>fra<< The dog barks.` The tag belongs to the request, so every piece of a text that is cut gets it.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dragoman.errors import DecodeError
from dragoman.inference.segments import Segment, Segments
from dragoman.languages import language_of

log = logging.getLogger(__name__)

_TAG = re.compile(r"\s*>>([A-Za-z]{2,8}(?:[_-][A-Za-z0-9]{1,8})*)<<")
_LISTED = 40


class Wanted(NamedTuple):
    """A text without its tag, and the name in that tag; None if no language was named."""

    text: str
    language: str | None

    @property
    def tagged(self) -> str:
        """The text with its tag, as the tokenizer reads it; a blank one stays blank."""
        return f">>{self.language}<<{self.text}" if self.language and self.text.strip() else self.text


class TargetLanguages:
    """The languages of one model: the id of each tag by the name in it. A model of one language has none."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = ids
        self._alike: dict[str, list[str]] = defaultdict(list)
        for name in ids:
            self._alike[_code(name)].append(name)
        self._has_warned = False

    def __str__(self) -> str:
        rest = len(self.ids) - _LISTED
        return ", ".join(list(self.ids)[:_LISTED]) + (f" and {rest:,} others" if rest > 0 else "")

    def find(self, wanted: str) -> str:
        """The name of a language in this model's tags, which may be another code than the one `wanted`.

        Raises:
            DecodeError: the model has no such language.
        """
        if not self.ids:
            raise DecodeError(f"the model translates into one language, so none can be chosen; leave {wanted!r} out")
        alike = self._alike.get(_code(wanted), [])
        found = [wanted] if wanted in alike else alike
        if len(found) != 1:
            raise DecodeError(f"the model has no target language {wanted!r}; it has {self}")
        return found[0]

    def split(self, texts: Sequence[str], wanted: str | None) -> list[Wanted]:
        """The language of each text: that of its own tag, else the one that is `wanted` for all.

        Raises:
            DecodeError: the model has no such language.
        """
        usual = None if wanted is None else self.find(wanted)
        return [self._split(text, usual) for text in texts]

    def tagged(self, texts: Sequence[str], wanted: str | None) -> list[str]:
        """Each text with its tag, as the tokenizer reads it; a blank one stays blank."""
        return [row.tagged for row in self.split(texts, wanted)]

    def warn_of_forgotten(self, split: Sequence[Wanted]) -> None:
        """Warns, once, of texts that name no language."""
        forgotten = sum(language is None and bool(text.strip()) for text, language in split)
        if not forgotten or self._has_warned or len(self.ids) < 2:
            return
        self._has_warned = True
        first = next(iter(self.ids))
        log.warning(
            "%s of %s texts do not say into which language, so the model may take any; begin them with a tag such as "
            ">>%s<<, or give --target-language %s (decode.target_language); the model has %s",
            *(f"{forgotten:,}", f"{len(split):,}", first, first, self),
        )

    def mark(self, line: Segments, given: str, language: str | None) -> Segments:
        """A line that was `given` so, with the tag before each of its pieces but those that begin with one."""

        def marked(segment: Segment) -> Segment:
            if language is None or segment.copied or segment.ids[0] in self.ids.values():
                return segment
            return segment._replace(ids=[self.ids[language], *segment.ids], tags=1)

        return replace(line, given=given, all=tuple(map(marked, line.all)))

    def _split(self, text: str, usual: str | None) -> Wanted:
        found = _TAG.match(text) if self.ids else None
        if found is None:
            return Wanted(text, usual)
        try:
            language = self.find(found[1])
        except DecodeError as error:
            raise DecodeError(f"{text[:60]!r} begins with a tag, but {error}") from None
        return Wanted(text[: found.start(1) - 2] + text[found.end() :].lstrip(), language)


def _code(name: str) -> str:
    """A language in the shortest code that it has, in lower case: `fra` and `fr` are one, `pt_br` and `pt-BR` too.

    >>> [_code(name) for name in ("fra", "fr", "pt_br", "cmn_Hans")]
    ['fr', 'fr', 'pt-br', 'zh-hans']
    """
    language, *region = re.split("[-_]", name)
    return "-".join([language_of(language) or language, *region]).lower()
