"""The page of the server in a real browser, with the model that ships with the package.

What a server does rarely, or what needs another model, is answered by Playwright instead: refusals, right to left.
"""

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from contrasts import CONTRASTS

from dragoman.cli.train import FINISHED
from dragoman.inference.translation import MEANINGS

pytestmark = pytest.mark.browser

Page = Any
Visit = Callable[..., Page]

STATION = "Where is the station?"
COFFEES = "Where is the station? I would like two coffees, please."
HOSTILE = "My name is <img src=x onerror=alert(1)>."
MODELS = {
    "ready": True,
    "models": [{"name": "en-it", "source": "en", "target": "it", "ready": True}],
    "limits": {"characters": 5_000, "texts": 50, "alternatives": 5, "document_bytes": 10_485_760},
    "key_required": False,
    "document_formats": [".txt", ".html"],
}

VOICES = """(() => {
  const voices = ["en-GB", "it_IT", "fr-FR"].map((lang) => ({ lang, localService: lang !== "fr-FR" }));
  window.spoken = [];
  window.SpeechSynthesisUtterance = class { constructor(text) { this.text = text; } };
  Object.defineProperty(window, "speechSynthesis", { value: {
    getVoices: () => voices, addEventListener() {},
    speak: (utterance) => (spoken.push([utterance.voice.lang, utterance.text]), window.last = utterance),
    cancel: () => spoken.push("cancel"),
  } });
})()"""
"""Voices for a browser that has none; that for French is a server's."""

REACHED = """() => {
  const node = document.activeElement;
  const style = getComputedStyle(node);
  const field = node.id === "text" && getComputedStyle(node.closest(".pane")).boxShadow !== "none";
  return [node.id || node.ariaLabel || node.textContent.trim(), style.outlineStyle !== "none" || field];
}"""
"""What has the keyboard, and whether one sees it."""

STICKING_OUT = """() => [document.documentElement.scrollWidth, ...[...document.querySelectorAll("body *")]
  .filter((node) => node.checkVisibility() && !node.closest(".hidden, .skip"))
  .filter((node) => node.getBoundingClientRect().right > innerWidth + 1)
  .map((node) => `${node.tagName} ${node.id} ${node.textContent.slice(0, 40)}`)]"""
"""How wide the page is, and what makes it wider than its window."""


@pytest.fixture(scope="module")
def suggestions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "suggestions.tsv"


@pytest.fixture(scope="module")
def address(suggestions: Path) -> Iterator[str]:
    """A server of this process, ready to translate, that takes suggestions."""
    uvicorn = pytest.importorskip("uvicorn", reason="the extra `serve` is missing")
    from dragoman.serving.app import create_app
    from dragoman.serving.server import ServerSettings
    from dragoman.serving.service import Service

    service = Service([FINISHED])
    service.load()
    app = create_app(service, ServerSettings(suggestions=suggestions))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()
    service.stop()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Visit]:
    """Opens the page and waits for its languages. An error, a message or a request elsewhere fails the test.

    `link` is the end of its address, and `script` runs before those of the page.
    `answers` gives paths the status, headers and JSON that Playwright answers with. `refused` allows the line that a
    browser itself writes for each answer that is an error.
    """
    troubles: list[str] = []
    contexts: list[Any] = []

    def said(message: Any, refused: bool) -> None:
        if not (refused and message.text.startswith("Failed to load resource")):
            troubles.append(f"console: {message.text}")

    def open_page(
        width: int = 1_000,
        answers: dict[str, Any] | None = None,
        refused: bool = False,
        ready: bool = True,
        link: str = "",
        script: str = "",
        **options: Any,
    ) -> Page:
        contexts.append(browser.new_context(viewport={"width": width, "height": 800}, **{"locale": "en", **options}))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("console", lambda message: said(message, refused))
        page.on("dialog", lambda dialog: (troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        contexts[-1].on(
            "request", lambda asked: asked.url.startswith((address, "blob:", "data:")) or troubles.append(asked.url)
        )
        for path, answer in (answers or {}).items():
            page.route(f"{address}{path}", answer if callable(answer) else answering(answer))
        if script:
            page.add_init_script(script)
        page.goto(f"{address}/{link}")
        if ready:
            page.locator("#target option").first.wait_for(state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not troubles


def answering(*answers: dict[str, Any], then_served: bool = False) -> Callable[[Any], None]:
    """Gives these answers one after another, and the last for ever; or what the server says after them."""
    left = list(answers)

    def answer(route: Any) -> None:
        if left or not then_served:
            route.fulfill(**(left.pop(0) if then_served or len(left) > 1 else left[0]))
        else:
            route.fallback()

    return answer


def translated(text: str, **fields: Any) -> dict[str, Any]:
    """What the server answers, with these fields."""
    lists = "tokens flags unknown_words lost unused_terms used_terms rewritten source_words target_words alignment"
    empty: dict[str, Any] = {name: [] for name in (*lists.split(), "doubtful_words", "alternatives")}
    translation = {"text": text, "source": "en", "target": "it", "detected": None, "score": 0.0, "log_prob": 0.0}
    return {"json": {"translations": [{**translation, **empty, **fields}]}}


def shown(page: Page) -> str:
    return page.locator("#translation").inner_text()


def write(page: Page, text: str, expected: str | re.Pattern[str] = re.compile(".")) -> None:
    """Types a text, and waits for a translation."""
    page.locator("#text").fill(text)
    await_translation(page, expected)


def await_translation(page: Page, expected: str | re.Pattern[str]) -> None:
    """Waits until this is the translation and nothing is under way."""
    finished = page.locator("#reading[aria-busy=false] #translation")
    finished.filter(has_text=expected).wait_for()


def lit(page: Page) -> list[list[str]]:
    """The words that are lit, in the text and in its translation."""
    return [page.locator(f"{side} .lit").all_inner_texts() for side in ("#mirror", "#translation")]


def documents(**texts: str) -> list[dict[str, Any]]:
    """Return text files with these names and texts."""
    return [{"name": f"{n}.txt", "mimeType": "text/plain", "buffer": text.encode()} for n, text in texts.items()]


def word(page: Page, text: str) -> Any:
    return page.locator("#translation .word", has_text=re.compile(f"^{text}$"))


# ---- reading while one types ----


def test_the_translation_is_read_while_one_types(visit: Visit) -> None:
    page = visit()
    assert page.locator("#empty").is_visible() and page.locator("#actions").is_hidden()
    page.locator("#text").press_sequentially(STATION)
    await_translation(page, "Dov'è la stazione?")
    assert page.locator("#empty").is_hidden() and page.locator("#actions").is_visible()
    assert page.locator("#count").inner_text() == "21 of 5,000 characters"
    page.locator("#spoken", has_text="Dov'è la stazione?").wait_for(state="attached")
    page.locator("#clear").click()
    assert shown(page) == "" and page.locator("#empty").is_visible()
    assert page.evaluate("document.activeElement.id") == "text"


def test_the_last_request_is_cancelled_and_not_queued(visit: Visit) -> None:
    held: list[Any] = []
    page = visit(answers={"/v1/translate": lambda route: route.fallback() if held else held.append(route)})
    with page.expect_request("**/v1/translate"):
        page.locator("#text").fill("Good morning")
    with page.expect_event("requestfailed") as failed:
        page.locator("#text").fill(STATION)
    assert failed.value.url.endswith("/v1/translate") and failed.value.failure == "net::ERR_ABORTED"
    await_translation(page, "Dov'è la stazione?")


def test_whoever_types_without_a_pause_reads_all_the_same(visit: Visit) -> None:
    page = visit()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.locator("#text").press_sequentially(COFFEES, delay=20)  # far below the shortest pause
    assert sent


def test_lines_stay_lines(visit: Visit) -> None:
    page = visit()
    write(page, "Good morning.\n\nWhere is the station?")
    assert shown(page).count("\n\n") == 1 and shown(page).endswith("Dov'è la stazione?")


def test_text_stays_text(visit: Visit) -> None:
    page = visit()
    write(page, HOSTILE)
    assert "<img src=x onerror=alert(1)>" in shown(page)
    assert page.locator("img").count() == 0


def test_a_text_that_is_too_long_is_not_sent(visit: Visit) -> None:
    page = visit()
    page.on("request", lambda request: pytest.fail("it was sent") if request.method == "POST" else None)
    page.locator("#text").fill("a" * 5_003)
    assert page.locator("#notice").inner_text().startswith("Too long by 3 characters.")
    assert page.locator("#count").inner_text() == "5,003 of 5,000 characters"


def test_words_of_a_script_are_not_lost(visit: Visit) -> None:
    page = visit()
    write(page, "Where is <script>the station</script>?", "stazione")
    assert shown(page) == "Dov'è <script>la stazione</script>?" and page.locator("main script").count() == 0
    write(page, "Good morning. <script>alert('Where is the station?');</script>", "Buongiorno")
    assert shown(page) == "Buongiorno. <script>alert('Where is the station?');</script>"


def test_the_translation_is_seen_above_an_on_screen_keyboard(visit: Visit, picture: Any) -> None:
    page = visit(width=320)
    page.locator("#text").click()
    page.set_viewport_size({"width": 320, "height": 330})
    page.locator("html.short").wait_for()
    page.keyboard.type("\n".join([COFFEES] * 4))
    await_translation(page, re.compile("(per favore.*){4}", re.DOTALL))
    end = page.locator("#translation .word").last.bounding_box()
    typed = page.locator("#mirror span").last.bounding_box()
    for box, pane in ((end, "#translation"), (typed, ".paper")):
        outer = page.locator(pane).bounding_box()
        assert 0 <= outer["y"] <= box["y"] and box["y"] + box["height"] <= min(330, outer["y"] + outer["height"] + 1)
    assert page.evaluate(STICKING_OUT) == [320]
    picture(page, "serving-keyboard")


# ---- words ----


def test_a_word_of_either_side_lights_where_it_came_from(visit: Visit) -> None:
    page = visit()
    write(page, COFFEES)
    word(page, "stazione").hover()
    assert lit(page) == [["station"], ["stazione"]]
    box = page.locator("#mirror span", has_text="coffees").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert lit(page) == [["coffees"], ["caffè"]]
    page.mouse.move(5, 5)
    assert lit(page) == [[], []]
    page.locator("#text").press("Control+Home")
    page.locator("#mirror .lit", has_text="Where").wait_for()


def test_a_click_shows_other_words_and_has_the_sentence_rewritten(visit: Visit) -> None:
    page = visit()
    write(page, COFFEES)
    before = shown(page)
    word(page, "due").click()
    items = page.get_by_role("menuitem").filter(has_text="%")
    items.first.wait_for()
    assert page.locator("#menu-name").inner_text() == "From “two”. Alternatives:"
    names = page.locator("#menu-items span:first-child").all_inner_texts()
    assert "due" in names and len(names) > 1
    other = next(name for name in names if name != "due")
    items.nth(names.index(other)).click()
    page.locator("#rewritten").wait_for()
    assert shown(page).startswith(f"Dov'è la stazione? Vorrei {other}") and shown(page) != before
    page.locator("#rewritten button").click()
    assert shown(page) == before and page.locator("#rewritten").is_hidden()


def test_the_keyboard_reads_word_by_word_and_chooses_another(visit: Visit) -> None:
    page = visit()
    write(page, COFFEES)
    before = shown(page)
    press = page.keyboard.press
    page.locator("#text").press("Control+Enter")
    for key, expected in [("ArrowRight", "la"), ("End", "."), ("Home", "Dov'è"), ("ArrowLeft", "Dov'è")]:
        press(key)
        assert page.locator(".word:focus").inner_text() == expected
    press("ArrowRight")
    press("ArrowRight")
    assert lit(page) == [["station"], ["stazione"]]
    press("Enter")
    page.locator("#menu button:focus").wait_for()
    press("Escape")
    assert page.locator("#menu").is_hidden() and page.locator(".word:focus").inner_text() == "stazione"
    press("Space")
    page.locator("#menu button:focus").wait_for()
    press("End")
    last = page.locator("#menu button:focus span").first.inner_text()
    assert last == page.locator("#menu button span:first-child").last.inner_text()
    press("ArrowDown")
    assert page.locator("#menu button").first.evaluate("(node) => node === document.activeElement")
    press("ArrowUp")
    press("Enter")
    page.locator("#rewritten").wait_for()
    assert shown(page) != before and page.locator(".word:focus").inner_text() == last
    press("Escape")
    assert page.evaluate("document.activeElement.id") == "text"


def test_a_place_without_other_words_says_so(visit: Visit) -> None:
    page = visit(answers={"/v1/words": {"json": {"words": []}}})
    write(page, STATION)
    word(page, "la").click()
    page.get_by_role("menuitem", name="The model has no alternative here.").wait_for()


def test_an_alternative_takes_the_place_of_the_translation(visit: Visit) -> None:
    page = visit()
    write(page, COFFEES)
    before = shown(page)
    first = page.locator("#alternatives button").first
    chosen = first.inner_text()
    first.click()
    await_translation(page, chosen)
    page.locator("#rewritten button").click()
    assert shown(page) == before


def test_alternatives_keep_their_lines(visit: Visit) -> None:
    second = {"text": "Buondì.\nDove si trova?", "score": 0.0, "log_prob": 0.0}
    page = visit(answers={"/v1/translate": translated("Buongiorno.\nDov'è?", alternatives=[second])})
    write(page, "Good morning.\nWhere is it?")
    assert page.locator("#alternatives button").inner_text() == second["text"]


def test_doubtful_words_are_marked_without_colour_and_explained(visit: Visit) -> None:
    answer = translated("Dov'è la banca?", target_words=["Dov'è", "la", "banca", "?"], doubtful_words=[2])
    page = visit(answers={"/v1/translate": answer})
    write(page, STATION)
    marked = page.locator(".doubtful")
    assert marked.all_inner_texts() == ["banca"]
    assert marked.evaluate("(node) => getComputedStyle(node).textDecorationStyle") == "dotted"
    assert "unsure" in page.locator(f"#{marked.get_attribute('aria-describedby')}").inner_text()


def test_what_the_model_says_of_its_translation_is_said_in_plain_words(visit: Visit) -> None:
    page = visit()
    write(page, f"I would like {', please, '.join(f'Xanthippe{letter}' for letter in 'abcdefghij')}.")
    lost = page.locator("#notes li", has_text="Missing from the translation: Xanthippe")
    assert all(name not in shown(page) for name in re.findall(r"Xanthippe\w", lost.inner_text()))


def test_every_flag_and_every_word_is_there_in_both_languages(visit: Visit) -> None:
    keys = """async () => {
      const { WORDS } = await import("/page/words.js");
      const names = (words) => Object.entries(words).flatMap(([name, value]) =>
        typeof value === "object" ? names(value).map((each) => `${name}.${each}`) : [`${name} ${typeof value}`]);
      return [names(WORDS.en).sort(), names(WORDS.it).sort()];
    }"""
    english, italian = visit().evaluate(keys)
    assert english == italian
    assert {f"flags.{flag} function" for flag in MEANINGS if flag != "split"} <= set(english)


def test_words_that_run_from_right_to_left_keep_the_order_of_a_sentence(visit: Visit) -> None:
    say = """async ([name, words]) => {
      const { WORDS } = await import("/page/words.js");
      const answer = { lost: words, unused_terms: words, unknown_words: words };
      return [...["lost", "term", "unknown"].map((flag) => WORDS[name].flags[flag](answer)),
        WORDS[name].cameFrom(words[0]), WORDS[name].readAs(...words)];
    }"""
    page, hebrew = visit(), ["שלום", "עולם"]
    for name in ("en", "it"):
        for said in page.evaluate(say, [name, hebrew]):
            assert all(f"\u2068{word}\u2069" in said for word in hebrew if word in said) and hebrew[0] in said
        assert not any("\u2068" in said for said in page.evaluate(say, [name, ["dog", "cat"]]))


# ---- languages ----


def test_the_language_is_detected_and_said_or_chosen(visit: Visit) -> None:
    page = visit()
    assert page.locator("#source option").all_inner_texts() == ["Detect language", "English"]
    write(page, COFFEES)
    assert re.fullmatch(r"English, \d+ % confidence", page.locator("#detected").inner_text())
    page.locator("#source").select_option("en")
    await_translation(page, "stazione")
    assert page.locator("#detected").inner_text() == ""
    page.reload()
    page.locator("#target option").first.wait_for(state="attached")
    assert page.locator("#source").input_value() == "en"


def test_swapping_takes_the_translation_back(visit: Visit) -> None:
    both = [*MODELS["models"], {"name": "it-en", "source": "it", "target": "en", "ready": True}]

    def answer(route: Any) -> None:
        asked = route.request.post_data_json
        route.fulfill(
            **translated(
                f"{asked['target']}: {asked['text']}",
                source="en" if asked["target"] == "it" else "it",
                target=asked["target"],
            )
        )

    page = visit(answers={"/v1/models": {"json": {**MODELS, "models": both}}, "/v1/translate": answer})
    page.locator("#target").select_option("it")
    write(page, "one")
    page.locator("#swap").click()
    await_translation(page, "en: it: one")
    assert [page.locator(f"#{side}").input_value() for side in ("source", "target")] == ["it", "en"]
    page.keyboard.press("Alt+Shift+S")
    await_translation(page, "it: en: it: one")


def test_swapping_is_off_where_no_model_goes_back(visit: Visit) -> None:
    assert visit().locator("#swap").is_disabled()


def test_right_to_left_languages_run_right_to_left(visit: Visit) -> None:
    languages = [
        {"name": "en-ar", "source": "en", "target": "ar", "ready": True},
        {"name": "he-ar", "source": "he", "target": "ar", "ready": True},
    ]
    words = ["أين", "المحطة", "؟"]
    answer = translated(
        "أين المحطة؟", target="ar", target_words=words, alignment=[[0, 0], [3, 1]], source_words=STATION[:-1].split()
    )
    page = visit(answers={"/v1/models": {"json": {**MODELS, "models": languages}}, "/v1/translate": answer})
    write(page, STATION)
    direction = "(node) => getComputedStyle(node).direction"
    assert (
        page.locator("#translation").evaluate(direction) == "rtl" and page.locator("#text").evaluate(direction) == "ltr"
    )
    assert page.locator("#translation").get_attribute("lang") == "ar"
    page.locator("#text").press("Control+Enter")
    page.keyboard.press("ArrowLeft")
    assert page.locator(".word:focus").inner_text() == "المحطة" and lit(page)[0] == ["station"]
    page.locator("#source").select_option("he")
    assert page.locator("#text").evaluate(direction) == page.locator("#mirror").evaluate(direction) == "rtl"


def test_the_interface_speaks_the_language_of_the_browser_and_another_on_demand(visit: Visit) -> None:
    page = visit(locale="it-CH")
    assert page.evaluate("document.documentElement.lang") == "it"
    write(page, STATION)
    assert page.locator("#copy").inner_text() == "Copia" and page.locator("#target option").inner_text() == "italiano"
    page.locator("#interface").select_option("en")
    assert page.locator("#copy").inner_text() == "Copy" and shown(page) == "Dov'è la stazione?"
    page.reload()
    assert page.locator("#choose", has_text="Translate documents").is_visible()


# ---- glossary, documents, history ----


def test_the_glossary_is_used_kept_and_shown(visit: Visit) -> None:
    page = visit()
    write(page, STATION, "stazione")
    page.locator("summary", has_text="Glossary").click()
    page.locator("#terms").fill("station = fermata\n= nothing\n")
    await_translation(page, "fermata")
    assert "From your glossary: station" in page.locator("#notes").inner_text()
    assert page.locator("#terms-count").inner_text() == "1 term"
    assert page.locator("#terms-trouble").inner_text().startswith("Line 2 ")
    page.reload()
    page.locator("#terms-count", has_text="1 term").wait_for()
    assert page.locator("#terms").input_value().startswith("station = fermata")


def test_a_document_comes_back(visit: Visit) -> None:
    page = visit()
    page.locator("#file").set_input_files(documents(note=STATION))
    link = page.locator("#documents a")
    assert link.inner_text() == "Save note.it.txt"
    with page.expect_download() as saved:
        link.click()
    assert saved.value.suggested_filename == "note.it.txt"
    assert Path(saved.value.path()).read_text(encoding="utf-8").strip() == "Dov'è la stazione?"
    page.get_by_role("button", name="Close: note.txt").click()
    assert page.locator("#documents").is_hidden() and page.evaluate("document.activeElement.id") == "choose"


def test_documents_can_be_dropped_anywhere(visit: Visit) -> None:
    page = visit()
    drag = """(kind) => {
      const data = new DataTransfer();
      for (const name of ["hello.txt", "again.md"]) data.items.add(new File(["Good morning."], name));
      document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
    }"""
    page.evaluate(drag, "dragover")
    assert page.locator("#drop").is_visible()
    page.evaluate(drag, "drop")
    assert page.locator("#drop").is_hidden()
    page.locator("#documents a").nth(1).wait_for()
    assert page.locator("#documents a").all_inner_texts() == ["Save hello.it.txt", "Save again.it.md"]


def test_documents_are_translated_one_after_another_and_a_failure_stops_none(visit: Visit, picture: Any) -> None:
    held: list[Any] = []
    page = visit(answers={"/translate_file": lambda route: held.append(route)}, refused=True)
    files = documents(one="Hello.", two="Hello.", three="Hello.", four="Hello.")
    files.insert(1, {"name": "song.mp3", "mimeType": "audio/mpeg", "buffer": b"a"})
    states = page.locator("#documents [role=status]")
    page.locator("#file").set_input_files(files)
    states.nth(1).filter(has_text="does not read this format").wait_for()  # checked before any is translated
    assert [state.split(" ")[0] for state in states.all_inner_texts()] == ["Translating", "The", *["Waiting"] * 3]
    picture(page, "serving-documents")
    page.get_by_role("button", name="Close: three.txt").click()
    for number in range(3):
        while len(held) <= number:
            page.wait_for_timeout(10)
        assert len(held) == number + 1
        held[number].fulfill(status=500, json={"error": "no", "id": "7f3"}) if number == 1 else held[number].fallback()
    page.locator("#documents a").nth(1).wait_for()
    assert len(held) == 3  # the closed one was never sent
    assert page.locator("#documents a").all_inner_texts() == ["Save one.it.txt", "Save four.it.txt"]
    assert "report it to the operator: 7f3" in states.nth(2).inner_text()


def test_a_document_that_cannot_be_translated_says_why_and_can_be_tried_again(visit: Visit) -> None:
    refusal = {"status": 400, "json": {"error": "no text in it"}}
    small = {**MODELS, "limits": {**MODELS["limits"], "document_bytes": 2**20}}
    answers = {"/translate_file": answering(refusal, then_served=True), "/v1/models": {"json": small}}
    page = visit(answers=answers, refused=True)
    said = page.locator("#documents [role=status]")
    page.locator("#file").set_input_files(documents(long="a" * (2**20 + 1)))
    said.filter(has_text="Larger than 1 MiB. Split it").wait_for()
    page.locator("#file").set_input_files(documents(empty="Hello."))
    said.filter(has_text="The server can't read this. Check that it opens").wait_for()
    assert "no text in it" not in page.locator("body").inner_text()
    said.get_by_role("button", name="Try again").click()
    page.locator("#documents a", has_text="Save empty.it.txt").wait_for()
    page.locator("#file").set_input_files(documents(french="Bonjour, où est la gare s'il vous plaît ?"))
    said.filter(has_text="This seems to be in French").wait_for()


def test_history_is_off_stays_in_the_browser_and_can_be_restored_deleted_and_switched_off(visit: Visit) -> None:
    page = visit()
    page.locator("summary", has_text="History").click()
    entries = page.locator("#history button")
    assert page.locator("#history-state").inner_text() == "The history is off: your texts are not stored."
    write(page, "Good night.")
    page.locator("#spoken", has_text=shown(page)).wait_for(state="attached")
    assert page.evaluate("localStorage['dragoman.history']") is None
    page.locator("#keep-history").check()
    assert "are stored in this browser, and nowhere else" in page.locator("#history-state").inner_text()
    entries.filter(has_text="Good night.").wait_for()
    page.locator("#clear-history").click()
    write(page, "Where is", re.compile("Dove|Dov"))
    entries.filter(has_text="Where is").wait_for()
    write(page, STATION, "Dov'è la stazione?")
    entries.filter(has_text=STATION).wait_for()
    assert entries.count() == 1  # what was typed on takes the place of its beginning
    write(page, "Good morning.")
    entries.nth(1).wait_for()
    entries.filter(has_text=STATION).click()
    await_translation(page, "Dov'è la stazione?")
    assert page.locator("#text").input_value() == STATION
    page.locator("#clear-history").click()
    assert entries.count() == 0
    page.locator("#keep-history").uncheck()
    write(page, "Good evening.", "Buonasera")
    page.locator("#spoken", has_text="Buonasera").wait_for(state="attached")
    assert entries.count() == 0
    page.reload()
    page.locator("summary", has_text="History").click()
    assert not page.locator("#keep-history").is_checked()


# ---- what one does with a translation ----


def test_the_translation_is_copied(visit: Visit) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    write(page, STATION, "stazione")
    for copy in (lambda: page.locator("#copy").click(), lambda: page.keyboard.press("Alt+Shift+C")):
        page.evaluate("navigator.clipboard.writeText('')")
        copy()
        page.locator("#done", has_text="Copied.").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == "Dov'è la stazione?"


def test_the_text_is_read_aloud_if_the_device_has_a_voice(visit: Visit) -> None:
    page = visit(script=VOICES)
    both = page.locator("#listen-text"), page.locator("#listen")
    write(page, STATION, "stazione")
    for button, expected in zip(both, (["en-GB", STATION], ["it_IT", "Dov'è la stazione?"]), strict=True):
        button.click()
        assert page.evaluate("spoken.at(-1)") == expected and button.inner_text() == "Stop"
    assert both[0].inner_text() == "Listen"
    both[1].click()
    assert page.evaluate("spoken.at(-1)") == "cancel" and both[1].inner_text() == "Listen"
    both[0].click()
    page.evaluate("last.onend({ target: last })")
    assert both[0].inner_text() == "Listen"
    both[0].click()
    page.locator("#text").fill("Good morning.")
    assert page.evaluate("spoken.at(-1)") == "cancel" and both[0].inner_text() == "Listen"


def test_no_voice_of_a_server_reads(visit: Visit) -> None:
    answer = translated("Où est la gare ?", target="fr")
    models = [{"name": "en-fr", "source": "en", "target": "fr", "ready": True}]
    answers = {"/v1/models": {"json": {**MODELS, "models": models}}, "/v1/translate": answer}
    page = visit(script=VOICES, answers=answers)
    write(page, STATION)
    assert page.locator("#listen-text").is_visible() and page.locator("#listen").is_hidden()


def test_a_link_brings_text_and_languages_and_is_copied_on_request(visit: Visit, address: str) -> None:
    page = visit(link="?q=Good%20morning.&source=EN&target=it", permissions=["clipboard-read", "clipboard-write"])
    await_translation(page, "Buongiorno")
    in_the_fragment = f"{address}/#q=Good+morning.&source=en&target=it"  # not in the query, which proxies log
    assert page.evaluate("location.href") == in_the_fragment
    page.locator("#text").fill(f"{STATION} 50 % & more")
    assert page.evaluate("location.href") == f"{address}/#source=en&target=it"
    await_translation(page, "stazione")
    page.locator("#source").select_option("auto")
    assert page.evaluate("location.href") == f"{address}/#source=auto&target=it"
    await_translation(page, "stazione")
    page.locator("#copy-link").click()
    page.locator("#done", has_text="Copied.").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.evaluate("location.href")
    opened = visit(link=link.removeprefix(f"{address}/"))
    await_translation(opened, "stazione")
    assert opened.locator("#text").input_value() == f"{STATION} 50 % & more"
    opened.evaluate("location.hash = '#q=Good+evening.'")
    await_translation(opened, "Buonasera")


def test_a_link_with_languages_that_the_server_lacks_waits_for_a_click(visit: Visit) -> None:
    page = visit(link="#q=Good+morning.&source=fr&target=%3Cb%3E")
    notice = page.get_by_role("alert")
    notice.filter(has_text="This server does not translate from French to <b>, as the link asks.").wait_for()
    assert page.locator("#text").input_value() == "Good morning." and shown(page) == ""
    notice.locator("button").click()
    await_translation(page, "Buongiorno")


def test_a_shell_gets_the_same_translation_from_the_shown_command(visit: Visit) -> None:
    text = "Where's the station?\nI'd like $(two) `coffees`, \"please\"\\n."
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    write(page, text, "stazione")
    page.locator("summary", has_text="For developers").click()
    page.locator("#copy-request").click()
    page.locator("#request-done", has_text="Copied.").wait_for()
    command = page.evaluate("navigator.clipboard.readText()")
    assert command == page.locator("#request").text_content() and "KEY" not in command
    shell = subprocess.run(
        ["sh", "-c", f'curl() {{ printf "%s\\0" "$@"; }}; {command}'], capture_output=True, check=True
    )
    url, *_, body = shell.stdout.decode().removesuffix("\0").split("\0")
    sent = json.loads(body)
    assert sent == {"text": text, "source": "auto", "target": "it"}
    answer = page.request.post(url, data=sent).json()["translations"][0]["text"]
    assert answer == page.locator("#translation").text_content()


def test_show_me_why_opens_the_explaining_page(visit: Visit) -> None:
    page = visit()
    write(page, STATION, "stazione")
    with page.context.expect_page() as opened:
        page.locator("#why-form button").click()
    assert opened.value.locator("h1").inner_text() == "Inside a translation"
    assert STATION in opened.value.locator("#overview").inner_text()


def test_a_better_translation_is_sent_to_who_runs_the_server(visit: Visit, suggestions: Path) -> None:
    page = visit()
    write(page, STATION, "stazione")
    page.locator("#suggest").click()
    assert page.locator("#better").input_value() == "Dov'è la stazione?"
    page.locator("#suggest").click()
    assert page.locator("#suggest-form").is_hidden()
    page.locator("#suggest").click()
    page.locator("#better").fill("Dove si trova la stazione?")
    page.locator("#suggest-form button").first.click()
    page.locator("#done", has_text="Thank you").wait_for()
    assert "Dove si trova la stazione?" in suggestions.read_text(encoding="utf-8")


def test_no_suggestion_is_asked_for_where_none_is_taken(visit: Visit) -> None:
    page = visit(answers={"/frontend/settings": {"json": {"suggestions": False}}})
    write(page, STATION)
    assert page.locator("#suggest").is_hidden()


# ---- refusals ----


@pytest.mark.parametrize(
    ("locale", "status", "expected"),
    [
        ("en", 400, "The server can't translate this. Check the languages and your glossary, or change the text."),
        ("en", 413, "This contains too much for the server. Split it and translate the parts."),
        ("en", 429, "The characters allowed for this key are used up."),
        ("it", 503, "Accorcia il testo, o riprova più tardi."),
        ("en", 500, "Try again; if it happens again, report it to the operator: 7f3"),
        ("it", 400, "Il server non può tradurlo. Controlla le lingue e il glossario, oppure cambia il testo."),
        ("it", 500, "Riprova; se non passa, dillo a chi lo gestisce: 7f3"),
    ],
)
def test_a_refusal_says_what_to_do_in_the_language_of_the_page(
    visit: Visit, locale: str, status: int, expected: str
) -> None:
    refusal = {"status": status, "json": {"error": "the server's own words", "id": "7f3"}}
    page = visit(answers={"/v1/translate": answering(refusal, then_served=True)}, refused=True, locale=locale)
    page.locator("#text").fill("Good morning.")
    notice = page.get_by_role("alert")
    notice.filter(has_text=expected).wait_for()
    assert "own words" not in page.locator("body").inner_text()
    if status == 500:
        notice.locator("button").click()
        await_translation(page, "Buongiorno")
    else:
        assert notice.locator("button").count() == 0
        page.locator("#text").fill(STATION)
        await_translation(page, "stazione")
    assert notice.is_hidden()


def test_a_language_that_no_model_reads_is_named(visit: Visit) -> None:
    page = visit(refused=True)
    write(page, STATION, "stazione")
    page.locator("#text").fill("Bonjour, où est la gare s'il vous plaît ?")
    page.get_by_role("alert").filter(has_text="French").wait_for()
    assert shown(page) == "" and page.locator("#actions").is_hidden()


def test_a_busy_server_is_asked_again_when_it_said(visit: Visit) -> None:
    refusal = {"status": 503, "headers": {"Retry-After": "1"}, "json": {"error": "many requests"}}
    page = visit(answers={"/v1/translate": answering(refusal, then_served=True)}, refused=True)
    page.locator("#text").fill(STATION)
    page.get_by_role("alert").filter(has_text="The server is busy. The page tries again in a second.").wait_for()
    await_translation(page, "stazione")


def test_models_that_load_are_waited_for(visit: Visit) -> None:
    loading = {"json": {**MODELS, "ready": False, "models": []}}
    page = visit(answers={"/v1/models": answering(loading, then_served=True)}, ready=False)
    page.get_by_role("alert").filter(has_text="loading its models").wait_for()
    page.locator("#target option").first.wait_for(state="attached")
    write(page, STATION, "stazione")


def test_a_lost_connection_is_said_and_comes_back(visit: Visit, picture: Any) -> None:
    page = visit(refused=True)
    write(page, "Good morning.", "Buongiorno")
    colour = "getComputedStyle(document.getElementById('translation')).color"
    before, age = page.evaluate(colour), page.locator("#age")
    page.context.set_offline(True)
    page.locator("#text").fill(STATION)
    page.get_by_role("alert").filter(has_text="can't be reached").wait_for()
    assert age.inner_text() == "Translation of your earlier text:" and shown(page) == "Buongiorno."
    assert page.evaluate(colour) != before and page.locator("#alternatives").is_hidden()
    assert page.evaluate(CONTRASTS, "#reading") == []
    picture(page, "serving-offline")
    page.locator("#text").fill("Good morning.")
    assert age.is_hidden() and page.evaluate(colour) == before
    page.locator("#text").fill(STATION)
    age.wait_for()
    page.context.set_offline(False)
    await_translation(page, "stazione")
    assert age.is_hidden() and page.evaluate(colour) == before


def test_a_key_is_asked_for_and_kept_as_long_as_wished(visit: Visit) -> None:
    def guarded(route: Any) -> None:
        given = route.request.headers.get("authorization")
        if given == "Bearer right":
            route.fallback()
        else:
            route.fulfill(status=403, json={"error": "a key, please"})

    models = {"json": {**MODELS, "key_required": True}}
    page = visit(answers={"/v1/models": models, "/v1/translate": guarded}, refused=True)
    page.on("request", lambda asked: asked.method == "GET" and "right" in asked.url and pytest.fail(asked.url))
    key = page.get_by_label("This server requires a key.")
    key.wait_for()
    key.fill("wrong")
    page.keyboard.press("Enter")
    page.locator("#text").fill(STATION)
    page.get_by_role("alert").filter(has_text="did not accept this key").wait_for()
    key.fill("right")
    page.locator("#remember").check()
    page.locator("#key-form button").click()
    await_translation(page, "stazione")
    assert page.locator("#key-form").is_hidden() and page.locator("#notice").is_hidden()
    command = page.locator("#request").text_content()
    assert "-H 'Authorization: Bearer KEY'" in command and "right" not in command
    assert page.evaluate("[localStorage['dragoman.key'], sessionStorage['dragoman.key']]")[0] == '"right"'
    page.reload()
    write(page, STATION, "stazione")


# ---- for everyone ----


def filled(visit: Visit, **options: Any) -> Page:
    """The page with everything open."""
    page = visit(script=VOICES, **options)
    write(page, COFFEES, "stazione")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.locator("#suggest").click()
    page.locator("#file").set_input_files(documents(**{"long" * 30: "Hello."}))
    page.locator("#file").set_input_files({"name": "song.mp3", "mimeType": "audio/mpeg", "buffer": b"a"})
    page.locator("#documents a").wait_for()
    page.locator("#keep-history").check()
    page.locator("#history button").wait_for()
    return page


@pytest.mark.parametrize(("width", "scale"), [(360, 1), (640, 2), (320, 1)])
def test_nothing_sticks_out_of_a_narrow_screen(visit: Visit, width: int, scale: int, picture: Any) -> None:
    """On a phone of 360 pixels; in a window of 1280 at 200 % and at 400 %."""
    page = filled(visit, width=width, device_scale_factor=scale)
    assert page.evaluate(STICKING_OUT) == [width]
    word(page, "caffè").click()
    page.locator("#menu button").first.wait_for()
    assert page.evaluate(STICKING_OUT) == [width]
    picture(page, f"serving-{width}", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_colours(visit: Visit, scheme: str, picture: Any) -> None:
    page = filled(visit, color_scheme=scheme)
    ground = {"light": "rgb(243, 241, 235)", "dark": "rgb(20, 22, 26)"}
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == ground[scheme]
    word(page, "stazione").click()
    page.locator("#menu button").first.wait_for()
    page.evaluate("document.getElementById('mirror').hidden = true")  # its text is to be seen through
    assert page.evaluate(CONTRASTS, "body") == []
    picture(page, f"serving-{scheme}", full_page=True)


def test_the_keyboard_reaches_every_control_and_shows_where_it_is(visit: Visit) -> None:
    page = filled(visit)
    page.locator(".skip").focus()
    reached = ["Skip to the text"]
    while True:
        page.keyboard.press("Tab")
        name, is_seen = page.evaluate(REACHED)
        if name in reached or page.evaluate("document.activeElement === document.body"):
            break
        assert is_seen, name
        reached.append(name)
    controls = "interface source target text choose clear better copy suggest terms keep-history clear-history"
    controls += " listen listen-text copy-link request copy-request"
    assert set(controls.split()) <= set(reached)
    assert {"Dov'è", "Show me why", "Glossary", "History", "Keyboard", "Skip to the text"} <= {
        one.split("\n")[0] for one in reached
    }
    assert reached.index("text") < reached.index("Dov'è") < reached.index("copy")


def test_forced_colours_still_show_what_belongs_together(visit: Visit) -> None:
    page = visit(forced_colors="active", reduced_motion="reduce")
    write(page, STATION)
    word(page, "stazione").hover()
    for node in page.locator(".lit").all():
        assert node.evaluate("(node) => getComputedStyle(node).outlineStyle") == "solid"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(visit: Visit, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="make browser installs axe")
    page = filled(visit, color_scheme=scheme, bypass_csp=True)  # the page's own policy would not let axe in
    word(page, "stazione").click()
    page.locator("#menu button").first.wait_for()
    found = axe.Axe().run(page).response["violations"]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
