"""The text of a run, direction by direction (`DirectedText`), the directions of its model, and the amount of each in an
epoch (`RunText`).
"""

import logging
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise, repeat
from pathlib import Path
from typing import NamedTuple

from dragoman.directions import Directions, find
from dragoman.errors import ConfigError, DecodeError
from dragoman.evaluating.references import ReferenceSet, read_references
from dragoman.inference.translator import Translator
from dragoman.languages import UNKNOWN_LANGUAGE, differing
from dragoman.store.description import Description, Languages
from dragoman.text.columns import Naming
from dragoman.text.prepared import read_split
from dragoman.text.report import DataReport, direction_folders, read_report
from dragoman.text.split import sentence_key

log = logging.getLogger(__name__)


class DirectedText:
    """Prepared pairs of one direction: their folder, the languages as the model calls them, and the report."""

    def __init__(self, folder: Path, languages: Languages) -> None:
        self.folder, self.languages, self.name = folder, languages, "-".join(languages)
        self.report: DataReport = read_report(folder)
        self.count = self.report.splits["train"].pairs

    @cached_property
    def dev(self) -> list[tuple[str, str]]:
        """The pairs of the dev set, without those that are empty on a side."""
        pairs = self.read("dev") if self.report.splits["dev"].pairs else ()
        return [pair for pair in pairs if pair[0].strip() and pair[1].strip()]

    def read(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the pairs of one split."""
        return read_split(self.folder, name)

    def spread(self, wanted: int) -> Iterator[tuple[str, str]]:
        """Yield this number of training pairs, spread over all; if there are fewer, each of them several times."""
        for number, pair in enumerate(self.read("train")):
            yield from repeat(pair, (number + 1) * wanted // self.count - number * wanted // self.count)


class SyntheticText(DirectedText):
    """Prepared pairs whose sources a model wrote, without those that share a sentence with `held_out` ones, each known
    by its language and its key.
    """

    def __init__(self, folder: Path, languages: Languages, held_out: Set[tuple[str, int]]) -> None:
        super().__init__(folder, languages)
        self._held_out = held_out
        self.count = sum(1 for _ in self.read("train"))

    def read(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the pairs of one split that are not held out."""
        for pair in super().read(name):
            if self._held_out.isdisjoint(zip(self.languages, map(sentence_key, pair), strict=True)):
                yield pair


class Stretch(NamedTuple):
    """Consecutive rows of an encoded corpus, all of one direction, and the number of them that an epoch draws."""

    text: DirectedText
    rows: int
    drawn: int


@dataclass(frozen=True)
class RunText:
    """The prepared text of a run, in one direction or several, with old and synthetic text that is mixed in."""

    data: Path
    mix_data: Path | None
    synthetic_data: Path | None
    start: Description | None
    """Description of the model that the run starts from."""

    @cached_property
    def new(self) -> list[DirectedText]:
        """The text of each direction."""
        return self._texts(self.data)

    @cached_property
    def old(self) -> list[DirectedText]:
        """The old text of each direction."""
        return self._texts(self.mix_data) if self.mix_data else []

    @cached_property
    def synthetic(self) -> list[SyntheticText]:
        """The synthetic text of each direction, without sentences of dev and test sets."""
        if self.synthetic_data is None:
            return []
        sets = ((text, path.stem) for text in self.new for path in text.folder.glob("*.jsonl") if path.stem != "train")
        held_out = {
            (language, sentence_key(side))
            for text, name in sets
            for pair in text.read(name)
            for language, side in zip(text.languages, pair, strict=True)
        }
        known, texts = [text.languages for text in self.new], list[SyntheticText]()
        for folder, stated in ((text.folder, text.languages) for text in self._texts(self.synthetic_data)):
            fitting = [languages for languages in known if not differing(stated, languages)]
            if not fitting:
                others = ", ".join("-".join(languages) for languages in known)
                raise ConfigError(
                    f"the synthetic text goes from {stated[0]} to {stated[1]}, as its columns say, but the "
                    f"other text is {others}; if its sources are in the second column, exchange both"
                )
            texts.append(text := SyntheticText(folder, fitting[0], held_out))
            if left := text.report.splits["train"].pairs - text.count:
                log.warning("%s synthetic pairs are left out: dev or test sets hold a sentence of them", f"{left:,}")
        return texts

    @property
    def count(self) -> int:
        """The number of training pairs, without old and synthetic ones."""
        return sum(text.count for text in self.new)

    @cached_property
    def directions(self) -> Directions | None:
        """Directions of the model: those of the one that the run starts from, and of the text; None if there is one."""
        texts, known = [text.languages for text in (*self.new, *self.old)], self.start and self.start.directions
        if known is not None and all(known.has(*languages) for languages in texts):
            return known
        trained = dict.fromkeys([*self.known, *texts])
        if len(trained) > 1 and self.start is not None and not self.known:
            raise ConfigError("the model to start from does not name its languages, so no direction can be added to it")
        return Directions.of(trained) if len(trained) > 1 else None

    @property
    def known(self) -> list[tuple[str, str]]:
        """Directions of the model that the run starts from, as far as it names them."""
        if self.start is None or self.start.languages is None:
            return []
        if self.start.directions is not None:
            return list(self.start.directions.pairs())
        return [] if UNKNOWN_LANGUAGE in self.start.languages else [self.start.languages]

    @property
    def adds_directions(self) -> bool:
        """True if the model learns directions that the one that the run starts from lacks."""
        return self.directions is not None and self.start is not None and self.directions != self.start.directions

    @property
    def symbols(self) -> list[str]:
        """Languages that have a symbol: all of a model with several directions."""
        return [*dict.fromkeys((*self.directions.source, *self.directions.target))] if self.directions else []

    def _texts(self, data: Path) -> list[DirectedText]:
        folders = direction_folders(data).items()
        return [DirectedText(folder, self._as_model_calls(Languages(*stated))) for stated, folder in folders]

    def _as_model_calls(self, stated: Languages) -> Languages:
        """Return the languages of a text by the names that the model has for them. Unknown ones are the model's."""
        if self.start is None or self.start.languages is None:
            return stated
        own, directions = self.start.languages, self.start.directions
        if directions is None and not differing(stated, own):
            both = zip(stated, own, strict=True)
            return Languages(*(language if language != UNKNOWN_LANGUAGE else known for language, known in both))
        if UNKNOWN_LANGUAGE in stated:
            raise ConfigError(
                "the model has other or several directions, and the text does not name its languages; name them: --set "
                "data.source_language=CODE --set data.target_language=CODE"
            )
        names = list(dict.fromkeys(own if directions is None else (*directions.source, *directions.target)))
        return Languages(*(_known_name(language, names) for language in stated))


def _known_name(language: str, names: Sequence[str]) -> str:
    try:
        return find(language, names)
    except DecodeError:  # a new one
        return language


def shares(texts: Sequence[DirectedText], total: int, temperature: float) -> list[int]:
    """Divide a number of pairs among texts, by roots of their amounts (Arivazhagan et al. 2019)."""
    ends = [*accumulate((text.count ** (1 / temperature) for text in texts), initial=0.0)]
    return [b - a for a, b in pairwise(round(total * end / (ends[-1] or 1)) for end in ends)]


def test_set(translator: Translator, path: Path) -> ReferenceSet:
    """Return a prepared test set in the direction of a translator, named for it if the model has several."""
    if translator.directions is None:
        return read_references(path, naming=Naming(expected=translator.languages))
    source, target = translator.languages
    references = read_references(path, naming=Naming(source_language=source, target_language=target))
    return replace(references, name=f"{path.stem}.{source}-{target}{path.suffix}")
