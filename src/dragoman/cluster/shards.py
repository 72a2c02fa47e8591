"""Shards: files of a corpus, on disks that all machines mount or at any address supported by fsspec (`s3://…`)."""

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
    """Return the shards that match a pattern, sorted by name, or raise `DataError`; two aligned files are one shard."""
    sides = parts_of(address)
    if not any(map(is_remote, sides)):
        return [everywhere(shard) for shard in matching(address) or [address]]
    matches = []
    for pattern in sides:
        files, name = _at(pattern)
        matches.append([files.unstrip_protocol(path) for path in sorted(files.glob(name))])
    if not matches[0] or len({len(shards) for shards in matches}) > 1:
        raise DataError(f"{' and '.join(sides)} match {' and '.join(str(len(shards)) for shards in matches)} files")
    return [shards[0] if len(shards) == 1 else (shards[0], shards[1]) for shards in zip(*matches, strict=True)]


def numbered(shards: Sequence[Address]) -> list[dict[str, Any]]:
    """Return a row for each shard, with its number and its address as JSON."""
    return [{"number": number, "shard": json.dumps(shard)} for number, shard in enumerate(shards)]


def everywhere(address: Address) -> Address:
    """Return an address that is valid in every process: local paths become absolute."""
    parts = [part if is_remote(part) or part.startswith(HUB) else os.path.abspath(part) for part in parts_of(address)]
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def parts_of(address: Address | list[str]) -> list[str]:
    """Return the files that an address names, or one pattern for each side."""
    return [address] if isinstance(address, str) else list(address)


def is_remote(address: str) -> bool:
    """Return True if an address is not on a mounted file system."""
    return "://" in address


def is_written(path: str) -> bool:
    """Return True if a shard exists; it may be empty."""
    files, name = _at(path)
    return files.exists(name)


@contextmanager
def fetched(shard: Address) -> Generator[Address]:
    """Provide a shard on this machine within the block; remote files are copied to a temporary folder."""
    parts = parts_of(shard)
    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        for number, part in enumerate(parts):
            if is_remote(part):
                files, name = _at(part)
                subfolder = Path(folder, str(number))  # both sides may have the same file name
                subfolder.mkdir()
                parts[number] = str(subfolder / Path(name).name)
                files.get_file(name, parts[number])
        yield parts[0] if len(parts) == 1 else (parts[0], parts[1])


def write_shard(path: str, content: bytes) -> str:
    """Write a shard atomically; return its SHA-256."""
    with _new_shard(path) as shard:
        shard.write(content)
    return hashlib.sha256(content).hexdigest()


def copy_shard(file: Path, path: str) -> None:
    """Copy a file of this machine to the path of a shard, atomically."""
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
    """Delete a folder of shards."""
    files, name = _at(folder)
    files.rm(name, recursive=True)


def read_shard(path: str) -> bytes | None:
    """Return the content of a shard, or None if it does not exist."""
    files, name = _at(path)
    return files.cat_file(name) if files.exists(name) else None


@contextmanager
def new_shards(folder: str) -> Generator[str]:
    """Provide a new folder for shards within the block, deleted if it raises; on mounted disks it appears complete."""
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
    """Raise a `DataError` if a folder contains files."""
    files, name = _at(folder)
    if files.exists(name) and files.find(name):
        raise DataError(f"{folder} contains files already; name another folder or move them away")


def _at(address: str) -> Any:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise missing_extra("fsspec", "ray") from None
    return url_to_fs(everywhere(address))
