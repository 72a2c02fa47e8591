"""What is found about labelled text: duplicates, contradictions, leaks, labels that training lacks."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from dragoman.text.labels import Example, is_bio, unbegun
from dragoman.text.report import Found
from dragoman.text.split import sentence_key

EMPTY = "empty texts, dropped"
KEPT_EMPTY = "empty texts in given sets, kept"
DUPLICATES_DROPPED = "duplicates of an earlier training example, dropped"
DUPLICATES = "duplicates of an earlier training example, kept"
CONFLICTS = "training texts with several labels"
UNBEGUN = "labels I-… that continue no entity"

Splits = Mapping[str, Sequence[Example]]


def found_at(places: Sequence[str]) -> Found | None:
    return Found(count=len(places), first=places[0]) if places else None


def split_out(examples: Sequence[Example], wanted: Callable[[Example], bool]) -> tuple[list[Example], list[Example]]:
    """Those that are wanted, and the others."""
    kept = [example for example in examples if wanted(example)]
    return kept, [example for example in examples if not wanted(example)]


def repeated(examples: Sequence[Example]) -> list[bool]:
    """True for each example whose text and labels are those of an earlier one."""
    seen: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    found = []
    for example in examples:
        found.append(example[:2] in seen)
        seen.add(example[:2])
    return found


def look(splits: Splits, labels: Mapping[str, int]) -> dict[str, Found]:
    """What is found in splits as they are written; `labels` are those of training."""
    keys = {name: [sentence_key(example.text) for example in split] for name, split in splits.items()}
    places = {CONFLICTS: _conflicting(splits["train"], keys["train"])}
    texts = {name: {example.text for example in split} for name, split in splits.items()}
    if is_bio(labels):
        places[UNBEGUN] = places_unbegun(splits["train"])
    for name in splits:
        for other in ("train", "dev"):
            if other in splits and other != name != "train":
                places[shared(name, other)] = _shared(splits[name], keys[name], set(keys[other]))
                places[equal(name, other)] = [each.origin for each in splits[name] if each.text in texts[other]]
        if name != "train":
            places[unknown(name)] = [each.origin for each in splits[name] if not labels.keys() >= set(each.labels)]
    return {kind: found for kind, where in places.items() if (found := found_at(where))}


def shared(name: str, other: str) -> str:
    return f"{name} texts that stand in {other} too"


def equal(name: str, other: str) -> str:
    return f"{name} texts that stand in {other} letter for letter"


def unknown(name: str) -> str:
    return f"{name} examples with a label that train lacks"


def warnings(findings: Mapping[str, Found], splits: Splits) -> Iterator[str]:
    """The findings that a user should act on, as sentences."""
    for name, split in splits.items():
        for other in ("train", "dev"):
            if found := findings.get(shared(name, other)):
                exact = findings.get(equal(name, other))
                why = "" if other == "train" else "the best checkpoint is chosen on dev, so "
                yield (
                    f"{found.count:,} of {len(split):,} {name} texts stand in {other} too, "
                    f"{exact.count if exact else 0:,} of them letter for letter (first at {found.first}): "
                    f"{why}a score on them flatters"
                )
        if found := findings.get(unknown(name)):
            yield (
                f"{found.count:,} of {len(split):,} {name} examples have a label that train lacks (first at "
                f"{found.first}): they can't be predicted, and count as wrong"
            )
    yield from _of_training(findings)


def _of_training(findings: Mapping[str, Found]) -> Iterator[str]:
    if found := findings.get(CONFLICTS):
        yield (
            f"{found.count:,} training examples have a text that stands in train with another label too (first at "
            f"{found.first})"
        )
    if found := findings.get(UNBEGUN):
        yield (
            f"{found.count:,} training labels begin with I- but continue no entity of their type (first at "
            f"{found.first}): BIO begins each entity with B-; they are left as they are"
        )
    if found := findings.get(KEPT_EMPTY):
        yield f"{found.count:,} examples of given sets have an empty text (first at {found.first}); they are kept"


def _conflicting(train: Sequence[Example], keys: Sequence[int]) -> list[str]:
    """Where equal texts have other labels. Words are compared exactly, because case and marks decide their labels."""
    texts = [example.parts if len(example.parts) > 1 else key for example, key in zip(train, keys, strict=True)]
    labels: dict[object, set[tuple[str, ...]]] = {}
    for example, text in zip(train, texts, strict=True):
        labels.setdefault(text, set()).add(example.labels)
    return [example.origin for example, text in zip(train, texts, strict=True) if len(labels[text]) > 1]


def _shared(split: Sequence[Example], keys: Sequence[int], others: set[int]) -> list[str]:
    return [example.origin for example, key in zip(split, keys, strict=True) if key in others]


def places_unbegun(examples: Sequence[Example]) -> list[str]:
    """Where the labels that continue no entity stand."""
    return [example.place(at) for example in examples for at in unbegun(example.labels)]
