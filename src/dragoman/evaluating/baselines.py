"""Baselines for classifiers and taggers: simple methods that train in seconds, without tuning.

The SVM needs scikit-learn (extra `baselines`) and is skipped without it.
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
"""Features of the SVM: words, characters of scripts without spaces, and single signs, since a question mark is
informative."""


TextExample = tuple[str, str]
"""A text and its label."""
TaggedExample = tuple[Sequence[str], Sequence[str]]
"""The words of a sentence and their tags."""


def classify_baselines(train: Sequence[TextExample], test: Sequence[TextExample]) -> dict[str, list[str]]:
    """Return the labels that each baseline, learned from `train`, predicts for the texts of `test`."""
    labels = Counter(label for _, label in train)
    predicted = {MAJORITY: [labels.most_common(1)[0][0]] * len(test)}
    if len(labels) > 1 and (svm_labels := _svm(train, test)) is not None:
        predicted[SVM] = svm_labels
    return predicted


def tag_baselines(train: Sequence[TaggedExample], test: Sequence[TaggedExample]) -> dict[str, list[list[str]]]:
    """Return the tags that each baseline, learned from `train`, predicts for the sentences of `test`."""
    names = tuple(dict.fromkeys(tag for _, tags in train for tag in tags))
    labels = Labels(task="tag", names=names) if len(names) > 1 else None
    predicted = {FREQUENT: _frequent_tags(train, test, labels and Transitions.of(labels))}
    if labels is not None and labels.bio:
        predicted[KNOWN_ENTITIES] = _known_entities(train, test)
    return predicted


def _svm(train: Sequence[TextExample], test: Sequence[TextExample]) -> list[str] | None:
    """Return the labels of a linear SVM over the TF-IDF of words and word pairs, with scikit-learn's defaults.

    None if scikit-learn is missing or the training texts have no words.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.svm import LinearSVC
    except ImportError:
        log.warning("the baseline %s is skipped: %s", SVM, missing_extra("scikit-learn", "baselines"))
        return None
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), token_pattern=WORDS)
    try:
        features = vectorizer.fit_transform([text for text, _ in train])
    except ValueError:  # it found no word
        return None
    svm = LinearSVC(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its thousand passes are enough, also on large sets
        svm.fit(features, [label for _, label in train])
    return list(map(str, svm.predict(vectorizer.transform([text for text, _ in test]))))


def _frequent_tags(
    train: Sequence[TaggedExample], test: Sequence[TaggedExample], transitions: Transitions | None
) -> list[list[str]]:
    """Tag each word with its most frequent tag; for BIO tags, return the most probable valid sequence.

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
    predicted: list[list[str]] = []
    for words, _ in test:
        if not words:
            predicted.append([])
            continue
        rows = torch.stack([counts.get(word, shares) for word in words])
        log_shares = (rows / rows.sum(1, keepdim=True)).log()
        predicted.append([names[tag] for tag in best_labels(log_shares, transitions)])
    return predicted


def _known_entities(train: Sequence[TaggedExample], test: Sequence[TaggedExample]) -> list[list[str]]:
    """Tag entities that had a single type in the training text, longest match first.

    This is the baseline of the CoNLL shared task (Tjong Kim Sang and De Meulder 2003).
    """
    types: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for words, tags in train:
        for entity in find_entities(tags):
            types[tuple(words[entity.start : entity.end])].add(entity.type)
    known = {words: next(iter(kinds)) for words, kinds in types.items() if len(kinds) == 1}
    longest = max(map(len, known), default=0)
    predicted: list[list[str]] = []
    for words in (tuple(words) for words, _ in test):
        marked: list[str] = []
        while (start := len(marked)) < len(words):
            ends = range(min(len(words), start + longest), start, -1)
            end = next((end for end in ends if words[start:end] in known), None)
            kind = known[words[start:end]] if end else ""
            marked += [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)] if end else [OUTSIDE]
        predicted.append(marked)
    return predicted
