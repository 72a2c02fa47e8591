"""Predictions: calibrated probabilities, words that spoke, valid tags and whole words, from models of any weights."""

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from closeness import assert_close
from small import small_config
from torch import Tensor

from dragoman.cli.main import main
from dragoman.errors import DecodeError, TokenizerError
from dragoman.inference import predictor as predictor_module
from dragoman.inference.predictor import Classified, EncodedText, Filled, Predictor, Tagged, predict, without_each
from dragoman.inference.translator import Translator
from dragoman.model.transformer import EncoderModel, build_model
from dragoman.store.description import ModelFiles, StoredModel
from dragoman.store.folder import load_model
from dragoman.store.saving import save_model
from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, END, MASK, START, UNKNOWN, Framing
from dragoman.tokenizing.tokenizer import Tokenizer, encode_words, split_words
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

TEXT = "the old dog barks . a small cat sleeps , and the dog of the cat barks ( at the old cat ) . l'alba"
TOPICS = Labels(task="classify", names=("animal", "drink", "food", "place"))
BIO = Labels(task="tag", names=("O", "B-person", "I-person", "B-place", "I-place"))
KINDS = {
    "word": {"kind": "word", "minimum_frequency": 1},
    "bpe": {"kind": "bpe", "vocabulary_size": 340},
    "unigram": {"kind": "unigram", "vocabulary_size": 340},
    "byte_bpe": {"kind": "byte_bpe", "vocabulary_size": 340},
}
MARIAN = Framing(source_before=())


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    return {
        kind: learn_tokenizer([TEXT] * 9, TokenizerSettings.model_validate(settings))
        for kind, settings in KINDS.items()
    }


def stored(tokenizer: Tokenizer, labels: Labels | None, framing: Framing, **settings: Any) -> StoredModel:
    """A model folder in memory. Its weights are random and large, so that no two answers are alike."""
    known = {"labels": labels.size} if labels else {}
    pooling = {"pooling": "mean"} if labels and labels.task == "classify" else {}
    config = small_config(family="encoder", source_vocabulary=tokenizer.size, **known, **pooling, **settings)
    model = build_model(config, seed=6)
    with torch.no_grad():
        model.output.mul_(8)
    return StoredModel(
        model.eval(),
        config,
        ModelFiles(Tokenizers(tokenizer, tokenizer), labels=labels, framing=framing),
        Path("model"),
    )


def predictor(
    tokenizer: Tokenizer, labels: Labels | None = None, framing: Framing = DEFAULT_FRAMING, **settings: Any
) -> Predictor:
    return Predictor(stored(tokenizer, labels, framing, **settings), "cpu", "float32")


TEXTS = ["the old dog barks .", "", "a cat", "and the dog of the cat , unseen", "dog", "the " * 30 + "end"]


# Classifying


def test_probabilities_sum_to_one_and_the_temperature_divides_the_logits(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["bpe"]
    logits = torch.from_numpy(predictor(tokenizer, TOPICS).text_logits(TEXTS)).double()
    for temperature in (0.3, 1.0, 4.0):
        found = predictor(tokenizer, TOPICS.but(temperature=temperature)).predict(TEXTS)
        for each, row in zip(found, (logits / temperature).softmax(1), strict=True):
            assert isinstance(each, Classified)
            chances = {choice.name: choice.probability for choice in each.labels}
            assert sum(chances.values()) == pytest.approx(1, abs=1e-12)
            assert [chances[name] for name in TOPICS.names] == pytest.approx(row.tolist(), abs=1e-6)
            assert [*chances.values()] == sorted(chances.values(), reverse=True)
            assert each.label == TOPICS.names[int(row.argmax())]
            json.dumps(each.facts())


def test_no_more_labels_are_named_than_asked_for(tokenizers: dict[str, Tokenizer]) -> None:
    [found] = predictor(tokenizers["word"], TOPICS).predict(["the dog"], best=2)
    [every] = predictor(tokenizers["word"], TOPICS).predict(["the dog"], best=50)
    assert isinstance(found, Classified) and isinstance(every, Classified)
    assert found.labels == every.labels[:2] and len(every.labels) == 4


@pytest.mark.parametrize("framing", [DEFAULT_FRAMING, MARIAN], ids=["symbols on both sides", "one after"])
@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_words_speak_by_what_the_label_loses_without_them(
    kind: str, framing: Framing, tokenizers: dict[str, Tokenizer]
) -> None:
    tokenizer, text = tokenizers[kind], "the old dogs, l'alba (barks)"
    seer = predictor(tokenizer, TOPICS, framing)
    [found] = seer.predict([text])
    assert isinstance(found, Classified)
    words = [word for word, _ in split_words(text)]
    whole = [[number] for number in tokenizer.encode(text)]
    pieces = whole if kind == "word" else _cut_by_hand(tokenizer, text, words)

    def log_prob(rest: list[list[int]]) -> Tensor:
        ids = torch.tensor([*framing.source_before, *itertools.chain(*rest), *framing.source_after])
        logits = seer.model.project(seer.model(ids, torch.tensor([len(ids)])))[0]
        return logits.double().log_softmax(0)[TOPICS.names.index(found.label)]

    without = [[*pieces[:number], *pieces[number + 1 :]] for number in range(len(pieces))]
    expected = torch.stack([log_prob(pieces) - log_prob(rest) for rest in without])
    assert [word for word, _ in found.words] == words
    shares = torch.tensor([share for _, share in found.words], dtype=torch.float64)
    torch.testing.assert_close(shares, expected.detach(), rtol=1e-3, atol=1e-5)


def test_words_speak_only_if_they_are_asked_for(tokenizers: dict[str, Tokenizer]) -> None:
    seer = predictor(tokenizers["bpe"], TOPICS)
    for whole, bare in zip(seer.predict(TEXTS), seer.predict(TEXTS, words=False), strict=True):
        assert isinstance(whole, Classified) and isinstance(bare, Classified)
        assert (bare.labels, bare.words) == (whole.labels, ())


def test_texts_without_a_word_are_made_as_they_are_read(
    tokenizers: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text of W words makes W rows, so all of them together would be quadratic in its length."""
    made, most = 0, 0

    def counted(*given: Any) -> Iterator[EncodedText]:
        nonlocal made, most
        for row in without_each(*given):
            made += 1
            most = max(most, made)
            yield row

    def read(*given: Any) -> list[np.ndarray]:
        nonlocal made
        made = 0
        return reads(*given)

    seer, reads = predictor(tokenizers["word"], TOPICS), predictor_module._read
    monkeypatch.setattr(predictor_module, "without_each", counted)
    monkeypatch.setattr(predictor_module, "_read", read)
    monkeypatch.setattr(predictor_module, "BATCH_TOKENS", 100)
    [found] = seer.predict(["the " * 40])
    assert isinstance(found, Classified) and len(found.words) == 40
    assert most <= 3, "rows of 41 tokens, 100 tokens at a time, and one that waits"


def _cut_by_hand(tokenizer: Tokenizer, text: str, words: list[str]) -> list[list[int]]:
    """The pieces of each word, which join to it once spaces are gone."""
    ids, cut = tokenizer.encode(text), list[list[int]]()
    for word in words:
        cut.append([])
        while b"".join(map(tokenizer.spelling, cut[-1])).strip() != word.encode():
            cut[-1].append(ids.pop(0))
    assert not ids
    return cut


def test_a_text_without_a_word_is_read_as_in_training(tokenizers: dict[str, Tokenizer]) -> None:
    seer = predictor(tokenizers["word"], TOPICS)
    [found] = seer.predict([" "])
    assert isinstance(found, Classified) and found.words == () and len(found.labels) == 4
    [[ids]] = encode_words([[" "]], tokenizers["word"])
    assert ids == [UNKNOWN]
    assert np.array_equal(seer.text_logits([" "])[0], seer.logits([EncodedText(ids)])[0])
    assert seer.predict([]) == []


# Tagging


def is_valid(names: list[str]) -> bool:
    """Whether every I-x follows a B-x or an I-x."""
    return all(
        not name.startswith("I-") or before[1:] == name[1:] for before, name in itertools.pairwise(["O", *names])
    )


def test_no_invalid_sequence_comes_out_even_of_a_model_that_knows_nothing(tokenizers: dict[str, Tokenizer]) -> None:
    seer, dice = predictor(tokenizers["bpe"], BIO), np.random.RandomState(2)
    sentences = [dice.choice(TEXT.split(), dice.randint(1, 15)).tolist() for _ in range(100)]
    tagged = [[choice.name for choice in row] for row in seer.tag(sentences)]
    assert [len(row) for row in tagged] == [len(row) for row in sentences]
    assert all(map(is_valid, tagged))
    alone = [[BIO.names[best] for best in logits.argmax(1)] for logits in seer.word_logits(sentences)]
    assert not all(map(is_valid, alone)), "the likeliest labels of words alone would not do"


def test_the_labels_of_a_sentence_are_its_likeliest_valid_ones(tokenizers: dict[str, Tokenizer]) -> None:
    seer = predictor(tokenizers["bpe"], BIO)
    every = [names for names in itertools.product(BIO.names, repeat=3) if is_valid([*names])]
    for sentence in itertools.permutations(["dog", "barks", "alba", "the"], 3):
        [logits], [found] = seer.word_logits([sentence]), seer.tag([sentence])
        chance = torch.from_numpy(logits).double().log_softmax(1)

        def total(names: tuple[str, ...], chance: torch.Tensor = chance) -> float:
            return sum(float(row[BIO.names.index(name)]) for row, name in zip(chance, names, strict=True))

        assert tuple(choice.name for choice in found) == max(every, key=total)
        for choice, row in zip(found, chance.exp(), strict=True):
            assert choice.probability == pytest.approx(float(row[BIO.names.index(choice.name)]), rel=1e-6)


def test_the_temperature_divides_the_logits_of_tags_too(tokenizers: dict[str, Tokenizer]) -> None:
    sentence = ["the", "old", "dog"]
    [sharp], [flat] = (predictor(tokenizers["bpe"], BIO.but(temperature=each)).tag([sentence]) for each in (1.0, 4.0))
    [logits] = predictor(tokenizers["bpe"], BIO).word_logits([sentence])
    expected = (torch.from_numpy(logits).double() / 4).softmax(1)
    assert [each.name for each in flat] == [each.name for each in sharp]
    for choice, row in zip(flat, expected, strict=True):
        assert choice.probability == pytest.approx(float(row[BIO.names.index(choice.name)]), rel=1e-6)


def test_words_of_several_pieces_are_tagged_by_their_first(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer, sentence = tokenizers["bpe"], ["dogbarks", "the", "xyzzy"]
    seer, pieces = predictor(tokenizer, BIO), [tokenizer.encode(word) for word in sentence]
    assert len(pieces[0]) > 1 and len(pieces[2]) > 1
    ids = [START, *itertools.chain(*pieces), END]
    firsts = torch.tensor([1, 1 + len(pieces[0]), 1 + len(pieces[0]) + len(pieces[1])])
    with torch.inference_mode():
        expected = seer.model.project(seer.model(torch.tensor(ids), torch.tensor([len(ids)]), firsts))
    [found] = seer.word_logits([sentence])
    assert_close(torch.from_numpy(found), expected)


def test_a_sentence_of_no_words_has_no_labels(tokenizers: dict[str, Tokenizer]) -> None:
    seer = predictor(tokenizers["bpe"], BIO)
    assert seer.tag([[]]) == [()]
    some = seer.tag([["dog"], [], ["the", "cat"]])
    assert [len(row) for row in some] == [1, 0, 2]
    [nothing, text] = seer.predict(["", "The dog barks."])
    assert isinstance(nothing, Tagged) and isinstance(text, Tagged)
    assert (nothing.words, nothing.labels) == ((), ())
    assert text.words == ("The", "dog", "barks", ".") and len(text.labels) == 4
    json.dumps(text.facts())


def test_words_that_stand_between_spaces_already_are_not_cut_again(
    classifier: Path, tokenizers: dict[str, Tokenizer]
) -> None:
    seer, text = predictor(tokenizers["bpe"], BIO), "the well-known dog's U.S. $5 (cat)"
    [cut], [kept] = seer.predict([text]), seer.predict([text], pretokenized=True)
    assert isinstance(cut, Tagged) and isinstance(kept, Tagged)
    assert kept.words == tuple(text.split()) != cut.words
    assert kept.labels == seer.tag([text.split()])[0]
    for labels in (TOPICS, None):
        with pytest.raises(DecodeError, match="model labels no words, so its texts are plain; leave pretokenized out"):
            predictor(tokenizers["bpe"], labels).predict(["the [MASK]"], pretokenized=True)
    assert main(["predict", str(classifier), "the dog", "--pretokenized", "--quiet"]) == DecodeError.exit_code


# Filling in


@pytest.mark.parametrize("kind", ["word", "bpe", "byte_bpe"])
@pytest.mark.parametrize(
    "text",
    ["the {} barks .", "{} dog barks", "the old {}", "the {} {} barks", "the {}, and", "the {}.", "a ({})", "l'{} x"],
)
def test_a_mask_takes_the_place_of_a_word_and_of_nothing_else(
    text: str, kind: str, tokenizers: dict[str, Tokenizer]
) -> None:
    """What the model reads is what it would read in training, if the words that stand there were hidden."""
    tokenizer, seer = tokenizers[kind], predictor(tokenizers[kind])
    row, whole = seer._masked(text.replace("{}", "[MASK]")), tokenizer.encode(text.replace("{}", "cat"))
    word = [number for number in range(tokenizer.size) if tokenizer.spelling(number).strip() == b"cat"]
    assert row.places is not None and len(row.places) == text.count("{}")
    if any(number in whole for number in word):  # it is one token there
        assert row.ids == [MASK if number in word else number for number in whole]
    assert [row.ids[place] for place in row.places] == [MASK] * len(row.places)
    assert sum(number == MASK for number in row.ids) == len(row.places)


@pytest.mark.parametrize("kind", ["word", "bpe", "unigram", "byte_bpe"])
def test_probabilities_are_among_whole_words(kind: str, tokenizers: dict[str, Tokenizer]) -> None:
    seer = predictor(tokenizers[kind])
    [found] = seer.predict(["the [MASK] barks at the [MASK], ([MASK])."], best=10_000)
    assert isinstance(found, Filled) and len(found.masks) == 3
    for mask in found.masks:
        assert math.fsum(choice.probability for choice in mask) == pytest.approx(1, abs=1e-12)
        names = [choice.name for choice in mask]
        assert all(name.removesuffix("'").isalpha() for name in names) and len({*names}) == len(names)
        assert [choice.probability for choice in mask] == sorted((c.probability for c in mask), reverse=True)
    assert (
        seer.predict(["[MASK] ."], best=2)[0].facts()["masks"][0]
        == seer.predict(["[MASK] ."])[0].facts()["masks"][0][:2]
    )


@pytest.mark.parametrize(
    "text", ["the do[MASK] barks", "the [MASK]s bark", "a [MASK][MASK] barks", "[MASK]1", "dog2[MASK]"]
)
@pytest.mark.parametrize("kind", [*KINDS])
def test_a_mask_that_is_part_of_a_word_is_refused(text: str, kind: str, tokenizers: dict[str, Tokenizer]) -> None:
    with pytest.raises(DecodeError, match=r"\[MASK\] is part of a word, but replaces a whole one; put spaces"):
        predictor(tokenizers[kind]).predict(["the [MASK]", text])


def test_a_tokenizer_of_words_takes_no_part_of_a_hyphenated_one(tokenizers: dict[str, Tokenizer]) -> None:
    with pytest.raises(DecodeError, match=r"\[MASK\] is part of a word"):
        predictor(tokenizers["word"]).predict(["the [MASK]-cat of [MASK]"])


def test_a_text_without_a_mask_is_refused(tokenizers: dict[str, Tokenizer]) -> None:
    for text in ("the dog barks", "", "the [mask] barks"):
        with pytest.raises(
            DecodeError, match=r"has no \[MASK\] to fill in; write \[MASK\] where a word is to be found"
        ):
            predictor(tokenizers["word"]).predict(["the [MASK]", text])


@pytest.mark.parametrize("kind", ["word", "bpe", "byte_bpe"])
def test_words_of_every_script_can_be_found(kind: str) -> None:
    """Vowel signs are marks, not letters; words with hyphens and apostrophes are tokens of word tokenizers alone."""
    text = "वह हिन्दी बोलती है जो मैं सीखता हूँ well-known l'alba"
    tokenizer = learn_tokenizer([text] * 9, TokenizerSettings.model_validate({**KINDS[kind], "vocabulary_size": 900}))
    [found] = predictor(tokenizer).predict(["[MASK]"], best=10_000)
    assert isinstance(found, Filled)
    names = {choice.name for choice in found.masks[0]}
    assert {"हिन्दी", "बोलती", "मैं", "l'"} <= names
    assert ("well-known" in names) == (kind == "word")


def test_a_vocabulary_without_a_whole_word_is_refused() -> None:
    tokenizer = learn_tokenizer(["abc"], TokenizerSettings(kind="byte_bpe", vocabulary_size=260))
    with pytest.raises(DecodeError, match="no token that is a whole word"):
        predictor(tokenizer).predict(["the [MASK]"])


# Together and alone

ANY = [TOPICS, BIO, None]


@pytest.mark.parametrize("limit", [4_096, 12])
@pytest.mark.parametrize("labels", ANY, ids=["classify", "tag", "fill"])
def test_a_text_alone_is_predicted_as_among_others(
    labels: Labels | None, limit: int, tokenizers: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    seer = predictor(tokenizers["bpe"], labels)
    texts = TEXTS if labels else [f"[MASK] {text} [MASK]" for text in TEXTS]
    alone = [seer.predict([text])[0] for text in texts]
    monkeypatch.setattr(predictor_module, "BATCH_TOKENS", limit)
    together = seer.predict(texts)
    assert [each.text for each in together] == texts
    assert [_names(each) for each in together] == [_names(each) for each in alone]
    for one, other in zip(together, alone, strict=True):
        assert _numbers(one) == pytest.approx(_numbers(other), rel=1e-3, abs=1e-5)


def _names(found: Any) -> list[Any]:
    return [part for part in _leaves(found.facts()) if isinstance(part, str)]


def _numbers(found: Any) -> list[float]:
    return [part for part in _leaves(found.facts()) if isinstance(part, float)]


def _leaves(found: Any) -> list[Any]:
    parts = found.values() if isinstance(found, dict) else found if isinstance(found, list | tuple) else None
    return [found] if parts is None else [leaf for part in parts for leaf in _leaves(part)]


@pytest.mark.parametrize("labels", ANY, ids=["classify", "tag", "fill"])
@pytest.mark.parametrize("word", ["dog ", "狗", "x"])
def test_a_giant_text_is_refused_before_it_is_read(
    labels: Labels | None, word: str, tokenizers: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    seer = predictor(tokenizers["word"], labels)
    monkeypatch.setattr(Tokenizer, "encode_batch", lambda *_: pytest.fail("the tokenizer was asked"))
    with pytest.raises(DecodeError, match="text 2 has [0-9,]+ characters, too many for 8,192 tokens; give it in parts"):
        seer.predict(["[MASK]", word * 5_000_000])


@pytest.mark.parametrize("labels", ANY, ids=["classify", "tag", "fill"])
def test_a_text_longer_than_the_positions_is_refused(labels: Labels | None, tokenizers: dict[str, Tokenizer]) -> None:
    seer = predictor(tokenizers["word"], labels, positions="learned", max_positions=8)
    fits = "the old dog barks at [MASK]"
    if labels:
        fits = fits.replace("[MASK]", "cat")
    assert len(seer.predict([fits])) == 1
    message = "text 3 has 9 tokens, but the model has positions for 8; give it in parts"
    with pytest.raises(DecodeError, match=message):
        seer.predict([fits, "[MASK]" if labels is None else "", f"{fits} ."])


def test_more_positions_than_are_read_whole_allow_no_longer_text(
    tokenizers: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictor_module, "LONGEST_WHOLE", 8)
    seer = predictor(tokenizers["word"], TOPICS, positions="learned", max_positions=16)
    with pytest.raises(DecodeError, match="text 1 has 10 tokens, but the model has positions for 8"):
        seer.predict(["the old dog barks at the cat ."])


@pytest.mark.parametrize("labels", ANY, ids=["classify", "tag", "fill"])
def test_wrong_questions_are_one_line(labels: Labels | None, tokenizers: dict[str, Tokenizer]) -> None:
    seer = predictor(tokenizers["bpe"], labels)
    with pytest.raises(DecodeError, match="predict takes several texts, but was given one; put it in a list"):
        seer.predict("the [MASK]")
    for best in (0, -1):
        with pytest.raises(DecodeError, match=f"best must be at least 1, but is {best}"):
            seer.predict(["the [MASK]"], best=best)
    for pretokenized in (False, True) if labels is BIO else (False,):
        with pytest.raises(TokenizerError, match="half of a surrogate pair .* read the text as UTF-8"):
            seer.predict(["the [MASK]", "a \udcff [MASK]"], pretokenized=pretokenized)


# Folders, and other models


@pytest.fixture(scope="module")
def classifier(tokenizers: dict[str, Tokenizer], tmp_path_factory: pytest.TempPathFactory) -> Path:
    found, folder = stored(tokenizers["bpe"], TOPICS, DEFAULT_FRAMING), tmp_path_factory.mktemp("predict") / "topics"
    save_model(folder, found.model, found.files)
    return folder


def test_a_folder_predicts_as_the_model_in_memory_does(classifier: Path, tokenizers: dict[str, Tokenizer]) -> None:
    assert isinstance(load_model(classifier).model, EncoderModel)
    found = predict(classifier, TEXTS, device="cpu", precision="float32", threads=1)
    assert found == predictor(tokenizers["bpe"], TOPICS).predict(TEXTS)


def test_the_command_shows_labels_and_words_or_json(classifier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["the old dog", "a cat barks", "the cat", "a small dog"]
    every = predict(classifier, texts, device="cpu", precision="float32")
    found = max(every, key=lambda each: max(share for _, share in each.facts()["words"]))
    assert isinstance(found, Classified)
    command = ["predict", str(classifier), "--device", "cpu", "--precision", "float32", "--quiet", found.text]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{found.label} {found.labels[0].probability:.1%}  {found.labels[1].name}")
    spoke = max(found.words, key=lambda word: word[1])
    assert f"(evidence for {found.label}: {spoke[0]}" in told
    assert main([*command, "--format", "json", "--best", "1"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    facts = json.loads(line)
    assert [each["name"] for each in facts["labels"]] == [found.label]
    assert [word for word, _ in facts["words"]] == found.text.split()


def test_the_command_says_which_words_spoke_for_a_label_of_texts_but_not_of_files(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_text("the old dog\n")
    command = ["predict", str(classifier), "--device", "cpu", "--quiet", "--format", "json"]

    def words(*more: str) -> int:
        assert main([*command, *more]) == 0
        return len(json.loads(capsys.readouterr().out)["words"])

    file = ("--input", str(tmp_path / "texts.txt"))
    assert (words("the old dog"), words("the old dog", "--no-words")) == (3, 0)
    assert (words(*file), words(*file, "--words")) == (0, 3)


def test_a_classifier_is_refused_by_what_translates_with_what_to_use(
    classifier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DecodeError, match="holds a model that labels texts or fills in words; use dragoman predict"):
        Translator.load(classifier)
    assert main(["translate", str(classifier), "the dog", "--quiet"]) == 2
    assert "use dragoman predict" in capsys.readouterr().err


def test_other_models_are_refused_with_what_to_use(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="holds a model that translates; use dragoman translate"):
        Predictor.load(run_folder)
    model = build_model(small_config(family="language_model"), seed=1)
    save_model(tmp_path / "writer", model, ModelFiles())
    with pytest.raises(DecodeError, match="holds a model that continues texts; use dragoman generate"):
        Predictor.load(tmp_path / "writer")
