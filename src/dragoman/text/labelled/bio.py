"""Labels of entities in the BIO scheme (Ramshaw and Marcus 1995; IOB2 of Tjong Kim Sang and Veenstra 1999): B-type at
the beginning of an entity, I-type inside, O outside."""

from collections.abc import Iterator, Mapping, Sequence

from dragoman.text.labelled.examples import Example

OUTSIDE = "O"


def is_bio(labels: Mapping[str, int]) -> bool:
    """Whether labels mark entities."""
    return OUTSIDE in labels and all(label == OUTSIDE or label[:2] in ("B-", "I-") for label in labels)


def unbegun(labels: Sequence[str]) -> Iterator[int]:
    """The positions of labels I-type that continue no entity of that type: a mistake, or the older scheme IOB1.

    >>> list(unbegun(["O", "I-person", "I-person", "B-group", "I-person"]))
    [1, 4]
    """
    for at, label in enumerate(labels):
        before = labels[at - 1] if at else OUTSIDE
        if label.startswith("I-") and before[2:] != label[2:]:
            yield at


def places_unbegun(examples: Sequence[Example]) -> list[str]:
    """Where the labels that continue no entity stand."""
    return [example.place(at) for example in examples for at in unbegun(example.labels)]
