from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
import torch
from given_texts import log_probs_of
from small import language_model, translator
from small_records import store_language_model, store_translator
from torch import Tensor

from dragoman.errors import DataError
from dragoman.explaining.record import Contributions
from dragoman.explaining.why import Why, find_contributions, probability_drops, why
from dragoman.inference import teacher_forcing
from dragoman.inference.alignment import Word
from dragoman.inference.teacher_forcing import ForcedText, teacher_force
from dragoman.inference.translator import Translator
from dragoman.model.transformer import EncoderDecoder, LanguageModel, prepare_for_decoding
from dragoman.store.folder import load_model
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING
from dragoman.tokenizing.words import words_of

GIVEN = ForcedText.of(DEFAULT_FRAMING, [5, 9, 7, 12], [8, 4, 21, 6, 4])
READ = ForcedText(None, [8, 4, 21, 6, 4, 17], [4, 21, 6, 4, 17, 9])
SOURCE_WORDS = [Word("a", 1, 2), Word("bc", 2, 4), Word("d", 4, 5)]
TARGET_WORDS = [Word("e", 1, 2), Word("fgh", 2, 5), Word("i", 5, 6)]
READ_WORDS = [Word("e", 0, 1), Word("fgh", 1, 4), Word("i", 4, 6)]
MODELS = [
    pytest.param(lambda: translator(preset="paper"), id="paper"),
    pytest.param(lambda: translator(preset="modern"), id="modern"),
    pytest.param(lambda: language_model(preset="modern"), id="language model"),
]
Model = EncoderDecoder | LanguageModel


def text_of(model: Model) -> tuple[ForcedText, list[Word], list[Word]]:
    return (GIVEN, SOURCE_WORDS, TARGET_WORDS) if isinstance(model, EncoderDecoder) else (READ, [], READ_WORDS)


def log_probs(model: Model, given: ForcedText) -> Tensor:
    """(T, V)."""
    hidden, _ = teacher_force(model, [given])
    return model.project(hidden).log_softmax(-1)


# Erasure


def without(given: ForcedText, stack: str, word: Word, step: int) -> ForcedText:
    """What a model has read at a step, without a word."""
    source, target = given.source, given.target[: step + 1]
    if stack == "encoder" and source is not None:
        source = [id_ for place, id_ in enumerate(source) if not word.first <= place < word.last]
    if stack == "decoder":
        target = [id_ for place, id_ in enumerate(target) if not word.first <= place < word.last]
    return ForcedText(source, target, [])


@pytest.mark.parametrize("make", MODELS)
def test_erasure_is_a_pass_over_each_shortened_text(make):
    model = make()
    given, source_words, target_words = text_of(model)
    candidates = torch.tensor([[label, 11, 3] for label in given.labels])
    found, whole = probability_drops(model, given, source_words, target_words, candidates), log_probs(model, given)
    words = [*(("encoder", word) for word in source_words), *(("decoder", word) for word in target_words)]
    assert found.shape == (len(words), len(given.target), 3)
    for (stack, word), rows in zip(words, found, strict=True):
        for step, row in enumerate(rows):
            left = without(given, stack, word, step)
            after = log_probs(model, left)[-1] if left.target else whole[step]
            expected = (whole[step] - after)[candidates[step]]
            torch.testing.assert_close(row.double(), expected.double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", MODELS)
def test_many_passes_find_what_one_does(make, monkeypatch: pytest.MonkeyPatch):
    model = make()
    given, source_words, target_words = text_of(model)
    labels = torch.tensor([given.labels]).T
    together = probability_drops(model, given, source_words, target_words, labels)
    monkeypatch.setattr(teacher_forcing, "PASS_TOKENS", 1)
    torch.testing.assert_close(
        probability_drops(model, given, source_words, target_words, labels), together, rtol=1e-4, atol=1e-5
    )


def test_a_word_says_exactly_nothing_before_it_is_read():
    found = probability_drops(translator(), GIVEN, [], TARGET_WORDS, torch.tensor([GIVEN.labels]).T)
    for row, word in zip(found, TARGET_WORDS, strict=True):
        assert not row[: word.first].any() and row[word.first :].all()


def test_a_language_model_cannot_lose_the_only_word_that_it_read():
    found = probability_drops(
        language_model(), ForcedText(None, [8, 9], [9, 4]), [], [Word("ab", 0, 2)], torch.tensor([[9], [4]])
    )
    assert found.tolist() == [[[0.0], [0.0]]]


# Everything about one text


def all_of(model: Model, candidates: int = 5) -> Contributions:
    given, source_words, target_words = text_of(model)
    best = log_probs(model, given).topk(candidates).indices
    return find_contributions(model, given, source_words, target_words, best)


@pytest.mark.parametrize("make", MODELS)
def test_a_record_holds_what_the_functions_find(make):
    model = make()
    given, source_words, target_words = text_of(model)
    found = all_of(model)
    fall = probability_drops(model, given, source_words, target_words, log_probs(model, given).topk(5).indices)
    np.testing.assert_allclose(found.erasure, fall, rtol=1e-5, atol=1e-6)
    assert found.erased == (
        *(("encoder", number) for number in range(len(source_words))),
        *(("decoder", number) for number in range(len(target_words))),
    )
    assert (found.erasure.dtype, found.written_erasure.dtype) == (np.float32, np.float32)


def test_what_was_written_falls_as_a_candidate_does():
    found = all_of(translator(), candidates=23)
    best = log_probs(translator(), GIVEN).topk(23).indices
    places = (best == torch.tensor(GIVEN.labels)[:, None]).int().argmax(1)
    same = found.erasure[:, np.arange(len(GIVEN.labels)), places.numpy()]
    np.testing.assert_allclose(found.written_erasure, same, atol=1e-6)


# Why this word rather than that one


@pytest.fixture(scope="module")
def word_model(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(store_translator(tmp_path_factory.mktemp("words") / "model"), "cpu", "float32")


@pytest.fixture(scope="module")
def piece_model(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(store_translator(tmp_path_factory.mktemp("pieces") / "model", kind="bpe"), "cpu", "float32")


SOURCE, TARGET = "the station is old and the bread is red .", "la stazione è vecchia e il pane è rosso ."


def ask(loaded: Translator, word: str, other: str, target: str = TARGET) -> Why:
    return why(loaded.model, loaded.tokenizers, loaded.framing, SOURCE, target, word, other)


def test_a_question_is_answered_by_the_two_falls(word_model: Translator):
    found, tokenizers = ask(word_model, "pane", "cane"), word_model.tokenizers
    given = ForcedText.of(DEFAULT_FRAMING, tokenizers.source.encode(SOURCE), tokenizers.target.encode(TARGET))
    words = words_of(tokenizers.source, given.source or []), words_of(tokenizers.target, given.target[:7])
    both = torch.tensor(tokenizers.target.encode("pane cane"))
    fall = probability_drops(word_model.model, given, *words, both.expand(len(given.target), 2))[:, 6]
    assert found.step == 6 and found.pieces == ("pane", "cane")
    assert [reason.text for reason in found.reasons] == [*SOURCE.split(), *TARGET.split()[:6]]
    assert [reason.stack for reason in found.reasons] == ["encoder"] * 10 + ["decoder"] * 6
    answered = torch.tensor([[reason.drop, reason.drop_of_alternative] for reason in found.reasons])
    torch.testing.assert_close(answered, fall, rtol=1e-4, atol=1e-5)
    contrast = torch.tensor([reason.contrast for reason in found.reasons])
    torch.testing.assert_close(contrast, fall[:, 0] - fall[:, 1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["word_model", "piece_model"])
def test_the_answer_turns_round_with_the_question(kind: str, request: pytest.FixtureRequest):
    loaded = request.getfixturevalue(kind)
    one = ask(loaded, "rosso", "vecchia")
    back = ask(loaded, "vecchia#2", "rosso", TARGET.replace("rosso", "vecchia"))
    assert back.pieces == one.pieces[::-1] and back.log_probs == one.log_probs[::-1]
    for there, here in zip(one.reasons, back.reasons, strict=True):
        assert there.contrast == pytest.approx(-here.contrast, abs=1e-5)


def test_a_word_of_pieces_is_judged_at_the_first_that_differs(piece_model: Translator):
    pieces = piece_model.tokenizers.target
    target = "la stazionare"  # a word that the vocabulary spells in pieces
    written, other = pieces.encode(target), pieces.encode("la stazionate")
    shared = next(place for place, (a, b) in enumerate(zip(written, other, strict=False)) if a != b)
    assert shared > len(pieces.encode("la")), "the two words share a piece"
    found = ask(piece_model, "stazionare", "stazionate", target)
    assert found.step == shared and found.pieces == tuple(pieces.tokens([written[shared], other[shared]]))
    assert found.reasons[-1].text == pieces.decode(written[:shared]).split()[-1], "what was written of it speaks too"


def test_log_probabilities_are_those_of_both_texts(piece_model: Translator):
    found = ask(piece_model, "pane", "rosso")
    scores = []
    for target in (TARGET, TARGET.replace("pane", "rosso")):
        ids = [tokenizer.encode(text) for tokenizer, text in zip(piece_model.tokenizers, (SOURCE, target), strict=True)]
        scores.append(float(log_probs_of(piece_model.model, [ForcedText.of(DEFAULT_FRAMING, *ids)])[0][found.step]))
    assert found.log_probs == pytest.approx(tuple(scores), rel=1e-4)


@pytest.mark.parametrize(
    ("word", "other", "message"),
    [
        ("gatto", "cane", "'gatto' is no word of the translation; its words are la, stazione, è, vecchia, e, il, pane"),
        ("è", "e", "'è' appears 2 times in the translation; name one, as in è#2"),
        ("è#3", "e", "there is no è#3: 'è' appears 2 times in the translation"),
        ("pane#2", "cane", "there is no pane#2: 'pane' appears once"),
        ("pane", "pane", "the model writes 'pane' and 'pane' with the same pieces"),
        ("pane", "xyz", "'xyz' is not in the model's vocabulary"),
    ],
)
def test_a_question_without_an_answer_is_refused(word_model: Translator, word: str, other: str, message: str):
    with pytest.raises(DataError, match=message):
        ask(word_model, word, other)


def test_an_unknown_word_is_named_as_it_stands_in_the_text(word_model: Translator):
    target = "la zebra e l'ornitorinco"
    with pytest.raises(DataError, match="'zebra' is not in the model's vocabulary, so its probability isn't known"):
        ask(word_model, "zebra", "cane", target)
    with pytest.raises(DataError, match=r"its words are la, zebra, e, .*ornitorinco$"):
        ask(word_model, "gatto", "cane", target)


@pytest.mark.parametrize("kind", ["word", "bpe", "byte_bpe"])
def test_words_are_found_in_either_normal_form(kind: str, tmp_path: Path):
    loaded = Translator.load(store_translator(tmp_path / "model", kind=kind), "cpu", "float32")
    for target in (TARGET, normalize("NFD", TARGET)):
        expected = ask(loaded, "è#2", "vecchia", target)
        assert ask(loaded, normalize("NFD", "è#2"), "vecchia", target) == expected
        assert expected.reasons[-1].text == "pane"


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_a_language_model_answers_of_its_own_text(kind: str, tmp_path: Path):
    stored = load_model(store_language_model(tmp_path / "model", kind=kind))
    assert isinstance(stored.model, LanguageModel)
    model, tokenizers = prepare_for_decoding(stored.model, "cpu", torch.float32), stored.tokenizers
    found = why(model, tokenizers, DEFAULT_FRAMING, None, "the old cat sees the dog .", "dog", "bread")
    assert [reason.text for reason in found.reasons][:5] == ["the", "old", "cat", "sees", "the"]
    assert {reason.stack for reason in found.reasons} == {"decoder"}
    with pytest.raises(DataError, match="'water' is no word of the text"):
        why(model, tokenizers, DEFAULT_FRAMING, None, "the old cat sees the dog .", "water", "dog")
    with pytest.raises(DataError, match="nothing comes before the choice of 'the#1'"):
        why(model, tokenizers, DEFAULT_FRAMING, None, "the old cat sees the dog .", "the#1", "good")


def test_a_language_model_needs_a_text_that_reaches_the_difference(tmp_path: Path):
    stored = load_model(store_language_model(tmp_path / "model", kind="bpe"))
    assert isinstance(stored.model, LanguageModel)
    model = prepare_for_decoding(stored.model, "cpu", torch.float32)
    with pytest.raises(
        DataError, match="'old' and 'oldzz' have the same first pieces, and the text ends before they differ"
    ):
        why(model, stored.tokenizers, DEFAULT_FRAMING, None, "the old", "old", "oldzz")
