"""Texts of several lines, and pieces of HTML: their lines are translated in one batch, and joined again."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dragoman.formats.document import lines_in, with_lines
from dragoman.formats.html import Html
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator

CONCATENATED = ("tokens", "token_log_probs", "source_words", "target_words", "word_log_probs")
UNITED = ("flags", "unknown_words", "rewritten", "lost", "unused_terms")
"""Fields of a translation that are concatenated when its parts are joined, and those that are united."""


def translate_texts(
    translator: Translator,
    texts: Sequence[str],
    options: SearchOptions,
    is_html: bool = False,
    kept_tags: Collection[str] | None = None,
) -> list[Translation]:
    """Translate texts line by line, or HTML with its tags; with `kept_tags`, XML whose content in them is kept."""
    if is_html:
        pages = [Html(text, "utf-8", translator.languages, kept_tags) for text in texts]
        parts = [list(page.texts) for page in pages]
        joins = [lambda new, page=page: page.translated(new).decode() for page in pages]
    else:
        parts = [lines_in(text) for text in texts]
        joins = [partial(with_lines, text) for text in texts]
    translations = iter(translator.translate([line for lines in parts for line in lines], options, progress=False))
    return [
        joined(text, [next(translations) for _ in lines], join)
        for text, lines, join in zip(texts, parts, joins, strict=True)
    ]


def joined(source: str, parts: Sequence[Translation], join: Callable[[list[str]], str]) -> Translation:
    """Join the translations of the parts of a text into one, with words numbered over all parts."""
    concatenated: dict[str, list[Any]] = {name: [] for name in CONCATENATED}
    alignment: list[tuple[int, int]] = []
    for part in parts:
        source_start, target_start = len(concatenated["source_words"]), len(concatenated["target_words"])
        alignment += [
            (source_word + source_start, target_word + target_start) for source_word, target_word in part.alignment
        ]
        for name, values in concatenated.items():
            values += getattr(part, name)
    alternatives = max((len(part.alternatives) for part in parts), default=0)
    return Translation(
        source=source,
        text=join([part.text for part in parts]),
        log_prob=sum(part.log_prob for part in parts),
        score=sum(part.score for part in parts),
        alignment=tuple(alignment),
        alternatives=tuple(
            joined(source, [_alternative(part, number) for part in parts], join) for number in range(alternatives)
        ),
        **{name: tuple(values) for name, values in concatenated.items()},
        **{name: tuple(dict.fromkeys(value for part in parts for value in getattr(part, name))) for name in UNITED},
    )


def _alternative(part: Translation, number: int) -> Translation:
    """Return the alternative with this number, or the last one."""
    return replace((part, *part.alternatives)[min(number + 1, len(part.alternatives))], alternatives=())
