"""The sections that show numbers in a browser: attention, alignment, contributions, layers and positions."""

import copy
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.explaining.page.page import pack
from dragoman.explaining.record import Alignment, Contributions, PartRecord, Record, Stack
from dragoman.explaining.recording import record

pytestmark = pytest.mark.browser

Page = Any
Locator = Any
Show = Callable[..., Page]
Picture = Callable[..., None]

SENTENCE = "the red cat sees the old station ."
OWN = ("alignment", "why", "attention", "layers", "positions")
CLOSE = 2e-3
"""Relative: the page shows four digits of numbers that it holds with five."""
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


# ---- records ----


@pytest.fixture(scope="session")
def pieces(models: dict[str, Path]) -> Record:
    """A sentence in pieces, with rotary positions, and the weights of a layer."""
    return record(models["pieces"], SENTENCE, weights="decoder.1")


@pytest.fixture(scope="session")
def words(models: dict[str, Path]) -> Record:
    """A sentence in words, with sinusoids and biases, and the weights of a layer."""
    return record(models["words"], SENTENCE, weights="encoder.0")


@pytest.fixture(scope="session")
def text(models: dict[str, Path]) -> Record:
    """What a language model expected next."""
    return record(models["language model"], SENTENCE)


# ---- reading the page ----


def value(shown: str) -> float:
    """A number as the page writes it."""
    plain = shown.replace("−", "-").replace("\u00a0", " ").replace(",", "").strip()
    share = 0.01 if plain.endswith("%") else 1.0
    mantissa, _, power = plain.removesuffix("%").partition("× 10")
    return share * float(mantissa) * 10.0 ** int(power.translate(SUPERSCRIPTS).strip() or 0)


def values(shown: Locator) -> list[float]:
    return [value(each) for each in shown.all_inner_texts()]


def close(expected: Any) -> Any:
    return pytest.approx(np.asarray(expected, dtype=float).ravel().tolist(), rel=CLOSE, abs=1e-12)


def near(expected: float) -> Any:
    return pytest.approx(float(expected), rel=CLOSE, abs=1e-12)


def section(page: Page, name: str) -> Locator:
    """The section, unfolded."""
    found = page.locator(f"#{name}")
    if found.locator("h2 button").get_attribute("aria-expanded") == "false":
        found.locator("h2 button").click()
    return found


def choose(where: Locator, label: str, option: str) -> None:
    menu(where, label).select_option(label=option)


def menu(where: Locator, label: str) -> Locator:
    return where.get_by_role("combobox", name=label, exact=True)


def chosen(where: Locator, label: str) -> str:
    return menu(where, label).evaluate("menu => menu.selectedOptions[0].text")


def check(where: Locator, label: str) -> None:
    where.get_by_label(label, exact=True).check()


def slide(where: Locator, label: str, to: float) -> None:
    where.get_by_role("slider", name=label).fill(f"{to:g}")


def stack(part: PartRecord, name: str) -> Stack:
    found = part.stack(name)
    assert found is not None
    return found


def contributions(part: PartRecord) -> Contributions:
    assert part.contributions is not None
    return part.contributions


def alignment(part: PartRecord) -> Alignment:
    assert part.alignment is not None
    return part.alignment


# ---- attention ----


def cells(where: Locator) -> list[list[str]]:
    """What the cells of the table are called after their tokens, row by row."""
    rows = where.locator("table.grid tbody tr").all()
    return [
        [str(cell.get_attribute("aria-label")).rpartition(": ")[2] for cell in row.locator(".cell").all()]
        for row in rows
    ]


def attention_of(part: PartRecord, name: str, layer: int, kind: str) -> Any:
    return next(each for each in stack(part, name).layers[layer].attentions if each.name == kind)


def choose_attention(page: Page, attention: str, layer: int, head: str) -> Locator:
    shown = section(page, "attention")
    choose(shown, "Attention", attention)
    choose(shown, "Layer", f"layer {layer}")
    choose(shown, "Head", head)
    return shown


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize(
    ("name", "kind"),
    [("encoder", "self"), ("decoder", "self"), ("decoder", "cross")],
    ids=["encoder", "decoder", "cross"],
)
def test_the_table_shows_the_recorded_weights(show: Show, pieces: Record, name: str, kind: str, layer: int) -> None:
    page = show(pieces)
    weights = attention_of(pieces.parts[0], name, layer, f"{kind}_attention").weights
    shown = choose_attention(page, f"{name}, {kind}-attention", layer, "head 2")
    for row, expected in zip(cells(shown), weights[2], strict=True):
        numbers = [0.0 if cell == "hidden by the mask" else value(cell) for cell in row]
        assert numbers == close(expected)


def test_the_mean_of_all_heads_is_their_mean(show: Show, pieces: Record) -> None:
    weights = attention_of(pieces.parts[0], "decoder", 1, "cross_attention").weights
    shown = choose_attention(show(pieces), "decoder, cross-attention", 1, "mean of all heads")
    for row, expected in zip(cells(shown), weights.mean(0), strict=True):
        assert [value(cell) for cell in row] == close(expected)


def test_products_are_shown_before_and_after_the_mask(show: Show, pieces: Record) -> None:
    products = attention_of(pieces.parts[0], "decoder", 0, "self_attention").products[1]
    shown = choose_attention(show(pieces), "decoder, self-attention", 0, "head 1")
    check(shown, "products")
    assert [value(cell) for row in cells(shown) for cell in row] == close(products)
    check(shown, "after the mask")
    for t, row in enumerate(cells(shown)):
        assert [value(cell) for cell in row[: t + 1]] == close(products[t, : t + 1])
        assert set(row[t + 1 :]) <= {"hidden by the mask"}


def test_the_arithmetic_of_a_cell_arrives_at_its_recorded_weight(show: Show, pieces: Record, picture: Picture) -> None:
    page = show(pieces)
    attention = attention_of(pieces.parts[0], "decoder", 1, "cross_attention")
    shown = choose_attention(page, "decoder, cross-attention", 1, "head 3")
    shown.locator('[data-query="2"][data-key="1"]').click()
    product, weight = attention.products[3, 2, 1], attention.weights[3, 2, 1]
    for place, expected in (("product", product), ("weight", weight)):
        assert value(shown.locator(f".result.{place}").inner_text()) == near(expected)
        assert value(shown.locator(f".recorded.{place}").inner_text()) == near(expected)
    assert value(shown.locator(".result.sum").inner_text()) == near(product * math.sqrt(attention.query.shape[2]))
    assert values(shown.locator("table.products .figure")) == close(attention.query[3, 2] * attention.key[3, 1])
    assert values(shown.locator("table.softmax .figure")) == close(attention.weights[3, 2])
    picture(shown, "attention")


def test_the_mixture_of_values_is_what_the_output_projection_was_given(show: Show, pieces: Record) -> None:
    """The record holds that only for the layer whose weights were asked for."""
    shown = choose_attention(show(pieces), "decoder, cross-attention", 1, "head 3")
    attention = attention_of(pieces.parts[0], "decoder", 1, "cross_attention")
    shown.locator('[data-query="1"][data-key="0"]').click()
    mixed = attention.weights[3, 1] @ attention.value[3]
    assert values(shown.locator("table.mixture .result")) == pytest.approx(mixed.tolist(), rel=CLOSE, abs=1e-5)
    assert values(shown.locator("table.mixture .recorded")) == pytest.approx(mixed.tolist(), rel=CLOSE, abs=1e-5)


def test_a_cell_beyond_the_mask_says_that_it_is_hidden(show: Show, pieces: Record) -> None:
    shown = choose_attention(show(pieces), "decoder, self-attention", 0, "head 0")
    shown.locator('[data-query="0"][data-key="1"]').click()
    assert "the mask puts −∞" in shown.locator(".mask").inner_text()
    assert value(shown.locator(".result.weight").inner_text()) == 0


def test_the_keyboard_walks_the_table(show: Show, pieces: Record) -> None:
    page = show(pieces)
    shown = choose_attention(page, "decoder, cross-attention", 0, "head 0")
    shown.locator('.cell[tabindex="0"]').focus()
    page.keyboard.press("Home")
    focus = page.locator(":focus")
    last = len(stack(pieces.parts[0], "encoder").tokens) - 1
    for key, place in [
        ("ArrowDown", (1, 0)),
        ("ArrowRight", (1, 1)),
        ("ArrowDown", (2, 1)),
        ("ArrowLeft", (2, 0)),
        ("ArrowLeft", (2, 0)),
        ("ArrowUp", (1, 0)),
        ("End", (1, last)),
        ("ArrowRight", (1, last)),
    ]:
        page.keyboard.press(key)
        assert (focus.get_attribute("data-query"), focus.get_attribute("data-key")) == tuple(map(str, place))
        assert f"(encoder token {place[1]})" in shown.locator(".readout").first.inner_text()
    page.keyboard.press("Enter")
    assert focus.get_attribute("aria-selected") == "true"
    assert shown.locator('[aria-selected="true"]').count() == 1


def test_small_pictures_choose_the_head(show: Show, pieces: Record) -> None:
    page = show(pieces)
    shown = choose_attention(page, "encoder, self-attention", 0, "head 0")
    shown.get_by_role("button", name="Show head 3").click()
    assert chosen(shown, "Head") == "head 3"
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert chosen(shown, "Head") == "head 0"
    assert shown.get_by_role("button", name="Show head 0").get_attribute("aria-pressed") == "true"


def test_a_long_text_is_shown_through_a_window_that_follows(show: Show, models: dict[str, Path]) -> None:
    long = record(models["language model"], f"{SENTENCE} " * 8)
    tokens = len(stack(long.parts[0], "decoder").tokens)
    assert tokens > 60
    page = show(long)
    shown = choose_attention(page, "decoder, self-attention", 0, "head 1")
    assert shown.locator("table.grid tbody tr").count() == 40
    slide(shown, "Window: query", tokens - 1)
    slide(shown, "Window: key", tokens - 1)
    corner = shown.locator(f'[data-query="{tokens - 1}"][data-key="{tokens - 1}"]')
    weight = attention_of(long.parts[0], "decoder", 0, "self_attention").weights[1, -1, -1]
    assert value(str(corner.get_attribute("aria-label")).rpartition(": ")[2]) == near(weight)
    corner.focus()
    page.keyboard.press("Home")
    assert page.locator(":focus").get_attribute("data-key") == "0"


# ---- alignment ----


def test_links_and_weights_are_the_recorded_ones(show: Show, pieces: Record, picture: Picture) -> None:
    part = pieces.parts[0]
    shown = section(show(pieces), "alignment")
    assert alignment(part).how in shown.locator(".how").inner_text()
    assert shown.locator("path.link").count() == len(alignment(part).links)
    shown.get_by_text("All links as a table").click()
    shown.locator("table.links").wait_for()
    rows = [row.split("\t") for row in shown.locator("table.links tbody tr").all_inner_texts()]
    found = {(row[1], row[0]): value(row[2]) for row in rows if row[1] != "no word"}
    source = stack(part, "encoder").words
    assert set(found) == {(source[a], part.written[b]) for a, b in alignment(part).links}
    weights = [alignment(part).weights[b, a] for a, b in alignment(part).links if part.written[b] == rows[0][0]]
    assert value(rows[0][2]) in [near(weight) for weight in weights]
    picture(shown, "alignment")


@pytest.mark.parametrize("how", ["hover", "focus"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_word_shows_its_weights_on_the_other_side(show: Show, pieces: Record, side: str, how: str) -> None:
    part = pieces.parts[0]
    shown = section(show(pieces), "alignment")
    word = shown.locator(f".words.{side} button").nth(1)
    word.hover() if how == "hover" else word.focus()
    weights = alignment(part).weights if side == "target" else alignment(part).weights.T
    far = part.written if side == "source" else stack(part, "encoder").words
    line = shown.locator(".readout").inner_text()
    said = [(name, value(share)) for name, share in re.findall(r"“(\S+)” ([^“]+?\s%)", line)]
    best = sorted(range(len(far)), key=lambda other: -weights[1, other])[:4]
    assert [share for _, share in said] == pytest.approx(
        [float(weights[1, other]) for other in best], rel=0.03, abs=6e-4
    )
    linked = [link for link in alignment(part).links if link[side == "target"] == 1]
    assert shown.locator("path.link.on").count() == len(linked)


def test_a_word_of_the_translation_leads_to_its_step(show: Show, pieces: Record) -> None:
    page = show(pieces)
    section(page, "alignment").locator(".words.target button").nth(1).click()
    first = next(t for t, step in enumerate(pieces.parts[0].steps) if step.token.word == 1)
    assert page.evaluate("page.state.step") == first


@pytest.mark.parametrize(("width", "columns"), [(1200, False), (360, True)])
def test_words_stand_in_two_columns_where_two_lines_do_not_fit(
    show: Show, pieces: Record, width: int, columns: bool
) -> None:
    shown = section(show(pieces, width=width), "alignment")
    source, target = (shown.locator(f".words.{side}").bounding_box() for side in ("source", "target"))
    assert (target["x"] >= source["x"] + source["width"]) == columns
    assert (target["y"] >= source["y"] + source["height"]) != columns
    for line, (a, b) in zip(shown.locator("path.link").all(), alignment(pieces.parts[0]).links, strict=True):
        ends = line.bounding_box()
        boxes = [
            shown.locator(f".words.{side} button").nth(i).bounding_box() for side, i in (("source", a), ("target", b))
        ]
        touched = [(box["x"] + box["width"] / 2 if not columns else box["y"] + box["height"] / 2) for box in boxes]
        spread = (ends["x"], ends["width"]) if not columns else (ends["y"], ends["height"])
        assert min(touched) == pytest.approx(spread[0], abs=6)
        assert max(touched) == pytest.approx(sum(spread), abs=6)


def test_words_that_run_from_right_to_left_do_so(show: Show, pieces: Record) -> None:
    facts = copy.deepcopy(pieces.facts(pack))
    words = facts["parts"][0]["stacks"][0]["words"]
    facts["parts"][0]["stacks"][0]["words"] = ["القطة"] * len(words)
    shown = section(show(facts), "alignment")
    first, last = shown.locator(".words.source button").first, shown.locator(".words.source button").last
    assert first.bounding_box()["x"] > last.bounding_box()["x"]


# ---- why this word ----


def bars(where: Locator, side: str, column: int = 0) -> dict[str, float]:
    """The words of a table and its numbers in one column."""
    rows = where.locator(f".side.{side} tbody tr").all()
    return {row.locator("th").inner_text(): value(row.locator(".figure").nth(column).inner_text()) for row in rows}


def erased(part: PartRecord, name: str, step: int) -> list[tuple[int, int]]:
    """The number of each erased word of a stack that a step has read, and its place among the erased."""
    tokens = stack(part, name).tokens if name == "encoder" else stack(part, name).tokens[: step + 1]
    read = {token.word for token in tokens}
    every = enumerate(contributions(part).erased)
    return [(word, at) for at, (side, word) in every if side == name and word in read]


@pytest.mark.parametrize("step", [0, 2])
@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_erasure_is_the_recorded_fall(show: Show, pieces: Record, name: str, step: int, picture: Picture) -> None:
    part = pieces.parts[0]
    shown = section(show(pieces), "why")
    shown.get_by_role("group", name="Written token").get_by_role("button").nth(step).click()
    falls = [contributions(part).written_erasure[at, step] for _, at in erased(part, name, step)]
    assert values(shown.locator(f".side.{name}").first.locator(".figure")) == close(falls)
    picture(shown, f"why-{step}")


def test_words_are_ordered_by_strength(show: Show, pieces: Record) -> None:
    shown = section(show(pieces), "why")
    check(shown, "strongest first")
    for side in shown.locator(".side.encoder").all():
        found = values(side.locator("tbody tr td:nth-child(2) .figure"))
        assert found == sorted(found, reverse=True) and len(found) > 1
    check(shown, "as in the text")
    said = list(bars(shown.locator(".sides").first, "encoder"))
    assert said == list(dict.fromkeys(stack(pieces.parts[0], "encoder").words))


def test_the_strongest_word_is_said(show: Show, pieces: Record) -> None:
    part = pieces.parts[0]
    page = show(pieces)
    shown = section(page, "why")
    for step in range(len(part.steps)):
        shown.get_by_role("group", name="Written token").get_by_role("button").nth(step).click()
        fall = max(
            contributions(part).written_erasure[at, step]
            for name in ("encoder", "decoder")
            for _, at in erased(part, name, step)
        )
        line = shown.locator(".readout").inner_text()
        if fall <= 0:
            assert line.startswith("No single word is missed")
        else:
            assert value(re.findall(r"falls by (.+?) nats", line)[0]) == near(fall)
            after = value(re.findall(r"to ([^ ]+\s%)", line)[0])
            assert after == pytest.approx(math.exp(part.steps[step].log_prob - fall), rel=0.06, abs=1e-6)


def plain(piece: str) -> str:
    return piece.replace("▁", " ").strip()


def test_why_this_rather_than_that_is_answered_for_every_candidate(show: Show, pieces: Record) -> None:
    part, step = pieces.parts[0], 1
    shown = section(show(pieces), "why")
    shown.get_by_role("group", name="Written token").get_by_role("button").nth(step).click()
    written, found = part.steps[step].token, contributions(part)
    lead = [part.steps[step].log_prob - each.log_prob for each in part.steps[step].candidates]
    chips = shown.get_by_role("group", name="Tokens that could have been written").get_by_role("button")
    others = [c for c, candidate in enumerate(part.steps[step].candidates) if candidate.id != written.id]
    assert chips.count() == len(others)
    for chip, c in enumerate(others):
        chips.nth(chip).click()
        table = shown.locator(".sides").last
        for name in ("encoder", "decoder"):
            differences = [
                found.written_erasure[at, step] - found.erasure[at, step, c] for _, at in erased(part, name, step)
            ]
            column = values(table.locator(f".side.{name} td:nth-child(2) .figure"))
            assert column == pytest.approx([float(x) for x in differences], rel=CLOSE, abs=2e-4)
        assert chips.nth(chip).get_attribute("aria-pressed") == "true"
        verdict = shown.locator(".verdict").inner_text()
        figures = re.findall(r"(?:lead of|trails by) (\S+(?: × \S+)?) nats", verdict)
        assert value(figures[0]) == pytest.approx(abs(lead[c]), rel=CLOSE, abs=2e-4)
        fall = max(
            found.written_erasure[at, step] - found.erasure[at, step, c]
            for name in ("encoder", "decoder")
            for _, at in erased(part, name, step)
        )
        said = re.findall(r"(?:falls|it trails) by ([^ ,:]+?)(?:: then| to | more)", verdict)
        assert [value(each) for each in said] == pytest.approx([float(fall)] if fall > 0 else [], rel=CLOSE, abs=2e-4)
        left = re.findall(r"(?:would lead by| to) (\S+?)[.]$", verdict)
        rest = [abs(lead[c] - float(fall))] if fall > 0 and lead[c] >= 0 else []
        assert [value(each) for each in left] == pytest.approx(rest, rel=CLOSE, abs=4e-4)
        assert ("would lead by" in verdict) == (fall > lead[c] >= 0)
    typed = shown.locator("input[list]")
    typed.fill(plain(written.text))
    typed.press("Tab")
    assert "is what was written" in shown.locator(".verdict").inner_text()


def test_the_question_opens_with_the_runner_up_and_can_be_typed(show: Show, pieces: Record) -> None:
    page, part = show(pieces), pieces.parts[0]
    shown = section(page, "why")
    field = shown.get_by_role("combobox")
    rival = next(each for each in part.steps[0].candidates if each.id != part.steps[0].token.id)
    assert field.input_value() in (plain(rival.text), rival.text.replace("▁", "␣"))
    offered = [option.get_attribute("value") for option in shown.locator("datalist option").all()]
    assert len(offered) == len(part.steps[0].candidates) - 1
    field.fill(str(offered[-1]).upper())
    field.press("Enter")
    assert "rather than" in shown.locator(".verdict").inner_text()
    field.fill("")
    field.press("Enter")
    assert "Type another token" in shown.locator(".verdict").inner_text()


def test_a_token_that_was_not_recorded_gets_a_command(show: Show, pieces: Record) -> None:
    shown = section(show(pieces), "why")
    field = shown.get_by_role("combobox")
    field.fill("zebra's")
    field.press("Tab")
    assert "“zebra's” is not among the 10 likeliest tokens" in shown.locator(".verdict").inner_text()
    word = pieces.parts[0].written[pieces.parts[0].steps[0].token.word or 0]
    command = shown.locator("code").inner_text()
    assert command.startswith(f'dragoman explain "{pieces.model}" "{SENTENCE}" --instead "{word}')
    assert command.endswith("=zebra's\"")


def test_a_language_model_has_the_text_so_far_alone(show: Show, text: Record) -> None:
    part = text.parts[0]
    shown = section(show(text), "why")
    assert "nothing to erase" in shown.locator(".side.decoder").first.inner_text()
    assert "no word yet to erase" in shown.locator(".verdict").inner_text()
    shown.get_by_role("group", name="Token that came next").get_by_role("button").nth(3).click()
    assert shown.locator(".side.encoder").count() == 0
    falls = [contributions(part).written_erasure[at, 3] for _, at in erased(part, "decoder", 3)]
    assert values(shown.locator(".side.decoder").first.locator(".figure")) == close(falls)


# ---- layers ----


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_lengths_are_the_recorded_norms(show: Show, pieces: Record, name: str, picture: Picture) -> None:
    shown = section(show(pieces), "layers")
    check(shown, name)
    shown.get_by_role("group", name="Token", exact=True).get_by_role("button").nth(1).click()
    read = stack(pieces.parts[0], name)
    inside = [norm[1] for layer in read.layers for norm in layer.norms.values()]
    expected = [np.linalg.norm(read.entering[1]), *inside, read.norms[1]]
    assert values(shown.locator("table.lengths .figure")) == close(expected)
    shown.get_by_text("The lengths of all tokens").click()
    rows = shown.locator("table.all-lengths tbody tr")
    rows.first.wait_for()
    assert rows.count() == len(read.tokens)
    assert values(rows.nth(1).locator("td")) == close(expected)
    picture(shown, f"layers-{name}")


def test_units_are_the_recorded_ones(show: Show, pieces: Record) -> None:
    page = show(pieces)
    shown = section(page, "layers")
    check(shown, "encoder")
    choose(shown, "Layer", "layer 1")
    shown.get_by_role("group", name="Token", exact=True).get_by_role("button").nth(2).click()
    units = stack(pieces.parts[0], "encoder").layers[1].units
    names = shown.locator("table.units th[scope=row]").all_inner_texts()
    assert names == [f"unit {unit}" for unit in units.unit[2]]
    assert values(shown.locator("table.units .figure")) == close(units.value[2])
    others = [int((np.delete(units.unit, 2, axis=0) == unit).any(1).sum()) for unit in units.unit[2]]
    rows = shown.locator("table.units tbody tr").all()
    assert [row.locator(".token").count() for row in rows] == others


@pytest.mark.parametrize("which", ["pieces", "words"])
def test_every_projection_is_multiplied_out(
    show: Show, request: pytest.FixtureRequest, which: str, picture: Picture
) -> None:
    """With and without biases; sums stand beside the recorded queries, keys and values where nothing turned these."""
    found: Record = request.getfixturevalue(which)
    shown = section(show(found), "layers")
    for matrix in found.parts[0].matrices:
        _, sublayer, kind = matrix.name.rsplit(".", 2)
        label = f"{sublayer.replace('_attention', '-attention').replace('_', '-')}, {kind}"
        choose(shown, "Projection", label)
        shown.get_by_role("group", name="Token that is projected").get_by_role("button").nth(1).click()
        feature = len(matrix.weight) - 1
        shown.get_by_label(re.compile("Output feature")).fill(str(feature))
        shown.get_by_label(re.compile("Output feature")).press("Enter")
        table = shown.locator("table.projection")
        product = float(matrix.input[1] @ matrix.weight[feature])
        assert value(table.locator(".sum").inner_text()) == pytest.approx(product, rel=CLOSE, abs=1e-4)
        biased = product + (0.0 if matrix.bias is None else float(matrix.bias[feature]))
        assert value(table.locator(".result").inner_text()) == pytest.approx(biased, rel=CLOSE, abs=1e-4)
        parts = values(table.locator("tbody .figure")) + values(table.locator(".rest"))
        assert sum(parts) == pytest.approx(product, abs=5e-3)
        turned = sublayer == "self_attention" and found.settings["positions"] == "rotary" and kind != "value"
        if kind in ("query", "key", "value") and not turned:
            assert value(table.locator(".recorded").inner_text()) == pytest.approx(biased, rel=CLOSE, abs=1e-4)
        else:
            assert table.locator(".recorded").count() == 0
    picture(shown, f"projection-{which}")


def test_all_products_of_a_projection_can_be_shown(show: Show, pieces: Record) -> None:
    shown = section(show(pieces), "layers")
    matrix = pieces.parts[0].matrices[0]
    shown.get_by_label(re.compile("Show all")).check()
    terms = matrix.input[0] * matrix.weight[0]
    assert values(shown.locator("table.projection tbody .figure")) == close(terms)


@pytest.mark.parametrize(("typed", "taken"), [("999", "15"), ("-3", "0"), ("", "0")])
def test_a_feature_that_does_not_exist_is_the_nearest(show: Show, pieces: Record, typed: str, taken: str) -> None:
    field = section(show(pieces), "layers").get_by_label(re.compile("Output feature"))
    field.fill(typed)
    field.press("Enter")
    assert field.input_value() == taken


def test_a_page_without_weights_says_how_to_get_them(show: Show, text: Record) -> None:
    shown = section(show(text), "layers")
    choose(shown, "Layer", "layer 1")
    assert "--weights decoder.1" in shown.inner_text()
    assert shown.get_by_label("encoder").count() == 0


# ---- positions ----


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_what_is_added_is_what_was_recorded(show: Show, words: Record, name: str, picture: Picture) -> None:
    shown = section(show(words), "positions")
    check(shown, name)
    own = shown.locator(".positions-picture").first
    slide(own, "Position", 3)
    slide(own, "Feature", 5)
    positions = stack(words.parts[0], name).positions
    assert positions is not None
    assert value(own.locator("b").inner_text()) == near(positions[3, 5])
    assert own.locator("canvas").evaluate("canvas => [canvas.height, canvas.width]") == list(positions.shape)
    own.locator("canvas").click(position={"x": 1, "y": 1})
    assert value(own.locator("b").inner_text()) == near(positions[0, 0])
    picture(shown, "positions-added")


def test_the_sinusoids_of_the_formula_are_those_of_the_model(show: Show, words: Record) -> None:
    shown = section(show(words), "positions")
    positions = stack(words.parts[0], "encoder").positions
    assert positions is not None
    slide(shown.locator(".controls").last, "Position", 4)
    products = shown.locator("b.product").inner_text()
    assert value(products) == near(float(positions[4] @ positions[5]))


@pytest.mark.parametrize(("base", "width"), [(10, 8), (1_000, 64), (1_000_000, 128)])
def test_turning_base_and_width_changes_the_waves(show: Show, pieces: Record, base: int, width: int) -> None:
    shown = section(show(pieces), "positions")
    slide(shown, "Base", math.log10(base))
    slide(shown, "Width", width)
    controls = shown.locator(".controls").last
    slide(controls, "Position", 10)
    slide(controls, "Pair", 2)
    frequency = base ** (-2 * np.arange(width // 2) / width)
    assert value(shown.locator("b.product").inner_text()) == near(np.cos(frequency).sum())
    angle = 10 * frequency[2]
    assert values(shown.locator(".rotation b")) == pytest.approx(
        [math.cos(angle), math.sin(angle)], rel=CLOSE, abs=1e-5
    )
    assert f"Base {base:,}" in controls.inner_text()
    waves = re.findall(r"feature (\d+): one wave is (.+?) positions", shown.inner_text())
    for feature, length in waves:
        assert value(length) == near(2 * math.pi / frequency[int(feature) // 2])
    assert [int(feature) for feature, _ in waves][-1] == width - 2


def test_rotary_angles_are_drawn(show: Show, pieces: Record, picture: Picture) -> None:
    shown = section(show(pieces), "positions")
    slide(shown.locator(".controls").first, "Position", 3)
    settings = pieces.settings
    width = settings["d_model"] // settings["heads"]
    angles = 3 * settings["position_base"] ** (-2 * np.arange(width // 2) / width)
    dials = shown.locator(".dials").first.locator(".angle").all_inner_texts()
    assert [value(each.removesuffix("°")) for each in dials] == close(np.degrees(angles) % 360)
    assert "nothing to its tokens" in shown.inner_text()
    picture(shown, "positions-rotary")


# ---- all of them ----


@pytest.mark.parametrize("which", ["pieces", "words", "text"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_does_not_scroll_sideways(
    show: Show, request: pytest.FixtureRequest, which: str, scheme: str, picture: Picture
) -> None:
    page = show(request.getfixturevalue(which), width=360, color_scheme=scheme)
    for name in OWN:
        if page.locator(f"#{name}").is_visible():
            picture(section(page, name), f"narrow-{which}-{scheme}-{name}")
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, name


def test_a_language_model_has_no_alignment(show: Show, text: Record) -> None:
    page = show(text)
    visible = [name for name in OWN if page.locator(f"#{name}").is_visible()]
    assert visible == ["why", "attention", "layers", "positions"]


def test_a_model_without_a_decoder_is_shown_as_far_as_it_goes(show: Show, pieces: Record) -> None:
    facts = copy.deepcopy(pieces.facts(pack))
    part = facts["parts"][0]
    part |= {"stacks": part["stacks"][:1], "steps": [], "written": [], "searches": [], "matrices": []}
    part |= {"alignment": None, "contributions": None, "target": ""}
    page = show(facts)
    visible = [name for name in OWN if page.locator(f"#{name}").is_visible()]
    assert visible == ["attention", "layers", "positions"]
    assert all(section(page, name).locator(".body > *").count() for name in visible)
    assert chosen(page.locator("#attention"), "Attention") == "encoder, self-attention"


@pytest.mark.parametrize("which", ["pieces", "words", "text"])
def test_every_control_has_a_name(show: Show, request: pytest.FixtureRequest, which: str) -> None:
    page = show(request.getfixturevalue(which))
    page.evaluate("page.openAll()")
    for name in OWN:
        for control in page.locator(f"#{name}").locator("button, a, input, select, canvas, [tabindex='0']").all():
            if control.is_visible():
                named = re.match(r"- '?[a-z]+ [\"/]", control.aria_snapshot())
                assert named or control.get_attribute("aria-hidden"), control.evaluate("e => e.outerHTML")


@pytest.mark.parametrize("which", ["pieces", "text"])
def test_tab_walks_through_every_section_and_out_again(show: Show, request: pytest.FixtureRequest, which: str) -> None:
    page = show(request.getfixturevalue(which))
    for name in OWN:
        if not page.locator(f"#{name}").is_visible():
            continue
        section(page, name).locator("h2 button").focus()
        inside = f"document.getElementById('{name}').contains(document.activeElement)"
        stops = 0
        while page.evaluate(inside) and stops < 60:
            page.keyboard.press("Tab")
            stops += 1
        assert 2 < stops < 60, name
        section(page, name).locator("h2 button").click()


def test_everything_is_printed(show: Show, pieces: Record) -> None:
    page = show(pieces)
    page.emulate_media(media="print")
    page.evaluate("page.openAll()")
    for name in OWN:
        assert page.locator(f"#{name}-body").is_visible()
        assert page.locator(f"#{name} .controls:visible").count() == 0


def test_hostile_words_stay_text(show: Show, pieces: Record) -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    facts = copy.deepcopy(pieces.facts(pack))
    part = facts["parts"][0]
    part["written"] = [hostile] * len(part["written"])
    part["alignment"]["how"] = hostile
    for each in part["stacks"]:
        each["words"] = [hostile] * len(each["words"])
        for token in each["tokens"]:
            token["text"] = hostile
    for step in part["steps"]:
        for token in (step["token"], *step["candidates"]):
            token["text"] = hostile
    page = show(facts)
    page.evaluate("page.openAll()")
    assert page.locator("img").count() == 0
    assert hostile in page.locator("#alignment .how").inner_text()
    field = page.locator("#why").get_by_role("combobox")
    field.fill("<b>")
    field.press("Enter")
    assert "“<b>” is not among" in page.locator("#why .verdict").inner_text()
