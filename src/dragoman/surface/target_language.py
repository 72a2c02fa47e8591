"""Target language of a text, for models that have several. Marian's models expect a tag before each text, as in
`>>fra<< The dog barks.` The tag belongs to the line, so every part of a split line gets it.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from dragoman.errors import DecodeError
from dragoman.languages import language_of
from dragoman.surface.segment import Context, Segment, Step

log = logging.getLogger(__name__)

_TAG = re.compile(r"\s*>>([A-Za-z]{2,8}(?:[_-][A-Za-z0-9]{1,8})*)<<")
_LISTED = 40


class TargetLanguages(Step):
    """Step that takes the language tag off a line. `ids` maps the names in tags to token ids; it is empty if the model
    has one target language.
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = ids
        self._names: dict[str, list[str]] = defaultdict(list)
        for name in ids:
            self._names[_code(name)].append(name)
        self._has_warned = False

    def __str__(self) -> str:
        rest = len(self.ids) - _LISTED
        return ", ".join(list(self.ids)[:_LISTED]) + (f" and {rest:,} others" if rest > 0 else "")

    def find(self, wanted: str) -> str:
        """Return the name that this model's tags have for a language, which may differ from the code that is `wanted`.

        Raises:
            DecodeError: the model has no such language.
        """
        if not self.ids:
            raise DecodeError(f"the model translates into one language, so none can be chosen; leave {wanted!r} out")
        names = self._names.get(_code(wanted), [])
        if wanted in names:
            return wanted
        if len(names) != 1:
            raise DecodeError(f"the model has no target language {wanted!r}; it has {self}")
        return names[0]

    def named(self, text: str, wanted: str | None) -> tuple[str, str | None]:
        """Return a text without its tag, and the name in the tag, else that of the language that is `wanted`.

        Raises:
            DecodeError: the model has no such language.
        """
        usual = None if wanted is None else self.find(wanted)
        tag = _TAG.match(text) if self.ids else None
        if tag is None:
            return text, usual
        try:
            language = self.find(tag[1])
        except DecodeError as error:
            raise DecodeError(f"{text[:60]!r} begins with a tag, but {error}") from None
        return text[: tag.start(1) - 2] + text[tag.end() :].lstrip(), language

    def tagged(self, texts: Sequence[str], wanted: str | None) -> list[str]:
        """Return each text with its tag, as the tokenizer reads it; a blank one stays blank."""
        return [tagged(*self.named(text, wanted)) for text in texts]

    def warn_of_missing_tags(self, texts: Sequence[str], wanted: str | None) -> None:
        """Log a warning, once, if texts name no language."""
        if wanted is not None or self._has_warned or len(self.ids) < 2:
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
        text, language = self.named(segment.typed, context.target_language)
        return [segment._replace(typed=text, text=text, language=language)] if language else [segment]

    def with_id(self, part: Segment, language: str | None) -> Segment:
        """Return a part of a line with the id of the language before its ids, unless they begin with such an id."""
        if language is None or part.is_copied or part.ids[0] in self.ids.values():
            return part
        return part._replace(ids=[self.ids[language], *part.ids], symbols=1)


def tagged(text: str, language: str | None) -> str:
    """Return a text with the tag of a language, as the tokenizer reads it; a blank text stays blank."""
    return f">>{language}<<{text}" if language and text.strip() else text


def _code(name: str) -> str:
    """Return a language in its shortest code, in lower case: the same for `fra` and `fr`, or for `pt_br` and `pt-BR`.

    >>> [_code(name) for name in ("fra", "fr", "pt_br", "cmn_Hans")]
    ['fr', 'fr', 'pt-br', 'zh-hans']
    """
    language, *region = re.split("[-_]", name)
    return "-".join([language_of(language) or language, *region]).lower()
