"""Translates lines from standard input with CTranslate2 alone: python translate.py [BEAM_SIZE] < lines"""

import sys
from pathlib import Path

import ctranslate2
import tokenizers


def main() -> None:
    folder = Path(__file__).parent
    model = ctranslate2.Translator(str(folder))
    source = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    source.encode_special_tokens = True  # text that is spelled like a special symbol stays text
    separate = folder / "target_tokenizer.json"
    target = tokenizers.Tokenizer.from_file(str(separate)) if separate.exists() else source
    ids = target.get_vocab()
    never = [[target.id_to_token(symbol)] for symbol in range(3)]  # unknown, padding, start
    beam_size = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    for line in sys.stdin:
        tokens = source.encode(line.strip()).tokens
        options = {"beam_size": beam_size, "max_decoding_length": 2 * len(tokens) + 20, "suppress_sequences": never}
        written = model.translate_batch([tokens], **options)[0].hypotheses[0] if line.strip() else []
        sys.stdout.write(target.decode([ids[token] for token in written]) + "\n")


if __name__ == "__main__":
    main()
