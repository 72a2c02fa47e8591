"""What a classifier or tagger must beat: simple ways that are trained in seconds, without any tuning.

The SVM needs scikit-learn (extra `baselines`) and is left out without it.
"""

import logging
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from dragoman.errors import missing_extra
from dragoman.evaluating.label_metrics import find_entities
from dragoman.inference.labels import Transitions, best_labels
from dragoman.languages import SPACELESS
from dragoman.text.labels import OUTSIDE
from dragoman.tokenizing.labels import Labels

log = logging.getLogger(__name__)


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (scikit-learn's types are partial)


MAJORITY, SVM = "majority label", "TF-IDF SVM"
FREQUENT, KNOWN_ENTITIES = "most frequent tag", "entities of the training text"
WORDS = rf"[{SPACELESS}]|(?:(?![{SPACELESS}])[\w'-])+|[^\w\s]"
"""What the SVM counts: words, characters of scripts without spaces, and single signs, because a question mark says
something."""


Text = tuple[str, str]
"""A text and its label."""
Sentence = tuple[Sequence[str], Sequence[str]]
"""The words of a sentence and their tags."""


def classify_baselines(train: Sequence[Text], test: Sequence[Text]) -> dict[str, list[str]]:
    """The labels that each baseline, learned from `train`, finds for the texts of `test`."""
    labels = Counter(label for _, label in train)
    found = {MAJORITY: [labels.most_common(1)[0][0]] * len(test)}
    if len(labels) > 1 and (of_svm := _svm(train, test)) is not None:
        found[SVM] = of_svm
    return found


def tag_baselines(train: Sequence[Sentence], test: Sequence[Sentence]) -> dict[str, list[list[str]]]:
    """The tags that each baseline, learned from `train`, finds for the sentences of `test`."""
    names = tuple(dict.fromkeys(tag for _, tags in train for tag in tags))
    labels = Labels(task="tag", names=names) if len(names) > 1 else None
    found = {FREQUENT: _frequent_tags(train, test, labels and Transitions.of(labels))}
    if labels is not None and labels.bio:
        found[KNOWN_ENTITIES] = _known_entities(train, test)
    return found


def _svm(train: Sequence[Text], test: Sequence[Text]) -> list[str] | None:
    """A linear SVM over the TF-IDF of words and word pairs, with scikit-learn's own settings."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.svm import LinearSVC
    except ImportError:
        log.warning("the baseline %s is left out: %s", SVM, missing_extra("scikit-learn", "baselines"))
        return None
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), token_pattern=WORDS)
    try:
        features = vectorizer.fit_transform([text for text, _ in train])
    except ValueError:  # it found no word
        return None
    svm = LinearSVC(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # on large sets its thousand passes are enough all the same
        svm.fit(features, [label for _, label in train])
    return list(map(str, svm.predict(vectorizer.transform([text for text, _ in test]))))


def _frequent_tags(
    train: Sequence[Sentence], test: Sequence[Sentence], transitions: Transitions | None
) -> list[list[str]]:
    """The tag that each word had most often; of BIO tags, the valid sequence that is likeliest word by word.

    Each word starts with one imaginary example, split between the tags by their overall shares; it breaks ties and
    decides for unseen words.
    """
    tags = Counter(tag for _, row in train for tag in row)
    names, number = tuple(tags), {tag: index for index, tag in enumerate(tags)}
    shares = torch.tensor([float(count) for count in tags.values()]) / tags.total()
    counts: defaultdict[str, Tensor] = defaultdict(shares.clone)
    for words, row in train:
        for word, tag in zip(words, row, strict=True):
            counts[word][number[tag]] += 1
    found: list[list[str]] = []
    for words, _ in test:
        rows = [counts.get(word, shares) for word in words]
        found.append([names[tag] for tag in best_labels(_log_shares(rows), transitions)] if rows else [])
    return found


def _log_shares(counts: Sequence[Tensor]) -> Tensor:
    rows = torch.stack(list(counts))
    return (rows / rows.sum(1, keepdim=True)).log()


def _known_entities(train: Sequence[Sentence], test: Sequence[Sentence]) -> list[list[str]]:
    """Marks the entities of the training text, the longest first, if they had one type only: the baseline of the shared
    task of CoNLL (Tjong Kim Sang and De Meulder 2003).
    """
    types: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for words, tags in train:
        for entity in find_entities(tags):
            types[tuple(words[entity.start : entity.end])].add(entity.type)
    known = {words: next(iter(kinds)) for words, kinds in types.items() if len(kinds) == 1}
    longest = max(map(len, known), default=0)
    return [_mark(tuple(words), known, longest) for words, _ in test]


def _mark(words: tuple[str, ...], known: dict[tuple[str, ...], str], longest: int) -> list[str]:
    tags: list[str] = []
    while len(tags) < len(words):
        start = len(tags)
        ends = range(min(len(words), start + longest), start, -1)
        end = next((end for end in ends if words[start:end] in known), None)
        if end is None:
            tags.append(OUTSIDE)
        else:
            kind = known[words[start:end]]
            tags += [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return tags
