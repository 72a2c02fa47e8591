"""The guide in a browser: every page narrow, enlarged, in both colours and on paper; the keyboard; the search."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contrasts import CONTRASTS
from guide_site import DOCS, build_site

pytestmark = pytest.mark.browser

PAGES = sorted(path.stem for path in (DOCS / "guide").glob("*.md"))
OWN = ("file:", "data:", "about:")
"""Requests that stay on this machine."""

STICKING_OUT = """() => [document.documentElement.scrollWidth,
  ...[...document.querySelectorAll("article *")]
    .filter((node) => node.getBoundingClientRect().right > innerWidth + 1 && node.checkVisibility())
    .filter((node) => !node.closest(".matrix, .facts, .formula, .drawing, .highlight, .table-wrapper, iframe, math"))
    .map((node) => `${node.tagName} ${node.className} ${node.textContent.slice(0, 40)}`),
]"""
"""How wide the page is, and what makes it wider than its window. What scrolls by itself may."""

SILENT = """() => [...document.querySelectorAll("article img, article iframe, .drawing svg")]
  .filter((node) => !(node.alt || node.title || node.ariaLabel)).map((node) => node.outerHTML.slice(0, 80))"""
"""Figures that say nothing to those who can't see them."""

FOLDED = """() => [...document.querySelectorAll("article details > :not(summary)")]
  .filter((node) => !node.checkVisibility({ contentVisibilityAuto: true })).length"""

FOCUSED = """() => {
  const node = document.activeElement;
  const shown = node.matches(":focus-visible") && getComputedStyle(node).outlineStyle !== "none";
  return [node.tagName, node.textContent.trim().slice(0, 40), shown || node.tagName === "IFRAME"];
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("myst_nb", reason="the tools of the guide are missing: make docs installs them")
    return build_site(tmp_path_factory.mktemp("guide"))[0]


@pytest.fixture
def visit(browser: Any, site: Path) -> Iterator[Any]:
    """Opens a page of the site from disk; an error, a message or a request elsewhere fails the test."""
    troubles: list[str] = []
    contexts: list[Any] = []

    def open_page(name: str, width: int = 1200, **options: Any) -> Any:
        contexts.append(browser.new_context(viewport={"width": width, "height": 800}, **options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("console", lambda said: said.type == "log" or troubles.append(f"console: {said.text}"))
        page.on("request", lambda asked: asked.url.startswith(OWN) or troubles.append(f"request: {asked.url}"))
        page.goto((site / f"{name}.html").as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not troubles


@pytest.mark.parametrize("zoom", [1, 2])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_sticks_out_of_a_narrow_screen(visit: Any, name: str, zoom: int, picture: Any) -> None:
    """On a phone of 360 pixels; and in a window of 1280 at 200 %, which is one of 640."""
    page = visit(f"guide/{name}", width=360 if zoom == 1 else 640, device_scale_factor=zoom)
    assert page.evaluate(STICKING_OUT) == [page.viewport_size["width"]]
    picture(page, f"guide-{name}-{zoom}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_text_is_readable_in_both_colours(visit: Any, name: str, scheme: str, picture: Any) -> None:
    page = visit(f"guide/{name}", color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert page.evaluate(CONTRASTS, "article") == []
    picture(page, f"guide-{name}-{scheme}")


@pytest.mark.parametrize("name", PAGES)
def test_paper_shows_answers_and_solutions(visit: Any, name: str) -> None:
    page = visit(f"guide/{name}")
    page.emulate_media(media="print")
    page.wait_for_function(f"({FOLDED})() === 0", timeout=5_000)
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_says_what_one_would_see(visit: Any, name: str) -> None:
    assert visit(f"guide/{name}").evaluate(SILENT) == []


def test_the_keyboard_opens_an_answer_and_shows_what_a_word_means(visit: Any) -> None:
    page = visit("guide/06-attention")
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details[open]").count() == 1
    word = page.locator("a.term").first
    word.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    shown = page.evaluate("getComputedStyle(document.activeElement, '::after').content")
    assert shown.strip('"') == word.get_attribute("title") and len(shown) > 20


def test_the_keyboard_reaches_every_control_and_shows_where_it_is(visit: Any) -> None:
    """Once around the page, until the first control is met again.

    Nothing has the focus past the last control; nor before a sandboxed frame, which is another process, has taken it.
    """
    page = visit("guide/06-attention")
    page.frame_locator("iframe").first.locator("main section").first.wait_for()
    reached: list[tuple[str, str]] = []
    for _ in range(300):
        page.keyboard.press("Tab")
        tag, text, shown = page.evaluate(FOCUSED)
        if tag == "BODY":
            continue
        if reached and (tag, text) == reached[0]:
            break
        assert shown, (tag, text)
        reached.append((tag, text))
    answers = page.locator("article summary").count()
    assert sum(tag == "SUMMARY" for tag, _ in reached) >= answers
    assert any(tag == "IFRAME" for tag, _ in reached) and any("Glossary" in text for _, text in reached)


def test_the_search_finds(visit: Any) -> None:
    page = visit("index")
    page.locator("input[name=q]").first.fill("cross-attention")
    page.keyboard.press("Enter")
    page.locator("#search-results li a", has_text="Attention").first.wait_for()  # results come one after another
