"""Translates lines from standard input with transformers alone: python translate.py [BEAM_SIZE] < lines"""

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import MarianMTModel, PreTrainedTokenizerFast


def main() -> None:
    folder = Path(__file__).parent
    model: Any = MarianMTModel.from_pretrained(folder).eval()
    source = PreTrainedTokenizerFast.from_pretrained(folder)
    separate = folder / "target_tokenizer"
    target = PreTrainedTokenizerFast.from_pretrained(separate) if separate.exists() else source
    beam_size = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    for line in sys.stdin:
        ids = source(line.strip(), return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            options = {"num_beams": beam_size, "max_length": 2 * ids.shape[1] + 20}
            written = model.generate(ids, **options)[0] if line.strip() else []
        sys.stdout.write(target.decode(written, skip_special_tokens=True) + "\n")


if __name__ == "__main__":
    main()
