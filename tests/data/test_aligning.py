"""Links between the tokens of pairs: learnt as the textbook's loops learn them, the same in blocks of any size."""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data import aligning
from dragoman.data.aligning import ITERATIONS, NO_SOURCE, SMOOTHING, SURE, TENSION, link
from dragoman.data.corpus import EncodedCorpus, PackedIds
from dragoman.data.encoding import encode_corpus
from dragoman.errors import DataError
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

Ids = Sequence[int]
TOY = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book"), ("ein Haus", "a house")]
VOCABULARY = 5
sides = st.lists(st.integers(0, VOCABULARY - 1), max_size=4)


def rows_of(texts: Sequence[Ids]) -> PackedIds:
    ids = np.array([id_ for text in texts for id_ in text], np.uint16)
    return PackedIds(ids, np.cumsum([0, *map(len, texts)]))


def linked(pairs: Sequence[tuple[Ids, Ids]]) -> list[list[int]]:
    """The links of each pair."""
    source, target = (rows_of(side) for side in zip(*pairs, strict=True))
    links = link(source, target, (VOCABULARY, VOCABULARY))
    return [links[first:last].tolist() for first, last in zip(target.offsets, target.offsets[1:], strict=False)]


def plain_probabilities(pairs: Sequence[tuple[Ids, Ids]], steps: int = ITERATIONS) -> list[list[list[float]]]:
    """How probably each target token of each pair renders each source token, by loops over pairs with both sides."""

    def near(i: int, j: int, n: int, m: int) -> float:
        return math.exp(-TENSION * abs((i + 0.5) / n - (j + 0.5) / m)) / sum(
            math.exp(-TENSION * abs((k + 0.5) / n - (j + 0.5) / m)) for k in range(n)
        )

    def posteriors(x: Ids, y: Ids, j: int) -> tuple[list[float], float]:
        cells = [(1 - NO_SOURCE) * near(i, j, len(x), len(y)) * t[x[i], y[j]] for i in range(len(x))]
        none = NO_SOURCE * of_none[y[j]]
        whole = sum(cells) + none
        return [cell / whole for cell in cells], none / whole

    couples = {couple for x, y in pairs for couple in product(x, y)} | {(0, 0)}
    t, of_none = dict.fromkeys(couples, 1 / VOCABULARY), dict.fromkeys(range(VOCABULARY), 1 / VOCABULARY)
    for _ in range(steps):
        counts, nones = dict.fromkeys(couples, 0.0), defaultdict(float)
        for x, y in pairs:
            for j in range(len(y)) if x else ():
                cells, none = posteriors(x, y, j)
                nones[y[j]] += none
                for i, cell in enumerate(cells):
                    counts[x[i], y[j]] += cell
        sums = defaultdict(float)
        for couple, count in counts.items():
            sums[couple[0]] += count
        t = {c: (counts[c] + SMOOTHING) / (sums[c[0]] + SMOOTHING * VOCABULARY) for c in couples}
        whole = sum(nones.values()) + SMOOTHING * VOCABULARY
        of_none = {id_: (nones[id_] + SMOOTHING) / whole for id_ in range(VOCABULARY)}
    return [[posteriors(x, y, j)[0] for j in range(len(y))] for x, y in pairs if x]


@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=6).filter(lambda pairs: any(x and y for x, y in pairs)))
def test_links_are_those_of_the_textbooks_loops(pairs: list[tuple[Ids, Ids]]) -> None:
    pairs = [(x, y) for x, y in pairs if x and y]
    forward, back = plain_probabilities(pairs), plain_probabilities([(y, x) for x, y in pairs])
    for found, ahead, turned in zip(linked(pairs), forward, back, strict=True):
        for j, place in enumerate(found):
            both = [(one + turned[i][j]) / 2 for i, one in enumerate(ahead[j])]
            assert both[place - 1] == pytest.approx(max(both)) if place else max(both) <= SURE + 1e-9
            assert not place or max(both) >= SURE - 1e-9


def test_blocks_and_windows_of_any_size_link_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    pairs = [
        (random.integers(0, 5, s).tolist(), random.integers(0, 5, t).tolist())
        for s, t in random.integers(1, 7, (40, 2))
    ]
    whole = linked(pairs)
    for cells in (1, 50, 200):
        monkeypatch.setattr(aligning, "_CELLS", cells)
        assert linked(pairs) == whole


def test_a_part_of_the_pairs_teaches_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [([0, 1], [1, 0]), *[([0], [0]), ([1], [1])] * 5] * 40
    monkeypatch.setattr(aligning, "_MOST_PAIRS", 220)
    monkeypatch.setattr(aligning, "_MOST_CELLS", 100)
    assert linked(pairs) == [[2, 1], *[[1]] * 10] * 40


def test_a_couple_that_was_never_seen_together_has_no_link() -> None:
    pairs = [([0], [0]), ([2], [3])] * 10
    source, target = (rows_of(side) for side in zip(*pairs, strict=True))
    aligner = aligning.Aligner.learn(source, target, (VOCABULARY, VOCABULARY))
    # The unseen couples are before, between and behind those that were seen: (0, 1), (0, 4), (3, 0) and (4, 4).
    unseen = [([0], [1]), ([0], [4]), ([3], [0]), ([4], [4])]
    source, target = (rows_of(side) for side in zip(*unseen, strict=True))
    (block,) = aligning._blocks(source, target, np.arange(4))
    assert aligner.links(block).tolist() == [[0]] * 4


def test_sides_without_tokens_or_too_long_have_no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligning, "LONGEST", 3)
    pairs = [([0], [1]), ([2], [3]), ([], [1, 2]), ([0], []), ([0, 2, 0, 2], [1])] * 5
    assert linked(pairs) == [[1], [1], [0, 0], [], [0]] * 5
    assert linked([([], [1])]) == [[0]]


# In the folder of a corpus


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    return learn_tokenizers(lambda: TOY, TokenizerSettings(kind="word", minimum_frequency=1))


def test_links_lie_beside_the_ids_they_belong_to(tokenizers: Tokenizers, tmp_path: Path) -> None:
    encode_corpus(TOY * 10, tokenizers, tmp_path / "corpus", linked=True)
    corpus = EncodedCorpus.open(tmp_path / "corpus")
    assert corpus.links is not None and isinstance(corpus.links.ids, np.memmap)
    assert [corpus.links.row(number).tolist() for number in range(40)] == [[1, 2]] * 40
    corpus.verify()
    plain = encode_corpus(TOY * 10, tokenizers, tmp_path / "plain")
    assert plain.links is None and plain.identity != corpus.identity


def test_damaged_links_are_found(tokenizers: Tokenizers, tmp_path: Path) -> None:
    encode_corpus(TOY, tokenizers, tmp_path / "corpus", linked=True)
    path = tmp_path / "corpus" / "target.links"
    path.write_bytes(bytes(len(path.read_bytes())))
    with pytest.raises(DataError, match=r"target.links is damaged; delete .*corpus and encode the corpus again"):
        EncodedCorpus.open(tmp_path / "corpus").verify()
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"target.links has 0 bytes, but must have 16"):
        EncodedCorpus.open(tmp_path / "corpus")
