"""The map of words in a real browser, opened from disk without a network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.explaining.embeddings import WordMap, write_map

pytestmark = pytest.mark.browser

CHROMIUM = "/usr/bin/chromium"
QUIET = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
HOSTILE = "</script><img src=x onerror=alert(1)>"
WORDS = ["the", "house", "houses", "Haus", "è", "perché", HOSTILE, "<b>bold</b>"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: make browser installs it")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no browser at {CHROMIUM}")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A map of words on a circle; each has the words after it as its neighbours."""
    count = len(WORDS)
    angle = torch.arange(count) * 2 * torch.pi / count
    after = (torch.arange(count)[:, None] + torch.arange(1, 4)) % count
    similarity = torch.tensor([0.9, 0.5, -0.25]).expand(count, 3)
    points = torch.stack([angle.cos(), angle.sin()], dim=1)
    path = tmp_path_factory.mktemp("map") / "map.html"
    write_map(WordMap(HOSTILE, "source, en", WORDS, points, (0.25, 0.125), after, similarity), path)
    return path


@pytest.fixture
def page(browser: Any, file: Path) -> Iterator[Any]:
    """The page in a window of its own; it must ask for nothing and fail nowhere."""
    opened = browser.new_page(viewport={"width": 1000, "height": 700})
    troubles: list[str] = []
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("console", lambda message: troubles.append(message.text))
    opened.on("dialog", lambda dialog: troubles.append(dialog.message))
    opened.on("request", lambda request: None if request.url == file.as_uri() else troubles.append(request.url))
    opened.goto(file.as_uri())
    settle(opened)
    yield opened
    opened.close()
    assert not troubles


def settle(page: Any) -> None:
    """Waits until what was asked for is drawn."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def find(page: Any, word: str) -> None:
    page.fill("#word", word)
    page.press("#word", "Enter")
    settle(page)


def listed(page: Any) -> list[list[str]]:
    return [row.split("\n") for row in page.locator("#neighbours li").all_inner_texts()]


def place(page: Any, word: str) -> list[float]:
    """Where a word is drawn, in pixels from the corner of the map."""
    return page.evaluate("(word) => place(data.words.indexOf(word))", word)


def middle(page: Any) -> list[float]:
    return page.evaluate("[view.width / 2, view.height / 2]")


def pixels(page: Any) -> str:
    return page.evaluate("canvas.toDataURL()")


def test_a_word_that_is_searched_is_centred_marked_and_its_neighbours_are_text(page: Any) -> None:
    before = pixels(page)
    assert page.locator("#result").is_hidden()
    find(page, "house")
    assert page.locator("#chosen").inner_text() == "house"
    assert listed(page) == [["houses", "0.90"], ["Haus", "0.50"], ["è", "-0.25"]]
    assert place(page, "house") == pytest.approx(middle(page), abs=0.01)
    assert pixels(page) != before
    assert page.locator("#status").inner_text() == "house: the 3 nearest words are listed."


@pytest.mark.parametrize(("asked", "found"), [("HOUSE", "house"), ("haus", "Haus"), ("perche", "perché"), (" è ", "è")])
def test_case_and_accents_may_be_left_out(page: Any, asked: str, found: str) -> None:
    find(page, asked)
    assert page.locator("#chosen").inner_text() == found


def test_a_word_that_is_not_there_is_told_with_words_that_begin_alike(page: Any) -> None:
    find(page, "hous")
    assert page.locator("#status").inner_text() == (
        "“hous” is not on the map. Words that begin like this: house, houses."
    )
    assert page.locator("#matches option").evaluate_all("(all) => all.map((one) => one.value)") == ["house", "houses"]
    assert page.locator("#result").is_hidden()


def test_text_stays_text(page: Any) -> None:
    assert page.title() == f"{HOSTILE}: map of words"
    assert page.locator("h1").inner_text() == f"{HOSTILE}: map of words"
    find(page, HOSTILE)
    assert page.locator("#chosen").inner_text() == HOSTILE
    assert listed(page)[0] == ["<b>bold</b>", "0.90"]
    assert page.locator("img, b").count() == 0


def test_a_neighbour_leads_on_and_keeps_the_keyboard(page: Any) -> None:
    find(page, "house")
    page.locator("#neighbours button").first.focus()
    page.keyboard.press("Enter")
    settle(page)
    assert page.locator("#chosen").inner_text() == "houses"
    assert page.evaluate("document.activeElement.textContent") == "Haus"


def test_the_keyboard_moves_and_zooms_the_map(page: Any) -> None:
    page.keyboard.press("Tab")
    page.locator("#map").focus()
    x, y = place(page, "house")
    page.keyboard.press("ArrowRight")
    assert place(page, "house") == pytest.approx([x - 60, y])
    page.keyboard.press("ArrowDown")
    assert place(page, "house") == pytest.approx([x - 60, y - 60])
    scale = page.evaluate("view.scale")
    page.keyboard.press("+")
    assert page.evaluate("view.scale") == pytest.approx(1.5 * scale)
    page.keyboard.press("0")
    assert place(page, "house") == pytest.approx([x, y])


def test_every_control_is_reached_by_tab_and_has_a_name(page: Any) -> None:
    find(page, "house")
    names = []
    page.locator("#word").focus()
    for _ in range(9):
        names.append(
            page.evaluate(
                "(document.activeElement.ariaLabel || document.activeElement.id || document.activeElement.textContent)"
            )
        )
        page.keyboard.press("Tab")
    assert names == [
        "word",
        "Show",
        "Map of 8 words, centred on house",
        "Zoom in",
        "Zoom out",
        "whole",
        "houses",
        "Haus",
        "è",
    ]


def test_the_mouse_moves_zooms_and_chooses(page: Any) -> None:
    box = page.locator("#map").bounding_box()
    x, y = place(page, "Haus")
    page.mouse.move(box["x"] + x + 2, box["y"] + y)
    settle(page)
    assert page.evaluate("data.words[hovered]") == "Haus"
    page.mouse.down()
    page.mouse.move(box["x"] + x + 42, box["y"] + y + 10, steps=4)
    page.mouse.up()
    assert place(page, "Haus") == pytest.approx([x + 40, y + 10], abs=0.5)
    assert page.locator("#result").is_hidden()
    scale = page.evaluate("view.scale")
    page.mouse.wheel(0, -200)
    page.wait_for_function("(before) => view.scale > before", arg=scale)
    x, y = place(page, "Haus")
    page.mouse.click(box["x"] + x, box["y"] + y)
    assert page.locator("#chosen").inner_text() == "Haus"


def test_the_page_says_how_little_two_axes_hold(page: Any) -> None:
    about = page.locator("#about").inner_text()
    assert "The 8 most frequent words" in about and "25.0 % and 12.5 % of the variance" in about


def test_nothing_sticks_out_of_a_narrow_screen(page: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    find(page, HOSTILE)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert place(page, HOSTILE) == pytest.approx(middle(page), abs=0.01)


def test_a_dark_screen_gets_a_dark_map(page: Any) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light, drawn = page.evaluate(background), pixels(page)
    page.emulate_media(color_scheme="dark")
    settle(page)
    assert (light, page.evaluate(background)) == ("rgb(255, 255, 255)", "rgb(22, 23, 26)")
    assert pixels(page) != drawn
