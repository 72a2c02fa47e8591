"""Makes small Marian models with transformers and SentencePiece, in the form of OPUS-MT's folders."""

import io
import itertools
import json
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch.nn import functional as F
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

FORMS = ("opus", "separate", "biased")
PIECES = {"opus": 2_200, "separate": 3_000, "biased": 2_200}
"""Pieces of each side's SentencePiece model; sides that share a vocabulary share many pieces."""
SIZES = {"d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "heads": 4, "d_ff": 512}
BATCH, RATE, WARM_UP = 64, 2e-3, 200
FEWEST, MOST = 3, 40
"""Tokens of a sentence that is trained on."""


def make(folder: Path, data: Path, form: str, minutes: float) -> dict[str, Any]:
    """Trains one model and writes its folder; returns the number of steps and the last loss."""
    texts = [(data / f"train.{side}").read_text("utf-8").splitlines() for side in ("en", "it")]
    write_tokenizer(folder, texts, form)
    tokenizer = MarianTokenizer.from_pretrained(folder)
    source = tokenizer(texts[0])["input_ids"]
    target = tokenizer(text_target=texts[1])["input_ids"]
    pairs = [(s, t) for s, t in zip(source, target, strict=True) if all(FEWEST <= len(x) <= MOST for x in (s, t))]
    model = new_model(tokenizer, form)
    if form == "biased":
        model.final_logits_bias[0] = frequencies(pairs, model.config.vocab_size)
    facts = train(model, pairs, minutes)
    write_model(folder, model, form)
    return facts


def write_tokenizer(folder: Path, texts: Sequence[Sequence[str]], form: str) -> None:
    """SentencePiece models of both sides, and the tables of ids: `</s>` first, padding last."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = []
    for side, lines in zip(("source", "target"), texts, strict=True):
        made = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=made, vocab_size=PIECES[form], num_threads=1, minloglevel=2
        )
        (folder / f"{side}.spm").write_bytes(made.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())
        tables.append([processor.id_to_piece(i) for i in range(3, processor.get_piece_size())])
    names = {"source_lang": "en", "target_lang": "it", "separate_vocabs": form == "separate"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    if form != "separate":
        tables = [list(dict.fromkeys(itertools.chain(*tables)))]
    for name, table in zip(("vocab.json", "target_vocab.json"), tables, strict=False):
        ids = {piece: i for i, piece in enumerate(["</s>", "<unk>", *table, "<pad>"])}
        (folder / name).write_text(json.dumps(ids, ensure_ascii=False, indent=2), "utf-8")


def new_model(tokenizer: MarianTokenizer, form: str) -> MarianMTModel:
    """A fresh model."""
    torch.manual_seed(FORMS.index(form))
    width, size = SIZES["d_model"], tokenizer.vocab_size
    config = MarianConfig(
        vocab_size=size,
        decoder_vocab_size=size,
        d_model=width,
        encoder_layers=SIZES["encoder_layers"],
        decoder_layers=SIZES["decoder_layers"],
        encoder_attention_heads=SIZES["heads"],
        decoder_attention_heads=SIZES["heads"],
        encoder_ffn_dim=SIZES["d_ff"],
        decoder_ffn_dim=SIZES["d_ff"],
        activation_function="relu" if form == "separate" else "swish",
        max_position_embeddings=512,
        scale_embedding=True,
        init_std=width**-0.5,
        share_encoder_decoder_embeddings=form != "separate",
        tie_word_embeddings=form != "separate",
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
        eos_token_id=0,
        bos_token_id=0,
        forced_eos_token_id=0,
    )
    model = MarianMTModel(config)
    for module in model.modules():  # one standard deviation for all matrices suits embeddings, not projections
        if isinstance(module, torch.nn.Linear) and module is not model.get_output_embeddings():
            torch.nn.init.xavier_uniform_(module.weight)
    return model


def frequencies(pairs: Sequence[tuple[list[int], list[int]]], size: int) -> torch.Tensor:
    """The logarithm of each target token's share, kept small."""
    counts = Counter(itertools.chain.from_iterable(target for _, target in pairs))
    total = sum(counts.values())
    return torch.tensor([math.log((counts[i] + 1) / total) / 2 for i in range(size)])


def train(model: MarianMTModel, pairs: list[tuple[list[int], list[int]]], minutes: float) -> dict[str, Any]:
    """Adam for so many minutes, batches of equal length; returns steps and the last loss."""
    padding, first = model.config.pad_token_id or 0, model.config.decoder_start_token_id
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    model.train()
    start, step, losses = time.monotonic(), 0, []
    for step, batch in enumerate(batches(pairs), 1):
        left = 1 - (time.monotonic() - start) / (60 * minutes)
        if left <= 0:
            break
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(step / WARM_UP, 1) * max(0.05, min(1.0, 2 * left))
        sources, targets = (padded(side, padding) for side in zip(*batch, strict=True))
        logits = model(
            input_ids=sources,
            attention_mask=(sources != padding).long(),
            decoder_input_ids=F.pad(targets[:, :-1], (1, 0), value=first),
            use_cache=False,
        ).logits
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=padding)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    return {"steps": step, "loss": round(sum(losses[-100:]) / len(losses[-100:]), 3)}


def batches(pairs: list[tuple[list[int], list[int]]]) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Endless batches of about equal length."""
    order = random.Random(1)
    ordered = sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))
    firsts = list(range(0, len(ordered), BATCH))
    while True:
        order.shuffle(firsts)
        yield from (ordered[first : first + BATCH] for first in firsts)


def padded(rows: Sequence[Sequence[int]], padding: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[padding] * (longest - len(row))] for row in rows])


def write_model(folder: Path, model: MarianMTModel, form: str) -> None:
    """The weights, and the search settings of OPUS-MT."""
    config, padding = model.config, model.config.pad_token_id
    generation = {
        "num_beams": 4,
        "max_length": 512,
        "bad_words_ids": [[padding]],
        "pad_token_id": padding,
        "decoder_start_token_id": padding,
        "eos_token_id": config.eos_token_id,
        "forced_eos_token_id": config.eos_token_id,
    }
    if form != "opus":
        generation |= {"length_penalty": 0.0, "early_stopping": True}
    model.eval().save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2))
    if form == "biased":
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
