"""Tags of languages before texts, for models with several: `>>fra<< The dog barks.` is to be translated into French.

The tag belongs to the line, so every part of a split line gets it. Each language has a symbol in the vocabulary, which
begins the source, or the target if the framing says so (`Framing.target_prefix`).
"""

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

from dragoman.directions import TAG, find, listed
from dragoman.errors import DecodeError
from dragoman.surface.segment import Context, Segment, Step

log = logging.getLogger(__name__)


class LanguageTags(Step):
    """Step that takes the language tag off a line. `ids` maps the names in tags to token ids; it is empty if the model
    has one target language.
    """

    def __init__(
        self, ids: Mapping[str, int], source: str | None = None, target: str | None = None, is_fixed: bool = False
    ) -> None:
        """Set the language of lines without a tag, `target`; if it `is_fixed`, other tags are refused. Give `source`,
        the language whose symbol begins every source, only if the symbol of the target language begins the target.
        """
        self.ids, self.source, self.target, self.is_fixed = ids, source, target, is_fixed
        self._found = lru_cache(maxsize=1_024)(partial(find, languages=list(ids)))
        self._has_warned = False

    def __str__(self) -> str:
        return listed(list(self.ids))

    def find(self, wanted: str) -> str:
        """Return the name that this model's tags have for a language, which may differ from the code that is `wanted`.

        Raises:
            DecodeError: the model has no such language.
        """
        if not self.ids:
            raise DecodeError(f"the model translates into one language, so none can be chosen; leave {wanted!r} out")
        return self._found(wanted)

    def named(self, text: str, wanted: str | None) -> tuple[str, str | None]:
        """Return a text without its tag, and the name in the tag, else that of the language that is `wanted`.

        Raises:
            DecodeError: the model has no such language.
        """
        tag = TAG.match(text) if self.ids else None
        if tag is None:
            return text, self.target if wanted is None else self.find(wanted)
        try:
            language = self.find(tag[1])
        except DecodeError as error:
            raise DecodeError(f"{text[:60]!r} begins with a tag, but {error}") from None
        if self.is_fixed and language != self.target:
            raise DecodeError(f"{text[:60]!r} begins with a tag, but its target language here is {self.target}")
        return text[: tag.start(1) - 2] + text[tag.end() :].lstrip(), language

    def of(self, text: str) -> str | None:
        """Return the name in the tag of a text; None if it has none."""
        return self.named(text, None)[1] if self.ids and TAG.match(text) else None

    def tagged(self, texts: Sequence[str], wanted: str | None) -> list[str]:
        """Return each text with the tag of the language whose symbol begins the source; a blank one stays blank."""
        named = (self.named(text, wanted) for text in texts)
        return [tagged(text, self.source or language) for text, language in named]

    def tagged_target(self, text: str) -> str:
        """Return a translation with its tag, if its symbol begins the target."""
        return tagged(text, self.target if self.source else None)

    def warn_of_missing_tags(self, texts: Sequence[str], wanted: str | None) -> None:
        """Log a warning, once, if texts name no language."""
        if (wanted or self.target) is not None or self._has_warned or len(self.ids) < 2:
            return
        unnamed = sum(bool(text.strip()) and self.named(text, None)[1] is None for text in texts)
        if not unnamed:
            return
        self._has_warned = True
        first = next(iter(self.ids))
        log.warning(
            "%s of %s texts do not say into which language, so the model may take any; begin them with a tag such as "
            ">>%s<<, or give --target-language %s (decode.target_language); the model has %s",
            *(f"{unnamed:,}", f"{len(texts):,}", first, first, self),
        )

    def apply(self, segment: Segment, context: Context) -> list[Segment]:
        """Take off the tag of a line, and note its language.

        Raises:
            DecodeError: the model has no such language.
        """
        text, language = self.named(segment.typed, None)
        return [segment._replace(typed=text, text=text, language=language)] if language else [segment]

    def with_id(self, part: Segment, language: str | None) -> Segment:
        """Return a part of a line with the id of the language before its ids. A part may begin with the id of another
        language, into which it is translated then, unless that is fixed or the ids name source languages.
        """
        is_named = not (self.is_fixed or self.source) and not {*part.ids[:1]}.isdisjoint(self.ids.values())
        if language is None or part.is_copied or is_named:
            return part
        return part._replace(ids=[self.ids[self.source or language], *part.ids], symbols=1)

    @property
    def before_target(self) -> list[int]:
        """The symbol that every translation begins with, if it does not begin the source."""
        return [self.ids[self.target]] if self.source and self.target else []


def tagged(text: str, language: str | None) -> str:
    """Return a text with the tag of a language, as the tokenizer reads it; a blank text stays blank."""
    return f">>{language}<<{text}" if language and text.strip() else text
