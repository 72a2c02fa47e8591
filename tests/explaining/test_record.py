"""A record says what the translator says, has a part for each sentence, refuses what it can't hold, leaves no trace."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small_records import store_language_model, store_translator

from dragoman.errors import ConfigError, DecodeError
from dragoman.explaining import recording
from dragoman.explaining.recording import MOST_TOKENS, WIDTHS, Recorder, record
from dragoman.explaining.writing import summary
from dragoman.inference.translator import Translator
from dragoman.model.attention import Attention
from dragoman.store.folder import load_model
from dragoman.store.saving import save_model
from dragoman.surface.learning import learn_pair_conventions

SENTENCE = "the red cat sees the old station ."


# What a record says is what a translator says


@pytest.fixture
def numbers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records without what words mean, which takes longer and has tests of its own."""
    monkeypatch.setattr(Recorder, "_align", lambda *_: None)
    monkeypatch.setattr("dragoman.explaining.recording.find_contributions", lambda *_: None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_translator(tmp_path_factory.mktemp("record") / "model", preset="modern")


@pytest.fixture(scope="module")
def speller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of pieces, whose spaces are tokens too."""
    return store_translator(tmp_path_factory.mktemp("record") / "speller", preset="modern", kind="bpe")


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_language_model(tmp_path_factory.mktemp("record") / "language model")


@pytest.fixture(scope="module")
def spelling_language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_language_model(tmp_path_factory.mktemp("record") / "language model of pieces", kind="bpe")


TEXTS = [
    SENTENCE,
    "where is the old cat ? The dog drinks water . ",
    "Good morning, Anna! Where is the station? I drink.",
    "the zebra sees the cat .",
    "the cat sees Anna. :)",
    f"the cat sees {'x' * 101} and the dog .",
    "  the cat\tand the dog ",
]


@pytest.mark.usefixtures("numbers_alone")
@pytest.mark.parametrize(
    ("generation", "texts"),
    [
        ({}, TEXTS),
        ({"beam_size": 1}, TEXTS[:1]),
        ({"beam_size": 8, "n_best": 3}, TEXTS[:1]),
        ({"split": "long", "beam_size": 6}, TEXTS[1:2]),
        ({"minimum_length": 5, "no_repeat_ngram": 2, "prefix": "il gatto", "allow_unknown": True}, TEXTS[1:2]),
    ],
)
def test_a_record_says_what_the_translator_says(generation: dict[str, Any], texts: list[str], tmp_path: Path) -> None:
    folder = store_translator(tmp_path / "model", preset="modern", generation=generation)
    translator, recorder = Translator.load(folder, "cpu", "float32"), Recorder(load_model(folder))
    for text, translation in zip(texts, translator.translate(texts), strict=True):
        found = recorder.record(text)
        assert (found.source, found.target, found.has_given_target) == (text, translation.text, False)
        assert found.flags.keys() == set(translation.flags)
        assert found.unknown_words == translation.unknown_words
        parts = [part for part in found.parts if not part.copied]
        steps = [step for part in parts for step in part.steps]
        assert tuple(step.token.text for step in steps) == translation.tokens
        assert [step.log_prob for step in steps] == pytest.approx(translation.token_log_probs, abs=1e-4)
        assert sum(part.log_prob for part in parts) == pytest.approx(translation.log_prob, abs=1e-4)
        chosen = [search for part in parts for search in part.searches if search.chosen]
        assert [search.width for search in chosen] == [translator.options.beam_size] * len(parts)
        assert sum(search.total for search in chosen) == pytest.approx(translation.log_prob, abs=1e-4)
        assert sum(search.score for search in chosen) == pytest.approx(translation.score, abs=1e-4)


@pytest.mark.usefixtures("numbers_alone")
@pytest.mark.parametrize("model", ["folder", "speller"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_search_finds_what_the_translator_finds(model: str, width: int, request: pytest.FixtureRequest) -> None:
    translator = Translator.load(request.getfixturevalue(model), "cpu", "float32")
    (part,) = record(request.getfixturevalue(model), SENTENCE).parts
    (search,) = [search for search in part.searches if search.width == width]
    (alone,) = translator.translate([SENTENCE], translator.options.model_copy(update={"beam_size": width}))
    assert translator.writer.text(translator.tokenizers.target.encode(search.text)) == alone.text
    assert (search.total, search.score) == pytest.approx((alone.log_prob, alone.score), abs=1e-4)


@pytest.mark.usefixtures("numbers_alone")
def test_a_part_stands_for_each_sentence_and_each_copied_word(folder: Path) -> None:
    found = record(folder, f"where is the cat ? {'x' * 101} The dog sees Anna .")
    assert [part.source for part in found.parts] == ["where is the cat ?", "x" * 101, "The dog sees Anna ."]
    assert [part.copied for part in found.parts] == [False, True, False]
    assert found.target == " ".join(part.target for part in found.parts)
    assert found.parts[1].target == "x" * 101 and not found.parts[1].stacks and not found.parts[1].searches
    with_smiley = record(folder, "where is the cat ? :)")
    assert [(part.source, part.copied) for part in with_smiley.parts] == [("where is the cat ?", False), (":)", True)]
    assert with_smiley.target == f"{found.parts[0].target} :)"


@pytest.mark.usefixtures("numbers_alone")
def test_a_part_says_what_was_typed_if_the_model_read_something_else(folder: Path, tmp_path: Path) -> None:
    stored = load_model(folder)
    learnt = learn_pair_conventions([("the red cat", "il gatto rosso")] * 9)
    save_model(tmp_path / "model", stored.model, stored.files._replace(conventions=learnt))
    (part,) = record(tmp_path / "model", "“the red cat”").parts
    (bare,) = record(tmp_path / "model", "the red cat").parts
    assert (part.typed, part.source, part.target) == ("“the red cat”", "the red cat", bare.target)
    assert bare.typed is None and part.log_prob == pytest.approx(bare.log_prob)
    (given,) = record(tmp_path / "model", "“the red cat”", "“il gatto rosso”").parts
    assert (given.typed, given.source, given.target) == ("“the red cat”", "the red cat", "il gatto rosso")
    assert "typed   “the red cat”" in list(summary(record(tmp_path / "model", "“the red cat”")))


def test_words_of_the_stacks_are_those_of_the_texts(speller: Path) -> None:
    (part,) = record(speller, "Good morning, Anna!", "Buongiorno, Anna!").parts
    encoder, decoder = part.stacks
    assert encoder.words == ("Good", "morning", ",", "Anna", "!")
    assert decoder.words == ("Buongiorno", ",", "Anna", "!")


@pytest.mark.usefixtures("numbers_alone")
@pytest.mark.parametrize("model", ["folder", "speller"])
@pytest.mark.parametrize(
    ("source", "target"),
    [(SENTENCE, "il gatto rosso ."), (f"  {SENTENCE} ", " io  bevo "), ("where ? The cat .", "dov'è ? Il cane .")],
)
def test_a_given_target_is_scored_as_the_translator_scores_it(
    model: str, source: str, target: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(model)
    (expected,) = Translator.load(path, "cpu", "float32").score([source.strip()], [target])
    found = record(path, source, target)
    (part,) = found.parts
    assert (found.source, found.target, found.has_given_target) == (source, target, True)
    assert tuple(step.token.text for step in part.steps) == expected.tokens
    assert [step.log_prob for step in part.steps] == pytest.approx(expected.token_log_probs, abs=1e-4)
    assert part.log_prob == pytest.approx(expected.log_prob, abs=1e-4)
    assert found.unknown_words == expected.unknown_words
    assert [search.width for search in part.searches] == [1, 2, 3, 4, 8]


@pytest.mark.usefixtures("numbers_alone")
def test_a_chosen_search_is_the_greedy_one_of_a_beam_of_one(folder: Path) -> None:
    (part,) = record(folder, SENTENCE).parts
    (greedy,) = [search for search in part.searches if search.width == 1]
    assert [node.parent for node in greedy.nodes] == [None, *range(len(greedy.nodes) - 1)]
    assert all(not node.reason for node in greedy.nodes)


def test_matrices_of_a_language_model_are_recorded(language_model: Path) -> None:
    (part,) = record(language_model, SENTENCE, weights="decoder.1").parts
    assert part.matrices[0].name == "decoder.1.self_attention.query"
    assert not record(language_model, SENTENCE).parts[0].matrices


# What can't be recorded


@pytest.mark.parametrize(
    ("layer", "known"), [("encoder.2", "encoder.0, encoder.1, decoder.0, decoder.1"), ("decoder", "decoder.1")]
)
def test_an_unknown_layer_is_refused_with_the_names_of_all(folder: Path, layer: str, known: str) -> None:
    with pytest.raises(ConfigError, match=f"{known}.*, but is {layer}$"):
        record(folder, SENTENCE, weights=layer)


@pytest.mark.parametrize("model", ["folder", "speller", "language_model", "spelling_language_model"])
@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_a_blank_text_is_refused(model: str, text: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(DecodeError, match="the text holds nothing that the model reads; there is nothing to explain"):
        record(request.getfixturevalue(model), text)


@pytest.mark.parametrize("model", ["folder", "speller"])
def test_a_blank_source_or_target_is_refused(model: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(model)
    for source, target in (("42 %", None), ("42 %", "42 %")):
        with pytest.raises(DecodeError, match="the text holds nothing that the model reads"):
            record(path, source, target)
    with pytest.raises(DecodeError, match="the text holds nothing that the model reads"):
        record(path, " ", "il gatto")
    with pytest.raises(DecodeError, match="the target holds nothing that the model reads"):
        record(path, SENTENCE, " ")


def test_a_language_model_takes_no_target(language_model: Path) -> None:
    with pytest.raises(DecodeError, match="a language model has no target"):
        record(language_model, SENTENCE, "il gatto")


def test_what_is_too_long_is_refused_before_any_work(
    tmp_path: Path, language_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store_translator(tmp_path / "model", generation={"max_source_tokens": 1_000})
    recorder, long = Recorder(load_model(folder)), "cat " * (MOST_TOKENS + 1)
    monkeypatch.setattr(recorder.model, "encode", lambda *_, **__: pytest.fail("the model was asked"))
    with pytest.raises(DecodeError, match=f"has {MOST_TOKENS + 1} tokens, but at most {MOST_TOKENS} can be"):
        recorder.record(long)
    with pytest.raises(DecodeError, match=f"has {MOST_TOKENS + 1} tokens, but at most {MOST_TOKENS} can be"):
        recorder.record(long, "il gatto")
    with pytest.raises(DecodeError, match=f"the target has {MOST_TOKENS + 1} tokens, but at most"):
        recorder.record(SENTENCE, long)
    with pytest.raises(DecodeError, match=f"has {MOST_TOKENS + 1} tokens, but at most {MOST_TOKENS} can be"):
        record(language_model, long)


def test_a_runaway_translation_is_refused_with_advice_that_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MOST_TOKENS", 12)
    folder = store_translator(tmp_path / "model", generation={"minimum_length": 12, "beam_size": 1})
    recorder = Recorder(load_model(folder))
    said = r"has \d+ tokens, but at most 12 can be explained; give a part of it as the target$"
    with pytest.raises(DecodeError, match=f"^the translation {said}"):
        recorder.record(SENTENCE)
    with pytest.raises(DecodeError, match=f"^a sentence of the translation {said}"):
        recorder.record("Where is the cat? The dog sees.")
    with pytest.raises(DecodeError, match=f"^the translation {said}"):
        recorder.why(SENTENCE, "gatto#1", "cane")


@pytest.mark.usefixtures("numbers_alone")
def test_what_is_longer_than_the_positions_is_refused(tmp_path: Path) -> None:
    positions: dict[str, Any] = {"positions": "learned", "max_positions": 12}
    model, language_model = (
        store_translator(tmp_path / "a", **positions),
        store_language_model(tmp_path / "b", **positions),
    )
    with pytest.raises(DecodeError, match="the text has 20 tokens, but the model has positions for 12"):
        record(language_model, "the cat " * 10)
    with pytest.raises(DecodeError, match="the target has 20 tokens, but the model has positions for 11"):
        record(model, SENTENCE, "il gatto " * 10)
    assert len(record(model, "the cat " * 10).parts) > 1


# Facts are plain, and a record leaves no trace


@pytest.mark.parametrize("model", ["folder", "language_model"])
def test_facts_are_strict_json(model: str, request: pytest.FixtureRequest) -> None:
    facts = record(request.getfixturevalue(model), SENTENCE, weights="decoder.0").facts()
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["format"] == 3 and facts["temperatures"] == [0.25, 0.5, 1.0, 1.5, 2.0]
    assert facts["model"] == str(request.getfixturevalue(model))


@pytest.mark.usefixtures("numbers_alone")
def test_a_caller_chooses_how_arrays_are_written(folder: Path) -> None:
    facts = record(folder, SENTENCE).facts(array=lambda array: {"shape": list(array.shape)})
    assert facts["parts"][0]["stacks"][0]["entering"] == {"shape": [10, 16]}


@pytest.mark.usefixtures("numbers_alone")
def test_facts_name_the_model(folder: Path) -> None:
    stored, facts = load_model(folder), record(folder, SENTENCE).facts()
    assert facts["weight_count"] == sum(weight.numel() for weight in stored.model.parameters())
    assert facts["settings"] == stored.config.model_dump(mode="json", exclude_none=True)
    assert facts["languages"] == ["en", "it"]


def test_recording_changes_nothing(folder: Path) -> None:
    translator, recorder = Translator.load(folder, "cpu", "float32"), Recorder(load_model(folder))
    assert recorder.translator is not None
    before = [weight.clone() for weight in recorder.model.parameters()]
    first, again = recorder.record(SENTENCE, weights="decoder.0"), recorder.record(SENTENCE, weights="decoder.0")
    assert first.facts() == again.facts()
    for matrix in first.parts[0].matrices:
        matrix.weight[:] = 0.0
    assert all(torch.equal(a, b) for a, b in zip(before, recorder.model.parameters(), strict=True))
    assert {module.backend for module in recorder.model.modules() if isinstance(module, Attention)} == {None}
    assert recorder.translator.translate(TEXTS[:2]) == translator.translate(TEXTS[:2])
