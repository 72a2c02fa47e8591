"""A model folder into a folder of Hugging Face transformers: `export_huggingface`.

Models of SentencePiece came from Marian folders, and go back into such a folder (`exporting.marian`). All others keep
their ids and their tokenizer, as a `tokenizer.json`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch

from dragoman.config import check
from dragoman.documents import write_json
from dragoman.errors import ConfigError
from dragoman.exporting.marian import marian_config, marian_obstacles
from dragoman.exporting.marian_folder import CONFIG, GENERATION, TOKENIZER, WEIGHTS, Vocabularies, to_marian
from dragoman.exporting.proof import Proof, never_written, prove
from dragoman.exporting.transformers_models import Running, refuse_missing
from dragoman.files import new_folder, write_file
from dragoman.inference.options import SearchOptions
from dragoman.store import StoredModel, named_weights
from dragoman.tokenizing.portable import obstacles as tokenizer_obstacles
from dragoman.tokenizing.portable import portable
from dragoman.tokenizing.special_tokens import Framing
from dragoman.tokenizing.tokenizer import Tokenizer

LIBRARY, TARGET, SCRIPT = "tokenizer.json", "target_tokenizer", "translate.py"
_FEWEST_POSITIONS = 512


def export_huggingface(stored: StoredModel, to: Path, texts: Sequence[str]) -> Proof:
    """Writes a folder that transformers loads, after the proof that it translates as our model does.

    Raises:
        ConfigError: `MarianMTModel` cannot hold something of this model; it is named. Or the proof failed.
        DataError: `to` exists already.
        MissingExtra: transformers is not installed.
    """
    if found := list(obstacles(stored)):
        raise ConfigError(f"{stored.folder} cannot become a folder of transformers: {'; '.join(found)}")
    refuse_missing()
    options = check(stored.files.generation, str(stored.folder), SearchOptions)
    longest = int(options.length_ratio * options.max_source_tokens) + options.length_extra
    same = Vocabularies(*(range(tokenizer.size) for tokenizer in stored.tokenizers))
    weights = to_marian(named_weights(stored.model), stored.config, same)
    never = never_written(stored.tokenizers, stored.files.framing)
    with new_folder(to) as aside:
        write_json(aside / CONFIG, _config(stored, max(_FEWEST_POSITIONS, longest + 2)))
        write_json(aside / GENERATION, _generation(options, longest, never, _symbols(stored.files.framing)))
        write_file(aside / WEIGHTS, safetensors.torch.save(weights, metadata={"format": "pt"}))
        _write_tokenizer(aside, stored.tokenizers.source, stored.files.framing)
        if not stored.tokenizers.joint:
            (aside / TARGET).mkdir()
            _write_tokenizer(aside / TARGET, stored.tokenizers.target, stored.files.framing)
        write_file(aside / SCRIPT, Path(__file__).with_name("huggingface_script.py").read_text("utf-8"))
        return prove(stored, _run(aside, same, never), texts, "transformers")


def obstacles(stored: StoredModel) -> Iterator[str]:
    """What `MarianMTModel` cannot hold, in the words of the settings."""
    yield from marian_obstacles(stored.config)
    if stored.config.family == "encoder_decoder":
        for side, tokenizer in stored.tokenizers._asdict().items():
            for obstacle in tokenizer_obstacles(tokenizer):
                yield f"its {side} tokenizer {obstacle}"


def _config(stored: StoredModel, positions: int) -> dict[str, Any]:
    sizes = stored.tokenizers.source.size, stored.tokenizers.target.size
    return {
        **marian_config(stored.config, sizes, positions),
        **_symbols(stored.files.framing),
        "forced_eos_token_id": None,
    }


def _symbols(framing: Framing) -> dict[str, int]:
    start, end = framing.target_start, framing.target_end
    return {
        "pad_token_id": framing.padding,
        "bos_token_id": start,
        "eos_token_id": end,
        "decoder_start_token_id": start,
    }


def _generation(options: SearchOptions, longest: int, never: Sequence[int], symbols: dict[str, int]) -> dict[str, Any]:
    return {
        "num_beams": options.beam_size,
        "max_length": longest,
        "length_penalty": 1.0,
        "early_stopping": True,
        "suppress_tokens": list(never),
        **symbols,
    }


def _write_tokenizer(folder: Path, tokenizer: object, framing: Framing) -> None:
    assert isinstance(tokenizer, Tokenizer), "refused before"
    unknown, padding, start, end = tokenizer.vocabulary.specials.names
    write_file(folder / LIBRARY, portable(tokenizer, framing).to_str())
    facts = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": unknown,
        "pad_token": padding,
        "bos_token": start,
        "eos_token": end,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # text that is spelled like a symbol stays text
        "model_input_names": ["input_ids", "attention_mask"],
    }
    write_json(folder / TOKENIZER, facts)


def _run(folder: Path, rows: Vocabularies, never: Sequence[int]) -> Running:
    import transformers

    source = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    separate = folder / TARGET
    target = transformers.PreTrainedTokenizerFast.from_pretrained(separate) if separate.exists() else source
    return Running(folder, source, target, rows, never)
