"""An exported folder as transformers runs it, for the proof."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from dragoman.errors import missing_extra
from dragoman.exporting.marian_folder import Vocabularies
from dragoman.exporting.proof import Ids


def refuse_missing() -> None:
    """Refuses to export where there can be no proof.

    Raises:
        MissingExtra: transformers is not installed.
    """
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise missing_extra("transformers", "huggingface") from None


class Running:
    """A `MarianMTModel` and its tokenizers, in terms of our ids: `rows` are those there."""

    def __init__(self, folder: Path, source: Any, target: Any, rows: Vocabularies, never: Sequence[int]) -> None:
        """`never` are our ids that no translation holds."""
        import transformers

        self.model: Any = transformers.MarianMTModel.from_pretrained(folder).eval()
        self.source, self.target, self.rows = source, target, rows
        self.never = [row for id_ in never if (row := rows.target[id_]) is not None]
        self.ours = {side: {row: id_ for id_, row in enumerate(getattr(rows, side))} for side in rows._fields}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self.ours["source"][row] for row in ids] for ids in self.source(list(texts))["input_ids"]]

    def decode(self, ids: Ids) -> str:
        return self.target.decode(self._theirs(ids, "target"), skip_special_tokens=True)

    def translate(self, source: Ids, longest: int) -> list[int]:
        with torch.inference_mode():
            (found,) = self.model.generate(
                torch.tensor([self._theirs(source, "source")]),
                num_beams=1,
                max_length=longest + 1,
                forced_eos_token_id=None,
                bad_words_ids=None,
                suppress_tokens=self.never,
            ).tolist()
        end = self.model.config.eos_token_id
        return [self.ours["target"][row] for row in found[1:] if row != end]

    def score(self, source: Ids, target: Ids) -> list[float]:
        rows = self._theirs(target, "target")
        given = torch.tensor([[self.model.config.decoder_start_token_id, *rows]])
        labels = [*rows, self.model.config.eos_token_id]
        with torch.inference_mode():
            sources = torch.tensor([self._theirs(source, "source")])
            logits = self.model(input_ids=sources, decoder_input_ids=given).logits[0]
        return logits.double().log_softmax(-1)[range(len(labels)), labels].tolist()

    def _theirs(self, ids: Ids, side: str) -> list[int]:
        return [getattr(self.rows, side)[id_] for id_ in ids]
