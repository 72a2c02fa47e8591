"""The formats that a server advertises: those whose packages are installed."""

from contextlib import nullcontext, suppress
from pathlib import Path

import docx
import openpyxl
import pytest
from extras import without
from small_decks import deck_parts, packed, paragraphs

from dragoman.errors import MissingExtra
from dragoman.formats import registry
from dragoman.formats.reading import read_document

UNIT = '<trans-unit id="1"><source>The dog sleeps.</source></trans-unit>'
FILES = {
    ".txt": "The dog sleeps.\n",
    ".html": "<p>The dog sleeps.</p>",
    ".md": "The dog sleeps.\n",
    ".srt": "1\n00:00:01,000 --> 00:00:02,000\nThe dog sleeps.\n",
    ".po": 'msgid ""\nmsgstr ""\n\nmsgid "a dog"\nmsgid_plural "{n} dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n',
    ".json": '["The dog sleeps."]',
    ".xlf": f'<xliff version="1.2"><file><body>{UNIT}</body></file></xliff>',
    ".yml": "en:\n  dogs:\n    other: The dogs\n",
    ".csv": "The dog sleeps.,The cat sleeps.\n",
}
NEEDED = {
    "lxml": {".xlf", ".docx", ".pptx", ".xlsx"},
    "polib": {".po"},
    "babel": {".po", ".yml"},
    "ruamel": {".yml"},
    "docx": {".docx"},
    "none": set[str](),
}


@pytest.mark.parametrize("package", NEEDED)
def test_formats_are_advertised_if_their_packages_are_installed(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for suffix, text in FILES.items():
        (tmp_path / f"a{suffix}").write_text(text)
    word, book = docx.Document(), openpyxl.Workbook()
    word.add_paragraph("The dog sleeps.")
    word.save(str(tmp_path / "a.docx"))
    book.worksheets[0].append(["The dog sleeps."])
    book.save(tmp_path / "a.xlsx")
    (tmp_path / "a.pptx").write_bytes(packed(deck_parts(paragraphs("The dog sleeps."))))
    without(monkeypatch, package)
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == package else name)
    registry.installed_suffixes.cache_clear()
    advertised = {*registry.installed_suffixes()}
    registry.installed_suffixes.cache_clear()
    for path in tmp_path.iterdir():
        assert (path.suffix in advertised) == (path.suffix not in NEEDED[package]), path
        with nullcontext() if path.suffix in advertised else suppress(MissingExtra):
            document = read_document(path, ("en", "it"), "text" if path.suffix == ".txt" else None)
            assert document.texts and document.translated([text.upper() for text in document.texts])
