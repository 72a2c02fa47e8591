"""Translates lines from standard input with CTranslate2 or transformers alone: python translate.py [BEAM_SIZE] < lines

Numbers, addresses and code pass the model as the placeholders that it was trained to copy (`placeholders.txt`).
"""

import json
import re
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

Cut = Callable[[str], list[str]]
Join = Callable[[Sequence[str]], str]
Search = Callable[[str, Collection[str]], list[str]]
"""Returns the best translation of a text, or all of the beam if it may hold some placeholders."""

PLACEHOLDERS = [chr(number) for number in range(0x100000, 0x100010)]  # eight for words, eight for numbers
PIECE = re.compile(
    rf"[{''.join(PLACEHOLDERS)}]|https?://\S*[\w/]|[\w.+-]{{1,64}}@[\w-]{{1,64}}(?:\.[\w-]{{1,64}})+|`[^`]{{1,200}}`"
    r"|</?[A-Za-z][^<>]{0,500}>|\{\{[^{}]{0,100}\}\}|[$%#@]?\{[^{}]{0,100}\}|%\(\w{1,60}\)[a-z]|%[ds](?!\w)"
    r"|(?P<number>(?<![\w.,:/])\d+(?:[.,:/'’–-]\d+)*(?:(?!st|nd|rd|th|s\b)°?[A-Za-z]{1,3})?(?!\w))"
)


def masked(text: str, known: str) -> tuple[str, dict[str, str]]:
    """Return a text with placeholders for its pieces, as far as there are enough, and the piece of each placeholder."""
    kept: dict[str, str] = {}

    def mask(piece: re.Match[str]) -> str:
        kind = PLACEHOLDERS[8:] if piece["number"] else PLACEHOLDERS[:8]
        free = [one for one in kind if one in known and one not in kept]
        kept.update(dict.fromkeys(free[:1], piece[0]))
        return free[0] if free else piece[0]

    return PIECE.sub(mask, text), kept


def text_rules(folder: Path) -> tuple[Cut, Join]:
    """Return the functions that split a source text into tokens and join the tokens of a translation."""
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


def _ctranslate2(folder: Path, beam_size: int) -> Search:
    import ctranslate2

    model, (cut, join), known = ctranslate2.Translator(str(folder)), text_rules(folder), vocabulary(folder, "target")
    never = [*known[:3], *(one for one in PLACEHOLDERS if one in known)]  # unknown, padding, start

    def search(text: str, kept: Collection[str]) -> list[str]:
        tokens = cut(text)
        options: dict[str, Any] = {"num_hypotheses": beam_size if kept else 1, "beam_size": beam_size}
        options["suppress_sequences"] = [[token] for token in never if token not in kept]
        found = model.translate_batch([tokens], max_decoding_length=2 * len(tokens) + 20, **options)[0]
        return [join(written) for written in found.hypotheses]

    return search


def load_transformers(folder: Path) -> tuple[Any, Any, Any]:
    """The model, and the tokenizers of source and target."""
    from transformers import AutoTokenizer, MarianMTModel

    source, separate = AutoTokenizer.from_pretrained(folder), folder / "target_tokenizer"
    target = AutoTokenizer.from_pretrained(separate) if separate.exists() else source
    return MarianMTModel.from_pretrained(folder).eval(), source, target


def _transformers(folder: Path, beam_size: int) -> Search:
    import torch

    model, source, target = load_transformers(folder)
    never = model.generation_config.suppress_tokens or []

    def search(text: str, kept: Collection[str]) -> list[str]:
        ids = source(text, return_tensors="pt")["input_ids"]
        options: dict[str, Any] = {"num_beams": beam_size, "num_return_sequences": beam_size if kept else 1}
        options["suppress_tokens"] = [id_ for id_ in never if target.convert_ids_to_tokens(id_) not in kept]
        with torch.inference_mode():
            found = model.generate(ids, max_length=2 * ids.shape[1] + 20, **options)
        return target.batch_decode(found, skip_special_tokens=True)

    return search


def main() -> None:
    folder, beam_size = Path(__file__).parent, int(sys.argv[1]) if len(sys.argv) > 1 else 4
    search = (_ctranslate2 if (folder / "model.bin").exists() else _transformers)(folder, beam_size)
    known = (folder / "placeholders.txt").read_text("utf-8")
    for number, line in enumerate(map(str.strip, sys.stdin), 1):
        text, kept = masked(line, known)
        found = search(text, kept) if text else [""]
        whole = next((one for one in found if all(one.count(key) == 1 for key in kept)), None)
        written = line if whole is None else whole.translate({ord(key): piece for key, piece in kept.items()})
        if whole is None:
            sys.stderr.write(f"line {number} is left as it was: each translation lacks a piece of {[*kept.values()]}\n")
        elif lost := [piece[0] for piece in PIECE.finditer(line) if piece[0] not in written]:
            sys.stderr.write(f"line {number}: the translation lacks {lost}\n")
        sys.stdout.write(f"{written}\n")


if __name__ == "__main__":
    main()
