"""The manifest of a folder: the size and SHA-256 of every file, written last and checked before any is used."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeGuard, cast

from dragoman.documents import read_json, write_json
from dragoman.errors import CheckpointError
from dragoman.files import LOCK, MANIFEST, sha256


def write_manifest(folder: Path | str) -> None:
    """Writes `manifest.json`: size and SHA-256 of every other file of the folder. Call it last."""
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
    """Checks every file of a folder against its manifest, except those that are `free` to be changed or removed.

    Raises:
        CheckpointError: naming the first file that is missing, cut, changed, not listed, or a link to another place.
    """
    folder = Path(folder)
    listed = read_json(folder / MANIFEST)
    if not _is_manifest(listed):
        raise CheckpointError(f"{folder / MANIFEST} is not a manifest")
    present = set(_contents(folder)) - set(free)
    for name in sorted({MANIFEST, *present}):
        if (folder / name).is_symlink():
            raise CheckpointError(
                f"{folder / name} is a symbolic link, but the files of such a folder must lie in it; copy the file "
                "there, or link to the whole folder"
            )
    for name, facts in listed["files"].items():
        if name in free:
            continue
        if name not in present:
            raise CheckpointError(f"{folder / name[:255]} is missing, but {MANIFEST} lists it")
        size = (folder / name).stat().st_size
        if size != (listed_size := facts["bytes"]):
            how = "cut" if size < listed_size else "changed"
            raise CheckpointError(f"{folder / name} has {size} bytes, but {MANIFEST} says {listed_size}: it was {how}")
        if sha256(folder / name) != facts["sha256"]:
            raise CheckpointError(f"{folder / name} is damaged: its SHA-256 is not the one in {MANIFEST}")
    if extra := sorted(present - listed["files"].keys()):
        raise CheckpointError(f"{folder / extra[0]} is not listed in {MANIFEST}: it does not belong here")


def listed_hash(folder: Path | str, name: str) -> str | None:
    """The SHA-256 of a file as the manifest of its folder lists it; None if it is not listed.

    Raises:
        CheckpointError: the folder has no manifest, or a damaged one.
    """
    listed = read_json(Path(folder) / MANIFEST)
    if not _is_manifest(listed):
        raise CheckpointError(f"{Path(folder) / MANIFEST} is not a manifest")
    return listed["files"][name]["sha256"] if name in listed["files"] else None


def _is_manifest(listed: object) -> TypeGuard[dict[str, dict[str, dict[str, Any]]]]:
    files = cast("dict[str, object]", listed).get("files") if isinstance(listed, dict) else None
    return isinstance(files, dict) and all(map(_is_listed, cast("dict[str, object]", files).values()))


def _is_listed(facts: object) -> bool:
    return isinstance(facts, dict) and isinstance(facts.get("bytes"), int) and isinstance(facts.get("sha256"), str)  # pyright: ignore[reportUnknownMemberType]


def _contents(folder: Path) -> list[str]:
    return sorted(
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*")
        if file.is_file() and file.name not in (MANIFEST, LOCK)
    )
