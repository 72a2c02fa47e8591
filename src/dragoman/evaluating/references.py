"""Test sets: source sentences with their references.

A line may have any number of references: one in a pair, one in each reference file, or all that follow the source in
a `.multiref.tsv`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from dragoman.brief import brief
from dragoman.directions import Directions, named
from dragoman.errors import ConfigError, DataError
from dragoman.evaluating.direction import prepared_languages, refuse_other_languages
from dragoman.files import REPORT
from dragoman.formats.lines import EncodingErrors, read_lines, without_packing
from dragoman.formats.plain import side_lines
from dragoman.formats.registry import Format
from dragoman.formats.rows import refuse_markup
from dragoman.inference.options import SearchOptions
from dragoman.languages import UNKNOWN_LANGUAGE, differing, language_of, languages_in
from dragoman.run_folder import RunFolder
from dragoman.serialization import read_object
from dragoman.store.description import USES, read_config
from dragoman.store.folder import find_model
from dragoman.text.checks import has_tag
from dragoman.text.columns import Naming
from dragoman.text.prepared import read_pairs
from dragoman.text.readers import open_pairs
from dragoman.text.report import direction_folders

MULTIREF = ".multiref.tsv"
PREPARED = "test.jsonl"


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReferenceSet:
    """Test set: source sentences, each with at least one reference."""

    __repr__ = brief

    name: str
    sources: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    language: str = UNKNOWN_LANGUAGE
    """Language of the references, from the user, the model, or the names of files or columns."""
    source_language: str = UNKNOWN_LANGUAGE
    files: tuple[Path, ...] = ()
    """Files that it was read from."""

    def __len__(self) -> int:
        return len(self.sources)

    def __str__(self) -> str:
        counts = [len(row) for row in self.references]
        fewest, most = min(counts), max(counts)
        count = f"{most}" if fewest == most else f"{fewest} to {most}"
        return f"{self.name}: {len(self):,} lines, {count} reference{'s' * (most > 1)} each"

    @cached_property
    def identity(self) -> str:
        """SHA-256 of sources and references, independent of the files they came from."""
        rows = ([source, *row] for source, row in zip(self.sources, self.references, strict=True))
        return hashlib.sha256("".join(json.dumps(row) + "\n" for row in rows).encode()).hexdigest()


def read_references(
    source: Path | str,
    references: Sequence[Path | str] = (),
    naming: Naming = Naming(),  # noqa: B008 (immutable)
    format: Format | None = None,
    encoding_errors: EncodingErrors = "strict",
) -> ReferenceSet:
    """Read a test set from `source`, a file of sentences, and `references`, files with the same number of lines.

    Without `references`, `source` is a `.multiref.tsv` (source, then its references, separated by tabs), a folder of
    prepared data, or pairs in any format that training reads. `naming` is what is known about the columns.
    """
    path = Path(source)
    if references:
        return _read_aligned(path, [Path(name) for name in references], naming, encoding_errors)
    if path.is_dir() and (path / PREPARED).is_file():
        path /= PREPARED
    if path.name == PREPARED:
        named = prepared_languages(path.parent)
        refuse_other_languages(path, named, naming)
        test_set = _gather(path, read_pairs(path), keep_empty=True)
        if has_directions(path.parent.parent):
            test_set = replace(test_set, name=f"{path.stem}.{path.parent.name}{path.suffix}")
        return _with_languages(test_set, named, naming)
    if without_packing(path).name.endswith(MULTIREF):
        named = languages_in(path.name) or (None, None)
        refuse_other_languages(path, named, naming)
        rows = (line.split("\t") for line in read_lines(path, encoding_errors))
        test_set = _with_languages(_gather(path, rows), named, naming)
        folder_languages = languages_in(path.absolute().parent.name)
        if test_set.language == UNKNOWN_LANGUAGE and folder_languages:
            return replace(test_set, language=folder_languages[1])
        return test_set
    reading = open_pairs(str(source), naming, format, encoding_errors)
    for choice, reason in reading.reasons.items():
        log.info("%s: %s: %s", path.name, choice, reason)
    for doubt in reading.doubts:
        log.warning("%s", doubt)
    faults: Counter[str] = Counter()
    rows, first = list[tuple[str, str]](), dict[str, str]()
    for pair in reading:
        if pair.fault:
            faults[f"{pair.fault}, first at {first.setdefault(pair.fault, pair.origin)}"] += 1
        rows.append((pair.source, pair.target))
    test_set = replace(_gather(path, rows, keep_empty=True), files=reading.files)
    for kind, count in (+reading.repairs).items():
        log.info("%s: %s: %d", path.name, kind, count)
    if tagged := sum(has_tag(source) or has_tag(target) for source, target in rows):
        log.warning("%s: %d of %d pairs have tags such as <b>, which scores count as words", path, tagged, len(rows))
    for fault, count in faults.items():
        log.warning("%s: %s (%d of %d rows): scored as empty lines", path, fault, count, len(test_set))
    return _with_languages(test_set, reading.named, naming._replace(expected=reading.languages))


def own_test_set(run: Path | str) -> Path:
    """Return the path of a run's test set, in its data; the folder of the data if that has several directions.

    Raises:
        CheckpointError: there is no model.
        ConfigError: the model does not belong to a run or does not translate, or the run has no test pairs.
    """
    family = read_config(find_model(run)).model.family
    if family != "encoder_decoder":
        raise ConfigError(f"{run} has no test pairs, because its model {USES[family]}")
    folder = RunFolder(run)
    path = folder.data if has_directions(folder.data) else folder.split("test")
    if not path.exists():
        reason = "its data has no test pairs" if folder.is_run else "it is not a run folder"
        raise ConfigError(f"{run} has no test set, because {reason}; name a file")
    return path


def own_test_pairs(run: Path | str, options: SearchOptions | None = None) -> list[tuple[str, str]]:
    """Return the pairs of a run's test sets, or of that in the direction that the options name."""
    return [pair for path in sets_in(own_test_set(run), options) for pair in read_pairs(path)]


def sets_in(path: Path, options: SearchOptions | None = None) -> list[Path]:
    """Return the test sets of prepared data, or that in the direction of the options. Any other path is alone."""
    if not has_directions(path):
        return [path]
    folders = {pair: folder for pair, folder in direction_folders(path).items() if (folder / PREPARED).is_file()}
    languages = (options.source_language, options.target_language) if options else (None, None)
    chosen = [Directions.of(folders).choose(*languages)] if any(languages) else [*folders]
    if chosen[0] not in folders:
        raise ConfigError(f"{path} has no test set {'-'.join(chosen[0])}, only {named(folders)}")
    return [folders[direction] / PREPARED for direction in chosen]


def has_directions(folder: Path) -> bool:
    """Return True if a folder holds prepared data in several directions."""
    return (folder / REPORT).is_file() and read_object(folder / REPORT).get("task") == "directions"


def _with_languages(test_set: ReferenceSet, named: tuple[str | None, str | None], naming: Naming) -> ReferenceSet:
    """Set the languages of a test set: those of the user, of the text's names, or those expected."""
    source, target = (
        user or name or expected or UNKNOWN_LANGUAGE
        for user, name, expected in zip(naming.languages, named, naming.wanted_languages, strict=True)
    )
    return replace(test_set, source_language=source, language=target)


def _read_aligned(
    source: Path, references: Sequence[Path], naming: Naming, encoding_errors: EncodingErrors
) -> ReferenceSet:
    _refuse_other_endings(source, references, naming)
    for path in (source, *references):
        refuse_markup(path)
    sources = tuple(side_lines(source, encoding_errors))
    streams = [list(side_lines(path, encoding_errors)) for path in references]
    for path, lines in zip(references, streams, strict=True):
        if len(lines) != len(sources):
            raise DataError(
                f"{path} has {len(lines):,} lines but {source} {len(sources):,}; "
                "references must be aligned with the source line by line"
            )
    # An empty line is kept, because the `sacrebleu` command counts it as a reference without words.
    test_set = ReferenceSet(source.name, sources, tuple(zip(*streams, strict=True)), files=(source, *references))
    return _with_languages(test_set, (_ending(source), _ending(references[0])), naming)


def _ending(path: Path) -> str | None:
    """Return the language in the suffix of a file name."""
    return language_of(without_packing(path).suffix.lstrip("."))


def _refuse_other_endings(source: Path, references: Sequence[Path], naming: Naming) -> None:
    """Refuse files whose suffixes name other languages than the model's, and suggest their order."""
    if naming.expected is None or any(naming.languages):
        return
    from_language, to_language = naming.expected
    if not differing([_ending(source), *map(_ending, references)], [from_language, *[to_language] * len(references)]):
        return
    files = [source, *references]
    sources = [path for path in files if (code := _ending(path)) and not differing([code], [from_language])]
    targets = [path for path in files if (code := _ending(path)) and not differing([code], [to_language])]
    order = f"give them in this order: {' '.join(map(str, sources + targets))}"
    if len(sources) != 1 or len(targets) != len(references):
        order = (
            "give the source first and then its references, or name their languages: "
            "--set data.source_language=CODE --set data.target_language=CODE"
        )
    named = " and ".join(f"{path} is named for {_ending(path)}" for path in files if _ending(path))
    raise DataError(f"{named}, but {naming.expected_by} goes from {from_language} to {to_language}; {order}")


def _gather(path: Path, rows: Iterable[Sequence[str]], keep_empty: bool = False) -> ReferenceSet:
    """Collect rows of a source and its references. An empty cell is a missing reference, unless `keep_empty`: the only
    reference of a pair may be empty, and the `sacrebleu` command counts it as one without words.
    """
    sources, references = [], []
    for number, (source, *row) in enumerate(rows, start=1):
        kept = tuple(reference.replace("\n", " ") for reference in row if reference or keep_empty)
        if not kept:
            raise DataError(f"{path}:{number} has a source but no reference")
        sources.append(source)
        references.append(kept)
    return ReferenceSet(path.name, tuple(sources), tuple(references), files=(path,))
