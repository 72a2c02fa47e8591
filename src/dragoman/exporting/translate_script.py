"""Translate lines from standard input with CTranslate2 or transformers alone: python translate.py [BEAM_SIZE] < lines

Numbers, addresses and code are replaced by placeholders that the model was trained to copy (`placeholders.txt`).
"""

import json
import re
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

Tokenize = Callable[[str], list[str]]
Detokenize = Callable[[Sequence[str]], str]
Translate = Callable[[str, Collection[str]], list[str]]
"""Function from a text and its placeholders to the best translation, or to the whole beam if there are placeholders."""

PLACEHOLDERS = [chr(number) for number in range(0x100000, 0x100010)]  # eight for words, eight for numbers
PIECE = re.compile(
    rf"[{''.join(PLACEHOLDERS)}]|https?://\S*[\w/]|[\w.+-]{{1,64}}@[\w-]{{1,64}}(?:\.[\w-]{{1,64}})+|`[^`]{{1,200}}`"
    r"|</?[A-Za-z][^<>]{0,500}>|\{\{[^{}]{0,100}\}\}|[$%#@]?\{[^{}]{0,100}\}|%\(\w{1,60}\)[a-z]|%[ds](?!\w)"
    r"|(?P<number>(?<![\w.,:/])\d+(?:[.,:/'’–-]\d+)*(?:(?!st|nd|rd|th|s\b)°?[A-Za-z]{1,3})?(?!\w))"
)


def masked(text: str, known: str) -> tuple[str, dict[str, str]]:
    """Replace numbers, addresses and code by placeholders as long as some are free; return the originals too."""
    originals: dict[str, str] = {}

    def mask(piece: re.Match[str]) -> str:
        kind = PLACEHOLDERS[8:] if piece["number"] else PLACEHOLDERS[:8]
        free = [placeholder for placeholder in kind if placeholder in known and placeholder not in originals]
        originals.update(dict.fromkeys(free[:1], piece[0]))
        return free[0] if free else piece[0]

    return PIECE.sub(mask, text), originals


def text_rules(folder: Path) -> tuple[Tokenize, Detokenize]:
    """Return the functions that split a source text into tokens and join the tokens of a translation."""
    return _sentencepiece(folder) if (folder / "source.spm").exists() else _tokenizers(folder)


def vocabulary(folder: Path, side: str) -> list[str]:
    """Return the tokens of one side."""
    shared = folder / "shared_vocabulary.json"
    return json.loads((shared if shared.exists() else folder / f"{side}_vocabulary.json").read_text("utf-8"))


def _tokenizers(folder: Path) -> tuple[Tokenize, Detokenize]:
    from tokenizers import Tokenizer

    source = Tokenizer.from_file(str(folder / "tokenizer.json"))
    source.encode_special_tokens = True  # text that is spelled like a special symbol is still text
    separate = folder / "target_tokenizer.json"
    target = Tokenizer.from_file(str(separate)) if separate.exists() else source
    ids = target.get_vocab()
    return lambda text: source.encode(text).tokens, lambda tokens: target.decode([ids[token] for token in tokens])


def _sentencepiece(folder: Path) -> tuple[Tokenize, Detokenize]:
    """Return the functions of Marian's models; a text may begin with a target-language tag such as >>ita<<."""
    from sentencepiece import SentencePieceProcessor

    source, target = (SentencePieceProcessor(model_file=str(folder / f"{side}.spm")) for side in ("source", "target"))
    known = set(vocabulary(folder, "source"))

    def split(text: str) -> list[str]:
        language = re.match(r">>\S+?<<", text)
        tag = [language[0]] if language and language[0] in known else []
        pieces: Any = source.encode(text[len("".join(tag)) :], out_type=str)
        return [*tag, *pieces, "</s>"]

    return split, lambda tokens: target.decode(list(tokens)).replace("▁", " ").strip()


def _ctranslate2(folder: Path, beam_size: int) -> Translate:
    import ctranslate2

    model, (split, join), known = ctranslate2.Translator(str(folder)), text_rules(folder), vocabulary(folder, "target")
    suppressed = [*known[:3], *(token for token in PLACEHOLDERS if token in known)]  # unknown, padding, start

    def translate(text: str, placeholders: Collection[str]) -> list[str]:
        tokens = split(text)
        options: dict[str, Any] = {"num_hypotheses": beam_size if placeholders else 1, "beam_size": beam_size}
        options["suppress_sequences"] = [[token] for token in suppressed if token not in placeholders]
        result = model.translate_batch([tokens], max_decoding_length=2 * len(tokens) + 20, **options)[0]
        return [join(hypothesis) for hypothesis in result.hypotheses]

    return translate


def load_transformers(folder: Path) -> tuple[Any, Any, Any]:
    """Return the model, and the tokenizers of source and target."""
    from transformers import AutoTokenizer, MarianMTModel

    source, separate = AutoTokenizer.from_pretrained(folder), folder / "target_tokenizer"
    target = AutoTokenizer.from_pretrained(separate) if separate.exists() else source
    return MarianMTModel.from_pretrained(folder).eval(), source, target


def _transformers(folder: Path, beam_size: int) -> Translate:
    import torch

    model, source, target = load_transformers(folder)
    suppressed = model.generation_config.suppress_tokens or []

    def translate(text: str, placeholders: Collection[str]) -> list[str]:
        ids = source(text, return_tensors="pt")["input_ids"]
        options: dict[str, Any] = {"num_beams": beam_size, "num_return_sequences": beam_size if placeholders else 1}
        options["suppress_tokens"] = [
            id_ for id_ in suppressed if target.convert_ids_to_tokens(id_) not in placeholders
        ]
        with torch.inference_mode():
            hypotheses = model.generate(ids, max_length=2 * ids.shape[1] + 20, **options)
        return target.batch_decode(hypotheses, skip_special_tokens=True)

    return translate


def main() -> None:
    folder, beam_size = Path(__file__).parent, int(sys.argv[1]) if len(sys.argv) > 1 else 4
    translate = (_ctranslate2 if (folder / "model.bin").exists() else _transformers)(folder, beam_size)
    known = (folder / "placeholders.txt").read_text("utf-8")
    for number, line in enumerate(map(str.strip, sys.stdin), 1):
        text, originals = masked(line, known)
        hypotheses = translate(text, originals) if text else [""]
        complete = next((text for text in hypotheses if all(text.count(key) == 1 for key in originals)), None)
        translation = complete and complete.translate({ord(key): piece for key, piece in originals.items()})
        if translation is None:
            pieces = [*originals.values()]
            sys.stderr.write(f"line {number} is left as it was: each translation lacks a piece of {pieces}\n")
        elif lost := [piece[0] for piece in PIECE.finditer(line) if piece[0] not in translation]:
            sys.stderr.write(f"line {number}: the translation lacks {lost}\n")
        sys.stdout.write(f"{line if translation is None else translation}\n")


if __name__ == "__main__":
    main()
