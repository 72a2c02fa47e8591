"""Several models that translate as one."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compiler import needs_compiler
from exporting import make, phrases

import dragoman
from dragoman.cli.main import main
from dragoman.errors import ConfigError, DecodeError
from dragoman.explaining.search_tree import Candidates
from dragoman.inference.options import SearchOptions
from dragoman.inference.translator import Translator
from dragoman.store.description import Languages
from dragoman.store.folder import load_model
from dragoman.store.saving import save_model
from dragoman.tokenizing.special_tokens import Framing

TEXTS = [pair.source for pair in phrases("new_patterns")[:6]]
SEARCHES: list[dict[str, Any]] = [{"beam_size": 1}, {"beam_size": 3, "n_best": 2}, {"temperature": 1.0, "n_best": 2}]
WAYS = [pytest.param(True, marks=needs_compiler), False]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three models of one vocabulary, of other sizes and forms."""
    folder = tmp_path_factory.mktemp("ensemble")
    forms = {"first": {"preset": "paper"}, "second": {"preset": "modern", "d_model": 48}, "third": {"preset": "modern"}}
    return [make(folder / name, settings) for name, settings in forms.items()]


def together(models: list[Path], native: bool, precision: str = "float32", threads: int | None = None) -> Translator:
    first, *others = map(load_model, models)
    return Translator(first, "cpu", precision, native=native, threads=threads, ensemble=others)


def options(**settings: Any) -> SearchOptions:
    return SearchOptions(**{"length_ratio": 1.0, "length_extra": 4, "split": "never", **settings})


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("native", WAYS)
def test_a_model_twice_is_the_model(native: bool, search: dict[str, Any], models: list[Path]) -> None:
    alone, twice = (together(folders, native) for folders in (models[:1], [models[0]] * 2))
    for ours, theirs in zip(*(each.translate(TEXTS, options(**search)) for each in (alone, twice)), strict=True):
        assert (ours.text, ours.tokens) == (theirs.text, theirs.tokens)
        np.testing.assert_allclose(ours.token_log_probs, theirs.token_log_probs, atol=1e-5)


@pytest.mark.parametrize("native", WAYS)
def test_probabilities_are_the_mean_of_the_models(native: bool, models: list[Path]) -> None:
    translator = together(models, native)
    for found in translator.translate(TEXTS, options(beam_size=2)):
        source = translator.framing.source(translator.tokenizers.source.encode(found.source))
        labels = translator.framing.labels(translator.tokenizers.target.encode(found.text))
        scored = translator.score([found.source], [found.text])[0]
        parts = []
        for folder in models:
            judge = Translator(load_model(folder), "cpu", "float32", native=False).runtime.stepper(1)
            given = [translator.framing.target_start, *labels[:-1]]
            parts.append(torch.from_numpy(judge.score([source], [given], [labels])).double().exp())
        wanted = torch.stack(parts).mean(0).log().numpy()
        np.testing.assert_allclose(scored.token_log_probs, wanted, atol=1e-4)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("native", WAYS)
def test_a_damaged_model_fails_the_ensemble(native: bool, search: dict[str, Any], models: list[Path]) -> None:
    sound, damaged = (load_model(folder) for folder in models[:2])
    with torch.no_grad():
        damaged.model.get_parameter("output")[7] = torch.nan  # one token of the vocabulary
    translator = Translator(sound, "cpu", "float32", native=native, ensemble=[damaged])
    with pytest.raises(DecodeError, match="NaN"):
        translator.translate(TEXTS[:1], options(**search))


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("precision", [pytest.param("int8", marks=needs_compiler), "float32"])
def test_a_sentence_is_the_same_in_company_and_the_score_is_that_of_score(
    precision: str, search: dict[str, Any], models: list[Path]
) -> None:
    translator = together(models, native=True, precision=precision)
    if translator.runtime.native is None:
        search = {**search, "batch_invariant": True}
    asked = options(**search)
    company = translator.translate(TEXTS, asked)
    alone = together(models, native=True, precision=precision, threads=1)
    assert [alone.translate([text], asked)[0] for text in TEXTS] == company
    streamed = list(alone.stream(TEXTS[0], asked))
    assert "".join(streamed) == company[0].text


def test_the_order_of_models_changes_nothing_that_a_person_sees(models: list[Path]) -> None:
    ours, theirs = (together(folders, native=True) for folders in (models[:2], models[1::-1]))
    found, again = (each.translate(TEXTS[:3], options(beam_size=2)) for each in (ours, theirs))
    assert [each.text for each in found] == [each.text for each in again]


def test_what_does_not_fit_is_refused_by_name(models: list[Path], tmp_path: Path) -> None:
    first = models[0]
    other = make(tmp_path / "other", {"preset": "paper"}, "unigram")
    with pytest.raises(ConfigError, match="other can't join the ensemble: its source and target vocabulary is not"):
        Translator.load(first, "cpu", ensemble=[other])
    stored = load_model(first)
    save_model(tmp_path / "french", stored.model, stored.files._replace(languages=Languages("en", "fr")))
    with pytest.raises(ConfigError, match="french can't join the ensemble: it translates en to fr, not en to it"):
        Translator.load(first, "cpu", ensemble=[tmp_path / "french"])
    framed = stored.files._replace(framing=Framing(source_before=()))
    save_model(tmp_path / "framed", stored.model, framed)
    with pytest.raises(ConfigError, match="framed can't join the ensemble: it puts other symbols around sentences"):
        Translator.load(first, "cpu", ensemble=[tmp_path / "framed"])
    translator = together(models[:2], native=True)
    with pytest.raises(ConfigError, match="an ensemble has no single model to look into"):
        translator.search.engine(translator.options, Candidates())


def test_the_model_with_the_fewest_positions_bounds_what_is_read(models: list[Path], tmp_path: Path) -> None:
    bounded = [
        make(tmp_path / str(most), {"preset": "paper", "positions": "learned", "max_positions": most})
        for most in (40, 60)
    ]
    for folders in (bounded, bounded[::-1], [models[0], bounded[0]], [bounded[0], models[0]]):
        first, *others = folders
        assert Translator.load(first, "cpu", ensemble=others).requests.positions == 40


def test_the_command_line_takes_several(models: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    first, *others = map(str, models)
    flags = [word for other in others for word in ("--ensemble", other)]
    assert main(["translate", first, TEXTS[0], *flags, "--device", "cpu", "--set", "decode.length_extra=4"]) == 0
    said = capsys.readouterr().out.removesuffix("\n")
    (found,) = dragoman.translate(first, [TEXTS[0]], SearchOptions(length_extra=4), device="cpu", ensemble=others)
    assert said == found.text and not re.search("error", said)
