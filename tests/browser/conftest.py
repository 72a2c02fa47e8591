"""Pages in a real browser: opened from disk in windows that fail the test at any error, message, dialog or request."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_records import store_language_model, store_translator

from dragoman.explaining.page.page import pack, render_page
from dragoman.explaining.record import Record
from dragoman.explaining.recording import record

Page = Any
"""Playwright's `Page`; it may not be installed."""

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
SENTENCE = "the red cat sees the old station ."
PATIENCE_MS = 30_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, without a window. Of a module, because two Playwrights can't run in one thread."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: make browser installs it")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_api.sync_playwright() as running:
        if path is None and not Path(running.chromium.executable_path).exists():
            pytest.skip(
                f"there is no Chromium: neither {', '.join(NAMES)} nor what `playwright install chromium` brings"
            )
        opened = running.chromium.launch(executable_path=path, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Opens a record, facts or HTML in a window of some width; `options` are those of Playwright's context."""
    troubles: list[str] = []
    contexts: list[Any] = []

    def open_page(shown: Record | dict[str, Any] | str, width: int = 1000, height: int = 800, **options: Any) -> Page:
        file = tmp_path / f"page-{len(contexts)}.html"
        file.write_text(html_of(shown), encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, **options))
        contexts[-1].set_default_timeout(PATIENCE_MS)
        page = contexts[-1].new_page()
        watch(page, file.as_uri(), troubles)
        page.goto(file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not troubles


def html_of(shown: Record | dict[str, Any] | str) -> str:
    if isinstance(shown, str):
        return shown
    return render_page(shown.facts(pack) if isinstance(shown, Record) else shown)


def watch(page: Page, own: str, troubles: list[str]) -> None:
    """Notes whatever a quiet page never does."""
    page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    page.on("console", lambda message: troubles.append(f"console: {message.text}"))
    page.on("dialog", lambda dialog: (troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("popup", lambda popup: troubles.append(f"popup: {popup.url}"))
    page.on("request", lambda request: request.url == own or troubles.append(f"request: {request.url}"))


@pytest.fixture
def picture() -> Callable[[Any, str], None]:
    """Keeps a picture of a page or of a part of it in the folder that PICTURES names, if it names one."""
    folder = os.environ.get("PICTURES")

    def keep(shown: Any, name: str, **options: Any) -> None:
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            shown.screenshot(path=Path(folder) / f"{name}.png", animations="disabled", **options)

    return keep


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small models: of pieces and rotary positions, of words and added positions, and a language model."""
    folder = tmp_path_factory.mktemp("models")
    return {
        "pieces": store_translator(folder / "pieces", "bpe", seed=6, preset="modern"),
        "words": store_translator(folder / "words", "word", seed=11, preset="paper"),
        "language model": store_language_model(folder / "language-model", "bpe"),
    }


@pytest.fixture(scope="session")
def translation(models: dict[str, Path]) -> Record:
    """A sentence in pieces, translated."""
    return record(models["pieces"], SENTENCE)


@pytest.fixture(scope="session")
def by_words(models: dict[str, Path]) -> Record:
    """The sentence in words, translated with added positions, one of its words unknown."""
    return record(models["words"], f"{SENTENCE} zebra")


@pytest.fixture(scope="session")
def read(models: dict[str, Path]) -> Record:
    """What a language model expected next."""
    return record(models["language model"], SENTENCE)


@pytest.fixture(scope="session")
def sentences(models: dict[str, Path]) -> Record:
    """A text of three sentences."""
    return record(models["pieces"], "The red cat sees the old dog. Where is the station? Good morning, Anna!")
