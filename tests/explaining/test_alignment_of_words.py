"""Word alignment: agreement with hand-made links, and alignments read from attention."""

import re
from collections.abc import Sequence
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ANIMALS
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.explaining import gold_alignment
from dragoman.explaining.gold_alignment import (
    Agreement,
    AlignedPair,
    Links,
    agree,
    align_pairs,
    judge,
    measure_alignment,
    own_gold,
    read_gold,
)
from dragoman.inference.alignment import (
    AlignmentChoice,
    Word,
    align_words,
    best_links,
    split_words,
    word_weights,
    words_in_tokens,
)
from dragoman.inference.teacher_forcing import ForcedText, Seen, teacher_force
from dragoman.inference.translator import Translator
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import EncoderDecoder, build_model
from dragoman.store.description import Languages, ModelFiles
from dragoman.store.saving import save_model
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers
from dragoman.tokenizing.words import words_of

GOLD = own_gold()
BETWEEN = Languages("en", "it")
SOURCE_TEXTS = [f"the {one} sees the old {other}!" for one in ANIMALS for other in ANIMALS]
TARGET_TEXTS = [f"l'altro {one}o vede il vecchio {other}o!" for one in ANIMALS for other in ANIMALS]

links_of_a_sentence = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 3)))


def pair_with(sure: Links, unsure: Links = frozenset()) -> AlignedPair:
    return AlignedPair("a b c d", "e f g h", sure, unsure - sure)


# Agreement


def test_the_error_rate_is_that_of_the_paper() -> None:
    """Two links are sure, two possible; of the three that were found one is sure, one possible, one wrong."""
    pair = pair_with(frozenset({(0, 0), (1, 1)}), frozenset({(2, 2), (3, 3)}))
    found = agree(frozenset({(0, 0), (2, 2), (0, 3)}), pair)
    assert (found.precision, found.recall) == (2 / 3, 1 / 2)
    assert found.error_rate == pytest.approx(1 - (1 + 2) / (3 + 2))


@given(links_of_a_sentence, links_of_a_sentence, links_of_a_sentence)
def test_error_rates_lie_between_perfect_and_worst(found: Links, sure: Links, unsure: Links) -> None:
    agreement = agree(found, pair_with(sure, unsure))
    assert 0 <= agreement.error_rate <= 1
    assert 0 <= agreement.precision <= 1 and 0 <= agreement.recall <= 1


@given(links_of_a_sentence, links_of_a_sentence)
def test_all_sure_links_and_any_possible_ones_make_no_error(sure: Links, unsure: Links) -> None:
    pair = pair_with(sure, unsure)
    for found in (sure, pair.possible):
        assert agree(found, pair).error_rate == 0


@given(links_of_a_sentence, links_of_a_sentence)
def test_with_sure_links_alone_the_error_rate_is_one_minus_f1(found: Links, sure: Links) -> None:
    agreement = agree(found, pair_with(sure))
    if agreement.precision + agreement.recall and found and sure:
        f1 = 2 * agreement.precision * agreement.recall / (agreement.precision + agreement.recall)
        assert agreement.error_rate == pytest.approx(1 - f1)


def test_a_text_is_judged_by_its_links_not_by_its_sentences() -> None:
    long, short = pair_with(frozenset({(0, 0), (1, 1), (2, 2)})), pair_with(frozenset({(0, 0)}))
    assert judge([long.sure, frozenset({(3, 3)})], [long, short]) == Agreement(3, 3, 4, 4)
    assert judge([], []).error_rate == 0


def test_turning_pair_and_links_round_changes_no_agreement() -> None:
    for pair in GOLD[:10]:
        found = frozenset((place, place) for place in range(4))
        assert agree(found, pair) == agree(found, pair.reversed)
        assert pair.reversed.reversed == pair


# Aligned pairs


def test_our_own_pairs_are_whole() -> None:
    assert len(GOLD) == len({pair.source for pair in GOLD}) == len({pair.target for pair in GOLD}) == 100
    for pair in GOLD:
        assert 4 <= len(pair.source_words) - 1 <= 14, pair.source
        for side, words in enumerate((pair.source_words, pair.target_words)):
            linked = {link[side] for link in pair.possible}
            assert linked == set(range(len(words))), f"{pair.source}: words without a link, or links without a word"
        last = len(pair.source_words) - 1, len(pair.target_words) - 1
        assert last in pair.sure, f"the marks at the end of {pair.source} are not linked"
        assert not pair.sure & pair.unsure


def test_words_that_unite_two_are_surely_linked_to_both() -> None:
    (pair,) = (pair for pair in GOLD if pair.source.startswith("They arrived late"))
    place = pair.target_words.index("dello")
    assert {pair.source_words[source] for source, target in pair.sure if target == place} == {"of", "the"}


def test_our_own_pairs_serve_both_directions_and_no_other_language() -> None:
    assert own_gold("en-GB", "it-CH") == GOLD
    assert own_gold("it", "en") == [pair.reversed for pair in GOLD]
    assert own_gold("en", "de") == own_gold("it", "it") == own_gold("und", "und") == []


def test_a_file_of_aligned_pairs_is_read_like_our_own(tmp_path: Path) -> None:
    text = (files("dragoman.explaining") / "gold.en-it.tsv").read_text(encoding="utf-8")
    (tmp_path / "mine.tsv").write_text(text, encoding="utf-8")
    assert read_gold(tmp_path / "mine.tsv") == GOLD


def test_signs_say_what_is_sure(tmp_path: Path) -> None:
    (tmp_path / "mine.tsv").write_text("I sleep.\tDormo.\t0?0 1-0 2-1\n")
    (pair,) = read_gold(tmp_path / "mine.tsv")
    assert (pair.sure, pair.unsure) == ({(1, 0), (2, 1)}, {(0, 0)})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("I sleep.\tDormo.", "mine.tsv:2: an aligned pair is source, target and links .* not 2 columns"),
        ("I sleep.\tDormo.\t1-0\t2-1", "not 4 columns"),
        ("", "not 1 columns"),
        (" \tDormo.\t0-0", "mine.tsv:2: the source is blank"),
        ("I sleep.\t\t0-0", "the target is blank"),
        ("I sleep.\tDormo.\t", "no links; write them as in"),
        ("I sleep.\tDormo.\t1-0 2:1", "'2:1' is not a link; a link is two numbers of words"),
        ("I sleep.\tDormo.\t1-0 -2-1", "'-2-1' is not a link"),
        ("I sleep.\tDormo.\t1-0 1?0", "words 1 and 0 are linked twice"),
        ("I sleep.\tDormo.\t1-0 3-1", "names word 3 of the source; its 3 words, from 0, are I sleep ."),
        ("I sleep.\tDormo.\t1-0 2?2", "names word 2 of the target; its 2 words, from 0, are Dormo ."),
    ],
)
def test_a_line_that_is_no_aligned_pair_is_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "mine.tsv").write_text(f"Yes.\tSì.\t0-0 1-1\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_gold(tmp_path / "mine.tsv")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.tsv does not exist"):
        read_gold(tmp_path / "absent.tsv")


# From attention to words


def some_weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(shape[-1]), shape[:-1])


SOURCE_WORDS, TARGET_WORDS = [Word("a", 1, 3), Word("b", 3, 4)], [Word("c", 0, 1), Word("d", 1, 4), Word("e", 4, 5)]


@pytest.mark.parametrize("shifted", [False, True])
def test_weights_of_words_are_sums_over_source_and_means_over_target(shifted: bool) -> None:
    weights = some_weights(6, 5)
    found = word_weights(weights, SOURCE_WORDS, TARGET_WORDS, shifted)
    for (row, target), (column, source) in product(enumerate(TARGET_WORDS), enumerate(SOURCE_WORDS)):
        steps = [token + 1 if shifted else token for token in range(target.first, target.last)]
        sums = [sum(weights[step, token] for token in range(source.first, source.last)) for step in steps]
        assert found[row, column] == pytest.approx(sum(sums) / len(sums))
    assert (found.sum(1) < 1).all()  # the rest lies on the symbols around the source


def test_all_heads_at_once_give_what_each_gives_alone() -> None:
    weights = some_weights(2, 3, 6, 5)
    found = word_weights(weights, SOURCE_WORDS, TARGET_WORDS)
    for layer, head in product(range(2), range(3)):
        np.testing.assert_allclose(found[layer, head], word_weights(weights[layer, head], SOURCE_WORDS, TARGET_WORDS))


def test_a_choice_names_its_head_or_the_mean() -> None:
    weights = list(some_weights(2, 3, 6, 5))
    of_head = align_words(weights, SOURCE_WORDS, TARGET_WORDS, AlignmentChoice(1, 2))
    of_mean = align_words(weights, SOURCE_WORDS, TARGET_WORDS, AlignmentChoice(1, None, shifted=True))
    np.testing.assert_allclose(of_head.weights, word_weights(weights[1][2], SOURCE_WORDS, TARGET_WORDS))
    np.testing.assert_allclose(of_mean.weights, word_weights(weights[1].mean(0), SOURCE_WORDS, TARGET_WORDS, True))
    for found in (of_head, of_mean):
        assert found.links == {(int(row.argmax()), word) for word, row in enumerate(found.weights)}


def test_no_word_is_linked_that_no_step_reads_or_that_looks_at_no_word() -> None:
    """A translation that was cut has no step after its last token."""
    weights = some_weights(5, 5)
    weights[0] = [0.5, 0, 0, 0, 0.5]
    found = word_weights(weights, SOURCE_WORDS, TARGET_WORDS)
    assert {target for _, target in best_links(found)} == {1, 2}
    read = word_weights(weights, SOURCE_WORDS, TARGET_WORDS, shifted=True)
    assert {target for _, target in best_links(read)} == {0, 1}


def test_nothing_is_linked_without_words() -> None:
    for source, target in (([], TARGET_WORDS), (SOURCE_WORDS, []), ([], [])):
        found = align_words([some_weights(1, 6, 5)], source, target, AlignmentChoice(0, None))
        assert found.links == frozenset() and found.weights.shape == (len(target), len(source))


def test_a_choice_says_how_it_was_made() -> None:
    assert "head 4 of layer 2, at the step that reads the word" in AlignmentChoice(2, 4, shifted=True).how
    assert AlignmentChoice.unmeasured(6).how.startswith("the mean over the heads of layer 4, at the step that writes")
    assert "not measured" in AlignmentChoice.unmeasured(6).how
    assert AlignmentChoice.unmeasured(1).layer == 0


# Measuring


def saved(folder: Path, kind: str, languages: Languages = BETWEEN, **settings: Any) -> Translator:
    """A translator whose weights know nothing."""
    texts = list(zip(SOURCE_TEXTS, TARGET_TEXTS, strict=True))
    sizes = {"vocabulary_size": 340} if kind == "bpe" else {"minimum_frequency": 1}
    tokenizers = learn_tokenizers(lambda: iter(texts), TokenizerSettings.model_validate({"kind": kind, **sizes}))
    vocabularies = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    sizes = {"size": "tiny", "d_model": 16, "heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 2}
    config = ModelConfig.model_validate({**sizes, **vocabularies, **settings})
    save_model(folder / kind, build_model(config, seed=3), ModelFiles(tokenizers, languages))
    return Translator.load(folder / kind, "cpu", "float32")


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Translator]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: saved(folder, kind) for kind in ("bpe", "word")}


@pytest.fixture(params=["bpe", "word"])
def translator(request: pytest.FixtureRequest, translators: dict[str, Translator]) -> Translator:
    return translators[request.param]


@pytest.fixture
def bpe(translators: dict[str, Translator]) -> Translator:
    return translators["bpe"]


def encoded(translator: Translator, pair: AlignedPair) -> ForcedText:
    tokenizers = translator.tokenizers
    return ForcedText.of(
        translator.framing, tokenizers.source.encode(pair.source), tokenizers.target.encode(pair.target)
    )


def words_in(translator: Translator, given: ForcedText) -> tuple[list[Word], list[Word]]:
    tokenizers = translator.tokenizers
    return words_of(tokenizers.source, given.source or []), words_of(tokenizers.target, given.labels)


def test_words_are_found_in_the_text_as_they_are_in_the_tokens(bpe: Translator) -> None:
    for pair in GOLD:
        source, target = words_in(bpe, encoded(bpe, pair))
        before = len(bpe.framing.source_before)
        assert words_in_tokens(bpe.tokenizers.source, pair.source, pair.source_words, before) == source
        assert words_in_tokens(bpe.tokenizers.target, pair.target, pair.target_words) == target


def test_a_word_tokenizer_may_cut_words_its_own_way(translators: dict[str, Translator]) -> None:
    tokenizer, text = translators["word"].tokenizers.target, "L'altro orso c'è!"
    assert [text[first:last] for first, last in tokenizer.offsets(text)] == ["L'", "altro", "orso", "c'", "è", "!"]
    assert words_in_tokens(tokenizer, text, split_words(text), symbols=1) == [
        Word("L'", 1, 2),
        Word("altro", 2, 3),
        Word("orso", 3, 4),
        Word("c'è", 4, 6),
        Word("!", 6, 7),
    ]


def test_pairs_side_by_side_are_aligned_as_each_is_alone(bpe: Translator) -> None:
    for choice in (AlignmentChoice(1, 0), AlignmentChoice(0, None, shifted=True)):
        for pair, links in zip(GOLD[:5], align_pairs(bpe, GOLD[:5], choice), strict=True):
            given, seen = encoded(bpe, pair), Seen()
            teacher_force(bpe.model, [given], seen)
            weights = [seen[f"decoder.{layer}.cross_attention.weights"][0].numpy() for layer in range(2)]
            assert align_words(weights, *words_in(bpe, given), choice).links == links


@pytest.mark.parametrize("shifted", [False, True])
def test_a_head_that_aligns_makes_few_errors(bpe: Translator, monkeypatch: pytest.MonkeyPatch, shifted: bool) -> None:
    """Head 1 of layer 0 looks where the person who aligned the pairs looked; all others look anywhere."""
    pair_of = {tuple(encoded(bpe, pair).target): pair for pair in GOLD}

    def planted(_: EncoderDecoder, given: Sequence[ForcedText]) -> np.ndarray:
        sizes = max(len(each.target) for each in given), max(len(each.source or []) for each in given)
        weights = some_weights(len(given), 2, 2, *sizes)
        for each, head in zip(given, weights[:, 0, 1], strict=True):
            source, target = words_in(bpe, each)
            head[:] = 0
            for one, other in pair_of[tuple(each.target)].sure:
                head[target[other].first + shifted : target[other].last + shifted, source[one].first] = 1
        return weights

    monkeypatch.setattr(gold_alignment, "cross_weights", planted)
    planted_links, others = (align_pairs(bpe, GOLD, AlignmentChoice(0, head, shifted)) for head in (1, 0))
    assert judge(planted_links, GOLD).error_rate < 0.1 < judge(others, GOLD).error_rate


def test_a_measured_rate_does_not_depend_on_the_pairs_in_one_pass(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = measure_alignment(translator, GOLD[:7])
    monkeypatch.setattr(gold_alignment, "_AT_ONCE", 2)
    assert measure_alignment(translator, GOLD[:7]) == measured


def test_without_pairs_our_own_serve_their_languages(translator: Translator) -> None:
    choice = measure_alignment(translator)
    assert choice == measure_alignment(translator, GOLD) and choice.pairs == 100
    assert choice == AlignmentChoice.unmeasured(2).measured(choice.aer or 0.0, 100)
    assert "It was not trained to align; its alignment error rate is" in choice.how


def test_a_head_that_was_trained_to_align_is_the_choice(tmp_path: Path) -> None:
    translator = saved(tmp_path, "bpe", alignment_head=(1, 1))
    choice = measure_alignment(translator)
    assert (choice.layer, choice.head, choice.shifted, choice.pairs) == (1, 1, True, 100)
    assert choice.aer == judge(align_pairs(translator, GOLD, choice), GOLD).error_rate
    assert "It was trained to align; its alignment error rate is" in choice.how


def test_in_other_languages_nothing_is_measured_unless_pairs_are_given(tmp_path: Path) -> None:
    translator = saved(tmp_path, "bpe", Languages("nl", "de"))
    assert measure_alignment(translator) == AlignmentChoice.unmeasured(2) == AlignmentChoice(0, None)
    assert measure_alignment(translator, GOLD[:4]).pairs == 4


def test_a_pair_that_the_model_has_no_positions_for_is_named(tmp_path: Path) -> None:
    translator = saved(tmp_path, "word", positions="learned", max_positions=14)
    assert 0 < measure_alignment(translator).pairs < 100
    assert measure_alignment(translator, GOLD[1:3]).pairs == 2
    message = rf"aligned pair 13, {re.escape(repr(GOLD[12].source[:60]))}, has 17 tokens, but the model has .* for 14"
    with pytest.raises(DataError, match=message):
        measure_alignment(translator, GOLD)
