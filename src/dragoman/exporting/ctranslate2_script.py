"""Translates lines from standard input with CTranslate2 alone: python translate.py [BEAM_SIZE] < lines"""

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ctranslate2

Cut = Callable[[str], list[str]]
Join = Callable[[Sequence[str]], str]


def text_rules(folder: Path) -> tuple[Cut, Join]:
    """How a text is cut into the tokens of a source, and how those of a translation are joined."""
    return _sentencepiece(folder) if (folder / "source.spm").exists() else _tokenizers(folder)


def vocabulary(folder: Path, side: str) -> list[str]:
    """The tokens of one side."""
    shared = folder / "shared_vocabulary.json"
    return json.loads((shared if shared.exists() else folder / f"{side}_vocabulary.json").read_text("utf-8"))


def _tokenizers(folder: Path) -> tuple[Cut, Join]:
    from tokenizers import Tokenizer

    source = Tokenizer.from_file(str(folder / "tokenizer.json"))
    source.encode_special_tokens = True  # text that is spelled like a special symbol stays text
    separate = folder / "target_tokenizer.json"
    target = Tokenizer.from_file(str(separate)) if separate.exists() else source
    ids = target.get_vocab()
    return lambda text: source.encode(text).tokens, lambda tokens: target.decode([ids[token] for token in tokens])


def _sentencepiece(folder: Path) -> tuple[Cut, Join]:
    """As Marian's models have it: a text may begin with the name of a target language, as in >>ita<<."""
    from sentencepiece import SentencePieceProcessor

    source, target = (SentencePieceProcessor(model_file=str(folder / f"{side}.spm")) for side in ("source", "target"))
    known = set(vocabulary(folder, "source"))

    def cut(text: str) -> list[str]:
        language = re.match(r">>\S+?<<", text)
        first = [language[0]] if language and language[0] in known else []
        pieces: Any = source.encode(text[len("".join(first)) :], out_type=str)
        return [*first, *pieces, "</s>"]

    return cut, lambda tokens: target.decode(list(tokens)).replace("▁", " ").strip()


def main() -> None:
    folder = Path(__file__).parent
    model = ctranslate2.Translator(str(folder))
    cut, join = text_rules(folder)
    known = vocabulary(folder, "target")
    placeholders = [token for token in known if "\U00100000" <= token <= "\U0010000f"]
    never = [[token] for token in [*known[:3], *placeholders]]  # unknown, padding, start
    beam_size = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    for line in sys.stdin:
        tokens = cut(line.strip())
        options = {"beam_size": beam_size, "max_decoding_length": 2 * len(tokens) + 20, "suppress_sequences": never}
        written = model.translate_batch([tokens], **options)[0].hypotheses[0] if line.strip() else []
        sys.stdout.write(join(written) + "\n")


if __name__ == "__main__":
    main()
