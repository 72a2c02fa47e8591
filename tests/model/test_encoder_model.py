"""The encoder alone: equal to torch's, the same whatever stands beside a text, pooled by rule, stored and prepared."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from closeness import assert_close
from small import END, START, encoder_model, fresh_state, sentences, small_config, train_settings
from torch import Tensor, nn
from torch.nn import functional as F
from torch_twin import torch_stack, unsettled

from dragoman.errors import CheckpointError, ConfigError
from dragoman.model.config import ModelConfig
from dragoman.model.dropout import StepKey
from dragoman.model.embedding import sinusoids
from dragoman.model.packing import Packing
from dragoman.model.transformer import EncoderModel, build_model, prepare_for_decoding
from dragoman.store.description import ModelFiles
from dragoman.store.folder import load_model
from dragoman.store.manifest import write_manifest
from dragoman.store.saving import save_model
from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer
from dragoman.training.checkpoint import save_checkpoint
from dragoman.training.loss import label_smoothed_loss

LENGTHS = [5, 3, 9, 1]
NAMES = ("animal", "drink", "food")


def framed(texts: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Texts with their symbols, laid end to end, and their lengths."""
    rows = [torch.cat([torch.tensor([START]), text, torch.tensor([END])]) for text in texts]
    return torch.cat(rows), torch.tensor([len(row) for row in rows])


def logits(model: EncoderModel, texts: list[Tensor], chosen: Tensor | None = None) -> Tensor:
    return model.project(model(*framed(texts), chosen))


# Equal to torch's own


class Twin(nn.Module):
    """The same model of torch's parts and plain lines, on padded texts."""

    def __init__(self, ours: EncoderModel, pre: bool) -> None:
        super().__init__()
        self.table = nn.Parameter(ours.source_embedding.weight.detach().clone())
        self.output = nn.Parameter(ours.output.detach().clone())
        self.stack = torch_stack(ours.encoder, pre)
        self.dense, self.norm = nn.Linear(16, 16, dtype=torch.float64), nn.LayerNorm(16, dtype=torch.float64)
        self.dense.load_state_dict(ours.head.dense.state_dict())
        self.norm.load_state_dict(ours.head.norm.state_dict())

    def forward(self, ids: Tensor, lengths: Tensor, pooling: str) -> Tensor:
        x = F.embedding(ids, self.table) * 4 + sinusoids(torch.arange(ids.size(1)), 16).double()
        pads = torch.arange(ids.size(1)) >= lengths[:, None]
        memory = self.stack(x, src_key_padding_mask=pads)
        pooled = [memory[i, 0] if pooling == "first" else memory[i, :n].mean(0) for i, n in enumerate(lengths)]
        return self.norm(F.gelu(self.dense(torch.stack(pooled)))) @ self.output.T


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("pre", [False, True], ids=["the paper's post-norm", "pre-norm with a final norm"])
def test_the_paper_preset_is_torchs_encoder_forward_and_back(pre: bool, pooling: str) -> None:
    settings = {"norm_position": "pre", "final_norm": True} if pre else {}
    model = encoder_model(preset="paper", dropout=0.0, labels=3, pooling=pooling, **settings)
    unsettled(model)
    twin = Twin(model, pre)
    source, lengths = framed(sentences(LENGTHS))
    ours = model.project(model(source, lengths))
    theirs = twin(Packing.of(lengths).pad(source), lengths, pooling)
    assert_close(ours, theirs)
    ours.sin().sum().backward()
    theirs.sin().sum().backward()
    assert_close(model.source_embedding.weight.grad, twin.table.grad)
    assert_close(model.output.grad, twin.output.grad)
    pairs: Any = ((model.head.dense, twin.dense), (model.head.norm, twin.norm))
    for mine, other in pairs:
        assert_close([mine.weight.grad, mine.bias.grad], [other.weight.grad, other.bias.grad])
    layers: Any = zip(model.encoder.blocks, twin.stack.layers, strict=True)
    for block, layer in layers:
        parts = block.self_attention
        projections = torch.cat([part.weight.grad for part in (parts.query, parts.key, parts.value)])
        assert_close(projections, layer.self_attn.in_proj_weight.grad)
        assert_close(block.feed_forward.outer.weight.grad, layer.linear2.weight.grad)


def test_masked_words_are_predicted_by_the_embedding_itself_unless_it_is_untied() -> None:
    tied, free = encoder_model(), encoder_model(tied="none")
    assert tied.output is tied.source_embedding.weight
    assert free.output is not free.source_embedding.weight and free.output.shape == free.source_embedding.weight.shape


# Whatever the weights

VARIANTS = [
    {"preset": preset, "pooling": pooling, "labels": 3, **positions}
    for preset, pooling in itertools.product(("paper", "modern"), ("first", "mean"))
    for positions in ({}, {"positions": "learned", "max_positions": 40, "embedding_norm": True}, {"kv_heads": 2})
]


@pytest.mark.parametrize("settings", VARIANTS, ids=lambda settings: "-".join(map(str, settings.values())))
@torch.inference_mode()
def test_a_text_is_labelled_together_with_others_in_any_order_as_alone(settings: dict[str, Any]) -> None:
    model, texts = encoder_model(**settings), sentences(LENGTHS)
    together = logits(model, texts)
    assert_close(together, torch.cat([logits(model, [text]) for text in texts]))
    order = [2, 0, 3, 1]
    assert_close(logits(model, [texts[i] for i in order]), together[order])


@torch.inference_mode()
def test_every_token_sees_the_whole_text_and_no_other() -> None:
    model, texts = encoder_model(), sentences([4, 3])
    source, lengths = framed(texts)
    packing = Packing.of(lengths)
    before = model.encode(source, packing)
    for place in range(6):
        changed = source.clone()
        changed[place] = 4 if source[place] != 4 else 5
        moved = (model.encode(changed, packing) - before).abs().amax(1) > 1e-9
        assert moved.tolist() == [True] * 6 + [False] * 5


@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_chosen_tokens_are_predicted_as_if_picked_by_hand(preset: str) -> None:
    model, texts = encoder_model(preset=preset, labels=3), sentences(LENGTHS)
    source, lengths = framed(texts)
    chosen = torch.tensor([1, 2, 7, 14, 20])
    every = model.project(model(source, lengths, torch.arange(len(source))))
    some = model.project(model(source, lengths, chosen))
    assert_close(some, every[chosen])
    some.sin().sum().backward()
    found = [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]
    model.zero_grad()
    every[chosen].sin().sum().backward()
    assert_close(found, [weight.grad for weight in model.parameters() if weight.grad is not None])


@torch.inference_mode()
def test_pooling_takes_the_first_symbol_or_the_mean_of_all_tokens() -> None:
    texts = sentences(LENGTHS)
    source, lengths = framed(texts)
    for pooling in ("first", "mean"):
        model, packing = encoder_model(pooling=pooling, labels=3), Packing.of(lengths)
        rows = model.encode(source, packing).split(lengths.tolist())
        plain = torch.stack([row[0] if pooling == "first" else row.mean(0) for row in rows])
        assert_close(model(source, lengths), model.head(plain))


# It trains

CHOICES = [
    {"preset": preset, "positions": positions, "norm": norm, "norm_position": place, "final_norm": place == "pre"}
    for preset, positions, norm, place in itertools.product(
        ("paper", "modern"), ("sinusoidal", "learned", "rotary"), ("layer", "rms"), ("pre", "post")
    )
]


@pytest.mark.parametrize("labels", [3, None], ids=["labels", "words"])
@pytest.mark.parametrize("settings", CHOICES, ids=lambda settings: "-".join(map(str, settings.values())))
def test_a_step_of_any_architecture_moves_every_weight_and_lowers_the_loss(
    settings: dict[str, Any], labels: int | None
) -> None:
    limits: dict[str, Any] = {"max_positions": 40} if settings["positions"] == "learned" else {}
    model = encoder_model(labels=labels, pooling="mean" if labels else None, dropout=0.0, **settings, **limits)
    source, lengths = framed(sentences(LENGTHS))
    chosen = None if labels else torch.tensor([1, 8, 13, 23])
    answers = torch.tensor([0, 2, 1, 0])

    def loss() -> Tensor:
        return label_smoothed_loss(model(source, lengths, chosen), model.output, answers).smoothed

    before = loss()
    before.backward()
    slope = 0.0
    with torch.no_grad():
        for name, weight in model.named_parameters():
            assert weight.grad is not None and weight.grad.abs().max() > 0, name
            slope += float(weight.grad.square().sum())
            weight.sub_(1e-5 * weight.grad)
    assert float((before - loss()).detach()) == pytest.approx(1e-5 * slope, rel=0.05)


def test_dropout_falls_on_the_head_too_and_is_the_same_however_a_step_is_cut() -> None:
    texts = sentences(LENGTHS)
    model = encoder_model(labels=3, pooling="mean", dropout=0.5)
    dropout_key = StepKey(3, 5)
    whole = model(*framed(texts), None, dropout_key)
    first = model(*framed(texts[:1]), None, dropout_key)
    rest = model(*framed(texts[1:]), None, dropout_key.after(7, 1))
    assert_close(torch.cat([first, rest]), whole)
    zeros = (whole == 0).double().mean()
    assert abs(zeros - 0.5) < 5 * math.sqrt(0.25 / whole.numel())


# Stored


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    settings = TokenizerSettings.model_validate({"kind": "word", "minimum_frequency": 1})
    tokenizer = learn_tokenizer([" ".join("abcdefghijklmnopqrs")], settings)
    return Tokenizers(tokenizer, tokenizer)


def labelled(tokenizers: Tokenizers, folder: Path, **settings: Any) -> EncoderModel:
    config = small_config(family="encoder", source_vocabulary=tokenizers.source.size, **settings)
    model = build_model(config, seed=4)
    assert isinstance(model, EncoderModel)
    labels = Labels(task="classify", names=NAMES, temperature=1.5) if config.labels else None
    save_model(folder, model, ModelFiles(tokenizers, labels=labels))
    return model


@pytest.mark.parametrize(
    "settings",
    [{"labels": 3, "pooling": "mean"}, {"labels": 3, "pooling": "first", "preset": "paper"}, {}, {"tied": "none"}],
)
@torch.inference_mode()
def test_a_model_comes_back_to_the_bit(settings: dict[str, Any], tokenizers: Tokenizers, tmp_path: Path) -> None:
    model = labelled(tokenizers, tmp_path / "model", **settings)
    stored = load_model(tmp_path / "model")
    chosen = None if "pooling" in settings else torch.tensor([1, 8])
    assert isinstance(stored.model, EncoderModel)
    assert torch.equal(logits(stored.model, sentences(LENGTHS), chosen), logits(model, sentences(LENGTHS), chosen))
    assert stored.config == model.config
    if "labels" in settings:
        assert stored.labels == Labels(task="classify", names=NAMES, temperature=1.5)
    else:
        with pytest.raises(CheckpointError, match="holds no labels, so its model neither classifies nor tags"):
            _ = stored.labels
    save_model(tmp_path / "again", stored.model, stored.files)
    for path in (tmp_path / "model").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"labels\.json"),
        (b"\xff{", r"labels\.json cannot be read|labels\.json"),
        ({"task": "classify", "names": ["animal", "drink"]}, r"labels\.json has 2 labels, but the model 3"),
        ({"task": "classify", "names": ["animal", "drink", "drink"]}, "a label is empty or listed twice"),
        ({"task": "classify", "names": ["animal", "drink", ""]}, "a label is empty or listed twice"),
        ({"task": "sing", "names": ["animal", "drink", "food"]}, r"labels\.json.*task"),
        ({"task": "classify", "names": ["a", "b", "c"], "temperature": 0}, r"labels\.json.*temperature"),
        ({"task": "classify", "names": ["a", "b", "c"], "temperature": 5e-324}, r"labels\.json.*temperature"),
        ({"task": "classify", "names": ["a", "b", "c"], "format": 2}, r"labels\.json.*format 2"),
    ],
    ids=[
        "missing",
        "no text",
        "too few",
        "twice",
        "empty",
        "another task",
        "temperature of nought",
        "of almost nought",
        "newer",
    ],
)
def test_labels_that_do_not_fit_are_refused_by_name(
    content: Any, message: str, tokenizers: Tokenizers, tmp_path: Path
) -> None:
    labelled(tokenizers, tmp_path / "model", labels=3, pooling="mean")
    path = tmp_path / "model" / "labels.json"
    path.unlink()
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else json.dumps({"format": 1, **content}).encode())
    write_manifest(tmp_path / "model")
    with pytest.raises(CheckpointError, match=message):
        load_model(tmp_path / "model")


def test_a_damaged_list_of_labels_is_seen_by_its_hash(tokenizers: Tokenizers, tmp_path: Path) -> None:
    labelled(tokenizers, tmp_path / "model", labels=3, pooling="mean")
    path = tmp_path / "model" / "labels.json"
    path.write_text(path.read_text().replace("drink", "drank"))
    with pytest.raises(CheckpointError, match=r"labels\.json"):
        load_model(tmp_path / "model")


def test_a_checkpoint_of_a_classifier_is_a_model_folder_too(tokenizers: Tokenizers, tmp_path: Path) -> None:
    model = labelled(tokenizers, tmp_path / "model", labels=3, pooling="mean")
    files = ModelFiles(tokenizers, labels=Labels(task="classify", names=NAMES))
    folder = save_checkpoint(tmp_path / "checkpoints", fresh_state(model, train_settings()), model, files, {}, {}, 2)
    stored = load_model(folder)
    assert isinstance(stored.model, EncoderModel) and stored.labels.names == NAMES
    assert torch.equal(logits(stored.model, sentences(LENGTHS)), logits(model, sentences(LENGTHS)))


# Prepared


@pytest.mark.parametrize("preset", ["paper", "modern"])
@torch.inference_mode()
def test_a_prepared_model_says_the_same(preset: str) -> None:
    model = encoder_model(preset=preset, labels=3, pooling="mean")
    unsettled(model)
    expected = logits(model, sentences(LENGTHS))
    prepared = prepare_for_decoding(model, "cpu", torch.float64)
    assert_close(logits(prepared, sentences(LENGTHS)), expected)
    assert torch.equal(logits(model, sentences(LENGTHS)), expected), "the model itself stays as it was"
    assert not any(weight.requires_grad for weight in prepared.parameters())


# Refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"family": "encoder_decoder", "labels": 3}, "belong to an encoder alone"),
        ({"family": "language_model", "pooling": "mean"}, "belong to an encoder alone"),
        ({"family": "encoder", "labels": 1}, "labels"),
        ({"family": "encoder", "pooling": "last"}, "pooling"),
    ],
)
def test_settings_of_another_family_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small_config(**settings)


def test_a_vocabulary_must_be_known_before_a_model_is_built() -> None:
    with pytest.raises(ConfigError, match="the vocabulary sizes are not set"):
        build_model(ModelConfig.model_validate({"family": "encoder", "labels": 3}))
