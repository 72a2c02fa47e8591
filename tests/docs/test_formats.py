"""The tables of file formats: every row can be used, and the docs say the same."""

import importlib.util
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from dragoman.formats.registry import DATA_FORMATS, DOCUMENT_FORMATS, FORMATS, FileFormat, Format

ROOT = Path(__file__).parents[2]


def test_the_docs_list_the_formats_of_the_table() -> None:
    spec = importlib.util.spec_from_file_location("formats", ROOT / "scripts" / "formats.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.outdated() == []


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_a_format_has_what_reads_it(format: FileFormat) -> None:
    module = import_module(f"dragoman.formats.{format.module or format.name}")
    assert hasattr(module, "read") == bool(format.document) or format.module == "delimited"
    assert bool(format.data_title) == (format.name in get_args(Format))
    assert hasattr(module, "rows") or not format.data_suffixes or format.module == "delimited"
    assert not format.document or (format.sign and format.bytes_a_sign and format.translated)


def test_an_ending_has_one_format() -> None:
    for endings in (
        [suffix for format in DATA_FORMATS.values() for suffix in format.data_suffixes],
        [suffix for format in DOCUMENT_FORMATS.values() for suffix in format.document_suffixes],
    ):
        assert len(endings) == len({*endings})
