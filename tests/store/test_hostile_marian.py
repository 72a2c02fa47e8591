"""A Marian folder that asks for more than its files hold is refused at once, in one line and little memory."""

import json
import random
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from small_marian import write_marian
from torch import Tensor

import dragoman
from dragoman.errors import CheckpointError

pytestmark = pytest.mark.filterwarnings("ignore:Recommended")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian")
    write_marian(folder / "opus")
    write_marian(folder / "pickled", pickled=True)
    return folder


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def replaced(folder: Path, **changes: Tensor) -> None:
    """Changes tensors of a pickle; in their names a dot is two underscores."""
    weights = torch.load(folder / "pytorch_model.bin", weights_only=True)  # noqa: TID251 (what convert reads)
    weights |= {name.replace("__", "."): tensor for name, tensor in changes.items()}
    torch.save(weights, folder / "pytorch_model.bin")


FC1 = "model__encoder__layers__0__fc1__weight"
NO_PLAIN_TENSORS: dict[str, Callable[[Tensor], Tensor]] = {
    "coordinates": lambda weight: weight.to_sparse(),
    "rows": lambda weight: weight.to_sparse_csr(),
    "meta": lambda weight: weight.to("meta"),
    "nested": lambda weight: torch.nested.nested_tensor([weight, weight[:3]]),
    "jagged": lambda weight: torch.nested.nested_tensor([weight, weight[:3]], layout=torch.jagged),
}


@pytest.mark.filterwarnings("ignore")  # torch warns of its newer kinds of tensors
@pytest.mark.parametrize("kind", NO_PLAIN_TENSORS)
def test_a_tensor_that_is_not_plain_is_refused(kind: str, folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "pickled", tmp_path / "model")
    replaced(tmp_path / "model", **{FC1: NO_PLAIN_TENSORS[kind](torch.ones(48, 32))})
    with pytest.raises(CheckpointError, match="layers.0.fc1.weight is sparse, nested or without|more than tensors"):
        dragoman.convert(tmp_path / "model", tmp_path / "ours")


def test_numbers_that_a_pickle_repeats_are_not_written_out(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "pickled", tmp_path / "model")
    weights = torch.load(tmp_path / "model" / "pytorch_model.bin", weights_only=True)  # noqa: TID251 (as above)
    wide, one = 1 << 20, torch.zeros(1)
    for name, weight in weights.items():
        if 48 in weight.shape:
            weights[name] = one.expand([wide if size == 48 else size for size in weight.shape])
    torch.save(weights, tmp_path / "model" / "pytorch_model.bin")
    edit(tmp_path / "model" / "config.json", encoder_ffn_dim=wide, decoder_ffn_dim=wide)
    with pytest.raises(
        CheckpointError, match=r"has [0-9,]+ bytes, but the weights that config.json asks for need from"
    ):
        dragoman.convert(tmp_path / "model", tmp_path / "ours")


def test_a_packed_record_is_refused_before_it_is_unpacked(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "pickled", tmp_path / "model")
    path = tmp_path / "model" / "pytorch_model.bin"
    with zipfile.ZipFile(path) as plain:
        records = {record.filename: plain.read(record) for record in plain.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in records.items():
            packed.writestr(name, content + bytes(1 << 22) * name.endswith("data/0"))
        packed.writestr("archive/filling", random.Random(1).randbytes(1 << 17))
    with pytest.raises(CheckpointError, match="its records are packed"):
        dragoman.convert(tmp_path / "model", tmp_path / "ours")


@pytest.mark.parametrize("pickled", [False, True])
def test_a_vocabulary_of_a_thousand_million_takes_no_memory(pickled: bool, folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / ("pickled" if pickled else "opus"), tmp_path / "model")
    edit(tmp_path / "model" / "config.json", vocab_size=10**9)
    with pytest.raises(CheckpointError, match=r"but .*config.json asks for"), address_space(4 << 30):
        dragoman.convert(tmp_path / "model", tmp_path / "ours")


@contextmanager
def address_space(more: int) -> Iterator[None]:
    """This process may take so many further bytes of memory."""
    resource = pytest.importorskip("resource")
    usual = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + more, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, usual)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")  # as above
def test_an_error_is_one_line_where_a_library_warns(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "pickled", tmp_path / "model")
    replaced(tmp_path / "model", **{FC1: torch.ones(48, 32).to_sparse_csr()})
    command = [sys.executable, "-m", "dragoman", "convert", tmp_path / "model", "--to", tmp_path / "ours"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    estimate, *others = done.stderr.splitlines()
    assert done.returncode == 4 and estimate.startswith("converting takes about ")
    assert len(others) == 1 and others[0].startswith("error: ")
