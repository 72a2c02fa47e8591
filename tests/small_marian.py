"""Small random Marian models, in the folders that transformers writes."""

import io
import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

transformers = pytest.importorskip("transformers", reason="needs transformers")
sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece")
import torch  # noqa: E402

warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")

ENGLISH = [
    "Where is the station?",
    "I drink water and you eat white bread.",
    "The red cat sees the old black dog.",
    "Good morning, Anna! How are you?",
    "They have never been to the sea.",
]
ITALIAN = [
    "Dove sta la stazione?",
    "Io bevo acqua e tu mangi pane bianco.",
    "Il gatto rosso vede il vecchio cane nero.",
    "Buongiorno, Anna! Come stai?",
    "Non sono mai stati al mare.",
]
SYMBOLS = ["</s>", "<unk>"]


def spm(lines: list[str], **options: Any) -> bytes:
    """A SentencePiece model that has learnt these lines."""
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 4),
        model_writer=made,
        **{"vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2, **options},
    )
    return made.getvalue()


def pieces_of(model: bytes) -> list[str]:
    """The pieces of a SentencePiece model that are no symbols."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]


def write_marian(
    folder: Path,
    separate: bool = False,
    pickled: bool = False,
    padded: int = 0,
    tags: tuple[str, ...] = (),
    of_spm: dict[str, Any] | None = None,
    **config: Any,
) -> Path:
    """A random model with a nonzero bias of the output. It has so many embeddings more than pieces; `tags` name the
    languages that it translates into.
    """
    folder.mkdir(parents=True)
    models = [spm(lines, **(of_spm or {})) for lines in (ENGLISH, ITALIAN)]
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    tables = [[*tags, *pieces_of(model)] for model in models]
    tables = tables if separate else [list(dict.fromkeys(itertools.chain(*tables)))]
    padding = min(len(table) for table in tables) + len(SYMBOLS)
    for name, table in zip(("vocab.json", "target_vocab.json"), tables, strict=False):
        names = [*SYMBOLS, *table]
        ids = {piece: i for i, piece in enumerate([*names[:padding], "<pad>", *names[padding:]])}
        (folder / name).write_text(json.dumps(ids), "utf-8")
    facts = {"source_lang": "en", "target_lang": "it", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts), "utf-8")
    model = new_model([len(table) + len(SYMBOLS) + 1 + padded for table in tables], padding, separate, **config)
    generation = {"num_beams": 4, "length_penalty": 0.0, "early_stopping": True, "max_length": 40}
    symbols = {"bad_words_ids": [[padding]], "decoder_start_token_id": padding, "pad_token_id": padding}
    model.save_pretrained(folder)
    (folder / "generation_config.json").write_text(
        json.dumps({**generation, **symbols, "eos_token_id": 0, "forced_eos_token_id": 0})
    )
    if pickled:
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


def new_model(sizes: list[int], padding: int, separate: bool, **given: Any) -> Any:
    """A model of random weights, biases and norms."""
    torch.manual_seed(7)
    config = {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 64,
        "share_encoder_decoder_embeddings": not separate,
        "tie_word_embeddings": not separate,
        **given,
    }
    symbols = {"pad_token_id": padding, "decoder_start_token_id": padding, "eos_token_id": 0, "forced_eos_token_id": 0}
    model = transformers.MarianMTModel(
        transformers.MarianConfig(vocab_size=sizes[0], decoder_vocab_size=sizes[-1], **symbols, **config)
    )
    return randomise(model)


def randomise(model: Any, seed: int | None = None) -> Any:
    """Return the model with weights that matter, biases and norms included."""
    if seed is not None:
        torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.add_(torch.randn_like(weight) / 4)
            elif "embed" not in name and "shared" not in name:
                weight.normal_(0, 0.3)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    return model.eval()
