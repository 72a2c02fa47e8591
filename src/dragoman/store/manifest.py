"""The manifest of a folder: the size and SHA-256 of every file, written last and checked before any is used."""

from collections.abc import Collection
from pathlib import Path

from dragoman.config import Settings, read_json_as
from dragoman.errors import CheckpointError
from dragoman.files import LOCK, MANIFEST, sha256
from dragoman.serialization import write_json


class FileFacts(Settings):
    """Size and hash of a file as it was written."""

    bytes: int
    sha256: str


class Manifest(Settings):
    """Facts of the files of a folder, by their paths in it."""

    files: dict[str, FileFacts]


def write_manifest(folder: Path | str) -> None:
    """Write `manifest.json`: size and SHA-256 of every other file of the folder. Call it last."""
    folder = Path(folder)
    write_json(
        folder / MANIFEST,
        {
            "files": {
                name: {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
                for name in _contents(folder)
            }
        },
    )


def verify_manifest(folder: Path | str, free: Collection[str] = ()) -> None:
    """Check every file of a folder against its manifest, except those that are `free` to be changed or removed.

    Raises:
        CheckpointError: a file is missing, cut, changed, not listed, or a link to another place; the error names it.
    """
    folder = Path(folder)
    listed = read_json_as(folder / MANIFEST, Manifest).files
    present = set(_contents(folder)) - set(free)
    for name in sorted({MANIFEST, *present}):
        if (folder / name).is_symlink():
            raise CheckpointError(
                f"{folder / name} is a symbolic link, but the files of such a folder must be in it; copy the file "
                "there, or link to the whole folder"
            )
    for name, facts in listed.items():
        if name in free:
            continue
        if name not in present:
            raise CheckpointError(f"{folder / name[:255]} is missing, but {MANIFEST} lists it")
        size = (folder / name).stat().st_size
        if size != facts.bytes:
            how = "cut" if size < facts.bytes else "changed"
            raise CheckpointError(f"{folder / name} has {size} bytes, but {MANIFEST} says {facts.bytes}: it was {how}")
        if sha256(folder / name) != facts.sha256:
            raise CheckpointError(f"{folder / name} is damaged: its SHA-256 is not the one in {MANIFEST}")
    if extra := sorted(present - listed.keys()):
        raise CheckpointError(f"{folder / extra[0]} is not listed in {MANIFEST}: it does not belong here")


def listed_hash(folder: Path | str, name: str) -> str | None:
    """Return the SHA-256 of a file as the manifest of its folder lists it; None if it is not listed."""
    listed = read_json_as(Path(folder) / MANIFEST, Manifest).files
    return listed[name].sha256 if name in listed else None


def _contents(folder: Path) -> list[str]:
    return sorted(
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*")
        if file.is_file() and file.name not in (MANIFEST, LOCK)
    )
