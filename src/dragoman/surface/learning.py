"""Learns the conventions of a training text."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice

from dragoman.surface.around import peel
from dragoman.surface.conventions import END_MARKS, Conventions, LanguageConventions, PairConventions
from dragoman.surface.letters import Truecaser, is_title, plain_character, usual_forms, words_in
from dragoman.surface.protected import Names, shared_spans

MOST_WORDS, MOST_CHARACTERS = 30_000, 300
"""The most words and characters that are kept."""
FREQUENT = 20
"""A name is known if at least this many sentences have it, or if several have it and it is translated."""


def learn_conventions(sentences: Iterable[str], left_out: Collection[str] = ()) -> Conventions:
    """Learn the conventions of these sentences. Words in `left_out` are not put into the vocabulary."""
    kept = list(sentences)
    characters, around, ends = Counter[str](), Counter[str](), Counter[str]()
    for sentence in kept:
        characters.update(character for character in set(sentence) if not _is_plain(character))
        characters["..."] += "..." in sentence
        around.update(peel(sentence).kinds)
        last = sentence.rstrip()[-1:]
        ends[last if last in END_MARKS else ""] += 1
    return Conventions(
        sentences=len(kept),
        characters=dict(characters.most_common(MOST_CHARACTERS)),
        around=dict(around),
        ends=dict(ends.most_common()),
        capitals=sum(sentence[:1].isupper() for sentence in kept),
        small=sum(sentence[:1].islower() for sentence in kept),
        titles=sum(map(is_title, kept)),
        vocabulary=" ".join(islice((word for word in usual_forms(kept) if word not in left_out), MOST_WORDS)),
    )


def learn_pair_conventions(pairs: Iterable[tuple[str, str]]) -> PairConventions:
    """Learn the conventions of both sides of sentence pairs. Rare names are left out of the vocabularies."""
    kept = list(pairs)
    rare = [rare_names(kept), rare_names((target, source) for source, target in kept)]
    return PairConventions(
        source=learn_conventions((source for source, _ in kept), rare[0]),
        target=learn_conventions((target for _, target in kept), rare[1]),
    )


def with_copies_counted(
    conventions: PairConventions, pairs: Iterable[tuple[str, str]], language: str
) -> PairConventions:
    """Return the conventions with the numbers of pairs, from this language, whose sides share a name or number."""
    names, count = Names(Truecaser(conventions.source.words, language), language), Counter[str]()
    for source, target in pairs:
        count.update(
            {"numbers" if span.kind == "number" else "words" for span, _ in shared_spans(source, target, names)}
        )
    return conventions.model_copy(update={"copied": dict(count)})


def learn_language_conventions(
    readers: Mapping[tuple[str, str], Callable[[], Iterable[tuple[str, str]]]],
) -> LanguageConventions:
    """Learn the conventions of each language from all its sides, given functions that read the pairs of directions."""
    sentences, rare = defaultdict[str, list[str]](list), defaultdict[str, set[str]](set)
    for (source, target), read in readers.items():
        kept = list(read())
        for language, sides in ((source, kept), (target, [(written, typed) for typed, written in kept])):
            sentences[language] += [typed for typed, _ in sides]
            rare[language] |= rare_names(sides)
    learned = {language: learn_conventions(kept, rare[language]) for language, kept in sentences.items()}
    conventions = LanguageConventions(languages=learned)
    counted = {
        f"{source}-{target}": with_copies_counted(conventions.of(source, target), read(), source).copied
        for (source, target), read in readers.items()
    }
    return conventions.model_copy(update={"copied": counted})


def with_languages(
    known: PairConventions | LanguageConventions, languages: tuple[str, str], learned: LanguageConventions
) -> LanguageConventions:
    """Return known conventions, of a pair of these `languages` or of several, and those learned of other languages."""
    if isinstance(known, PairConventions):
        sides = dict(zip(languages, (known.source, known.target), strict=True))
        copied = {"-".join(languages): known.copied}
        known = LanguageConventions(languages=sides, placeholders=known.placeholders, copied=copied)
    joined = {"languages": learned.languages | known.languages, "copied": learned.copied | known.copied}
    return known.model_copy(update=joined)


def rare_names(pairs: Iterable[tuple[str, str]]) -> set[str]:
    """Return the capitalised words that few first sides contain and that their second sides usually share. A model has
    not learned to write them.

    >>> rare_names([("Rome or Lodi.", "Roma o Lodi."), ("Rome too.", "Anche Roma.")])
    {'Lodi'}
    """
    count, copied = Counter[str](), Counter[str]()
    for source, target in pairs:
        words = {word for word in words_in(source) if word != word.lower()}
        count.update(words)
        copied.update(words.intersection(words_in(target)))
    return {word for word, times in count.items() if times < FREQUENT and (times < 2 or 2 * copied[word] > times)}


def _is_plain(character: str) -> bool:
    return character == " " or (character.isalnum() and plain_character(character) == character)
