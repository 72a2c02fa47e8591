"""Marian models of transformers go in and out: the same pieces, logits, texts and weights."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from closeness import assert_close
from small_marian import ENGLISH, ITALIAN, transformers, write_marian
from torch import Tensor

import dragoman
from dragoman.errors import CheckpointError, ConfigError, DataError, Error, TokenizerError
from dragoman.exporting import Target
from dragoman.exporting.export import Export
from dragoman.exporting.huggingface import generation_for
from dragoman.inference.options import SearchOptions
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import EncoderDecoder, build_model
from dragoman.store.description import Languages
from dragoman.store.folder import load_model
from dragoman.store.marian import read_marian
from dragoman.store.marian_search import Symbols, options_from
from dragoman.store.marian_weights import POSITIONS, Vocabularies, from_marian, to_marian, twins
from dragoman.store.saving import save_model
from dragoman.store.tensors import named_weights
from dragoman.tokenizing.special_tokens import MARIAN_FRAMING
from dragoman.training.loss import label_smoothed_loss

pytestmark = pytest.mark.filterwarnings("ignore:Recommended")
FORMS: dict[str, dict[str, Any]] = {
    "opus": {},
    "separate": {"separate": True, "activation_function": "relu"},
    "target": {"separate": True, "tie_word_embeddings": True, "activation_function": "gelu"},
    "pickled": {"pickled": True, "scale_embedding": False},
    "bytes": {"of_spm": {"byte_fallback": True, "vocab_size": 330}},
    "many": {"tags": (">>ita<<", ">>fra<<", ">>pt_br<<", "<s>")},
}
TEXTS = [*ENGLISH, "An unknown ß and 漢字, “quoted”…", "  two   spaces ", "x", " ".join(ENGLISH)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each form of a Marian folder, and below `ours` what becomes of it."""
    folder = tmp_path_factory.mktemp("marian")
    for form, options in FORMS.items():
        write_marian(folder / form, **options)
        dragoman.convert(folder / form, folder / "ours" / form)
    return folder


def theirs(folder: Path) -> tuple[Any, Any]:
    return (
        transformers.MarianMTModel.from_pretrained(folder).eval(),
        transformers.MarianTokenizer.from_pretrained(folder),
    )


def logits_of(model: EncoderDecoder, source: list[int], target: list[int]) -> Tensor:
    lengths = [torch.tensor([len(side)]) for side in (source, target)]
    with torch.inference_mode():
        return model.project(model(torch.tensor(source), lengths[0], torch.tensor(target), lengths[1]))


@pytest.mark.parametrize("form", FORMS)
def test_pieces_are_theirs(form: str, folders: Path) -> None:
    _, tokenizer = theirs(folders / form)
    rows = read_marian(folders / form).vocabularies
    ours = load_model(folders / "ours" / form)
    for text in TEXTS:
        source = ours.files.framing.source(ours.tokenizers.source.encode(text))
        assert [rows.source[i] for i in source] == tokenizer(text)["input_ids"]
        target = ours.files.framing.labels(ours.tokenizers.target.encode(text))
        wanted = tokenizer(text_target=text)["input_ids"]
        assert [rows.target[i] for i in target] == wanted
        assert ours.tokenizers.target.decode(target) == tokenizer.decode(wanted, skip_special_tokens=True)


@pytest.mark.parametrize("form", FORMS)
def test_logits_are_theirs(form: str, folders: Path) -> None:
    model, tokenizer = theirs(folders / form)
    rows = read_marian(folders / form).vocabularies
    stored = load_model(folders / "ours" / form)
    assert isinstance(stored.model, EncoderDecoder)
    held = torch.tensor([row is not None for row in rows.target])
    order = torch.tensor([row for row in rows.target if row is not None])
    for english, italian in zip(ENGLISH, ITALIAN, strict=True):
        source = stored.files.framing.source(stored.tokenizers.source.encode(english))
        target = stored.files.framing.target(stored.tokenizers.target.encode(italian))
        ours = logits_of(stored.model, source, target)
        given = tokenizer(english, return_tensors="pt")
        before = torch.tensor([[rows.target[i] for i in target]])
        with torch.inference_mode():
            wanted = model(**given, decoder_input_ids=before).logits[0]
        assert (ours[:, held] - wanted[:, order]).abs().max() < 1e-5
        assert ours.log_softmax(-1)[:, ~held].exp().max() == 0, "the start symbol takes no share of the probability"


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("form", FORMS)
def test_texts_are_theirs(form: str, beam: int, folders: Path) -> None:
    model, tokenizer = theirs(folders / form)
    translator = dragoman.Translator.load(folders / "ours" / form, "cpu", "float32")
    options = SearchOptions.model_validate({**translator.options.model_dump(), "beam_size": beam})
    found = translator.translate(ENGLISH, options)
    given = tokenizer(ENGLISH, return_tensors="pt", padding=True)
    wanted = model.generate(**given, num_beams=beam, length_penalty=0.0, early_stopping=beam > 1)
    assert [each.text for each in found] == tokenizer.batch_decode(wanted, skip_special_tokens=True)


@pytest.mark.parametrize("forced", [0, None])
@pytest.mark.parametrize(
    "lengths",
    [{"max_length": 8}, {"max_length": 40, "max_new_tokens": 6}, {"max_length": 12, "min_new_tokens": 9}],
    ids=str,
)
def test_texts_are_as_long_as_theirs(
    lengths: dict[str, int], forced: int | None, folders: Path, tmp_path: Path
) -> None:
    """Where the end symbol is forced, it stands in the last place; and both ways keep the lengths."""
    shutil.copytree(folders / "opus", tmp_path / "model")
    changes = {"num_beams": 4, "forced_eos_token_id": forced, **lengths}
    edit(tmp_path / "model" / "generation_config.json", **changes)
    dragoman.convert(tmp_path / "model", tmp_path / "ours")
    export(tmp_path / "ours", tmp_path / "back")
    dragoman.convert(tmp_path / "back", tmp_path / "again")
    first, last = (dragoman.Translator.load(tmp_path / name, "cpu", "float32") for name in ("ours", "again"))
    assert last.options.length_extra == first.options.length_extra
    assert last.options.minimum_length == first.options.minimum_length == lengths.get("min_new_tokens", 0)
    for folder in ("model", "back"):
        model, tokenizer = theirs(tmp_path / folder)
        wanted = model.generate(**tokenizer(ENGLISH, return_tensors="pt", padding=True))
        wanted = tokenizer.batch_decode(wanted, skip_special_tokens=True)
        assert [each.text for each in first.translate(ENGLISH)] == wanted


@pytest.mark.parametrize("separate", [False, True])
def test_embeddings_beyond_the_vocabulary_are_read_and_left_out(separate: bool, tmp_path: Path) -> None:
    """As `resize_token_embeddings(pad_to_multiple_of=…)` leaves them. A hole in the vocabulary is no other case."""
    write_marian(tmp_path / "model", separate=separate, padded=5)
    if not separate:
        table = json.loads((tmp_path / "model" / "vocab.json").read_text())
        del table[list(table)[10]]
        (tmp_path / "model" / "vocab.json").write_text(json.dumps(table))
    found = dragoman.convert(tmp_path / "model", tmp_path / "ours")
    size = 10 if separate else 6
    assert f"{size} embeddings of no piece" in found.notes[0]
    model, tokenizer = theirs(tmp_path / "model")
    rows = read_marian(tmp_path / "model").vocabularies
    stored = load_model(tmp_path / "ours")
    assert isinstance(stored.model, EncoderDecoder)
    source = stored.files.framing.source(stored.tokenizers.source.encode(ENGLISH[0]))
    target = stored.files.framing.target(stored.tokenizers.target.encode(ITALIAN[0]))
    ours = logits_of(stored.model, source, target)
    given = torch.tensor([[rows.target[i] for i in target]])
    with torch.inference_mode():
        wanted = model(**tokenizer(ENGLISH[0], return_tensors="pt"), decoder_input_ids=given).logits[0]
    held = [row for row in rows.target if row is not None]
    assert (ours[:, [i for i, row in enumerate(rows.target) if row is not None]] - wanted[:, held]).abs().max() < 1e-5
    back = export(tmp_path / "ours", tmp_path / "back")
    smaller = json.loads((back.folder / "config.json").read_text())["vocab_size"]
    assert smaller == json.loads((tmp_path / "model" / "config.json").read_text())["vocab_size"] - (
        5 if separate else 6
    )
    dragoman.export(tmp_path / "ours", "ctranslate2", tmp_path / "ct2", ENGLISH)


def test_what_the_search_leaves_out_is_said(folders: Path, tmp_path: Path) -> None:
    stored = load_model(folders / "ours" / "opus")
    generation = {**stored.files.generation, "temperature": 0.7, "prefix": "Il", "length_ratio": 2.0}
    save_model(tmp_path / "model", stored.model, stored.files._replace(generation=generation))
    sampling, prefix, length_ratio = export(tmp_path / "model", tmp_path / "theirs").notes
    assert "decode.temperature is not exported: it draws samples" in sampling and 'decode.prefix = "Il"' in prefix
    assert "decode.length_ratio = 2" in length_ratio and "510 tokens" in length_ratio


def test_there_are_positions_for_the_longest_translation(folders: Path, tmp_path: Path) -> None:
    stored = load_model(folders / "ours" / "opus")
    generation = {**stored.files.generation, "length_extra": 900}
    save_model(tmp_path / "model", stored.model, stored.files._replace(generation=generation))
    export(tmp_path / "model", tmp_path / "theirs")
    model, _ = theirs(tmp_path / "theirs")
    assert model.config.max_position_embeddings == model.generation_config.max_length == 902


@pytest.mark.parametrize("form", FORMS)
def test_there_and_back_every_tensor_is_the_same(form: str, folders: Path, tmp_path: Path) -> None:
    before, _ = theirs(folders / form)
    export(folders / "ours" / form, tmp_path / "back")
    after, facts = transformers.MarianMTModel.from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not facts["missing_keys"] and not facts["unexpected_keys"]
    wanted, found = ({n: w for n, w in m.state_dict().items() if n not in POSITIONS} for m in (before, after))
    assert wanted.keys() == found.keys()
    assert all(torch.equal(wanted[name], found[name]) for name in wanted)
    for name in ("vocab.json", *(["target_vocab.json"] if FORMS[form].get("separate") else [])):
        assert json.loads((tmp_path / "back" / name).read_text()) == json.loads((folders / form / name).read_text())
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "back" / name).read_bytes() == (folders / form / name).read_bytes()
    _, tokenizer = theirs(tmp_path / "back")
    _, original = theirs(folders / form)
    assert tokenizer(TEXTS)["input_ids"] == original(TEXTS)["input_ids"]
    assert tokenizer(text_target=TEXTS)["input_ids"] == original(text_target=TEXTS)["input_ids"]
    generation = after.generation_config
    assert (generation.num_beams, generation.length_penalty, generation.max_length) == (4, 0.0, 40)
    assert generation.bad_words_ids == [[before.config.pad_token_id]]


def test_a_converted_folder_says_what_it_is(folders: Path) -> None:
    stored = load_model(folders / "ours" / "opus")
    assert stored.languages == Languages("en", "it")
    assert stored.files.framing == MARIAN_FRAMING
    assert (stored.config.activation, stored.config.output_bias, stored.config.tied) == ("silu", True, "all")
    assert stored.tokenizers.joint and not load_model(folders / "ours" / "separate").tokenizers.joint
    assert "opus" in (folders / "ours" / "opus" / "README.md").read_text()


def test_languages_come_from_the_name_or_from_the_user(folders: Path, tmp_path: Path) -> None:
    named = tmp_path / "opus-mt-de-fr"
    shutil.copytree(folders / "opus", named)
    (named / "tokenizer_config.json").unlink()
    dragoman.convert(named, tmp_path / "stated")
    assert load_model(tmp_path / "stated").languages == Languages("de", "fr")
    named = named.rename(tmp_path / "opus-mt-tc-big-en-fr")
    dragoman.convert(named, tmp_path / "big")
    assert load_model(tmp_path / "big").languages == Languages("en", "fr")
    named = named.rename(tmp_path / "the-old-one-is-on")
    found = dragoman.convert(named, tmp_path / "guessed")
    assert load_model(tmp_path / "guessed").languages == Languages() and "--languages" in found.notes[-1]
    named.rename(tmp_path / "model")
    found = dragoman.convert(tmp_path / "model", tmp_path / "nothing")
    assert load_model(tmp_path / "nothing").languages == Languages() and "--languages" in found.notes[-1]
    dragoman.convert(tmp_path / "model", tmp_path / "given", ["pt-BR", "en"])
    assert load_model(tmp_path / "given").languages == Languages("pt-BR", "en")
    with pytest.raises(ConfigError, match="languages"):
        dragoman.convert(tmp_path / "model", tmp_path / "wrong", ["en", "it!"])
    with pytest.raises(ConfigError, match="is a model of Dragoman already; dragoman export"):
        dragoman.convert(tmp_path / "given", tmp_path / "wrong", ["en", "it"])


def test_another_length_penalty_is_kept_and_said(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "opus", tmp_path / "model")
    (tmp_path / "model" / "generation_config.json").write_text(json.dumps({"num_beams": 6}))
    found = dragoman.convert(tmp_path / "model", tmp_path / "ours")
    options = dragoman.Translator.load(tmp_path / "ours").options
    assert (options.beam_size, options.length_penalty, options.length_extra) == (6, 1.0, 511)
    assert "length_penalty = 1" in found.notes[0] and "early_stopping" in found.notes[1]


def test_neutral_settings_are_taken_and_another_sum_of_probabilities_is_said(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "opus", tmp_path / "model")
    neutral = {"suppress_tokens": [], "encoder_repetition_penalty": 1, "guidance_scale": 1.0, "penalty_alpha": None}
    edit(tmp_path / "model" / "generation_config.json", renormalize_logits=True, **neutral)
    [note] = dragoman.convert(tmp_path / "model", tmp_path / "ours").notes
    assert "renormalize_logits" in note
    found, wanted = (dragoman.Translator.load(each).options for each in (tmp_path / "ours", folders / "ours" / "opus"))
    assert found == wanted


def test_whether_the_unknown_symbol_may_be_written_goes_both_ways(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "opus", tmp_path / "model")
    padding = json.loads((folders / "opus" / "config.json").read_text())["pad_token_id"]
    edit(tmp_path / "model" / "generation_config.json", bad_words_ids=[[padding], [1]])
    dragoman.convert(tmp_path / "model", tmp_path / "ours")
    assert not dragoman.Translator.load(tmp_path / "ours").options.allow_unknown
    assert dragoman.Translator.load(folders / "ours" / "opus").options.allow_unknown
    export(tmp_path / "ours", tmp_path / "back")
    assert json.loads((tmp_path / "back" / "generation_config.json").read_text())["bad_words_ids"] == [[padding], [1]]


def export(model: Path, to: Path) -> Export:
    return dragoman.export(model, "huggingface", to, ENGLISH)


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("config.json", {"model_type": "bart"}, "a model of transformers with model_type 'bart'; only 'marian'"),
        ("config.json", {"activation_function": "gelu_new"}, "activation_function .* but is .gelu_new."),
        ("config.json", {"normalize_embedding": True}, "normalize_embedding"),
        ("config.json", {"normalize_before": True}, "normalize_before"),
        ("config.json", {"static_position_embeddings": False}, "static_position_embeddings"),
        ("config.json", {"decoder_attention_heads": 8}, "encoder_attention_heads and decoder_attention_heads"),
        ("config.json", {"decoder_ffn_dim": 64}, "encoder_ffn_dim and decoder_ffn_dim must be equal"),
        ("config.json", {"tie_word_embeddings": False}, "tie_word_embeddings"),
        ("config.json", {"decoder_start_token_id": 5}, "decoder_start_token_id must be pad_token_id"),
        ("config.json", {"eos_token_id": 1}, "</s> has id 0, but config.json says eos_token_id = 1"),
        ("config.json", {"d_model": 64}, r"has shape \[.*32\], but config.json asks for \[.*64\]"),
        ("config.json", {"d_model": "32"}, "d_model should be a valid integer"),
        ("config.json", {"encoder_layers": 3}, "model.encoder.layers.2.* is missing"),
        ("config.json", {"encoder_layers": 1}, "model.encoder.layers.1.* does not belong"),
        ("config.json", {"vocab_size": 50}, "vocab.json should give each piece a different number from 0 to 49"),
        ("config.json", {"quantization_config": {"bits": 8}}, "quantization_config"),
        ("generation_config.json", {"do_sample": True}, "do_sample"),
        ("generation_config.json", {"num_beams": 1000}, "num_beams"),
        ("generation_config.json", {"repetition_penalty": 1.5}, "repetition_penalty"),
        ("generation_config.json", {"length_penalty": -1.0}, "length_penalty"),
        ("generation_config.json", {"encoder_repetition_penalty": 1.5}, "encoder_repetition_penalty"),
        ("generation_config.json", {"encoder_no_repeat_ngram_size": 3}, "encoder_no_repeat_ngram_size"),
        ("generation_config.json", {"suppress_tokens": [4]}, "suppress_tokens"),
        ("generation_config.json", {"begin_suppress_tokens": [4]}, "begin_suppress_tokens"),
        ("generation_config.json", {"sequence_bias": [[[4], 2.0]]}, "sequence_bias"),
        ("generation_config.json", {"exponential_decay_length_penalty": [5, 1.5]}, "exponential_decay_length_penalty"),
        ("generation_config.json", {"forced_bos_token_id": 4}, "forced_bos_token_id"),
        ("generation_config.json", {"forced_eos_token_id": 4}, "forced_eos_token_id must be 0, as in config.json"),
        ("generation_config.json", {"eos_token_id": 4}, "eos_token_id must be 0, as in config.json, but is 4"),
        ("generation_config.json", {"guidance_scale": 2.0}, "guidance_scale"),
        ("generation_config.json", {"stop_strings": ["."]}, "stop_strings"),
        ("generation_config.json", {"bad_words_ids": [[5, 6]]}, r"bad_words_ids .* holds \(5, 6\)"),
        ("tokenizer_config.json", {"sp_model_kwargs": {"enable_sampling": True}}, "sp_model_kwargs"),
        ("tokenizer_config.json", {"separate_vocabs": True}, "target_vocab.json is missing"),
        ("vocab.json", {"<unk>": "1"}, "should give every piece a number"),
        ("vocab.json", {"new": 3}, "should give each piece a different number"),
        ("vocab.json", {"new": -1}, "should give each piece a different number"),
    ],
)
def test_what_our_model_cannot_hold_is_refused_by_name(
    name: str, changes: dict[str, Any], message: str, folders: Path, tmp_path: Path
) -> None:
    shutil.copytree(folders / "opus", tmp_path / "model")
    edit(tmp_path / "model" / name, **changes)
    with pytest.raises(Error, match=message) as caught:
        dragoman.convert(tmp_path / "model", tmp_path / "ours")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize("name", ["vocab.json", "source.spm", "target.spm", "model.safetensors"])
def test_a_missing_file_is_named(name: str, folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "opus", tmp_path / "model")
    (tmp_path / "model" / name).unlink()
    with pytest.raises(CheckpointError, match=f"not a complete model of transformers: {name}.* is missing"):
        dragoman.convert(tmp_path / "model", tmp_path / "ours")


@pytest.mark.parametrize("name", ["vocab.json", "source.spm", "model.safetensors", "config.json"])
@pytest.mark.parametrize("content", [b"", b"\x93\x00garbage", b"[1, 2]"])
def test_a_damaged_file_is_named(name: str, content: bytes, folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "opus", tmp_path / "model")
    (tmp_path / "model" / name).write_bytes(content)
    with pytest.raises((CheckpointError, TokenizerError), match=name):
        dragoman.convert(tmp_path / "model", tmp_path / "ours")


class Planted:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('ran')",)


def test_a_pickle_of_more_than_tensors_is_refused_and_runs_nothing(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "pickled", tmp_path / "model")
    for content in ({"weight": Planted()}, {"names": ["a"]}, [torch.zeros(2)]):
        torch.save(content, tmp_path / "model" / "pytorch_model.bin")
        with pytest.raises(CheckpointError, match="pytorch_model.bin"):
            dragoman.convert(tmp_path / "model", tmp_path / "ours")


def test_weights_that_are_wrong_are_refused_by_name(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "opus", tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    bias = "model.encoder.layers.0.fc1.bias"
    changes: list[tuple[dict[str, Tensor], str]] = [
        ({bias: weights[bias] * torch.nan}, f"{bias} holds numbers that are not finite"),
        ({bias: weights[bias].int()}, f"{bias} is of type torch.int32"),
        ({"lm_head.weight": weights["model.shared.weight"] + 1}, "should be one matrix, but differ"),
        ({"model.layernorm_embedding.weight": torch.ones(32)}, "layernorm_embedding.weight does not belong"),
    ]
    for change, message in changes:
        safetensors.torch.save_file({**weights, **change}, path)
        with pytest.raises(CheckpointError, match=message):
            dragoman.convert(tmp_path / "model", tmp_path / "ours")


def test_half_precision_and_sinusoids_in_the_file_are_taken(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "opus", tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    half = {name: weight.half() for name, weight in safetensors.torch.load_file(path).items()}
    safetensors.torch.save_file({**half, "model.encoder.embed_positions.weight": torch.zeros(512, 32)}, path)
    dragoman.convert(tmp_path / "model", tmp_path / "ours")
    found, exact = (named_weights(load_model(each).model) for each in (tmp_path / "ours", folders / "ours" / "opus"))
    assert all((found[name] - exact[name]).abs().max() < 2e-3 * (1 + exact[name].abs().max()) for name in exact)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": "rms"}, "model.norm must be 'layer', but is 'rms'"),
        ({"positions": "rotary"}, "model.positions must be 'sinusoidal'"),
        ({"norm_position": "pre", "final_norm": True}, "model.norm_position must be 'post'.*model.final_norm"),
        ({"activation": "swiglu"}, "model.activation must be relu, gelu or silu"),
        ({"kv_heads": 1}, "model.kv_heads must equal model.heads"),
        ({"bias": False}, "model.bias must be True"),
        ({"norm_epsilon": 1e-6}, "model.norm_epsilon"),
        ({"position_base": 500.0}, "model.position_base"),
        ({"embedding_norm": True}, "model.embedding_norm"),
    ],
)
def test_what_a_marian_folder_cannot_hold_is_refused_by_name(
    change: dict[str, Any], message: str, folders: Path, tmp_path: Path
) -> None:
    stored = load_model(folders / "ours" / "opus")
    config = ModelConfig.model_validate({**stored.config.model_dump(), **change})
    save_model(tmp_path / "model", build_model(config, seed=1), stored.files)
    with pytest.raises(ConfigError, match=message):
        export(tmp_path / "model", tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_other_tokenizers_and_symbols_are_refused(folders: Path, tmp_path: Path) -> None:
    from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

    stored = load_model(folders / "ours" / "opus")
    pairs = list(zip(ENGLISH, ITALIAN, strict=True))
    tokenizers = learn_tokenizers(lambda: pairs, TokenizerSettings(kind="word", minimum_frequency=1))
    vocabularies = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    config = ModelConfig.model_validate({**stored.config.model_dump(), **vocabularies, "tied": "target"})
    files = stored.files._replace(tokenizers=tokenizers, framing=type(MARIAN_FRAMING)())
    save_model(tmp_path / "words", build_model(config, seed=1), files)
    with pytest.raises(
        ConfigError, match="its source tokenizer is of kind 'word'.*its target tokenizer is of kind 'word'"
    ):
        dragoman.export(tmp_path / "words", "huggingface", tmp_path / "theirs")


@pytest.mark.parametrize("form", FORMS)
def test_ctranslate2_translates_as_the_marian_model_does(form: str, folders: Path, tmp_path: Path) -> None:
    texts = [*TEXTS, *(f"{tag} {text}" for tag in (">>fra<<", ">>xyz<<") for text in ENGLISH)]
    found = dragoman.export(folders / "ours" / form, "ctranslate2", tmp_path / "theirs", texts)
    assert found.proof is not None
    assert found.proof.largest_difference < 1e-4 and found.proof.sentences >= len(texts) - 1
    names = {each.name for each in (tmp_path / "theirs").iterdir()}
    assert {"model.bin", "source.spm", "target.spm", "translate.py"} <= names and "tokenizer.json" not in names


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("form", "target"),
    [("separate", "ctranslate2"), ("bytes", "ctranslate2"), ("many", "ctranslate2"), ("many", "huggingface")],
)
def test_the_script_beside_a_marian_model_translates_without_us(
    form: str, target: Target, folders: Path, tmp_path: Path
) -> None:
    out = dragoman.export(folders / "ours" / form, target, tmp_path / "theirs", ENGLISH).folder
    asked = [sys.executable, str(out / "translate.py"), "1"]
    lines = [*ENGLISH, f">>fra<< {ENGLISH[0]}", ""]
    if target == "ctranslate2":  # transformers drops such a tag
        lines.append(f">>no tag<< {ENGLISH[0]}")
    given = "".join(f"{line}\n" for line in lines)
    said = subprocess.run(asked, input=given, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    options = SearchOptions(beam_size=1, split="never", length_ratio=2.0, length_extra=20)
    found = dragoman.Translator.load(folders / "ours" / form, "cpu", "float32").translate(lines, options)
    assert [line[:20] for line in said.split("\n")] == [*(each.text[:20] for each in found), ""]


def test_a_folder_of_neither_kind_is_refused(folders: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist.*convert takes"):
        dragoman.convert(tmp_path / "nowhere", tmp_path / "new")
    with pytest.raises(CheckpointError, match="not a model folder.*convert takes"):
        dragoman.convert(tmp_path, tmp_path / "new")
    with pytest.raises(DataError, match="exists already"):
        dragoman.convert(folders / "opus", folders / "ours")
    with pytest.raises(DataError, match="exists already"):
        export(folders / "ours" / "opus", folders)


KINDS = {
    "of CTranslate2, which cannot be read back": {"config.json": "{}", "model.bin": "", "shared_vocabulary.json": "[]"},
    "of CTranslate2": {"config.json": '{"bos_token": "<s>"}', "model.bin": "", "source_vocabulary.txt": ""},
    "package of Argos Translate": {"metadata.json": "{}", "model/model.bin": "", "sentencepiece.model": ""},
    "Bergamot": {"model.enit.intgemm.alphas.bin": "", "vocab.enit.spm": "", "lex.50.50.enit.s2t.bin": ""},
    "of the Marian program": {"opus.npz": "", "opus.vocab.yml": "", "decoder.yml": ""},
    "model_type 'nllb-moe'": {"config.json": '{"model_type": "nllb-moe"}', "model.safetensors": ""},
    "adapter of PEFT": {"adapter_config.json": "{}", "adapter_model.safetensors": ""},
    "sentence-transformers": {"modules.json": "[]"},
    "of fairseq": {"dict.en.txt": "", "model.pt": ""},
    "checkpoint of another program": {"averaged.pt": ""},
    "GGUF": {"model.q4.gguf": ""},
    "ONNX": {"encoder_model.onnx": "", "config.json": "{}"},
    "cache of a model; take .*/snapshots/a1": {"snapshots/a1/config.json": "{}", "blobs/x": ""},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_another_kind_is_named_wherever_a_model_is_asked_for(kind: str, tmp_path: Path) -> None:
    for name, content in KINDS[kind].items():
        path = tmp_path / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for use in (lambda: dragoman.convert(tmp_path / "model", tmp_path / "new"), lambda: load_model(tmp_path / "model")):
        with pytest.raises(CheckpointError, match=kind):
            use()
    assert not (tmp_path / "new").exists()


def test_a_marian_folder_or_a_file_in_the_place_of_a_model_is_told_what_to_do(folders: Path, tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"a model of transformers \(Marian\); convert it first: dragoman convert"
    ):
        load_model(folders / "opus")
    for name, advice in (
        ("opus.zip", "an archive; unpack it"),
        ("model.safetensors", "a file, but a model is a folder"),
    ):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(CheckpointError, match=f"{name} is {advice}"):
            load_model(tmp_path / name)
    (tmp_path / "unknown").mkdir()
    (tmp_path / "unknown" / "config.json").write_text('{"architectures": ["MarianMTModel"]}')
    with pytest.raises(
        CheckpointError, match="not a complete model folder.*convert takes a folder of transformers: Marian"
    ):
        dragoman.convert(tmp_path / "unknown", tmp_path / "new")


def test_weights_that_are_not_there_are_explained(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "opus", tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 300000000\n")
    with pytest.raises(CheckpointError, match="model.safetensors is only a pointer of Git LFS; .* git lfs pull"):
        dragoman.convert(tmp_path / "model", tmp_path / "new")
    weights.rename(tmp_path / "model" / "tf_model.h5")
    with pytest.raises(CheckpointError, match="pytorch_model.bin is missing; tf_model.h5 cannot be read"):
        dragoman.convert(tmp_path / "model", tmp_path / "new")


@pytest.mark.parametrize("tied", ["none", "target", "all"])
def test_the_mapping_is_its_own_inverse(tied: str) -> None:
    sizes = {"source_vocabulary": 9, "target_vocabulary": 9 if tied == "all" else 7}
    shape = {"d_model": 8, "heads": 2, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 2}
    config = ModelConfig.model_validate({"preset": "paper", **sizes, **shape, "tied": tied, "output_bias": True})
    rows = Vocabularies([1, 7, None, 0, 6, 2, 5, 3, 4], [1, 5, None, 0, 3, 2, 4])
    rows = rows._replace(target=rows.source) if tied == "all" else rows
    names = [twin.names[0] for twin in twins(config).values()]
    assert len(set(names)) == len(names)
    ours = named_weights(build_model(config, seed=1))
    there = to_marian(ours, config, rows)
    back = to_marian(from_marian(dict(there), config, rows), config, rows)
    assert there.keys() == back.keys() and all(torch.equal(there[name], back[name]) for name in there)
    again = from_marian(dict(there), config, rows)
    start = rows.target.index(None)
    for name, weight in ours.items():
        kept = [i for i in range(len(weight)) if i != start or twins(config)[name].axes[0] not in Vocabularies._fields]
        assert torch.equal(weight[kept], again[name][kept])


def test_a_token_that_marian_lacks_costs_no_loss(folders: Path) -> None:
    """It has no share of the softmax, and label smoothing stays finite."""
    model = load_model(folders / "ours" / "opus").model
    assert isinstance(model, EncoderDecoder) and model.output_bias is not None
    hidden, labels = torch.randn(6, 32), torch.arange(4, 10)
    with_start = label_smoothed_loss(hidden, model.output, labels, bias=model.output_bias)
    kept = torch.tensor([i for i in range(len(model.output)) if i != 2])
    without = label_smoothed_loss(hidden, model.output[kept], labels - 1, bias=model.output_bias[kept])
    assert_close(with_start.plain, without.plain)
    smoothed = label_smoothed_loss(hidden, model.output, labels, 0.1, bias=model.output_bias)
    assert smoothed.smoothed.isfinite()


@pytest.mark.parametrize("early", [True, False])
def test_when_a_search_ends_travels_both_ways(early: bool) -> None:
    symbols = Symbols(unknown=1, padding=2, end=0, start=2)
    theirs, _ = generation_for(SearchOptions(beam_size=4, early_stopping=early, length_penalty=0.0), symbols)
    assert theirs["early_stopping"] == (True if early else "never")
    ours, notes = options_from(theirs, 512, symbols, "generation_config.json")
    assert ours.get("early_stopping", True) == early and not notes
