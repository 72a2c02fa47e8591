"""Varied pairs: the same ones at each call, true on both sides, and nothing else than what was asked for."""

import os
import re
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.batching import Batch, Batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_corpus
from dragoman.data.variation import VariedBatches, add_noise, mistyped
from dragoman.surface.letters import Truecaser
from dragoman.surface.placeholders import ANY_PLACEHOLDER, NUMBERS, PLACEHOLDERS, WORDS
from dragoman.surface.protected import Names, shared_spans
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

NAMES = ("Nakamura", "Ayşe", "Chukwu")
PAIRS = [
    (f"{name} has seen {number} small houses{mark}", f"{name} ha visto {number} piccole case{mark}")
    for name in NAMES
    for number in (17, 250, 1987)
    for mark in ("!", "?", ".", "")
] + [("we are happy here.", "siamo felici qui."), ("what is the time?", "che ora è?"), ("they sleep", "dormono")] * 20


def learn(kind: str = "bpe") -> Tokenizers:
    settings = {"kind": kind, "vocabulary_size": 400, "minimum_frequency": 1, "joint": True}
    return learn_tokenizers(lambda: PAIRS, TokenizerSettings.model_validate(settings))


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    return learn()


@pytest.fixture(scope="module")
def corpus(tokenizers: Tokenizers, tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    return corpus_of(tokenizers, tmp_path_factory.mktemp("varied") / "corpus")


def corpus_of(tokenizers: Tokenizers, folder: Path) -> EncodedCorpus:
    return encode_corpus(PAIRS, tokenizers, folder, linked=True)


def varied(corpus: EncodedCorpus, tokenizers: Tokenizers, **settings: Any) -> VariedBatches:
    names = Names(Truecaser(["has", "seen", "small", "houses"], "en"), "en")
    order = Batches(corpus, batch_tokens=200, sentence_tokens=64, seed=3)
    return VariedBatches(order, tokenizers, partial(shared_spans, names=names), **settings)


def texts(batch: Batch, tokenizers: Tokenizers) -> list[tuple[str, str]]:
    assert batch.source is not None and batch.source_lengths is not None
    sides = batch.source.split(batch.source_lengths.tolist()), batch.target.split(batch.target_lengths.tolist())
    return [
        (tokenizers.source.decode(source.tolist()), tokenizers.target.decode(target.tolist()))
        for source, target in zip(*sides, strict=True)
    ]


def of_epochs(batches: VariedBatches, tokenizers: Tokenizers, epochs: int = 6) -> list[tuple[str, str]]:
    return [
        pair
        for number in range(epochs)
        for item in batches.epoch(number)
        for pair in texts(batches.batch(item), tokenizers)
    ]


def assert_equal(one: Batch, other: Batch) -> None:
    for name, tensor in vars(one).items():
        assert torch.equal(tensor, getattr(other, name)), name


def test_without_shares_nothing_is_varied(corpus: EncodedCorpus, tokenizers: Tokenizers) -> None:
    batches = varied(corpus, tokenizers)
    for item in batches.epoch(0):
        assert_equal(batches.batch(item), batches.order.batch(item.pairs))


def test_a_batch_follows_from_seed_epoch_and_pairs_alone(corpus: EncodedCorpus, tokenizers: Tokenizers) -> None:
    all_on = {"joined": 0.5, "rough": 0.3, "protected": 0.5}
    one, other = varied(corpus, tokenizers, **all_on), varied(corpus, tokenizers, **all_on)
    items = [*one.epoch(2)]
    assert len(one.epoch(2)) == len(items)
    assert all((items[place].pairs == one.epoch(2)[place].pairs).all() for place in (0, 1, -1))
    for item in reversed(items):
        assert one.size_of(item).tokens == other.batch(item).size.tokens
        assert_equal(one.batch(item), other.batch(item))
        assert sorted(one.size_of(item).pairs.tolist()) == sorted(item.pairs.tolist())
    assert Counter(of_epochs(one, tokenizers, 1)) != Counter(
        pair for item in one.epoch(1) for pair in texts(one.batch(item), tokenizers)
    )


def test_batches_of_an_epoch_are_varied_differently(tokenizers: Tokenizers, tmp_path: Path) -> None:
    corpus = encode_corpus([PAIRS[0]] * 120, tokenizers, tmp_path / "corpus", linked=True)
    batches = varied(corpus, tokenizers, rough=0.5)
    made = [tuple(texts(batches.batch(item), tokenizers)) for item in batches.epoch(0)]
    full = [batch for batch in made if len(batch) == len(made[0])]
    assert len(full) > 2 and len({*full}) > 1


def test_joined_rows_are_whole_pairs_one_behind_the_other(corpus: EncodedCorpus, tokenizers: Tokenizers) -> None:
    batches = varied(corpus, tokenizers, joined=0.6, joined_tokens=40)
    joined = rows = 0
    for number in range(20):
        for item in batches.epoch(number):
            plain, found = texts(batches.order.batch(item.pairs), tokenizers), texts(batches.batch(item), tokenizers)
            for side in (0, 1):
                assert " ".join(pair[side] for pair in plain) == " ".join(pair[side] for pair in found)
            joined += len(plain) - sum(pair in plain for pair in found)
            rows += len(plain)
            batch = batches.batch(item)
            lengths = [len(tokenizers.source.encode(source)) for source, _ in found]
            assert len(batch) == len(found) and max(lengths) <= max(
                40, *(len(corpus.pair(pair)[0]) for pair in item[1])
            )
    assert 0.3 < joined / rows < 0.6, "some find no room"


def test_a_fair_share_of_short_pairs_is_joined(corpus: EncodedCorpus, tokenizers: Tokenizers) -> None:
    batches = varied(corpus, tokenizers, joined=0.3)
    source, target = np.full(100_000, 5), np.full(100_000, 5)
    begins = batches._begin(np.random.default_rng(1).random(100_000), source, target)
    sizes = np.diff([*begins, 100_000])
    assert sizes[sizes > 1].sum() / 100_000 == pytest.approx(0.3, abs=0.01)
    assert {*sizes.tolist()} == {*range(1, 9)}


def test_links_of_joined_rows_lead_to_the_same_tokens(corpus: EncodedCorpus, tokenizers: Tokenizers) -> None:
    def linked(batch: Batch) -> list[int | None]:
        assert batch.source is not None and batch.source_lengths is not None and batch.links is not None
        rows = batch.source.split(batch.source_lengths.tolist())
        places = batch.links.split(batch.target_lengths.tolist())
        return [
            int(row[place]) if place >= 0 else None
            for row, links in zip(rows, places, strict=True)
            for place in links.tolist()[1:]
        ]

    batches = varied(corpus, tokenizers, joined=0.6)
    plain = [linked(batches.order.batch(item.pairs)) for item in batches.epoch(0)]
    assert plain == [linked(batches.batch(item)) for item in batches.epoch(0)]
    assert any(place is not None for row in plain for place in row)


def test_changed_texts_have_no_links(corpus: EncodedCorpus, tokenizers: Tokenizers) -> None:
    batches = varied(corpus, tokenizers, protected=1.0)
    placeholders = set(tokenizers.target.placeholders.values())
    for item in batches.epoch(0):
        batch = batches.batch(item)
        assert batch.links is not None
        targets, links = (part.split(batch.target_lengths.tolist()) for part in (batch.target, batch.links))
        rows = zip(targets, links, strict=True)
        assert all((row == -1).all() for target, row in rows if placeholders & {*target.tolist()})


def test_placeholders_stand_on_both_sides_for_what_is_alike(corpus: EncodedCorpus, tokenizers: Tokenizers) -> None:
    found = of_epochs(varied(corpus, tokenizers, protected=1.0), tokenizers)
    changed = [pair for pair in found if re.search(ANY_PLACEHOLDER, pair[0])]
    assert len(changed) == 6 * 36 and not {*changed} & {*PAIRS}
    for source, target in changed:
        name, number = re.findall(ANY_PLACEHOLDER, source)
        assert (name in WORDS, number in NUMBERS) == (True, True)
        assert source.startswith(f"{name} has seen {number} small houses")
        assert target.startswith(f"{name} ha visto {number} piccole case")
    assert {*re.findall(ANY_PLACEHOLDER, "".join(source for source, _ in changed))} == {*PLACEHOLDERS}


def test_pairs_with_numbers_are_protected_more_often(corpus: EncodedCorpus, tokenizers: Tokenizers) -> None:
    found = of_epochs(varied(corpus, tokenizers, protected=0.05), tokenizers, 20)
    share = sum(bool(re.search(ANY_PLACEHOLDER, source)) for source, _ in found) / (20 * 36)
    assert 0.4 < share < 0.6
    assert not any(
        re.search(ANY_PLACEHOLDER, source) for source, _ in of_epochs(varied(corpus, tokenizers), tokenizers)
    )


def test_more_spans_than_placeholders_leave_the_rest(tokenizers: Tokenizers, tmp_path: Path) -> None:
    numbers = " and ".join(str(number) for number in range(10, 20))
    corpus = encode_corpus([(numbers, numbers)], tokenizers, tmp_path / "corpus")
    ((source, target),) = of_epochs(varied(corpus, tokenizers, protected=1.0), tokenizers, 1)
    assert source == target and re.findall(r"\d+", source) == ["18", "19"]
    assert {*re.findall(ANY_PLACEHOLDER, source)} == {*NUMBERS}


def test_of_rough_pairs_half_lose_their_marks_and_the_others_have_one_error(
    corpus: EncodedCorpus, tokenizers: Tokenizers
) -> None:
    found = of_epochs(varied(corpus, tokenizers, rough=1.0), tokenizers, 20)
    unmarked = [pair for pair in found if pair not in PAIRS and pair[0][-1] not in "?!."]
    assert 0.2 < len(unmarked) / len(found) < 0.6
    targets = {target.rstrip(".!?") for _, target in PAIRS}
    assert all(target.rstrip(".!?") in targets for _, target in found), "no error in a target"
    assert all((source[-1] in "?!.") == (target[-1] in "?!.") for source, target in found)


SOURCE = st.lists(
    st.sampled_from(["Tom", "houses", "250", "{name}", "https://some.org/with", PLACEHOLDERS[3], "well-known"])
)


@given(words=SOURCE, draws=st.lists(st.floats(0, 1, exclude_max=True), min_size=4, max_size=4))
def test_an_error_touches_no_name_number_code_or_placeholder(words: list[str], draws: list[float]) -> None:
    source = " ".join(words)
    typed, target = add_noise(source + ".", "testo.", iter(draws))
    assert (typed[-1:] == ".") == (target == "testo.") == (draws[0] >= 0.5)
    after = typed.removesuffix(".").split(" ") if words else []
    assert len(after) == len(words)
    changed = [before for before, now in zip(words, after, strict=True) if before != now]
    assert changed in ([], ["houses"])


@given(word=st.text("abc", min_size=4, max_size=8), how=st.floats(0, 1, exclude_max=True), where=st.floats(0, 0.99))
def test_a_mistyped_word_has_one_error_behind_its_first_letter(word: str, how: float, where: float) -> None:
    typed = mistyped(word, how, where)
    assert typed[0] == word[0] and abs(len(typed) - len(word)) <= 1
    if how < 0.5:
        assert sorted(typed) == sorted(word)
        assert (typed == word) == (len({*word[1:]}) == 1)
    else:
        assert len(typed) == len(word) + (1 if how >= 0.75 else -1)


@pytest.mark.parametrize("kind", ["byte_bpe", "word"])
def test_texts_that_do_not_come_back_and_vocabularies_without_placeholders_stay(kind: str, tmp_path: Path) -> None:
    tokenizers = learn(kind)
    pairs = [(f"{NAMES[0]} has seen zebras.", f"{NAMES[0]} ha visto zebre.")] * 9
    corpus = encode_corpus(pairs, tokenizers, tmp_path / "corpus")
    batches = varied(corpus, tokenizers, protected=1.0, joined=1.0 if kind == "byte_bpe" else 0.0)
    for item in batches.epoch(0):
        batch, plain = batches.batch(item), batches.order.batch(item.pairs)
        assert torch.equal(batch.labels, plain.labels) and torch.equal(batch.target_lengths, plain.target_lengths)


IN_ANOTHER_PROCESS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_variation import corpus_of, learn, of_epochs, varied
tokenizers = learn()
batches = varied(corpus_of(tokenizers, Path(sys.argv[2])), tokenizers, joined=0.5, rough=0.3, protected=0.7)
print(ascii(of_epochs(batches, tokenizers, 1)))
"""


@pytest.mark.thorough
def test_every_process_varies_the_same_pairs_alike(tmp_path: Path) -> None:
    """Python orders sets of texts in another way in each process."""
    found = {
        subprocess.run(
            [sys.executable, "-c", IN_ANOTHER_PROCESS, Path(__file__).parent, tmp_path / seed],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
