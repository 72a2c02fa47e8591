"""Two files that are aligned line by line, one for each side."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path

from dragoman.errors import DataError
from dragoman.text.reading.columns import Columns, Naming, languages
from dragoman.text.reading.languages import differing
from dragoman.text.reading.lines import EncodingErrors, open_bytes, read_lines, without_gz
from dragoman.text.reading.pairs import Pair, Reading, Table, make_reading


def open_aligned(paths: tuple[Path, Path], naming: Naming, reason: str, encoding_errors: EncodingErrors) -> Reading:
    for path in paths:
        open_bytes(path).close()
    source, target = (without_gz(path).suffix.lstrip(".") for path in paths)
    if source == target:  # en.txt and it.txt
        source, target = (without_gz(path).stem for path in paths)
    columns = Columns(source, target, "one file each")
    found = languages(columns, naming, paths[0].name)
    turned = differing(found.named, naming.expected or found.named) and not differing(
        found.named[::-1], naming.expected or found.named
    )
    if turned and not any(naming.given):
        assert naming.expected is not None
        raise DataError(
            f"{paths[0]} is named for {found.named[0]} and {paths[1]} for {found.named[1]}, but {naming.owner} "
            f"goes from {naming.expected[0]} to {naming.expected[1]}; give them in this order: {paths[1]} {paths[0]}"
        )
    table = Table(f"{paths[0]} and {paths[1].name}", paths, "plain", reason, lambda _: iter(()))
    pairs = partial(_plain_pairs, paths, encoding_errors)
    return make_reading(table, naming, columns, (source, target), paths[0].name, pairs)


def _plain_pairs(paths: tuple[Path, Path], encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[Pair]:
    sources, targets = (read_lines(path, encoding_errors, repairs) for path in paths)
    name = paths[0].name
    for number, (source, target) in enumerate(zip_longest(sources, targets), 1):
        if source is None or target is None:
            counts = [number - 1 if side is None else number for side in (source, target)]
            counts[0] += sum(1 for _ in sources)
            counts[1] += sum(1 for _ in targets)
            raise DataError(
                f"{paths[0]} has {counts[0]:,} lines but {paths[1]} {counts[1]:,}; "
                "the files must be aligned line by line"
            )
        yield Pair(source, target, f"{name}:{number}")
