"""A model folder into a folder of CTranslate2: `export_ctranslate2`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from dragoman.config import check
from dragoman.errors import ConfigError, missing_extra
from dragoman.exporting.proof import Ids, Proof, never_written, prove
from dragoman.files import new_folder, write_file
from dragoman.store import StoredModel
from dragoman.tokenizing.portable import names, portable
from dragoman.tokenizing.portable import obstacles as tokenizer_obstacles
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.translating import SearchOptions

TOKENIZER, TARGET_TOKENIZER, SCRIPT = "tokenizer.json", "target_tokenizer.json", "translate.py"
_FEWEST_POSITIONS = 512


def export_ctranslate2(stored: StoredModel, to: Path, texts: Sequence[str]) -> Proof:
    """Writes a folder that CTranslate2 translates with, after the proof that it does so as our model does.

    Raises:
        ConfigError: CTranslate2 cannot hold something of this model; it is named. Or the proof failed.
        DataError: `to` exists already.
        MissingExtra: ctranslate2 is not installed.
    """
    try:
        from dragoman.exporting.ctranslate2.mapping import specify
    except ImportError:
        raise missing_extra("ctranslate2", "ctranslate2") from None
    if found := list(obstacles(stored)):
        raise ConfigError(f"{stored.folder} cannot become a folder of CTranslate2: {'; '.join(found)}")
    options = check(stored.files.generation, str(stored.folder), SearchOptions)
    longest = int(options.length_ratio * options.max_source_tokens) + options.length_extra
    spec = specify(stored.config, stored.weights, max(_FEWEST_POSITIONS, longest + 2))
    sides = _sides(stored)
    for side, tokenizer in sides.items():
        getattr(spec, f"register_{side}_vocabulary")(names(tokenizer))
    symbols = names(sides["target"])
    framing = stored.files.framing
    facts: Any = spec.config
    facts.decoder_start_token, facts.eos_token = symbols[framing.target_start], symbols[framing.target_end]
    facts.bos_token, facts.unk_token = facts.decoder_start_token, symbols[sides["target"].unknown]
    facts.add_source_bos = facts.add_source_eos = False  # the tokenizer adds them
    with new_folder(to) as aside:
        spec.validate()
        spec.optimize()
        spec.save(str(aside))
        write_file(aside / TOKENIZER, portable(sides["source"], framing).to_str())
        if not stored.tokenizers.joint:
            write_file(aside / TARGET_TOKENIZER, portable(sides["target"], framing).to_str())
        write_file(aside / SCRIPT, Path(__file__).with_name("translate.py").read_text("utf-8"))
        return prove(stored, _Exported(aside, never_written(stored.tokenizers, framing)), texts, "CTranslate2")


def obstacles(stored: StoredModel) -> Iterator[str]:
    """What CTranslate2 cannot hold, in the words of the settings."""
    config = stored.config
    if config.family != "encoder_decoder":
        yield "it does not translate"
        return
    if config.norm_position == "post" and config.final_norm:
        yield "model.final_norm must be false where model.norm_position is 'post'"
    for side, tokenizer in stored.tokenizers._asdict().items():
        for obstacle in tokenizer_obstacles(tokenizer):
            yield f"its {side} tokenizer {obstacle}"


def _sides(stored: StoredModel) -> dict[str, Tokenizer]:
    found: dict[str, Tokenizer] = {}
    for side, tokenizer in stored.tokenizers._asdict().items():
        assert isinstance(tokenizer, Tokenizer), "refused before"
        found[side] = tokenizer
    return found


class _Exported:
    """A folder as CTranslate2 loads it, in float32."""

    def __init__(self, folder: Path, never: Sequence[int]) -> None:
        import ctranslate2

        self.model = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)
        self.source = _library(folder / TOKENIZER)
        target = folder / TARGET_TOKENIZER
        self.target = _library(target) if target.exists() else self.source
        self.ids = self.target.get_vocab()
        self.never = [self._names(self.target, [id_]) for id_ in never]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [each.ids for each in self.source.encode_batch(list(texts))]

    def decode(self, ids: Ids) -> str:
        return self.target.decode(list(ids))

    def translate(self, source: Ids, longest: int) -> list[int]:
        (found,) = self.model.translate_batch(
            [self._names(self.source, source)],
            beam_size=1,
            max_decoding_length=longest,
            suppress_sequences=self.never,
        )
        return [self.ids[name] for name in found.hypotheses[0]]

    def score(self, source: Ids, target: Ids) -> list[float]:
        (found,) = self.model.score_batch(
            [self._names(self.source, source)], [self._names(self.target, target)], max_input_length=0
        )
        return found.log_probs

    @staticmethod
    def _names(side: tokenizers.Tokenizer, ids: Ids) -> list[str]:
        return [name for id_ in ids if (name := side.id_to_token(id_)) is not None]


def _library(path: Path) -> tokenizers.Tokenizer:
    found = tokenizers.Tokenizer.from_file(str(path))
    found.encode_special_tokens = True  # text that is spelled like a symbol stays text; the file does not keep this
    return found
