"""Models of several languages come in: the same pieces, logits and texts as in transformers, whole or trimmed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from small_multilingual import (
    ALPHABETS,
    CLASSES,
    CODES,
    FAMILIES,
    MODEL,
    code_of,
    lines_of,
    pieces_of_model,
    transformers,
    write_multilingual,
)

import dragoman
from dragoman.directions import find
from dragoman.errors import CheckpointError, ConfigError, DecodeError, Error, TokenizerError
from dragoman.inference.options import SearchOptions
from dragoman.model.transformer import EncoderDecoder
from dragoman.store.description import StoredModel
from dragoman.store.folder import load_model
from dragoman.store.m2m100 import read_m2m100
from dragoman.store.mbart import read_mbart
from dragoman.store.multilingual import tags_of
from dragoman.tokenizing.sentencepiece import keep_pieces
from dragoman.tokenizing.special_tokens import END

pytestmark = pytest.mark.filterwarnings("ignore")
DIRECTIONS = (("en", "ru"), ("hi", "en"), ("ru", "zh-Hans"))
LANGUAGES = ("en", "ru", "hi", "zh-Hans")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a folder of each family, and below `ours` what becomes of it."""
    folder = tmp_path_factory.mktemp("multilingual")
    for family in FAMILIES:
        write_multilingual(folder / family, family)
        dragoman.convert(folder / family, folder / "ours" / family)
    return folder


def rows_of(folder: Path, *trimming: Any) -> list[int]:
    """Return the id there of each of our ids."""
    read = read_mbart if folder.name == "mbart" else read_m2m100
    return [row for row in read(folder, *trimming).vocabularies.source if row is not None]


def theirs(folder: Path) -> Any:
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


def symbol(stored: StoredModel, language: str) -> int:
    """Return our id of a language."""
    ids = stored.tokenizers.source.languages
    return ids[find(language, ids)]


def framed(stored: StoredModel, source: str, target: str, text: str, translation: str) -> tuple[list[int], list[int]]:
    """Return source and target as encoder and decoder read them, by the rules of the family."""
    first, second = symbol(stored, source), symbol(stored, target)
    ids, written = (stored.tokenizers.source.encode(line) for line in (text, translation))
    if stored.folder.name == "small":
        return [second, *ids, END], [END, *written]
    return [first, *ids, END], [END, second, *written]


@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_are_theirs(family: str, folders: Path) -> None:
    """SMaLL-100 cuts as M2M-100 does. Lines do not end with two spaces, which transformers keeps and SentencePiece, by
    which the models were trained, does not.
    """
    tokenizer = CLASSES[family].from_pretrained(folders / family)
    stored, rows = load_model(folders / "ours" / family), rows_of(folders / family)
    lines = [line.strip() for language in ALPHABETS for line in lines_of(language, 240, seed=1, foreign=True)]
    assert len(lines) > 2_000
    ids = stored.tokenizers.source.encode_batch(lines)
    assert [[rows[i] for i in row] for row in ids] == tokenizer(lines, add_special_tokens=False)["input_ids"]
    first = max(rows[: -len(stored.tokenizers.source.languages)]) + 1
    for language in LANGUAGES:
        wanted = first + CODES[family].index(code_of(family, language))
        assert rows[symbol(stored, language)] == wanted
        if family == "m2m":
            assert tokenizer.get_lang_id(language.partition("-")[0]) == wanted


def test_symbols_of_languages_have_the_published_ids() -> None:
    """`__en__` is 128,022 in M2M-100, `eng_Latn` 256,047 and `fra_Latn` 256,057 in NLLB-200, `en_XX` 250,004."""
    from dragoman.store import m2m100, mbart

    assert 128_004 + tags_of(m2m100._M2M_100).index("en") == 128_022
    assert 256_001 + tags_of(m2m100._NLLB_200).index("en") == 256_047
    assert 256_001 + tags_of(m2m100._NLLB_200).index("fr") == 256_057
    assert 250_001 + tags_of(mbart._CODES).index("en") == 250_004
    for family, codes in (("m2m", m2m100._M2M_100), ("nllb", m2m100._NLLB_200), ("mbart", mbart._CODES)):
        tags = tags_of(codes)
        assert len(set(tags)) == len(tags) == len(CODES[family])
        assert [code[:2].replace("ns", "nso"[:2]) for code in CODES[family]] == [code[:2] for code in codes.split()]
    assert {"en", "zh-Hans", "zh-Hant", "ar", "fa", "ks-Arab", "ks-Deva", "yue", "ko"} < set(tags_of(m2m100._NLLB_200))


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_theirs(family: str, folders: Path) -> None:
    model, stored, rows = theirs(folders / family), load_model(folders / "ours" / family), rows_of(folders / family)
    assert isinstance(stored.model, EncoderDecoder)
    for source, target in DIRECTIONS:
        text, translation = (lines_of(language, 1, seed=2)[0] for language in (source, target))
        read, written = framed(stored, source, target, text, translation)
        lengths = [torch.tensor([len(side)]) for side in (read, written)]
        with torch.inference_mode():
            hidden = stored.model(torch.tensor(read), lengths[0], torch.tensor(written), lengths[1])
            wanted = model(
                input_ids=torch.tensor([[rows[i] for i in read]]),
                decoder_input_ids=torch.tensor([[rows[i] for i in written]]),
            ).logits[0]
            logits = stored.model.project(hidden)
        assert (logits - wanted[:, torch.tensor(rows)]).abs().max() < 2e-5 * wanted.abs().max().clamp(min=1)


@pytest.mark.parametrize(("family", "beam"), [*((family, 1) for family in FAMILIES), ("m2m", 3), ("mbart", 3)])
def test_texts_are_theirs(family: str, beam: int, folders: Path) -> None:
    assert_same_texts(folders / family, folders / "ours" / family, rows_of(folders / family), beam)


def assert_same_texts(folder: Path, ours: Path, rows: list[int], beam: int = 1, directions: Any = DIRECTIONS) -> None:
    """Compare translations with those of transformers, which may write the same tokens."""
    model, stored = theirs(folder), load_model(ours)
    translator = dragoman.Translator.load(ours, "cpu", "float32")
    target = stored.tokenizers.target
    may = {2, 3, *(row for i, row in enumerate(rows) if not target.is_special(i))}
    back = {row: i for i, row in enumerate(rows)}
    search = {"num_beams": beam, "length_penalty": 0.0, "early_stopping": beam > 1}
    search["suppress_tokens"] = sorted({*range(model.config.vocab_size)} - may)
    for direction in directions:
        lines = lines_of(direction[0], 3, seed=3)
        asked = {"beam_size": beam, "length_penalty": 0.0}
        asked |= dict(zip(("source_language", "target_language"), direction, strict=True))
        options = SearchOptions.model_validate({**translator.options.model_dump(), **asked})
        translations = [translation.text for translation in translator.translate(lines, options)]
        for line, text in zip(lines, translations, strict=True):
            read, start = ([rows[i] for i in side] for side in framed(stored, direction[0], direction[1], line, ""))
            inputs = {"input_ids": torch.tensor([read]), "decoder_input_ids": torch.tensor([start])}
            written = model.generate(**inputs, **search)[0].tolist()
            assert text == target.decode([back[row] for row in written])


@pytest.mark.parametrize(("name", "side"), [("one-to-many", 0), ("many-to-one", 1)])
def test_a_model_that_reads_or_writes_english_alone_has_no_other_direction(
    name: str, side: int, folders: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / f"mbart-large-50-{name}-mmt"
    shutil.copytree(folders / "mbart", theirs)
    what = dragoman.convert(theirs, tmp_path / "ours", ["en", "it", "de"]).what
    assert ("en to 2 languages", "2 languages to en")[side] in what
    translator = dragoman.Translator.load(tmp_path / "ours", "cpu")
    english, italian = (("en", "it"), ("it", "en"))[side], ("it", "de")
    assert translator.directions is not None and translator.directions.has(*english)
    assert len([*translator.directions.pairs()]) == 2
    translator.translate(["a"], source_language=english[0], target_language=english[1], beam_size=1)
    with pytest.raises(DecodeError):
        translator.translate(["a"], source_language=italian[0], target_language=italian[1], beam_size=1)
    with pytest.raises(ConfigError, match="English alone; keep en"):
        dragoman.convert(theirs, tmp_path / "none", ["it", "de"])


@pytest.mark.parametrize("family", ["m2m", "mbart"])
@pytest.mark.parametrize("by_text", [False, True])
def test_a_trimmed_model_translates_as_the_whole_one_without_the_other_pieces(
    family: str, by_text: bool, folders: Path, tmp_path: Path
) -> None:
    """Its source is cut into the pieces that are left."""
    kept = ("en", "ru", "zh-Hans")
    texts = [line for language in kept for line in lines_of(language, 8, seed=5)] if by_text else None
    conversion = dragoman.convert(folders / family, tmp_path / family, kept, texts)
    whole, stored = load_model(folders / "ours" / family), load_model(tmp_path / family)
    assert stored.files.directions is not None and stored.files.directions.source == ("en", "ru", "zh")
    pieces, before = (set(model.tokenizers.source.vocabulary.pieces) for model in (stored, whole))
    assert pieces < before and f"{len(pieces):,} of {len(before):,} pieces are left" in " ".join(conversion.notes)
    used = {
        piece for text in texts or () for piece in whole.tokenizers.source.tokens(whole.tokenizers.source.encode(text))
    }
    assert used & before <= pieces
    letters = set("".join(ALPHABETS[language] for language in kept)) | set("▁!?.,")
    assert {piece for piece in before if len(piece) == 1 and piece in letters} <= pieces
    if not by_text:
        assert {piece for piece in before if set(piece) <= letters} <= pieces
        assert not any(
            set(piece) & set("".join(ALPHABETS[language] for language in ("el", "ar", "ko"))) for piece in pieces
        )
    for line in (line for language in kept for line in lines_of(language, 30, seed=6)):
        ids = stored.tokenizers.source.encode(line)
        assert stored.tokenizers.source.decode(ids) == whole.tokenizers.source.normalise(line)
        cut = whole.tokenizers.source.tokens(whole.tokenizers.source.encode(line))
        assert not set(cut) <= pieces or stored.tokenizers.source.tokens(ids) == cut
    assert stored.tokenizers.source.unknown_words("αβγ δ") == ["αβγ", "δ"]
    rows = rows_of(folders / family, kept, texts)
    assert_same_texts(folders / family, tmp_path / family, rows, 1, (("en", "ru"), ("ru", "zh")))


def test_words_of_text_are_cut_as_by_the_library_itself(folders: Path) -> None:
    """The library's own restriction (`SetVocabulary`) leaves single characters: they are then unknown by our table."""
    model = (folders / "mbart" / MODEL).read_bytes()
    names = pieces_of_model(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=keep_pieces(model, set(names[::2])))
    unused = [name for i, name in enumerate(names, 3) if processor.is_unused(i)]
    assert unused == names[1::2] and processor.id_to_piece(0) == "<unk>" and not processor.is_unused(0)
    same = sentencepiece.SentencePieceProcessor(model_proto=keep_pieces(model, set(names)))
    assert same.serialized_model_proto() == model


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("family", "change", "arguments", "message"),
    [
        ("m2m", {}, {"languages": ["en", "xx"]}, "has no source language 'xx'; it has af, am"),
        ("m2m", {}, {"languages": ["en"]}, "at least two languages are to be kept, as in --languages en,it, not en"),
        ("m2m", {}, {"texts": ["a"]}, "a text chooses the pieces of some languages; name these with --languages"),
        ("m2m", {"vocab_size": 400}, {}, "vocab.json should give each piece a different number from 0 to 399"),
        ("m2m", {"vocab_size": 650}, {}, "with 100 languages do not fit the 650 embeddings of config.json"),
        ("m2m", {"vocab_size": 710}, {}, "model.shared.weight has shape .*, but config.json asks for"),
        ("mbart", {"vocab_size": 630}, {}, "with 52 languages do not fit the 630 embeddings of config.json"),
        ("nllb", {"vocab_size": 5_000}, {}, "with 202 languages do not fit the 5,000 embeddings of config.json"),
        ("nllb", {"model_type": "nllb-moe"}, {}, "with model_type 'nllb-moe'; only 'marian', 'm2m_100', 'mbart' are"),
        ("mbart", {"quantization_config": {"load_in_8bit": True}}, {}, "quantization_config"),
        ("mbart", {"decoder_start_token_id": 0}, {}, "decoder_start_token_id"),
        ("m2m", {"decoder_layers": 2}, {}, "model.decoder.layers.1.self_attn_layer_norm.weight is missing"),
    ],
)
def test_what_does_not_fit_is_told_in_a_line(
    family: str, change: dict[str, Any], arguments: dict[str, Any], message: str, folders: Path, tmp_path: Path
) -> None:
    shutil.copytree(folders / family, tmp_path / "model")
    edit(tmp_path / "model" / "config.json", **change)
    with pytest.raises(Error, match=message) as caught:
        dragoman.convert(tmp_path / "model", tmp_path / "ours", **arguments)
    assert "\n" not in str(caught.value) and not (tmp_path / "ours").exists()


@pytest.mark.parametrize(("family", "name"), [("m2m", "vocab.json"), ("m2m", MODEL), ("nllb", MODEL), ("mbart", MODEL)])
def test_a_missing_or_damaged_file_is_named(family: str, name: str, folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / family, tmp_path / "model")
    (tmp_path / "model" / name).write_bytes(b"\x93\x00garbage")
    with pytest.raises(Error, match=name):
        dragoman.convert(tmp_path / "model", tmp_path / "ours")
    (tmp_path / "model" / name).unlink()
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=f"{name} is missing"):
        dragoman.convert(tmp_path / "model", tmp_path / "ours")


def test_small100_is_known_by_its_tokenizer(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "small", tmp_path / "model")
    (tmp_path / "model" / "tokenizer_config.json").unlink()
    with pytest.raises(
        TokenizerError, match="may be SMaLL-100, .* or M2M-100; write its tokenizer into tokenizer_config"
    ):
        dragoman.convert(tmp_path / "model", tmp_path / "ours")
    (tmp_path / "model" / "tokenization_small100.py").write_text("raise SystemExit")
    dragoman.convert(tmp_path / "model", tmp_path / "ours")
    framing = load_model(tmp_path / "ours").files.framing
    assert framing == load_model(folders / "ours" / "small").files.framing
    assert not framing.target_prefix and framing.source([7]) == [7, END] and framing.target([7]) == [END, 7]


def test_bare_tensors_and_what_a_folder_states_are_taken(
    folders: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The default target language, a licence that forbids commercial use, and sinusoids in older files."""
    caplog.set_level("INFO", "dragoman")
    write_multilingual(tmp_path / "nllb", "nllb", pickled=True)
    path = tmp_path / "nllb" / "pytorch_model.bin"
    weights = torch.load(path, weights_only=True)  # noqa: TID251 (what convert reads)
    torch.save({**weights, "model.encoder.embed_positions.weights": torch.zeros(66, 32)}, path)
    (tmp_path / "nllb" / "README.md").write_text("---\nlanguage: en\nlicense: cc-by-nc-4.0\n---\n")
    whole = load_model(folders / "ours" / "nllb")
    german = max(rows_of(folders / "nllb")[:-202]) + 1 + CODES["nllb"].index("deu_Latn")
    edit(tmp_path / "nllb" / "generation_config.json", forced_bos_token_id=german)
    conversion = dragoman.convert(tmp_path / "nllb", tmp_path / "ours")
    assert any(message.startswith("converting takes about") for message in caplog.messages)
    assert conversion.notes[-1] == "licence: cc-by-nc-4.0, which forbids commercial use"
    stored = load_model(tmp_path / "ours")
    assert (
        stored.files.generation["target_language"] == "de"
        and "cc-by-nc-4.0" in (tmp_path / "ours" / "README.md").read_text()
    )
    assert all((stored.weights[name] == whole.weights[name]).all() for name in whole.weights)
    with pytest.raises(ConfigError, match="cannot be exported to transformers: .*model.position_offset must be 0"):
        dragoman.export(tmp_path / "ours", "huggingface", tmp_path / "theirs", ["a"])
    with pytest.raises(ConfigError, match="model.positions must be 'sinusoidal'"):
        dragoman.export(folders / "ours" / "mbart", "huggingface", tmp_path / "theirs", ["a"])
    edit(tmp_path / "nllb" / "generation_config.json", forced_bos_token_id=5)
    with pytest.raises(CheckpointError, match="forced_bos_token_id must be the symbol of a language, but is 5"):
        dragoman.convert(tmp_path / "nllb", tmp_path / "again")
