"""Heads: removal beside zero columns of W^O, and the table of what it costs."""

import importlib
import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from given_texts import log_probs_of
from small import Counting, language_model, sentences, translator
from small_records import PAIRS, store_language_model, store_translator
from torch import Tensor

from dragoman.errors import ConfigError, DataError
from dragoman.explaining.heads import Head, _cost, attention_of, heads_of, judge_heads, losses, without
from dragoman.inference.teacher_forcing import ForcedText, teacher_force
from dragoman.model.transformer import EncoderDecoder, LanguageModel
from dragoman.store.folder import load_model
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING

Model = EncoderDecoder | LanguageModel
MODELS: dict[str, Callable[[], Model]] = {
    "paper, grouped keys": lambda: translator(preset="paper", kv_heads=2),
    "three layers and two": lambda: translator(preset="modern", encoder_layers=3, decoder_layers=2),
    "language model": lambda: language_model(preset="modern"),
}
FEW: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1, "heads": 2}


def texts_for(model: Model, lengths: Sequence[tuple[int, int]] = ((4, 6), (1, 2), (7, 3))) -> list[ForcedText]:
    sources, targets = (sentences([each[side] for each in lengths], seed=side) for side in (0, 1))
    given = [
        ForcedText.of(DEFAULT_FRAMING, source.tolist(), target.tolist())
        for source, target in zip(sources, targets, strict=True)
    ]
    return given if isinstance(model, EncoderDecoder) else [each._replace(source=None) for each in given]


def with_zero_columns(model: Model, heads: Sequence[Head]) -> Model:
    """A copy of a model whose W^O takes nothing from these heads."""
    changed = deepcopy(model)
    for head in heads:
        attention = attention_of(changed, head)
        first = head.number * attention.d_head
        weight = attention.output.weight
        assert isinstance(weight, Tensor)
        weight.data[:, first : first + attention.d_head] = 0
    return changed


def test_heads_are_listed_layer_by_layer() -> None:
    heads = heads_of(translator())
    assert [head.number for head in heads] == [0, 1, 2, 3] * 6
    assert [head.site for head in heads[::4]] == [
        "encoder.0.self_attention",
        "encoder.1.self_attention",
        "decoder.0.self_attention",
        "decoder.0.cross_attention",
        "decoder.1.self_attention",
        "decoder.1.cross_attention",
    ]
    assert {head.stack for head in heads_of(language_model())} == {"decoder"}


@torch.inference_mode()
@pytest.mark.parametrize("name", MODELS)
def test_a_removal_equals_a_model_with_zero_columns(name: str) -> None:
    model = MODELS[name]()
    given, heads = texts_for(model), heads_of(model)
    for removed in ([heads[0]], [heads[-1]], heads[1::5]):
        with without(model, removed):
            found = losses(model, given)
        expected = log_probs_of(with_zero_columns(model, removed), given)
        assert found == pytest.approx([-float(each.sum()) for each in expected], rel=1e-4)
        assert found != pytest.approx(losses(model, given), rel=1e-4), "the removal of a head changes something"


@torch.inference_mode()
def test_heads_come_back_even_after_an_error() -> None:
    model = translator()
    given = texts_for(model)
    before, _ = teacher_force(model, given)
    with pytest.raises(RuntimeError, match="stop"), without(model, heads_of(model)):
        raise RuntimeError("stop")
    assert torch.equal(teacher_force(model, given)[0], before)


def write_test(folder: Path, pairs: Sequence[tuple[str, str]]) -> tuple[Path, Path]:
    paths = folder / "test.en", folder / "test.it"
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return paths


def test_the_table_holds_what_each_removal_changes(tmp_path: Path) -> None:
    folder, progress = store_translator(tmp_path / "model", preset="modern", **FEW), Counting()
    test, reference = write_test(tmp_path, [*PAIRS, (PAIRS[1][0], "gatto"), (" ", "cane")])
    table = judge_heads(folder, test, [reference], progress=progress)
    stored = load_model(folder)
    assert isinstance(stored.model, EncoderDecoder)
    tokenizers = stored.tokenizers
    given = [
        ForcedText.of(stored.files.framing, tokenizers.source.encode(one), tokenizers.target.encode(other))
        for one, other in PAIRS
    ]
    stored.model.requires_grad_(False)
    whole = torch.cat(log_probs_of(stored.model, given))
    assert (table.texts, table.tokens, table.loss) == (5, len(whole), pytest.approx(-float(whole.mean()), rel=1e-4))
    assert list(table.costs) == heads_of(stored.model)
    for head, cost in table.costs.items():
        less = torch.cat(log_probs_of(with_zero_columns(stored.model, [head]), given))
        rounding = 1e-6 * float(whole.abs().max())  # of the two losses, whose difference is much smaller
        assert cost.value == pytest.approx(float((whole - less).mean()), abs=rounding)
    assert progress.totals == dict(progress.done) == {"losses without each head": 6}
    assert [row[0] for row in table.rows()] == [head.site for head in heads_of(stored.model)[::2]]
    assert {len(row) for row in table.rows()} == {len(table.headings)} == {3}
    facts = json.loads(json.dumps(table.facts()))
    assert facts["heads"][5]["cost"] == table.costs[heads_of(stored.model)[5]].value


def test_a_language_model_is_judged_on_lines(tmp_path: Path) -> None:
    folder = store_language_model(tmp_path / "model", positions="learned", max_positions=6)
    path = tmp_path / "lines.txt"
    path.write_text("the red cat\n\nthe\nthe red cat\nthe old dog\n" + "the " * 20 + "\nthe dog sees .\n", "utf-8")
    table = judge_heads(folder, path)
    assert (table.texts, len(table.costs)) == (3, 8), "different ones of at least two tokens, that fit"
    assert judge_heads(folder, path, sentences=2).texts == 2
    with pytest.raises(ConfigError, match="references are for translation models"):
        judge_heads(folder, path, [path])
    with pytest.raises(ConfigError, match="has no test text of its own"):
        judge_heads(folder)
    path.write_text("the " * 20 + "\n", "utf-8")
    with pytest.raises(DataError, match="none of 1 texts can be judged"):
        judge_heads(folder, path)


def test_errors_are_those_of_the_textbook() -> None:
    """Of texts of one length, the standard error of their mean; of others, that of a bootstrap."""
    rises = [1.0, 3.0, 2.5, 0.5]
    assert _cost(rises, [5] * 4) == pytest.approx((np.mean(rises) / 5, np.std(rises, ddof=1) / 2 / 5))
    random = np.random.default_rng(1)
    tokens = random.integers(3, 20, 400)
    rises = 0.1 * tokens + random.normal(size=400)
    drawn = random.integers(400, size=(2_000, 400))
    samples = rises[drawn].sum(1) / tokens[drawn].sum(1)
    assert _cost(rises.tolist(), tokens.tolist()) == pytest.approx(
        (rises.sum() / tokens.sum(), samples.std()), rel=0.05
    )
    assert _cost([1.0], [5]) == (0.2, 0.0), "one text has no spread"


def test_benchmarks_refuse_files_of_different_length_in_one_line(tmp_path: Path) -> None:
    source, target = write_test(tmp_path, PAIRS)
    target.write_text("il gatto\n", encoding="utf-8")
    arguments = [store_translator(tmp_path / "model"), source, target]
    with pytest.raises(SystemExit, match=r"^error: .* has . lines but .*; .* must be aligned"):
        importlib.import_module("alignment").main(list(map(str, arguments)))
