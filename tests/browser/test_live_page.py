"""The page of `dragoman export RUN web` in a browser: its translations, its views, and all of its controls."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contrasts import CONTRASTS
from exporting import make

import dragoman
from dragoman.exporting.web.page import render_page
from dragoman.inference.translator import Translator
from dragoman.store.folder import load_model

pytestmark = pytest.mark.browser

MODEL = Path(dragoman.__file__).parent / "inference" / "phrasebook"
TEXTS = ["My sister is tired.", "Where is the station?", "The museum is closed on Mondays."]
VIEWS = ("pieces", "attention", "beam", "next", "heads", "about")
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def html() -> str:
    return render_page(load_model(MODEL), TEXTS)


@pytest.fixture(scope="module")
def ours() -> Translator:
    return Translator.load(MODEL, "cpu", "float32", progress=False)


@pytest.fixture
def live(show: Open, html: str) -> Open:
    """Return a function that opens the page of the shipped model, with all views unfolded."""

    def open_page(width: int = 1000, **options: Any) -> Any:
        page = show(html, width, **options)
        page.evaluate("document.querySelectorAll('details').forEach((view) => { view.open = true; })")
        return page

    return open_page


def translated(page: Any, text: str) -> str:
    page.fill("#text", text)
    page.keyboard.press("Enter")
    return page.inner_text("#translation")


def test_it_translates_what_is_typed_as_the_package_does(live: Open, ours: Translator, picture: Any) -> None:
    page = live()
    assert page.inner_text("#translation") == ours.translate(TEXTS[:1])[0].text, "it begins with a sentence"
    for text in TEXTS[1:]:
        assert translated(page, text) == ours.translate([text])[0].text
    page.select_option("#size", "1")
    assert page.inner_text("#facts-of-answer").startswith("beam 1 ")
    assert page.inner_text("#translation") == ours.translate(TEXTS[2:], beam_size=1)[0].text
    picture(page, "live", full_page=True)


def test_its_own_check_finds_the_same_translations(live: Open) -> None:
    page = live()
    page.click("#check")
    page.wait_for_function(f"document.getElementById('checked').textContent.startsWith('{len(TEXTS)} of {len(TEXTS)}')")
    assert re.search(r"\d+ ms", page.inner_text("#size-note")) and "2,087,680 weights" in page.inner_text("#size-note")


def test_a_typed_text_is_text_and_its_notes_say_what_to_expect(live: Open) -> None:
    page = live()
    hostile = 'the <img src=x onerror="alert(1)"> & </script><b>dog</b>'
    translated(page, hostile)
    assert page.locator("main img, main b").count() == 0
    notes = page.inner_text("#notes")
    assert "begin with a capital" in notes and "end with . or ? or !" in notes
    translated(page, "It is late. We go.")
    assert "one sentence at a time" in page.inner_text("#notes")
    assert "25" in translated(page, "My ticket cost 25 euros.")
    assert translated(page, " ") == "" and page.inner_text("#notes") == "There is nothing to translate."
    translated(page, "tea " * 500)
    assert "the model takes 200 at most" in page.inner_text("#notes")
    translated(page, "x" * 10_000)
    assert "The text is too long" in page.inner_text("#notes") and page.inner_text("#translation") == ""


def test_a_changed_word_is_compared_with_the_sentence_before(live: Open, ours: Translator) -> None:
    page = live()
    before = page.inner_text("#translation")
    translated(page, "My brother is tired.")
    assert before in page.inner_text("#before") and page.locator("#translation mark").count() >= 1
    assert page.inner_text("#translation") == ours.translate(["My brother is tired."])[0].text


def test_heads_are_switched_off_and_on(live: Open) -> None:
    page = live()
    before = page.inner_text("#facts-of-answer")
    for box in page.locator("#switches fieldset").nth(2).locator("tr").nth(3).locator("input").all():
        box.uncheck()
    after = page.inner_text("#facts-of-answer")
    assert "4 heads off" in after and re.findall("−[0-9.]+", before) != re.findall("−[0-9.]+", after)
    assert "Before (beam 4" in page.inner_text("#before")
    page.click("#on")
    assert page.locator("#switches input:not(:checked)").count() == 0
    assert re.findall("−[0-9.]+", page.inner_text("#facts-of-answer")) == re.findall("−[0-9.]+", before)


def test_another_word_is_written_and_the_search_continues(live: Open) -> None:
    page = live()
    before = page.inner_text("#translation")
    chosen = page.locator("#following tr.chosen").inner_text()
    second = page.locator("#following tbody tr").nth(1)
    piece = second.locator("bdi").inner_text()
    assert piece not in chosen
    second.locator("button").click()
    assert page.inner_text("#translation").startswith(piece.removeprefix("▁"))
    assert "1 pieces given" in page.inner_text("#facts-of-answer") and before in page.inner_text("#before")
    page.click("#own")
    assert page.inner_text("#translation") == before


def test_the_beam_grows_step_by_step(live: Open) -> None:
    page = live()
    steps = int(page.get_attribute("#step", "max"))
    page.focus("#step")
    for number in range(1, steps + 1):
        assert page.inner_text("#step-name") == f"{number} of {steps}"
        assert page.locator("#candidates tbody tr").count() == 8
        page.keyboard.press("ArrowRight")
    assert page.locator("#candidates tr.chosen").inner_text().split("\t")[-1] == "ended"
    assert page.inner_text("#finished td").replace(" ", "") == page.inner_text("#translation").replace(" ", "")


def test_attention_shows_every_head_and_the_mask(live: Open) -> None:
    page = live()
    pieces = page.locator("#written .piece").count()
    page.select_option("#which", label="decoder, self-attention")
    for layer in range(4):
        page.select_option("#layer", str(layer))
        for head in range(5):
            page.select_option("#head", str(head))
            rows = page.eval_on_selector_all(
                "#weights-table tbody tr",
                "rows => rows.map((row) => [...row.cells].slice(1).map((cell) => cell.textContent))",
            )
            assert len(rows) == pieces
            for t, row in enumerate(rows):
                assert [cell == "−∞" for cell in row] == [s > t for s in range(pieces)]
                assert abs(sum(int(cell) for cell in row if cell != "−∞") - 100) <= len(row) / 2
    page.select_option("#which", label="encoder, self-attention")
    assert page.locator("#weights-table .masked").count() == 0


def test_a_view_is_opened_by_its_name(browser: Any, html: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(html, "utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "index.html").as_uri() + "?beam")
    assert page.locator("details[open]").evaluate_all("views => views.map((view) => view.id)") == ["beam"]
    assert page.locator("details").first.get_attribute("id") == "beam"
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000])
def test_it_is_readable_and_nothing_sticks_out(live: Open, scheme: str, width: int, picture: Any) -> None:
    page = live(width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(CONTRASTS, "main") == []
    picture(page, f"live-{scheme}-{width}", full_page=True)


def test_every_control_has_a_name_and_the_keyboard_reaches_it(live: Open) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="make browser installs axe")
    page = live()
    violations = axe.Axe().run(page).response["violations"]
    assert [(rule["id"], [node["html"] for node in rule["nodes"][:2]]) for rule in violations] == []
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.ariaLabel"))
    assert {"text", "size", "which", "step", "place", "check", "encoder, self-attention, layer 0, head 0"} <= reached


def test_it_prints(live: Open) -> None:
    page = live()
    page.emulate_media(media="print")
    assert not page.locator("#check").is_visible() and page.locator("#weights-table").is_visible()
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("settings", [{"preset": "paper"}, {"preset": "paper", "positions": "learned"}])
def test_other_models_have_such_pages(settings: dict[str, Any], show: Open, tmp_path: Path) -> None:
    page = show(render_page(load_model(make(tmp_path / "model", settings)), TEXTS[1:2]))
    page.locator("#translation", has_text=re.compile(".")).wait_for()
    page.locator("#pieces summary").click()
    assert "A vector is added" in page.inner_text("#positions-note")
    assert page.evaluate("document.getElementById('positions').width") == 32
