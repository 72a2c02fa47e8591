"""Whole models: equal to torch's own stacks, causal, and the same packed, padded, cached and alone."""

import random
from typing import Any

import pytest
import torch
from closeness import assert_close
from small import END, PRESETS, START, VOCABULARY, batch_of, language_model, random_batch, sentences, translator
from torch import Tensor, nn
from torch_twin import torch_stack, unsettled

from dragoman.compiled import kernels
from dragoman.model.packing import Packing
from dragoman.model.transformer import EncoderDecoder, LanguageModel
from dragoman.training.loss import label_smoothed_loss

# Equal to torch's own


@pytest.mark.parametrize("pre", [False, True], ids=["the paper's post-norm", "pre-norm with a final norm"])
def test_the_paper_preset_is_torchs_transformer_forward_and_back(pre: bool) -> None:
    settings = {"norm_position": "pre", "final_norm": True} if pre else {}
    model = translator(preset="paper", dropout=0.0, **settings)
    unsettled(model)
    encoder, decoder = torch_stack(model.encoder, pre), torch_stack(model.decoder, pre)
    of_source, of_target = Packing.of([5, 3]), Packing.of([2, 4])
    source, target = torch.randn(8, 16, dtype=torch.float64), torch.randn(6, 16, dtype=torch.float64)
    ours_in, theirs_in = source.clone().requires_grad_(), source.clone().requires_grad_()
    keys = model.cross_keys(model.encoder(ours_in, of_source), of_source)
    ours = model.decoder(target, of_target, keys)
    pads = ~of_source.pad(torch.ones(8, dtype=torch.bool))
    encoded = encoder(of_source.pad(theirs_in), src_key_padding_mask=pads)
    future = torch.ones(4, 4, dtype=torch.bool).triu(1)
    theirs = of_target.unpad(decoder(of_target.pad(target), encoded, tgt_mask=future, memory_key_padding_mask=pads))
    assert_close(ours, theirs)
    (ours.sin()).sum().backward()
    (theirs.sin()).sum().backward()
    assert_close(ours_in.grad, theirs_in.grad)
    for our_stack, their_stack in ((model.encoder, encoder), (model.decoder, decoder)):
        for block, layer in zip(our_stack.blocks, their_stack.layers, strict=True):
            assert_same_gradients(block, layer)


def assert_same_gradients(block: Any, layer: Any) -> None:
    attention = block.self_attention
    last_norm = layer.norm3 if hasattr(layer, "norm3") else layer.norm2
    projections = torch.cat([part.weight.grad for part in (attention.query, attention.key, attention.value)])
    assert_close(projections, layer.self_attn.in_proj_weight.grad)
    assert_close(block.feed_forward.inner.weight.grad, layer.linear1.weight.grad)
    assert_close(block.feed_residual.norm.bias.grad, last_norm.bias.grad)


# Worked examples of embeddings


def test_a_look_up_of_two_by_two_ids_gives_their_rows() -> None:
    rows = torch.randn(5, 3)
    found = nn.functional.embedding(torch.tensor([[1, 2], [3, 4]]), rows)
    assert found.shape == (2, 2, 3)
    torch.testing.assert_close(found, torch.stack([rows[1:3], rows[3:5]]))


def test_only_the_rows_that_were_looked_up_have_a_gradient() -> None:
    model = translator(source_vocabulary=5)
    model.source_embedding(torch.tensor([1, 3]), torch.arange(2)).sum().backward()
    gradient = model.source_embedding.weight.grad
    assert gradient is not None
    assert gradient.abs().sum(1).nonzero().flatten().tolist() == [1, 3]


def test_embeddings_are_scaled_by_the_root_of_the_width() -> None:
    scaled, plain = translator(), translator(embedding_scale=False)
    ids, places = torch.tensor([4, 7]), torch.arange(2)
    torch.testing.assert_close(scaled.source_embedding(ids, places), 4 * plain.source_embedding(ids, places))


# What holds whatever the weights


def models() -> list[EncoderDecoder | LanguageModel]:
    variants = [
        {"preset": "paper"},
        {"preset": "modern"},
        {"preset": "modern", "kv_heads": 2},
        {"preset": "paper", "positions": "learned", "max_positions": 40, "embedding_norm": True},
    ]
    return [make(**variant) for make in (translator, language_model) for variant in variants]


def name_of(model: EncoderDecoder | LanguageModel) -> str:
    return f"{type(model).__name__}-{model.config.positions}-{model.config.kv_heads}"


MODELS = pytest.mark.parametrize("model", models(), ids=name_of)


def inputs(model: nn.Module, sources: list[Tensor], targets: list[Tensor]) -> tuple[Tensor, ...]:
    return batch_of(sources if isinstance(model, EncoderDecoder) else None, targets).inputs


SOURCES, TARGETS = sentences([3, 9, 1, 5], seed=4), sentences([6, 2, 8, 1], seed=5)


@MODELS
@torch.inference_mode()
def test_a_future_token_changes_nothing_earlier(model: EncoderDecoder | LanguageModel) -> None:
    [target] = sentences([8], seed=6)
    before = model(*inputs(model, SOURCES[:1], [target]))
    for place in range(8):
        changed = target.clone()
        changed[place] = 4 + (changed[place] - 3) % (VOCABULARY - 4)
        after = model(*inputs(model, SOURCES[:1], [changed]))
        assert_close(after[: place + 1], before[: place + 1])
        assert (after[place + 1] - before[place + 1]).abs().max() > 1e-6


@MODELS
@torch.inference_mode()
def test_sentences_together_are_as_they_are_alone(model: EncoderDecoder | LanguageModel) -> None:
    together = model(*inputs(model, SOURCES, TARGETS))
    alone = [model(*inputs(model, [source], [target])) for source, target in zip(SOURCES, TARGETS, strict=True)]
    assert_close(together, torch.cat(alone))


@torch.inference_mode()
@pytest.mark.parametrize("preset", PRESETS)
def test_rows_and_padded_sentences_differ_by_rounding_alone(preset: str) -> None:
    model = translator(preset=preset, dtype=torch.float32)
    batch = random_batch([3, 5, 2, 30], [4, 1, 6, 25])
    packed = model(*batch.inputs)
    with kernels.without("attention"):  # then it pads
        padded = model(*batch.inputs)
    assert_close(packed, padded)
    of_rows, of_rectangles = (label_smoothed_loss(x, model.output, batch.labels).plain for x in (packed, padded))
    assert_close(of_rows, of_rectangles)


@MODELS
@torch.inference_mode()
def test_the_order_of_sentences_in_a_batch_changes_nothing(model: EncoderDecoder | LanguageModel) -> None:
    order = [2, 0, 3, 1]
    rows = model(*inputs(model, SOURCES, TARGETS)).split([len(target) + 1 for target in TARGETS])
    turned = model(*inputs(model, [SOURCES[i] for i in order], [TARGETS[i] for i in order]))
    assert_close(turned, torch.cat([rows[i] for i in order]))


def test_the_source_is_read_in_both_directions() -> None:
    model, packing = translator(), Packing.of([5])
    [source] = sentences([5])
    changed = source.clone()
    changed[4] = 4 if source[4] != 4 else 5
    assert (model.encode(source, packing) - model.encode(changed, packing))[0].abs().max() > 1e-6


# Cached


def begin(model: EncoderDecoder | LanguageModel, sources: list[Tensor]):
    if isinstance(model, LanguageModel):
        return model.start(len(sources))
    batch = batch_of(sources, sources)
    assert batch.source is not None and batch.source_lengths is not None
    packing = Packing.of(batch.source_lengths)
    return model.start(model.encode(batch.source, packing), packing)


def decode_pieces(model: EncoderDecoder | LanguageModel, cache, rows: list[list[Tensor]]) -> list[Tensor]:
    """Rows of pieces; each call takes the next piece of every row, empty ones too. The hidden states of each row."""
    found: list[list[Tensor]] = [[] for _ in rows]
    for pieces in zip(*rows, strict=True):
        lengths = [len(piece) for piece in pieces]
        hidden = model.decode(torch.cat(pieces), Packing.of(lengths), cache)
        for row, part in zip(found, hidden.split(lengths), strict=True):
            row.append(part)
    return [torch.cat(row) for row in found]


def framed(targets: list[Tensor]) -> list[Tensor]:
    return [torch.cat([torch.tensor([START]), target]) for target in targets]


@MODELS
@torch.inference_mode()
def test_a_cache_token_by_token_gives_what_the_whole_sentence_gives(model: EncoderDecoder | LanguageModel) -> None:
    targets = sentences([40, 40, 40, 40]) if model.config.positions != "learned" else sentences([30] * 4)
    whole = model(*inputs(model, SOURCES, targets))
    rows = [list(target.split(1)) for target in framed(targets)]
    assert_close(torch.cat(decode_pieces(model, begin(model, SOURCES), rows)), whole)


@MODELS
@torch.inference_mode()
def test_a_cache_in_ragged_pieces_gives_what_the_whole_sentence_gives(model: EncoderDecoder | LanguageModel) -> None:
    whole = model(*inputs(model, SOURCES, TARGETS))
    for seed in range(5):
        dice = random.Random(seed)
        rows = []
        for target in framed(TARGETS):
            cuts = sorted(dice.randint(0, len(target)) for _ in range(3))
            rows.append([target[a:b] for a, b in zip([0, *cuts], [*cuts, len(target)], strict=True)])
        assert_close(torch.cat(decode_pieces(model, begin(model, SOURCES), rows)), whole)


@MODELS
@torch.inference_mode()
def test_rows_reordered_doubled_and_dropped_go_on_as_if_fresh(model: EncoderDecoder | LanguageModel) -> None:
    order, cache, targets = [3, 1, 1], begin(model, SOURCES), framed(TARGETS)
    first = [target[: len(target) // 2] for target in targets]
    decode_pieces(model, cache, [[piece] for piece in first])
    cache.reorder(torch.tensor(order))
    last = sentences([4, 2, 5], seed=8)
    found = decode_pieces(model, cache, [[piece] for piece in last])
    for row, i in enumerate(order):
        alone = decode_pieces(model, begin(model, [SOURCES[i]]), [[torch.cat([first[i], last[row]])]])[0]
        assert_close(found[row], alone[len(first[i]) :])


@MODELS
@torch.inference_mode()
def test_rows_that_join_others_under_way_go_on_as_if_alone(model: EncoderDecoder | LanguageModel) -> None:
    targets = framed(TARGETS)
    cache = begin(model, SOURCES[:2])
    early = decode_pieces(model, cache, [[target[:2]] for target in targets[:2]])
    cache.join(begin(model, SOURCES[2:]))
    rest = [target[2:] for target in targets[:2]] + targets[2:]
    late = decode_pieces(model, cache, [[piece] for piece in rest])
    found = [torch.cat([early[i], late[i]]) for i in (0, 1)] + late[2:]
    assert_close(torch.cat(found), model(*inputs(model, SOURCES, TARGETS)))


@MODELS
@torch.inference_mode()
def test_rows_that_are_further_on_may_join_too(model: EncoderDecoder | LanguageModel) -> None:
    targets = framed(TARGETS)
    cache, longer = begin(model, SOURCES[1:]), begin(model, SOURCES[:1])
    early = decode_pieces(model, longer, [[targets[0][:5]]])
    cache.join(longer)
    late = decode_pieces(model, cache, [[target[:1]] for target in targets[1:]] + [[targets[0][5:6]]])
    whole = model(*inputs(model, SOURCES, TARGETS)).split([len(target) for target in targets])
    assert_close(torch.cat([early[0], late[-1]]), whole[0][:6])
    assert_close(torch.cat(late[:-1]), torch.stack([row[0] for row in whole[1:]]))


@torch.inference_mode()
def test_a_cache_with_no_rows_left_takes_new_ones_in() -> None:
    model = translator()
    cache = begin(model, SOURCES[:1])
    decode_pieces(model, cache, [[framed(TARGETS[:1])[0]]])
    cache.reorder(torch.tensor([], dtype=torch.int64))
    assert cache.rows == 0
    cache.join(begin(model, SOURCES[1:]))
    found = decode_pieces(model, cache, [[target] for target in framed(TARGETS[1:])])
    assert_close(torch.cat(found), model(*inputs(model, SOURCES[1:], TARGETS[1:])))


# What training shows


def one_sided_step(optimiser: type[torch.optim.SGD] | type[torch.optim.Adam]) -> Tensor:
    """Which source embeddings move in a second step, in which only tokens 5 and 6 are used."""
    model = translator()
    moves = optimiser([model.source_embedding.weight], lr=0.1)
    before = model.source_embedding.weight
    for ids in ([START, 9, 10, END], [START, 5, 6, END]):
        before = model.source_embedding.weight.detach().clone()
        moves.zero_grad()
        packing = Packing.of([4])
        model.encode(torch.tensor(ids), packing).sin().sum().backward()
        moves.step()
    return (model.source_embedding.weight - before).abs().sum(1) > 0


def test_plain_descent_moves_only_the_rows_used_and_adam_moves_others_too() -> None:
    assert one_sided_step(torch.optim.SGD).nonzero().flatten().tolist() == [START, END, 5, 6]
    assert one_sided_step(torch.optim.Adam).nonzero().flatten().tolist() == [START, END, 5, 6, 9, 10]


def test_with_tied_embeddings_every_row_has_a_gradient() -> None:
    model, batch = translator(tied="all"), random_batch([2], [2])
    label_smoothed_loss(model(*batch.inputs), model.output, batch.labels).smoothed.backward()
    gradient = model.source_embedding.weight.grad
    assert gradient is not None and (gradient.abs().sum(1) > 0).all()


def test_a_diverged_weight_stays_to_be_seen() -> None:
    for name in dict(translator().named_parameters()):
        model, batch = translator(), random_batch([2], [2])
        weight = model.get_parameter(name)
        weight.data[START if "embedding" in name else 0] = torch.nan
        assert model.project(model(*batch.inputs)).isnan().any(), name
