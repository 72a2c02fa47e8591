"""Small random models of several languages, in the folders that transformers writes: M2M-100, SMaLL-100, NLLB-200,
mBART-50.
"""

import json
import random
from pathlib import Path
from typing import Any

import torch
from small_marian import randomise, spm, transformers
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES as M2M_CODES
from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES as MBART_CODES
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB_CODES

ALPHABETS = {
    "en": "abcdefghijklmnoprstuvwy",
    "ru": "абвгдежзиклмнопрсту",
    "el": "αβγδεζηθικλμνοπρ",
    "ar": "ابتثجحخدذرزسشصضط",
    "hi": "कखगघचछजटडतदनपबमयरलवसाििीुूे",
    "zh-Hans": "的一是在不了有和人这中大为上个国我以要他",
    "ja": "あいうえおかきくけこさしすせそアイウエオカキク日本人",
    "ko": "가나다라마바사아자차카타파하고노도로",
    "th": "กขคงจชซญดตถทนบปพมยรลวสหอาิีเแ",
}
"""Characters of languages in eight scripts and more."""
FAMILIES = ("m2m", "small", "nllb", "mbart")
MODEL = "sentencepiece.bpe.model"
CLASSES = {
    "m2m": transformers.M2M100Tokenizer,
    "small": transformers.M2M100Tokenizer,
    "nllb": transformers.NllbTokenizer,
    "mbart": transformers.MBart50Tokenizer,
}
CODES = {"m2m": M2M_CODES["m2m100"], "small": M2M_CODES["m2m100"], "nllb": NLLB_CODES, "mbart": MBART_CODES}


def lines_of(language: str, count: int, seed: int = 0, foreign: bool = False) -> list[str]:
    """Return lines of words and marks; `foreign` adds numbers, full-width forms, spaces and other scripts."""
    chance = random.Random(f"{language}{seed}")
    letters = random.Random(language)
    words = ["".join(letters.sample(sorted(set(ALPHABETS[language])), letters.randint(1, 6))) for _ in range(60)]
    others = ["12", "3.5", "ＡＢ", "ﬁ", "é", "  ", "ß", "😀", "֎", "(x)", "№", "a\u0301"] if foreign else [","]
    return [
        " ".join(chance.choice(others if chance.random() < 0.1 else words) for _ in range(chance.randint(1, 9)))
        + chance.choice([".", "!", "", "?"])
        for _ in range(count)
    ]


def code_of(family: str, language: str) -> str:
    """Return the name that a family has for a language."""
    if family == "nllb":
        names = {"en": "eng_Latn", "ru": "rus_Cyrl", "el": "ell_Grek", "hi": "hin_Deva", "zh-Hans": "zho_Hans"}
        return names[language]
    if family == "mbart":
        return next(code for code in MBART_CODES if code[:2] == language[:2])
    return language.partition("-")[0]


def write_multilingual(folder: Path, family: str, seed: int = 3, pickled: bool = False, **settings: Any) -> Path:
    """Write a random model of a family, with a vocabulary that has learnt lines of all alphabets."""
    folder.mkdir(parents=True)
    lines = [line for language in ALPHABETS for line in lines_of(language, 60)]
    kind = "unigram" if family == "mbart" else "bpe"
    model = spm(lines, vocab_size=600, model_type=kind, character_coverage=1.0, normalization_rule_name="nmt_nfkc")
    (folder / MODEL).write_bytes(model)
    pieces = pieces_of_model(model)
    codes = CODES[family]
    if family in ("m2m", "small"):
        random.Random(seed).shuffle(pieces)
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    if family in ("m2m", "small"):
        (folder / "vocab.json").write_text(json.dumps({name: id_ for id_, name in enumerate(names)}), "utf-8")
        facts: dict[str, Any] = {"tokenizer_class": "M2M100Tokenizer", "language_codes": "m2m100"}
        size = len(names) + len(codes) + 8
    else:
        facts = {"tokenizer_class": CLASSES[family].__name__}
        size = len(names) + len(codes) + (3 if family == "nllb" else 1)
    if family == "small":
        facts = {"tokenizer_class": "SMALL100Tokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))
    theirs = new_model(family, size, seed, **settings)
    marks = [id_ for id_, name in enumerate(names) if not any(map(str.isalnum, name))]
    with torch.no_grad():  # far from ties; marks and symbols of languages are read but never written
        theirs.model.shared.weight.normal_(0, 0.4)[marks] = 0
        theirs.model.shared.weight[len(names) :] /= 4
    theirs.save_pretrained(folder)
    generation = {"max_length": 14, "num_beams": 1, "decoder_start_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    if pickled:
        (folder / "model.safetensors").unlink()
        torch.save(theirs.state_dict(), folder / "pytorch_model.bin")
    return folder


def pieces_of_model(model: bytes) -> list[str]:
    """Return the pieces of a SentencePiece model that are no symbols."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(id_) for id_ in range(3, processor.get_piece_size())]


def new_model(family: str, size: int, seed: int, **settings: Any) -> Any:
    """Return a model of random weights, biases and norms, whose stacks differ in depth."""
    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 3 if family == "small" else 1, "vocab_size": size}
    sizes |= {f"{stack}_attention_heads": 4 for stack in ("encoder", "decoder")}
    sizes |= {f"{stack}_ffn_dim": 48 for stack in ("encoder", "decoder")}
    sizes |= {"max_position_embeddings": 64, "scale_embedding": True}
    symbols = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
    kind = "MBart" if family == "mbart" else "M2M100"
    config = getattr(transformers, f"{kind}Config")(**symbols, **sizes, activation_function="relu", **settings)
    return randomise(getattr(transformers, f"{kind}ForConditionalGeneration")(config), seed)
