"""Every number of a record beside a plain reference in numpy, which shares no code with the package."""

import random
from collections import defaultdict
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy_model import Array, Model
from recorded_numbers import Expected, Facts, Reference, check, check_part
from small_records import store_language_model, store_translator

from dragoman.explaining.recording import Recorder, record
from dragoman.tokenizing.special_tokens import PADDING, Framing

SENTENCE = "the red cat sees the old station ."
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper", "seed": 2},
    "modern": {"preset": "modern"},
    "paper, norm first": {"preset": "paper", "norm_position": "pre", "final_norm": True},
    "modern, norm last": {"preset": "modern", "seed": 1, "norm_position": "post", "final_norm": False},
    "shared keys, learned positions": {
        "preset": "paper",
        "seed": 1,
        "kv_heads": 2,
        "positions": "learned",
        "max_positions": 40,
    },
    "one key head, gelu, no scale": {
        "preset": "paper",
        "seed": 1,
        "kv_heads": 1,
        "activation": "gelu",
        "embedding_scale": False,
    },
    "modern, geglu, biases": {"preset": "modern", "seed": 4, "activation": "geglu", "bias": True, "kv_heads": 2},
    "layer norm without bias": {"preset": "paper", "seed": 3, "bias": False, "norm_epsilon": 1e-3},
    "paper, embedding norm": {"preset": "paper", "seed": 1, "embedding_norm": True},
    "modern, embedding norm": {"preset": "modern", "embedding_norm": True, "position_base": 100.0},
    "tied": {"preset": "modern", "seed": 8, "tied": "target"},
    "tied, joint, pieces": {"preset": "paper", "tied": "all", "kind": "bpe", "seed": 4},
    "unigram": {"preset": "modern", "kind": "unigram", "seed": 27},
    "bytes": {"preset": "paper", "kind": "byte_bpe", "seed": 9},
    "another framing": {"preset": "paper", "framing": Framing(source_before=(), target_start=PADDING)},
    "a wide beam": {"preset": "modern", "seed": 8, "generation": {"beam_size": 5, "length_penalty": 1.0}},
}


@pytest.fixture(autouse=True)
def numbers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records without what words mean, which has tests of its own."""
    monkeypatch.setattr(Recorder, "_align", lambda *_: None)
    monkeypatch.setattr("dragoman.explaining.recording.find_contributions", lambda *_: None)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_number_is_that_of_the_reference(variant: str, tmp_path: Path) -> None:
    folder, expected = made_for(tmp_path, **VARIANTS[variant])
    (part,) = record(folder, SENTENCE, weights="decoder.1").facts()["parts"]
    check_part(part, expected)


def made_for(folder: Path, seed: int = 5, **variant: Any) -> tuple[Path, Expected]:
    """A model and what is expected of it; of one whose unigrams are others in each run, the first seed without ties."""
    made = store_translator(folder / f"model-{seed}", seed=seed, **variant)
    expected = Reference(made).translation(SENTENCE)
    if variant.get("kind") == "unigram" and min(search.closest for search in expected.searches.values()) <= 1e-4:
        return made_for(folder, seed + 1, **variant)
    return made, expected


def test_every_number_of_every_sentence_is_that_of_the_reference(tmp_path: Path) -> None:
    folder = store_translator(tmp_path / "model", preset="modern", seed=4)
    sentences = ["where is the zebra ?", "The dog drinks water ."]
    parts, reference = record(folder, " ".join(sentences)).facts()["parts"], Reference(folder)
    for part, sentence in zip(parts, sentences, strict=True):
        assert part["source"] == sentence
        check_part(part, reference.translation(sentence))
    assert parts[0]["stacks"][0]["words"] == ["where", "is", "the", "[UNK]", "?"]


def test_every_number_of_a_given_target_is_that_of_the_reference(tmp_path: Path) -> None:
    speller = store_translator(tmp_path / "model", preset="modern", kind="bpe")
    (part,) = record(speller, SENTENCE, "io bevo acqua", weights="encoder.0").facts()["parts"]
    check_part(part, Reference(speller).given(SENTENCE, "io bevo acqua"))


@pytest.mark.parametrize(
    "settings",
    [{}, {"preset": "paper"}, {"tied": "none", "activation": "geglu", "kv_heads": 2}, {"positions": "learned"}],
)
def test_every_number_of_a_language_model_is_that_of_the_reference(settings: dict[str, Any], tmp_path: Path) -> None:
    folder = store_language_model(tmp_path / "model", **settings)
    facts = record(folder, SENTENCE, weights="decoder.0").facts()
    (part,) = facts["parts"]
    check_part(part, Reference(folder).reading(SENTENCE))
    assert (part["source"], part["target"], part["searches"]) == (None, SENTENCE, [])
    assert (facts["family"], facts["languages"], facts["target"]) == ("language_model", None, None)


@pytest.mark.thorough
@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_any_wrong_number_is_noticed(preset: str, tmp_path: Path) -> None:
    """One of every kind of number, moved by a thousandth: the tests above look at all of them."""
    folder = store_translator(tmp_path / "model", preset=preset, seed=2, generation={"beam_size": 2})
    (part,) = record(folder, SENTENCE, weights="decoder.0").facts()["parts"]
    expected = Reference(folder).translation(SENTENCE)
    judged_elsewhere = ("typed", "alignment", "contributions", "source", "target", "copied", "reason")
    kinds = defaultdict(list)
    for path in leaves(part):
        if not set(path) & set(judged_elsewhere):
            kinds[tuple(each for each in path if isinstance(each, str))].append(path)
    assert len(kinds) > 50
    check_part(part, expected)
    for paths in kinds.values():
        *before, last = random.choice(paths)
        holder = reduce(getitem, before, part)
        right, holder[last] = holder[last], moved(holder[last])
        with pytest.raises(AssertionError):
            check_part(part, expected)
        holder[last] = right


def leaves(value: Any) -> Iterator[tuple[str | int, ...]]:
    """The paths to all values that hold no others."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield ()
    else:
        yield from ((key, *path) for key, each in items for path in leaves(each))


def moved(value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value + 1e-3 * max(1.0, abs(value))
        case str():
            return f"{value}x"
        case _:
            return 0


# Narrow networks, and the matrices of a layer


def test_units_of_a_narrow_network_are_all_recorded(tmp_path: Path) -> None:
    layer = record(store_translator(tmp_path / "model", d_ff=3), SENTENCE).parts[0].stacks[0].layers[0]
    assert np.sort(layer.units.unit, axis=1).tolist() == [[0, 1, 2]] * len(layer.units.unit)


@pytest.mark.parametrize("layer", ["encoder.1", "decoder.0"])
@pytest.mark.parametrize("variant", ["paper", "modern, geglu, biases", "modern", "shared keys, learned positions"])
def test_input_times_matrix_is_what_is_recorded_next(variant: str, layer: str, tmp_path: Path) -> None:
    folder = store_translator(tmp_path / "model", **VARIANTS[variant])
    facts, model = record(folder, SENTENCE, weights=layer).facts(), Model(folder)
    (part,) = facts["parts"]
    matrices = {matrix["name"].removeprefix(f"{layer}."): matrix for matrix in part["matrices"]}
    attentions = ["self_attention", "cross_attention"] if layer.startswith("decoder") else ["self_attention"]
    gate = ["gate"] if variant.startswith("modern") else []
    assert set(matrices) == {
        f"{each}.{part}" for each in attentions for part in ("query", "key", "value", "output")
    } | {f"feed_forward.{each}" for each in (*gate, "inner", "outer")}
    output = {name: multiplied(matrix) for name, matrix in matrices.items()}
    source, target = ([token["id"] for token in stack["tokens"]] for stack in part["stacks"])
    sites, _ = model.run(source, target)
    for attention in attentions:
        turned = model.settings["positions"] == "rotary" and attention == "self_attention"
        for name, heads in (("query", model.heads), ("key", model.kv_heads), ("value", model.kv_heads)):
            split = model.split(output[f"{attention}.{name}"], heads)
            rotated = model.rotate(split) if turned and name != "value" else split
            check(rotated, recorded(facts, layer, attention)[name])
        check(output[f"{attention}.output"], sites[f"{layer}.{attention}.output"])
    check(matrices["feed_forward.outer"]["input"], sites[f"{layer}.feed_forward.hidden"])


def multiplied(matrix: Facts) -> Array:
    """Input times weight and bias, in float64."""
    bias = 0.0 if matrix["bias"] is None else np.array(matrix["bias"], dtype=np.float64)
    return np.array(matrix["input"], dtype=np.float64) @ np.array(matrix["weight"], dtype=np.float64).T + bias


def recorded(facts: Facts, layer: str, attention: str) -> Facts:
    """The record of one attention of the only part."""
    layers = [each for stack in facts["parts"][0]["stacks"] for each in stack["layers"] if each["name"] == layer]
    return next(each for each in layers[0]["attentions"] if each["name"] == attention)
