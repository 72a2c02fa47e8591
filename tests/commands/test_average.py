"""Averages of a model before and after fine-tuning: the arithmetic, the dial, and what has no average."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import some_pairs, train_small, write_corpus

from dragoman.commands.fine_tune import fine_tune
from dragoman.commands.making import average as making
from dragoman.commands.making.average import SHARES, Point, average, best_share, dev_pairs
from dragoman.errors import CheckpointError, ConfigError, DataError
from dragoman.store import Languages, load_model, named_weights
from dragoman.translating import SearchOptions, Translation
from dragoman.tuning.averaging import distances, interpolate


def test_the_ends_of_the_dial_are_the_models_and_the_middle_lies_between() -> None:
    one, other = {"a": torch.randn(3, 4), "b": torch.randn(5)}, {"a": torch.randn(3, 4), "b": torch.randn(5)}
    for share, same in ((0.0, one), (1.0, other)):
        assert all(torch.equal(weight, same[name]) for name, weight in interpolate(one, other, share).items())
    for name, weight in interpolate(one, other, 0.3).items():
        torch.testing.assert_close(weight, 0.7 * one[name] + 0.3 * other[name])


def test_the_distance_is_relative_to_the_norm_before_part_by_part() -> None:
    before = {"encoder.x": torch.tensor([3.0]), "encoder.y": torch.tensor([4.0, 0.0]), "output": torch.tensor([2.0])}
    after = {"encoder.x": torch.tensor([3.0]), "encoder.y": torch.tensor([4.0, 1.0]), "output": torch.tensor([2.0])}
    assert distances(before, after) == {"encoder": pytest.approx(0.2), "output": 0.0}


def test_the_best_share_gains_most_less_what_it_loses() -> None:
    points = [Point(0.0, 40, 70), Point(0.4, 49, 69), Point(0.5, 50, 68), Point(1.0, 52, 60)]
    assert best_share(points) == 0.4, "the nearer one to the model before, among equals"
    assert best_share([*points, Point(0.6, 51, 67.5)]) == 0.6


class Recorded:
    """A translator that keeps how it was asked to search."""

    options = SearchOptions(temperature=0.7, top_k=5, top_p=0.9, n_best=3, seed=4)
    languages = Languages("en", "it")

    def translate(self, texts: list[str], options: SearchOptions) -> list[Translation]:
        self.asked = options
        return [Translation(text, text, 0.0, 0.0) for text in texts]


def test_shares_are_measured_by_greedy_search_even_of_a_model_that_draws_samples() -> None:
    translator: Any = Recorded()
    assert making._chrf(translator, [("the dog", "the dog")]) == pytest.approx(100)
    assert (translator.asked.sampling, translator.asked.beam_size, translator.asked.n_best) == (None, 1, 1)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    write_corpus(folder / "corpus.tsv", some_pairs(verbs=["sees", "seeks"]))
    return train_small(folder).folder


def tuned(before: Path, folder: Path, *overrides: str) -> Path:
    data = write_corpus(folder / "new.tsv", some_pairs(60, verbs=["loves", "fears"]))
    given = ["data.dev_size=4", "data.test_size=4", "decode.beam_size=1", "train.steps=4", "train.precision=float32"]
    options: dict[str, Any] = {"overrides": [*given, *overrides], "runs": folder / "runs", "device": "cpu"}
    return fine_tune(before, str(data), **options).folder


def weights(model: Path) -> dict[str, torch.Tensor]:
    return named_weights(load_model(model).model)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["full", "lora"])
def test_a_share_that_is_not_given_is_chosen_on_both_dev_sets(how: str, before: Path, tmp_path: Path) -> None:
    after = tuned(before, tmp_path, *(["tuning.lora.rank=2"] if how == "lora" else []))
    found = average(before, after, tmp_path / "model", device="cpu")
    assert [point.share for point in found.points] == list(SHARES)
    assert found.share == best_share(found.points)
    for name, weight in interpolate(weights(before), weights(after), found.share).items():
        assert torch.equal(weights(tmp_path / "model")[name], weight)
    again = average(before, after, tmp_path / "given", share=0.25)
    assert again.points == () and "0.25 of the latter" in (tmp_path / "given" / "README.md").read_text()
    assert len(dev_pairs(before)) == 8 and len(dev_pairs(after)) == 4


@pytest.mark.slow
def test_what_has_no_average_is_refused(before: Path, tmp_path: Path) -> None:
    after = tuned(before, tmp_path, "data.dev_size=0")
    with pytest.raises(ConfigError, match=r"new is not a run with a dev set.*give it, as in --share 0.5"):
        average(before, after, tmp_path / "model")
    with pytest.raises(ConfigError, match=r"best is not a run with a dev set"):
        average(before / "best", before, tmp_path / "model")
    with pytest.raises(ConfigError, match=r"--share must be from 0, .* to 1, .*but is 1.5"):
        average(before, after, tmp_path / "model", share=1.5)
    other = train_small(tmp_path / "other", "model.d_ff=48").folder
    with pytest.raises(
        ConfigError, match=r"are not one architecture \(model.* is .* and .*\), so they have no average"
    ):
        average(before, other, tmp_path / "model", share=0.5)
    write_corpus(
        tmp_path / "third" / "corpus.tsv", [(one, two[::-1]) for one, two in some_pairs(verbs=["sees", "seeks"])]
    )
    third = train_small(tmp_path / "third").folder
    with pytest.raises(ConfigError, match=r"have other vocabularies|are not one architecture \(model.*vocabulary"):
        average(before, third, tmp_path / "model", share=0.5)
    with pytest.raises(DataError, match="exists"):
        average(before, after, before, share=0.5)
    with pytest.raises(CheckpointError, match="nowhere does not exist"):
        average(before, tmp_path / "nowhere", tmp_path / "model", share=0.5)
    assert not (tmp_path / "model").exists()
