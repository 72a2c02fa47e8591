"""Parallel text in one direction or several, which its files, columns or keys name.

Each direction is prepared as `PairText` does, in a separate folder. Only the split is made of all together, so that
no sentence is in two sets, in whatever direction and on whatever side.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dragoman.directions import Direction, named
from dragoman.errors import DataError
from dragoman.files import REPORT
from dragoman.formats.addresses import Addresses
from dragoman.languages import UNKNOWN_LANGUAGE, base_language, differing
from dragoman.progress import Progress
from dragoman.serialization import write_json
from dragoman.text.inputs import list_texts, open_inputs
from dragoman.text.prepare_pairs import PairSplit, PairText
from dragoman.text.readers import Reading, SeveralDirections, join, turned
from dragoman.text.report import DataReport, DirectionsReport, direction_folders, read_pairs_report
from dragoman.text.settings import DataSettings
from dragoman.text.split import assign, in_language

log = logging.getLogger(__name__)


class DirectionsText:
    """Pairs in several directions, each as a `PairText`."""

    read_report = staticmethod(read_pairs_report)

    def __init__(self, texts: Mapping[Direction, PairText]) -> None:
        self._texts = texts

    @property
    def identity(self) -> str:
        """A hash of the directions, their pairs and settings, wherever the files lie."""
        facts = [f"{direction} {text.identity}" for direction, text in self._texts.items()]
        return hashlib.sha256("\n".join(facts).encode()).hexdigest()

    def changes(self, report: DirectionsReport) -> list[str]:
        """Return the differences from the directions of a report, in words."""
        return [] if {*report.directions} == {*self._texts} else [f"the directions were {named(report.directions)}"]

    def fill(self, folder: Path) -> DirectionsReport:
        """Write the splits of each direction into a new folder."""
        folders = {direction: folder / "-".join(direction) for direction in self._texts}
        for path in folders.values():
            path.mkdir()
        copied = {direction: text.copied(folders[direction]) for direction, text in self._texts.items()}
        reports = {direction: report for direction, report in copied.items() if report}
        if len(reports) < len(folders):
            reports = self._split(folders)
        for direction, report in reports.items():
            write_json(folders[direction] / REPORT, report.model_dump(mode="json"))
        warnings = (f"{'-'.join(at)}: {warning}" for at, report in reports.items() for warning in report.warnings)
        return DirectionsReport(identity=self.identity, directions=tuple(reports), warnings=tuple(warnings))

    def _split(self, folders: Mapping[Direction, Path]) -> dict[Direction, DataReport]:
        """Read all directions, assign their pairs together, and write them."""
        splits: list[PairSplit] = []
        for direction, text in self._texts.items():
            try:
                splits.append(PairSplit(text.settings, text.read_sets(folders[direction])))
            except DataError as error:
                raise DataError(f"{'-'.join(direction)}: {error}") from None
        marked = [tuple(map(in_language, split.sentences, split.languages)) for split in splits]
        sources, targets = (np.concatenate(side) for side in zip(*marked, strict=True))
        dev, test = ([split.sizes.get(name, 0) for split in splits] for name in ("dev", "test"))
        separate = [keys for split in splits for name in split.separate for keys in split.sentences_of(name)]
        other_sets, lengths = [(keys, keys) for keys in separate], [len(keys) for keys, _ in marked]
        sides = assign(sources, targets, dev, test, splits[0].settings.seed, other_sets, lengths)
        for split, own in zip(splits, np.split(sides, np.cumsum(lengths)[:-1]), strict=True):
            split.assign(own)
        known = {
            name: np.concatenate([keys for split in splits for keys in split.sentences_of(name)])
            for name in ("train", "dev")
        }
        return {at: split.write(folders[at], known) for at, split in zip(folders, splits, strict=True)}


class Part(NamedTuple):
    """The pairs of one text in one direction, by the names of its sets."""

    direction: Direction
    path: Addresses
    sets: Mapping[str, Reading]


@contextmanager
def open_text(settings: DataSettings, progress: Progress) -> Iterator[PairText | DirectionsText]:
    """Open the text that settings name, in all directions that are wanted or named.

    Raises:
        DataError: a text cannot be read, or does not name its languages; or none has a direction that is wanted.
    """
    both, separate = settings.both_directions, {"dev": settings.dev_path, "test": settings.test_path}
    with ExitStack() as stack:
        texts = list(_texts(settings, settings.path))
        are_alone = all(len(list_texts(settings, path)) <= 1 for path in separate.values())
        if len(texts) == 1 and are_alone and not (settings.directions or both):
            inputs = None
            with suppress(SeveralDirections):
                inputs = stack.enter_context(open_inputs(settings))
            if inputs is not None:
                yield PairText(settings, inputs, progress)
                return
        parts = [part for text in texts for part in _parts(text, settings.wanted, stack)]
        if not settings.wanted and not any(text.source_language for text in texts):
            parts = _by_one_name(parts)
        wanted = settings.wanted or [part.direction for part in parts]
        other_sets = {
            name: [part for text in _texts(settings, path) for part in _parts(text, wanted, stack)]
            for name, path in separate.items()
            if path is not None
        }
        is_single = len({*wanted}) == 1 and not (settings.directions or both)
        prepared, used = dict[Direction, PairText](), set[Direction]()
        for direction in dict.fromkeys(way for own in wanted for way in (own, _back(own))[: 1 + both]):
            chosen = _among(parts, direction, both)
            if not chosen or direction[0] == direction[1]:
                held = named(dict.fromkeys(part.direction for part in parts))
                raise DataError(f"no text goes from {direction[0]} to {direction[1]}; there are {held}")
            used |= {part.direction for part in chosen}
            names = dict.fromkeys(name for part in chosen for name in (*part.sets, *other_sets))
            sets = {name: [part.sets[name] for part in chosen if name in part.sets] for name in names}
            for name, others in other_sets.items():
                sets[name] = [part.sets["train"] for part in _among(others, direction, both)] or sets[name]
            inputs = {name: join(readings) for name, readings in sets.items() if readings}
            path = chosen[0].path if len(chosen) == 1 else settings.path
            directed = _directed(settings, direction).but(path=path, directions=None, both_directions=False)
            prepared[direction] = PairText(settings if is_single else directed, inputs, progress)
        for part in (*parts, *(part for others in other_sets.values() for part in others)):
            if part.direction not in used:
                log.warning("%s: its pairs in %s are left out", part.sets["train"].name, "-".join(part.direction))
        yield DirectionsText(prepared) if len(prepared) > 1 else next(iter(prepared.values()))


def _texts(settings: DataSettings, path: Addresses | None) -> Iterator[DataSettings]:
    """Yield the settings of each text of an address; prepared data in several directions is several texts."""
    alone: dict[str, Any] = {"dev_path": None, "test_path": None, "directions": None, "both_directions": False}
    for text in list_texts(settings, path):
        folder = Path(str(settings.inside(text)))
        prepared = direction_folders(folder) if (folder / REPORT).is_file() else {}
        for direction, part in prepared.items():
            yield _directed(settings, direction).but(path=str(part.absolute()), **alone)
        if not prepared:
            yield settings.but(path=text, **alone)


def _back(direction: Direction) -> Direction:
    return direction[1], direction[0]


def _directed(settings: DataSettings, direction: Direction) -> DataSettings:
    return settings.but(source_language=direction[0], target_language=direction[1])


def _parts(settings: DataSettings, wanted: Sequence[Direction], stack: ExitStack) -> Iterator[Part]:
    """Yield one text in its own direction, and in those that are wanted of its languages."""
    refusal, held = None, set[Direction]()
    try:
        sets = stack.enter_context(open_inputs(settings, settings.naming._replace(tags=bool(wanted))))
        train = sets["train"]
        if UNKNOWN_LANGUAGE in train.languages:
            raise DataError(
                f"{train.name}: {train.reasons['languages']}, or name both languages in the header or in the name of "
                "the file, as in books.en-it.tsv"
            )
        if differing(train.named, (settings.source_language, settings.target_language)):
            raise DataError(
                f"{train.name} names its languages {'-'.join(map(str, train.named))}, but data.source_language or "
                "data.target_language another; leave these out, and name languages in the header or in the name of the "
                "file, as in books.en-it.tsv"
            )
        own = next((at for at in wanted if not differing(train.languages, at)), train.languages)
        held.add(own)
        yield Part(own, settings.path, {name: replace(reading, languages=own) for name, reading in sets.items()})
    except SeveralDirections as error:
        for own, directions in _by_wanted(error.directions, wanted).items():
            sets = {}
            if isinstance(settings.path, str) and Path(str(settings.inside(settings.path))).is_dir():
                naming = _directed(settings, own).naming._replace(tags=bool(wanted))
                sets = stack.enter_context(open_inputs(settings, naming))
            yield Part(own, settings.path, {**sets, "train": error.reading(own, directions)})
        return
    except DataError as error:  # perhaps because it has several languages
        refusal = error
    for direction in (way for either in wanted for way in (either, _back(either))):
        if held.isdisjoint((direction, _back(direction))):
            with suppress(DataError):
                sets = stack.enter_context(open_inputs(_directed(settings, direction)))
                if all(sets["train"].named) and not differing(sets["train"].named, direction):
                    held.add(direction)
                    yield Part(direction, settings.path, sets)
    if refusal and not held:
        if not wanted:
            raise refusal
        raise DataError(f"no pairs in {named(wanted)}: {refusal}") from None


def _by_wanted(directions: Sequence[Direction], wanted: Sequence[Direction]) -> dict[Direction, list[Direction]]:
    """Return the directions in rows, by the wanted one that each is: itself, or one in another region."""
    grouped: dict[Direction, list[Direction]] = {}
    for direction in directions:
        own = next((at for at in wanted if not differing(direction, at)), direction)
        grouped.setdefault(direction if direction in wanted else own, []).append(direction)
    return grouped


def _by_one_name(parts: Sequence[Part]) -> list[Part]:
    """Return the parts with one name for each language: if they use en and one variant such as en-US, it is en."""
    variants: dict[str, set[str]] = {}
    for name in {name for part in parts for name in part.direction}:
        variants.setdefault(base_language(name), set()).add(name)
    names = {name: base for base, same in variants.items() if base in same and len(same) == 2 for name in same}
    renamed = list[Part]()
    for part in parts:
        source, target = (names.get(name, name) for name in part.direction)
        sets = {name: replace(reading, languages=(source, target)) for name, reading in part.sets.items()}
        renamed.append(Part((source, target), part.path, sets))
    return renamed


def _among(parts: Sequence[Part], direction: Direction, both: bool) -> list[Part]:
    """Return the parts in a direction, and with `both` those in the other one, or if there are none."""
    both = both or all(part.direction != direction for part in parts)
    return [
        part
        if part.direction == direction
        else part._replace(sets={name: turned(own) for name, own in part.sets.items()})
        for part in parts
        if part.direction == direction or (both and part.direction == _back(direction))
    ]
