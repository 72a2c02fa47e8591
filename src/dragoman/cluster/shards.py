"""Shards: files of a corpus, on disks that all machines see or at any address that fsspec knows (`s3://…`)."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from dragoman.errors import DataError, missing_extra
from dragoman.files import check_new_folder, make_folders, new_file, new_folder
from dragoman.formats.addresses import HUB, Address, matching


def list_shards(address: Address) -> list[Address]:
    """The shards that match an address or a pattern, by name; two files that are aligned are one.

    Raises:
        DataError: none matches, or more on one side than on the other.
    """
    sides = parts_of(address)
    if not any(map(is_remote, sides)):
        return [everywhere(shard) for shard in matching(address) or [address]]
    found = []
    for pattern in sides:
        files, name = _at(pattern)
        found.append([files.unstrip_protocol(path) for path in sorted(files.glob(name))])
    if not found[0] or len({len(shards) for shards in found}) > 1:
        raise DataError(f"{' and '.join(sides)} match {' and '.join(str(len(shards)) for shards in found)} files")
    return [shards[0] if len(shards) == 1 else (shards[0], shards[1]) for shards in zip(*found, strict=True)]


def numbered(shards: Sequence[Address]) -> list[dict[str, Any]]:
    """A row for each shard, with its number and its address as JSON."""
    return [{"number": number, "shard": json.dumps(shard)} for number, shard in enumerate(shards)]


def everywhere(address: Address) -> Address:
    """An address that means the same to all processes, wherever they were started."""
    parts = [part if is_remote(part) or part.startswith(HUB) else os.path.abspath(part) for part in parts_of(address)]
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def parts_of(address: Address | list[str]) -> list[str]:
    """The files that an address names, or one pattern for each side."""
    return [address] if isinstance(address, str) else list(address)


def is_remote(address: str) -> bool:
    """Whether an address is none of a file system that machines have mounted."""
    return "://" in address


def size_of(shard: Address) -> int:
    """The bytes of a shard; 0 if it has no files."""
    sizes = 0
    for part in parts_of(shard):
        files, name = _at(part)
        sizes += files.size(name) or 0 if files.exists(name) else 0
    return sizes


@contextmanager
def fetched(shard: Address) -> Generator[Address]:
    """A shard on this machine; what had to be fetched is deleted again."""
    parts = parts_of(shard)
    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        for number, part in enumerate(parts):
            if is_remote(part):
                files, name = _at(part)
                here = Path(folder, str(number))  # sides may have the same name in other folders
                here.mkdir()
                parts[number] = str(here / Path(name).name)
                files.get_file(name, parts[number])
        yield parts[0] if len(parts) == 1 else (parts[0], parts[1])


def write_shard(path: str, content: bytes) -> str:
    """Writes a shard, whole or not at all; returns its SHA-256."""
    with _new_shard(path) as shard:
        shard.write(content)
    return hashlib.sha256(content).hexdigest()


def copy_shard(file: Path, path: str) -> None:
    """Copies a file of this machine to where a shard should stand, whole or not at all."""
    with file.open("rb") as content, _new_shard(path) as shard:
        shutil.copyfileobj(content, shard)


@contextmanager
def _new_shard(path: str) -> Generator[IO[bytes]]:
    if is_remote(path):
        files, name = _at(path)
        files.makedirs(name.rpartition("/")[0], exist_ok=True)
        with files.open(f"{name}.partial", "wb") as shard:
            yield shard
        files.mv(f"{name}.partial", name)
    else:
        make_folders(Path(path).parent)
        with new_file(path) as shard:
            yield shard


def remove_shards(folder: str) -> None:
    """Deletes a folder of shards."""
    files, name = _at(folder)
    files.rm(name, recursive=True)


def read_shard(path: str) -> bytes | None:
    """The content of a shard, or None if there is none."""
    files, name = _at(path)
    return files.cat_file(name) if files.exists(name) else None


@contextmanager
def new_shards(folder: str) -> Generator[str]:
    """The address of a new folder to fill with shards. If the block raises, what was written is deleted. On mounted
    disks, the folder appears when it is complete.
    """
    if not is_remote(folder):
        check_new_folder(folder)
        with new_folder(folder) as aside:
            yield str(aside.absolute())
        return
    refuse_full(folder)
    try:
        yield folder
    except BaseException:
        files, name = _at(folder)
        if files.exists(name):
            files.rm(name, recursive=True)
        raise


def refuse_full(folder: str) -> None:
    """Raise a `DataError` if a folder holds files."""
    files, name = _at(folder)
    if files.exists(name) and files.find(name):
        raise DataError(f"{folder} holds files already; name another folder or move them away")


def _at(address: str) -> Any:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise missing_extra("fsspec", "ray") from None
    return url_to_fs(everywhere(address))
