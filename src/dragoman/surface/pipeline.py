"""The steps of one model in order, from lines to parts with token ids, and from their translations back to lines.

A line goes through `LanguageTags`, `Tags` and `Sentences`, each of its parts through the steps of `Surface.steps`.
The steps are undone in reverse order. Parts of many lines are encoded together, and cut if they are too long. A line
that is plain by itself, in any file, passes no step.
"""

import sys
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from itertools import compress, islice

from dragoman.errors import DecodeError
from dragoman.surface.around import Around, EndMark
from dragoman.surface.conventions import PairConventions
from dragoman.surface.language_tags import LanguageTags
from dragoman.surface.letters import LanguageSide, Letters
from dragoman.surface.masking import Code, Masking, MissingPlaceholders, NamesAndNumbers
from dragoman.surface.plain import PlainLines
from dragoman.surface.segment import Context, Flag, Links, Restored, Segment, Step
from dragoman.surface.sentences import Sentences, has_words, split_sentences, split_to_fit, without_controls
from dragoman.surface.tags import Tags
from dragoman.surface.words import matching_words, split_words

CHARACTERS_A_TOKEN = 16
"""A text with more characters for each allowed token is too long, whatever the tokenizer."""


class Surface:
    """Surface rewriting for one model: of texts to what it reads, and of what it writes to translations."""

    def __init__(
        self,
        conventions: PairConventions,
        languages: tuple[str, str],
        encode: Callable[[Sequence[str]], list[list[int]]],
        placeholders: str = "",
        writable: Collection[str] = (),
        tags: LanguageTags | None = None,
    ) -> None:
        """Build the steps. `encode` returns the token ids of texts; `placeholders` are those that the model has learned
        to copy, `writable` all that it can write, and `tags` those of its languages.
        """
        self.conventions, self.languages = conventions, languages
        self._encode = encode
        source = LanguageSide(conventions.source, conventions.target, languages[0])
        target = LanguageSide(conventions.target, conventions.source, languages[1])
        masking, missing = Masking(languages, placeholders), MissingPlaceholders(writable)
        self.left_out = missing.left_out
        self.plain_lines = PlainLines(source)
        self.tags = tags or LanguageTags({})
        self.line_steps: tuple[Step, ...] = (self.tags, Tags())
        self._sentences = Sentences()
        self.steps: tuple[Step, ...] = (
            Code(masking),
            Around(source, target),
            NamesAndNumbers(source, masking),
            Letters(source, target),
            EndMark(source, target),
            missing,
        )
        if not conventions.source.sentences:
            self.steps = tuple(step for step in self.steps if not isinstance(step, Around | EndMark))

    @cached_property
    def opposite(self) -> "Surface":
        """The rewriting of texts in the target language, without placeholders."""
        source, target = self.languages
        conventions = self.conventions.model_copy(
            update={"source": self.conventions.target, "target": self.conventions.source}
        )
        return Surface(conventions, (target, source), self._encode)

    def read(self, texts: Sequence[str], context: Context) -> list[Segment]:
        """Return lines with their parts, each of at most `context.longest` tokens. Nothing is left out.

        Raises:
            DecodeError: a text is longer and may not be split, names no language of the model, or an expression of
                `protect` cannot be used.
            TokenizerError: a text is not Unicode.
        """
        rows = [self._split(text, context) for text in texts]
        encoded = iter(self._encoded([part for _, parts in rows for part in parts], context.longest))
        fitted = [
            self._fitted(number, line, [*islice(encoded, len(parts))], context)
            for number, (line, parts) in enumerate(rows, 1)
        ]
        self.tags.warn_of_missing_tags(texts, None)
        return fitted

    def line(self, text: str, context: Context) -> Segment:
        """Return a line without language tag and markup, before it is split."""
        typed = text if context.is_raw else without_controls(text)
        line = Segment(typed, typed, original=text, flags=() if typed == text else ("cleaned",))
        for step in self.line_steps:
            (line,) = step.apply(line, context)
        return line

    def rewritten(self, part: Segment, context: Context) -> Segment:
        """Return a part as the model should read it, with notes to restore it; the part itself if nothing changes."""
        rewritten = part
        for step in self.steps:
            (rewritten,) = step.apply(rewritten, context)
        return rewritten if rewritten.is_rewritten and rewritten.text.strip() else part

    def restore_part(self, part: Segment, written: str, links: Links | None = None, is_whole: bool = True) -> Restored:
        """Return the translation of a part as it was typed, from what the model has written. `links` connect the words
        of `part.text` and `written`; the links of the result connect the words of `part.typed` and of its text.
        """
        if links is not None and part.is_copied:
            words = min(len(split_words(part.typed)), len(split_words(written)))
            return Restored(written, frozenset((number, number) for number in range(words)))
        if not part.is_rewritten:
            return Restored(written, links, is_whole=is_whole)
        restored = Restored(written, links, is_whole=is_whole)
        for step in reversed(self.steps):
            if restored.text:
                restored = step.restore(part, [restored])
        if links is None:
            return restored
        return restored._replace(links=_links_as_typed(part, written, restored.text, links))

    def join(self, line: Segment, translations: Sequence[Restored]) -> Restored:
        """Return the translation of a line, still without markup, from those of its parts."""
        return self._sentences.restore(line, translations)

    def restore(self, line: Segment, joined: Restored) -> str:
        """Return the translation of a line with its markup."""
        for step in reversed(self.line_steps):
            joined = step.restore(line, [joined])
        return joined.text

    def _split(self, text: str, context: Context) -> tuple[Segment, list[Segment]]:
        """Return a line, and its parts as the model should read them. A plain line is its only part."""
        if context.rewrites and not context.protect and text in self.plain_lines:
            _, language = self.tags.named(text, None)
            line = Segment(text, text, original=text, language=language)
            return line, [line]
        line = self.line(text, context)
        return line, [self._read_part(part, context) for part in self._sentences.apply(line, context)]

    def _read_part(self, part: Segment, context: Context) -> Segment:
        """Return a part as the model should read it. Giants are cut first. Names and code alone are copied, because a
        model would write words between them.
        """
        if part.is_copied or not context.rewrites or giant(part.typed, context.longest):
            return part
        rewritten = self.rewritten(part, context)
        return rewritten if has_words(rewritten.text) else Segment.from_typed(part.typed, is_copied=True)

    def _encoded(self, parts: Sequence[Segment], longest: int) -> list[Segment]:
        """Return the parts with their ids, except copies and giants."""
        is_read = [not part.is_copied and not giant(part.typed, longest) for part in parts]
        ids = iter(self._encode([part.text for part in compress(parts, is_read)]))
        return [part._replace(ids=next(ids)) if reads else part for part, reads in zip(parts, is_read, strict=True)]

    def _fitted(self, number: int, line: Segment, parts: list[Segment], context: Context) -> Segment:
        """Return a line with parts that fit, and with its flags; `number` counts the lines from 1."""
        longest, is_broken = context.longest, False
        if len(parts) == 1 and parts[0].ids and not _is_long(parts[0], longest):
            return line._replace(parts=(self.tags.with_id(parts[0], line.language),))
        if any(_is_long(part, longest) for part in parts):
            if context.split == "never":
                size = f"{len(parts[0].ids):,} tokens" if parts[0].ids else f"{len(line.typed):,} characters"
                raise DecodeError(
                    f"text {number} has {size}, but the model is given at most {longest:,} tokens; "
                    "set decode.split = 'long', or raise decode.max_source_tokens"
                )
            parts, is_broken = self._cut(parts, context)
        fitting = [part for part in parts if part.ids or part.is_copied]
        copied = [has_words(part.typed) for part in parts if part.is_copied]  # signs around a sentence have no words
        flags: dict[Flag, bool] = {
            "broken": is_broken,
            "split": sum(not part.is_copied for part in parts) > 1,
            "copied": any(copied) or 0 < len(copied) == len(parts),
            "untranslatable": len(fitting) < len(parts),
        }
        return line._replace(
            parts=tuple(self.tags.with_id(part, line.language) for part in fitting),
            prefix=context.prefix.strip() if fitting and fitting[0].is_copied else "",
            flags=(*line.flags, *(flag for flag, is_set in flags.items() if is_set)),
        )

    def _cut(self, parts: Sequence[Segment], context: Context) -> tuple[list[Segment], bool]:
        """Return the parts, with long ones cut into sentences that fit, and True if a sentence was broken."""

        def fits(text: str) -> bool:
            return len(self._encode([text])[0]) <= context.longest

        fitting: list[Segment] = []
        is_broken = False
        for part in parts:
            if not _is_long(part, context.longest):
                fitting.append(part)
                continue
            sentences = [sentence.strip() for sentence in split_sentences(part.typed, context.abbreviations)]
            read = [self._read_part(Segment.from_typed(sentence), context) for sentence in sentences]
            for sentence in self._encoded(read, context.longest):
                if not _is_long(sentence, context.longest):
                    fitting.append(sentence)
                    continue
                pieces = split_to_fit(sentence.typed, fits, at_most=CHARACTERS_A_TOKEN * context.longest)
                is_broken = is_broken or len(pieces) > 1
                stripped = [Segment.from_typed(piece.strip()) for piece in pieces if piece.strip()]
                fitting += self._encoded(stripped, sys.maxsize)
        copies = (Segment.from_typed(part.typed, is_copied=True) for part in fitting)
        return [part if has_words(part.text) else copy for part, copy in zip(fitting, copies, strict=True)], is_broken


def giant(text: str, tokens: int) -> bool:
    """Return True if a text is too long for a tokenizer to be asked whether it has at most this number of tokens."""
    return len(text) > CHARACTERS_A_TOKEN * tokens


def _is_long(part: Segment, longest: int) -> bool:
    return not part.is_copied and (len(part.ids) > longest or giant(part.typed, longest))


def _links_as_typed(part: Segment, written: str, restored: str, links: Links) -> Links:
    """Return the links between typed words, from links between the words that the model read and wrote. Marks around a
    sentence are linked one by one.
    """
    read, put = matching_words(part.text, part.typed), matching_words(written, restored)
    linked = {(read[word], put[target]) for word, target in links if word in read and target in put}
    before, after = (len(split_words(side)) for side in (part.before, part.after))
    sides = [range(len(split_words(text))) for text in (part.typed, restored)]
    linked.update(zip(*(side[:before] for side in sides), strict=False))
    if after:
        linked.update(zip(*(side[-after:] for side in sides), strict=False))
    return frozenset(linked)
