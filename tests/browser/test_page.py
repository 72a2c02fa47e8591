"""The explaining page in a browser: its frame, what happened, pieces, word by word, the search, and about it."""

import copy
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from contrasts import CONTRASTS
from unpacking import unpack

from dragoman.explaining.page.page import pack
from dragoman.explaining.record import TEMPERATURES, Record, SearchRecord

pytestmark = pytest.mark.browser

Page = Any
Show = Callable[..., Page]
Picture = Callable[..., None]

OWN = ("overview", "pieces", "generation", "search", "about")
SECTIONS = ", ".join(["header", "nav", *(f"#{name}" for name in OWN)])
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&<!--\u202eback\u202c"
LONG = "Donaudampfschiffahrtsgesellschaft" * 8


def number(x: float) -> str:
    """A number as the page shows it, if it is neither very large nor very small."""
    if x == 0:
        return "0"
    digits = 3 - math.floor(math.log10(abs(float(f"{x:.3e}"))))
    return f"{x:.{max(0, digits)}f}".replace("-", "−")


def shares(page: Page, selector: str) -> list[float]:
    """Percentages that a column shows, as shares; tiny ones stand as 2.356 × 10⁻⁵."""
    plain = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    texts = [text.removesuffix("%").strip() for text in page.locator(selector).all_inner_texts()]
    return [float(text.replace(" × 10", "e").translate(plain)) / 100 for text in texts]


def carried(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What the page holds of an array: floats rounded."""
    return unpack(pack(array))


def unfold(page: Page, *names: str) -> None:
    for name in names:
        button = page.locator(f"#{name} h2 button")
        if button.is_visible() and button.get_attribute("aria-expanded") == "false":
            button.click()


def focused(page: Page) -> Any:
    return page.locator(":focus")


def open_all(page: Page) -> None:
    page.evaluate("page.openAll()")


# ---- the frame ----


def test_three_sections_are_open_at_first_and_the_others_are_built_when_they_are_opened(
    show: Show, translation: Record, picture: Picture
) -> None:
    page = show(translation)
    folded = {
        section.get_attribute("id"): section.locator("h2 button").get_attribute("aria-expanded") == "false"
        for section in page.locator("main > section:visible").all()
    }
    assert [name for name, is_folded in folded.items() if not is_folded and name in OWN] == ["overview", "generation"]
    for name, is_folded in folded.items():
        assert (page.locator(f"#{name}-body > *").count() == 0) == is_folded
    picture(page, "page", full_page=True)


@pytest.mark.parametrize("press", ["click", "Enter", "Space"])
def test_a_section_folds_and_unfolds(show: Show, translation: Record, press: str) -> None:
    page = show(translation)
    button, body = page.locator("#search h2 button"), page.locator("#search-body")
    for is_open in (True, False, True):
        button.click() if press == "click" else button.press(press)
        assert (body.is_visible(), button.get_attribute("aria-expanded")) == (is_open, str(is_open).lower())


def test_every_link_of_the_contents_opens_its_section_and_takes_the_focus_there(
    show: Show, translation: Record
) -> None:
    page = show(translation)
    for link in page.locator("#contents a:visible").all():
        link.click()
        button = page.locator(f"{link.get_attribute('href')} h2 button:focus")
        button.wait_for()
        assert button.inner_text() == link.inner_text()
        assert button.get_attribute("aria-expanded") == "true"
        assert page.url.endswith(link.get_attribute("href"))


def test_an_address_leads_to_its_section(show: Show, translation: Record) -> None:
    page = show(translation)
    page.evaluate("location.hash = 'about'")
    page.locator("#about-body").wait_for()
    page.locator("#about h2 button:focus").wait_for()
    page.go_back()
    page.go_forward()
    assert focused(page).inner_text() == "About this page"


def test_a_text_of_several_sentences_shows_one_at_a_time(show: Show, sentences: Record) -> None:
    page = show(sentences)
    open_all(page)
    buttons = page.locator(".parts button")
    assert buttons.all_inner_texts() == [part.source for part in sentences.parts] and len(sentences.parts) == 3
    for place in (1, 2, 0):
        buttons.nth(place).click()
        part = sentences.parts[place]
        assert page.locator(".parts [aria-pressed=true]").all_inner_texts() == [part.source]
        assert page.locator("#overview .sentence").all_inner_texts() == [part.source, part.target]
        assert page.locator("#generation .written").count() == len(part.steps)
        assert page.locator("#generation .place").inner_text() == f"step 1 of {len(part.steps)}"
        (own,) = [search for search in part.searches if search.chosen]
        assert page.locator("#search .tree .node").count() == len(own.nodes)


def test_the_page_says_what_it_needs_where_programs_are_off(show: Show, translation: Record) -> None:
    page = show(translation, java_script_enabled=False)
    assert "needs JavaScript" in page.locator("main").inner_text()


def test_a_notebook_shows_the_page_in_a_frame_and_its_links_stay_there(show: Show, translation: Record) -> None:
    page = show(f"<!doctype html><title>Notebook</title><p>before</p>{translation._repr_html_()}")
    frame = page.frame_locator("iframe")
    frame.locator("#contents a", has_text="The search").click()
    assert frame.locator("#search .tree .node").count() > 0
    frame.locator("#overview a", has_text="logits").click()
    assert frame.locator("h1").inner_text() == "Inside a translation"
    assert page.locator("p").first.inner_text() == "before"


def test_some_sections_alone_are_unfolded(show: Show, translation: Record) -> None:
    page = show(f"<!doctype html><title>Notebook</title>{translation.show('search')._repr_html_()}")
    frame = page.frame_locator("iframe")
    assert frame.locator("#search .tree .node").count() > 0
    assert frame.locator("main section").count() == 1 and not frame.locator("#contents").is_visible()
    assert not frame.locator("#top").is_visible()


def test_a_frame_is_as_high_as_its_content(show: Show, translation: Record) -> None:
    page = show(f"<!doctype html><title>Notebook</title>{translation.show('attention')._repr_html_()}")
    inner = page.locator("iframe").element_handle().content_frame()
    page.wait_for_function("document.querySelector('iframe').style.height.endsWith('px')")
    heights: list[float] = []
    for _ in range(2):
        page.wait_for_timeout(200)
        heights.append(inner.evaluate("document.body.getBoundingClientRect().height"))
        assert abs(page.evaluate("document.querySelector('iframe').clientHeight") - heights[-1]) < 2
        inner.locator("#attention h2 button").click()  # folded, it is low
    assert heights[1] < 200 < heights[0]


# ---- what happened ----


def test_the_story_tells_the_numbers_of_the_record(show: Show, translation: Record) -> None:
    (part,) = translation.parts
    story = show(translation).locator("#overview .story").inner_text()
    assert f"The log-probability of the whole is {number(part.log_prob)}," in story
    assert f"wrote {len(part.steps)} tokens" in story
    assert f"read {len(part.stacks[0].tokens)} tokens" in story
    worst = min((step for step in part.steps if step.token.id > 3), key=lambda step: step.log_prob)
    assert f"probability of {100 * math.exp(worst.log_prob):.1f}\u00a0%" in story


@pytest.mark.parametrize("kind", ["translation", "by_words", "read", "sentences"])
def test_the_least_certain_token_is_told_with_its_word(show: Show, kind: str, request: pytest.FixtureRequest) -> None:
    record: Record = request.getfixturevalue(kind)
    part = record.parts[0]
    steps = part.steps if part.source is not None else part.steps[:-1]
    worst = min((step for step in steps if step.token.id > 3), key=lambda step: step.log_prob).token
    story = show(record).locator("#overview .story").inner_text()
    assert f"least certain token was {worst.text.replace('▁', '␣')} " in re.sub(r"\s+", " ", story)
    assert worst.word is not None
    for word in re.findall("of the word “(.*?)”", story):
        assert word == part.written[worst.word] != worst.text.replace("▁", "")


def test_the_links_of_the_path_lead_to_sections(show: Show, translation: Record) -> None:
    page = show(translation)
    links = page.locator("#overview .way a")
    assert links.all_inner_texts()[0::7] == ["text", "text"]
    for link in links.all():
        link.click()
        section = link.get_attribute("href").removeprefix("#")
        assert page.locator(f"#{section}-body").is_visible()


def test_words_that_the_tokenizer_does_not_know_are_named(show: Show, by_words: Record) -> None:
    assert "Words that the tokenizer does not know: “zebra”." in show(by_words).locator("#overview .notes").inner_text()


# ---- pieces ----


@pytest.mark.parametrize("kind", ["translation", "by_words", "read"])
def test_every_token_unfolds_into_its_numbers(
    show: Show, kind: str, request: pytest.FixtureRequest, picture: Picture
) -> None:
    record: Record = request.getfixturevalue(kind)
    page = show(record)
    page.locator("#contents a", has_text="From text to numbers").click()
    panel = page.locator("#pieces .panel")
    for stack in record.parts[0].stacks:
        for place, token in enumerate(stack.tokens):
            page.locator(f'#pieces [data-at="{stack.name} {place}"]').click()
            assert f"token {token.id:,}, at position {place}" in panel.locator("h4").inner_text()
            assert number(carried(stack.entering)[place, 0]) in panel.locator(".vector").last.inner_text()
    picture(page.locator("#pieces"), f"pieces-{kind}")


def test_one_feature_is_a_sum_that_a_reader_can_check(show: Show, by_words: Record) -> None:
    page = show(by_words)
    unfold(page, "pieces")
    page.locator('#pieces [data-at="encoder 2"]').click()
    stack = by_words.parts[0].stacks[0]
    assert stack.positions is not None
    for feature in (0, 7, 15):
        page.locator("#pieces input[type=number]").fill(str(feature))
        row = [carried(each)[2, feature] for each in (stack.embedding, stack.positions, stack.entering)]
        first, second = (f"({number(x)})" if x < 0 else number(x) for x in row[:2])
        assert page.locator("#pieces .sum").inner_text() == f"{first} + {second} = {number(row[2])}"
    page.locator("#pieces .strip").last.click(position={"x": 1, "y": 5})
    assert page.locator("#pieces input[type=number]").input_value() == "0"
    page.locator("#pieces summary").click()
    page.locator("#pieces tbody tr").first.wait_for()
    assert page.locator("#pieces tbody tr").count() == stack.embedding.shape[1]


def test_arrow_keys_go_from_piece_to_piece(show: Show, translation: Record) -> None:
    page = show(translation)
    unfold(page, "pieces")
    chips = page.locator("#pieces .groups").first.locator("button")
    chips.first.focus()
    for key, place in [
        ("ArrowRight", 1),
        ("ArrowDown", 2),
        ("ArrowLeft", 1),
        ("End", -1),
        ("ArrowRight", -1),
        ("Home", 0),
    ]:
        page.keyboard.press(key)
        assert focused(page).get_attribute("data-at") == chips.nth(place).get_attribute("data-at")
    assert page.locator("#pieces .groups").first.locator('[tabindex="0"]').count() == 1


# ---- word by word ----


def step_now(page: Page) -> int:
    text = page.locator("#generation .place").inner_text()
    return int(re.fullmatch(r"step (\d+) of \d+", text)[1]) - 1  # pyright: ignore[reportOptionalSubscript]


def test_slider_buttons_tokens_and_arrow_keys_choose_the_step(show: Show, translation: Record) -> None:
    page = show(translation)
    steps = translation.parts[0].steps
    last = len(steps) - 1
    for name, place in [
        ("Next step", 1),
        ("Last step", last),
        ("Next step", last),
        ("Step before", last - 1),
        ("First step", 0),
    ]:
        page.get_by_role("button", name=name).click(force=True)  # at an end it is marked as disabled
        assert step_now(page) == place
    slider = page.get_by_role("slider", name="Step", exact=True)
    slider.fill("2")
    assert step_now(page) == 2 and slider.get_attribute("aria-valuetext") == f"step 3 of {last + 1}"
    slider.press("ArrowRight")
    assert step_now(page) == 3
    page.locator("#generation .written").nth(1).click()
    assert step_now(page) == 1
    page.keyboard.press("ArrowRight")
    assert step_now(page) == 2
    page.keyboard.press("End")
    assert step_now(page) == last
    page.get_by_role("button", name="First step").focus()
    page.keyboard.press("ArrowLeft")
    assert step_now(page) == last - 1
    assert page.locator("#announcer").inner_text().startswith(f"Step {last} of {last + 1}: ")


def test_tab_enters_the_row_of_tokens_at_the_chosen_step(show: Show, translation: Record) -> None:
    page = show(translation)
    page.get_by_role("button", name="Last step").click()
    page.keyboard.press("Tab")
    assert focused(page).get_attribute("aria-current") == "step"
    assert step_now(page) == len(translation.parts[0].steps) - 1


def test_candidates_are_the_softmax_of_their_logits_at_every_temperature(show: Show, translation: Record) -> None:
    page = show(translation)
    step = translation.parts[0].steps[0]
    for place, temperature in enumerate(TEMPERATURES):
        page.get_by_role("radio", name=f"{temperature:g}", exact=True).check()
        expected = [math.exp(each.logit / temperature - step.normalisers[place]) for each in step.candidates]
        shown = shares(page, "#generation [data-p]")
        np.testing.assert_allclose(shown[: len(expected)], expected, atol=6e-4)
        (rest,) = shares(page, "#generation .rest td.right")
        assert sum(shown) + rest == pytest.approx(1, abs=6e-3)


def test_the_token_that_was_written_is_among_the_candidates(show: Show, models: Any) -> None:
    from dragoman.explaining.recording import record

    unlikely = record(models["pieces"], "the red cat .", "buongiorno , Anna !")
    page = show(unlikely)
    for place, step in enumerate(unlikely.parts[0].steps):
        page.locator("#generation .written").nth(place).click()
        (row,) = page.locator("#generation tr.chosen").all()
        assert row.locator("td").first.inner_text() == f"{step.rank}"
        percent = row.locator("[data-p]").inner_text().removesuffix("%").strip()
        if "×" not in percent:
            assert float(percent) / 100 == pytest.approx(math.exp(step.log_prob), rel=0.02, abs=1e-4)


def test_the_arithmetic_of_candidates_ends_in_their_probability(show: Show, translation: Record) -> None:
    page = show(translation)
    page.locator("#generation summary").click()
    page.get_by_role("radio", name="0.5", exact=True).check()
    step = translation.parts[0].steps[0]
    first = page.locator("#generation details tbody tr").first.locator("td").all_inner_texts()
    logit, normaliser = step.candidates[0].logit, step.normalisers[TEMPERATURES.index(0.5)]
    assert first[1:5] == [number(logit), number(logit / 0.5), number(-normaliser), number(logit / 0.5 - normaliser)]


def test_layer_and_head_choose_the_attention_that_is_shown(show: Show, translation: Record) -> None:
    page = show(translation)
    encoder, decoder = translation.parts[0].stacks
    page.get_by_role("button", name="Next step").click()
    for layer in range(len(decoder.layers)):
        weights = decoder.layers[layer].attentions[-1].weights
        for head in [None, *range(weights.shape[0])]:
            page.locator("#generation select").first.select_option(f"layer {layer}")
            page.locator("#generation select").last.select_option(
                "mean of the heads" if head is None else f"head {head}"
            )
            row = weights[:, 1].mean(0) if head is None else weights[head, 1]
            shown = page.locator("#generation .looked .token")
            assert shown.count() == len(encoder.tokens)
            texts = [each.get_attribute("title") for each in shown.all()]
            percent = [float(text.removesuffix("%")) / 100 for text in texts if "×" not in text]
            np.testing.assert_allclose(percent, row, atol=6e-4)


# ---- the search ----


def choose_width(page: Page, search: SearchRecord) -> None:
    page.locator("#search fieldset").get_by_role("radio", name=str(search.width), exact=True).check()


def test_every_width_shows_its_tree_and_what_it_found(show: Show, translation: Record, picture: Picture) -> None:
    page = show(translation)
    unfold(page, "search")
    for search in translation.parts[0].searches:
        choose_width(page, search)
        nodes = page.locator("#search .tree .node")
        assert nodes.count() == len(search.nodes)
        for status, name in {"live": "kept", "ended": "ended", "dropped": "dropped"}.items():
            assert page.locator(f"#search .tree .node.{name}").count() == sum(
                node.status == status for node in search.nodes
            )
        assert page.locator("#search .tree .winner.node").count() == search.nodes[search.winner].step
        assert page.locator("#search .tree path").count() == sum(node.parent is not None for node in search.nodes)
        panel = page.locator("#search [role=status]").inner_text()
        assert f"“{search.text}”" in panel and f"Won with the score {number(search.score)}." in panel
        assert page.locator("#search .scroller tr.chosen").last.locator("td").first.inner_text() == search.text
        picture(page.locator("#search"), f"search-{search.width}")


def test_what_each_width_found_is_listed(show: Show, translation: Record) -> None:
    page = show(translation)
    unfold(page, "search")
    rows = page.get_by_role("table", name="What each width found").locator("tbody tr")
    for row, search in zip(rows.all(), translation.parts[0].searches, strict=True):
        dropped = sum(node.status == "dropped" for node in search.nodes)
        own = ", the model's own" if search.chosen else ""
        assert row.locator("th").inner_text() == f"{search.width}{own}"
        figures = [number(search.total), number(search.score), f"{len(search.nodes) - dropped}", f"{dropped}"]
        assert row.locator("td").all_inner_texts() == [search.text, *figures]


def test_hypotheses_that_ended_are_listed_best_first(show: Show, translation: Record) -> None:
    page = show(translation)
    unfold(page, "search")
    for search in translation.parts[0].searches:
        choose_width(page, search)
        scores = {node.score for node in search.nodes if node.score is not None} | {search.score}
        table = page.get_by_role("table", name="Hypotheses that ended, best first")
        shown = [row.locator("td").nth(3).inner_text() for row in table.locator("tbody tr").all()]
        assert sorted(set(shown)) == sorted({number(score) for score in scores})
        floats = [float(text.replace("−", "-")) for text in shown]
        assert floats == sorted(floats, reverse=True)


def test_the_tree_is_a_table_too(show: Show, translation: Record) -> None:
    page = show(translation)
    unfold(page, "search")
    page.locator("#search summary").click()
    page.get_by_role("table", name="Every hypothesis").wait_for()
    (search,) = [search for search in translation.parts[0].searches if search.chosen]
    rows = page.get_by_role("table", name="Every hypothesis").locator("tbody tr")
    assert rows.count() == len(search.nodes)
    for i in (0, len(search.nodes) // 2, len(search.nodes) - 1):
        node = search.nodes[i]
        cells = rows.nth(i).locator("td").all_inner_texts()
        assert cells[:3] == [f"{i}", "" if node.parent is None else f"{node.parent}", f"{node.step}"]
        assert cells[4:6] == [number(node.log_prob), number(node.total)]
        assert not node.reason or cells[6].lower().replace("−", "-") == f"{node.reason}.".lower()


def test_arrow_keys_walk_the_tree_and_tell_the_figures_of_each_hypothesis(show: Show, translation: Record) -> None:
    page = show(translation)
    unfold(page, "search")
    search = max(translation.parts[0].searches, key=lambda search: search.width)
    choose_width(page, search)
    nodes, panel = page.locator("#search .tree .node"), page.locator("#search [role=status]")
    page.locator('#search .tree [tabindex="0"]').focus()
    page.keyboard.press("Home")
    path = [0]
    for _ in range(search.nodes[search.winner].step):
        path.append(
            int(focused(page).evaluate("(node) => [...document.querySelectorAll('.tree .node')].indexOf(node)"))
        )
        page.keyboard.press("ArrowRight")
    assert path[-1] == search.winner
    page.keyboard.press("Home")
    first = [i for i, node in enumerate(search.nodes) if node.step == 1]
    for _ in first:
        page.keyboard.press("ArrowUp")
    for i in first[1:]:
        page.keyboard.press("ArrowDown")
        node = search.nodes[i]
        assert nodes.nth(i).get_attribute("aria-current") == "true"
        assert f"log-probability {number(node.log_prob)}" in panel.inner_text()
        assert f"total is {number(node.total)}" in panel.inner_text()
        assert node.reason[1:].replace("-", "−") in panel.inner_text()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert nodes.nth(search.nodes[search.winner].parent).get_attribute("aria-current") == "true"  # pyright: ignore[reportArgumentType]
    assert page.locator('#search .tree [tabindex="0"]').count() == 1


def test_a_click_on_a_hypothesis_marks_its_path(show: Show, translation: Record) -> None:
    page = show(translation)
    unfold(page, "search")
    (search,) = [search for search in translation.parts[0].searches if search.chosen]
    for i in range(0, len(search.nodes), 7):
        page.locator("#search .tree .node").nth(i).click()
        assert page.locator("#search .tree .node.taken").count() == search.nodes[i].step


# ---- about ----


def test_about_tells_the_model_and_how_to_get_every_number(show: Show, translation: Record, picture: Picture) -> None:
    page = show(translation)
    unfold(page, "about")
    text = page.locator("#about").inner_text()
    assert f"with {translation.weight_count:,} weights" in text and translation.version in text
    assert "from English to Italian" in text and "--format json" in text
    page.locator("#about summary").click()
    page.get_by_role("table", name="Settings of the model").wait_for()
    assert page.locator("#about table").first.locator("tr").count() == len(translation.settings)
    page.get_by_role("button", name="Unfold all sections").click()
    assert page.locator('main > section:visible h2 [aria-expanded="false"]').count() == 0
    picture(page.locator("#about"), "about")


# ---- for everybody ----


def names_of(snapshot: str) -> Iterator[tuple[str, str]]:
    """The role and the rest of each control of an accessibility snapshot."""
    for line in snapshot.splitlines():
        found = re.match(
            r"\s*- '?(button|slider|radio|combobox|spinbutton|checkbox|link|textbox|region|group)\b(.*)", line
        )
        if found:
            yield found[1], found[2]


@pytest.mark.parametrize("kind", ["translation", "by_words", "read"])
def test_every_control_has_a_name(show: Show, kind: str, request: pytest.FixtureRequest) -> None:
    page = show(request.getfixturevalue(kind))
    open_all(page)
    controls = [control for name in OWN for control in names_of(page.locator(f"#{name}").aria_snapshot())]
    assert {"button", "slider", "radio", "combobox", "spinbutton", "region"} <= {role for role, _ in controls}
    assert not [role for role, rest in controls if not re.match(r' "', rest) and role != "group"]


def test_a_screen_reader_hears_landmarks_headings_and_controls(show: Show, translation: Record) -> None:
    page = show(translation)
    snapshot = page.locator("body").aria_snapshot()
    for line in [
        'link "Skip to the sections"',
        "- banner",
        'navigation "Sections"',
        "- main",
        'heading "Inside a translation" [level=1]',
        'heading "What happened" [level=2]',
        'button "What happened" [expanded]',
        'button "The search"',
        'slider "Step"',
        'group "Tokens written"',
        'radio "1" [checked]',
        'combobox "Layer"',
        'table "Likeliest tokens at this step"',
    ]:
        assert line in snapshot, line


def test_the_first_stop_leads_past_the_contents(show: Show, translation: Record) -> None:
    page = show(translation)
    page.keyboard.press("Tab")
    assert focused(page).inner_text() == "Skip to the sections"
    page.keyboard.press("Enter")
    assert focused(page).get_attribute("id") == "sections"


def test_the_keyboard_alone_reaches_everything_and_shows_where_it_is(show: Show, sentences: Record) -> None:
    page = show(sentences)
    open_all(page)
    outline = "getComputedStyle(node).outlineStyle !== 'none' && parseFloat(getComputedStyle(node).outlineWidth)"
    visible = f"(node) => ({outline}) >= 2"
    reached: dict[str, int] = {}
    for _ in range(300):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        assert focused(page).evaluate(visible), focused(page).evaluate("(node) => node.outerHTML.slice(0, 200)")
        section = focused(page).evaluate("(node) => node.closest('section')?.id ?? 'frame'")
        reached[section] = reached.get(section, 0) + 1
    assert set(OWN) <= set(reached)
    assert reached["frame"] == 1 + 3 + page.locator("#contents a:visible").count()
    stops = (
        "#generation :is(button, a, summary, select, input[type=range], [tabindex='0']):not([tabindex='-1']):visible"
    )
    assert reached["generation"] == page.locator(stops).count() + 1  # and one of the radio buttons


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_on_every_ground(show: Show, translation: Record, scheme: str, picture: Picture) -> None:
    page = show(translation, color_scheme=scheme)
    open_all(page)
    assert page.evaluate(CONTRASTS, SECTIONS) == []
    page.get_by_role("button", name="Last step").click()
    assert page.evaluate(CONTRASTS, SECTIONS) == []
    paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert paper == {"light": "rgb(252, 251, 248)", "dark": "rgb(20, 22, 26)"}[scheme]
    picture(page.locator("#generation"), f"generation-{scheme}")


STICKING_OUT = """() => [document.documentElement.scrollWidth,
  ...[...document.querySelectorAll("body *")]
    .filter((node) => node.getBoundingClientRect().right > innerWidth + 1)
    .filter((node) => node.checkVisibility() && !node.closest(".scroller, .contents"))
    .map((node) => `${node.closest("section")?.id} ${node.tagName} ${node.className} ${node.textContent.slice(0, 40)}`),
]"""
"""How wide the page is, and what makes it wider than its window."""


@pytest.mark.parametrize("kind", ["translation", "by_words", "read", "sentences"])
@pytest.mark.parametrize("zoom", [1, 2])
def test_nothing_sticks_out_of_a_narrow_screen(
    show: Show, kind: str, zoom: int, request: pytest.FixtureRequest, picture: Picture
) -> None:
    """On a phone of 360 pixels; and in a window of 1280 at 200 %, which is one of 640, with letters twice as large."""
    page = show(request.getfixturevalue(kind), width=360 if zoom == 1 else 640, device_scale_factor=zoom)
    open_all(page)
    if zoom == 2:
        page.evaluate("document.documentElement.style.fontSize = '32px'")
    assert page.evaluate(STICKING_OUT) == [page.viewport_size["width"]]
    picture(page, f"narrow-{kind}-{zoom}", full_page=zoom == 1)


def test_paper_shows_the_sections_that_are_open(show: Show, translation: Record, tmp_path: Any) -> None:
    page = show(translation)
    unfold(page, "about")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("#about-body").is_visible() and page.locator("#generation .candidates").is_visible()
    assert not page.locator("#contents").is_visible() and not page.locator("#search-body").is_visible()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 1000
    open_all(page)
    assert page.locator("#search table").first.is_visible() and not page.locator("#search .tree").is_visible()
    assert page.pdf().startswith(b"%PDF")


# ---- other records ----


def test_a_language_model_only_foretells(show: Show, read: Record, picture: Picture) -> None:
    page = show(read)
    open_all(page)
    assert page.locator("h1").inner_text() == "Inside a model"
    assert page.locator("#contents a", has_text="The search").count() == 1
    assert not page.locator("#search").is_visible()
    assert not page.locator("#contents a", has_text="The search").is_visible()
    assert page.locator("#generation tr.chosen .mark").inner_text().strip() == "came next"
    assert "Nothing was written here" in page.locator("#generation").inner_text()
    page.get_by_role("button", name="Last step").click()
    assert "The text ends here" in page.locator("#generation").inner_text()
    assert page.locator("#generation tr.chosen .mark").inner_text().strip() == "likeliest"
    page.get_by_role("button", name="Step before").click()
    looked = page.locator("#generation .looked .token")
    assert looked.count() == len(read.parts[0].steps) - 1
    picture(page, "language-model", full_page=True)


def test_a_translation_that_was_given_is_told_as_given(show: Show, models: Any) -> None:
    from dragoman.explaining.recording import record

    page = show(record(models["pieces"], "where is the station ?", "dov'è la stazione ?"))
    assert "Italian, given" in page.locator("#overview").inner_text()
    assert "The translation was given" in page.locator("#overview").inner_text()
    assert "By itself the model writes" in page.locator("#overview").inner_text()


def test_a_model_without_a_decoder_has_a_page(show: Show, translation: Record) -> None:
    facts = translation.facts(pack)
    facts.update(family="classifier", languages=None, target=None)
    (part,) = facts["parts"]
    empty: dict[str, Any] = {"steps": [], "written": [], "searches": [], "stacks": part["stacks"][:1], "target": ""}
    part.update(empty, alignment=None, contributions=None)
    page = show(facts)
    open_all(page)
    assert not page.locator("#generation").is_visible() and not page.locator("#search").is_visible()
    assert page.locator("#pieces .groups").count() == 1
    assert "The model read" in page.locator("#overview").inner_text()


def test_a_part_that_was_copied_says_so(show: Show, sentences: Record) -> None:
    facts = sentences.facts(pack)
    facts["parts"][0] = {**facts["parts"][0], "copied": True, "stacks": [], "steps": [], "searches": []}
    page = show(facts)
    assert page.locator(".parts [aria-pressed=true]").inner_text() == facts["parts"][1]["source"]
    page.locator(".parts button").first.click()
    assert "it was copied, not translated" in page.locator("#overview").inner_text()


def test_numbers_that_are_not_finite_are_called_that(show: Show, read: Record) -> None:
    facts = read.facts(pack)
    (part,) = facts["parts"]
    for step in part["steps"]:
        step.update(log_prob=math.nan, normalisers=[math.nan] * len(TEMPERATURES))
        step["candidates"] = [{**each, "logit": math.inf, "log_prob": -math.inf} for each in step["candidates"]]
    entering = part["stacks"][0]["entering"]
    part["stacks"][0]["entering"] = pack(np.full(entering["shape"], np.nan, dtype=np.float32))
    assert np.isnan(unpack(part["stacks"][0]["entering"])).all()
    page = show(facts)
    unfold(page, *OWN)
    assert "log-probability not a number, probability not a number" in page.locator("#generation").inner_text()
    assert "length not a number" in page.locator("#pieces").inner_text()


def spoilt(facts: Any, texts: Iterator[str]) -> Any:
    """Facts whose every text of people is another."""
    if isinstance(facts, list):
        return [spoilt(each, texts) for each in facts]
    if not isinstance(facts, dict):
        return facts
    people = ("text", "source", "target", "reason", "model", "version")
    changed = {
        key: next(texts) if key in people and isinstance(value, str) else spoilt(value, texts)
        for key, value in facts.items()
    }
    for key in ("words", "written", "unknown_words"):
        if key in changed:
            changed[key] = [next(texts) for _ in changed[key]]
    return changed


def test_hostile_text_stays_text(show: Show, sentences: Record, picture: Picture) -> None:
    def texts() -> Iterator[str]:
        while True:
            yield from (
                HOSTILE,
                "<b>bold</b>",
                LONG,
                "שלום עולם",
                "<0x0A>",
                "a\u202e",
                "{{script}}",
                "$& \\ `${x}`",
                "\ud7ff\u2028",
            )

    facts = spoilt(copy.deepcopy(sentences.facts(pack)), texts())
    facts["flags"] = {HOSTILE: HOSTILE}
    facts["unknown_words"] = [HOSTILE, LONG]
    facts["settings"]["preset"] = HOSTILE
    for width in (360, 1000):
        page = show(facts, width=width)
        open_all(page)
        for place in range(3):
            page.locator(".parts button").nth(place).click()
        assert HOSTILE in page.locator("#overview .notes").inner_text()
        assert page.locator("img, b.bold, main b:text-is('bold'), body > b").count() == 0
        assert page.evaluate("document.querySelectorAll('script').length") == 2
        assert page.evaluate(STICKING_OUT) == [width]
        picture(page, f"hostile-{width}", full_page=True)


def test_text_from_right_to_left_runs_from_right_to_left(show: Show, by_words: Record, picture: Picture) -> None:
    facts = copy.deepcopy(by_words.facts(pack))
    words = "החתול האדום רואה את הכלב הזקן בתחנה".split()
    (part,) = facts["parts"]
    part.update(target=" ".join(words), written=words)
    for i, token in enumerate([step["token"] for step in part["steps"]]):
        if token["id"] > 3:
            token["text"] = words[i % len(words)]
    page = show(facts)
    assert page.locator("#overview .sentence").last.evaluate("(node) => getComputedStyle(node).direction") == "rtl"
    chips = page.locator("#generation .written")
    assert chips.first.bounding_box()["x"] > chips.nth(1).bounding_box()["x"]
    chips.first.focus()
    page.keyboard.press("ArrowLeft")
    assert step_now(page) == 1
    picture(page.locator("#generation"), "right-to-left")
