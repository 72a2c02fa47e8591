"""The page of a report in Chromium: in light and dark, at 360 pixels, on paper, and without JavaScript."""

from collections.abc import Callable
from typing import Any

import pytest
from contrasts import CONTRASTS
from small_reports import HOSTILE, some_report

from dragoman.evaluating.report_page import render_report


@pytest.mark.browser
@pytest.mark.parametrize("is_document", [False, True])
@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark"}, {"java_script_enabled": False}], ids=str)
@pytest.mark.parametrize("width", [360, 1000])
def test_the_page_fits_and_is_readable(
    show: Callable[..., Any], picture: Callable[..., None], width: int, options: dict[str, Any], is_document: bool
) -> None:
    page = show(render_report(some_report(HOSTILE, is_document)), width=width, **options)
    assert page.locator("h1").is_visible() and page.locator("#untested + ul li").count() > 2
    picture(page, f"report-{'document' if is_document else 'model'}-{width}-{'-'.join(map(str, options.values()))}")
    page.locator("summary").last.click()
    assert page.locator("details").last.get_attribute("open") is not None
    if "java_script_enabled" in options:
        return
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRASTS, "header, main, footer") == []


@pytest.mark.browser
def test_the_page_prints(show: Callable[..., Any]) -> None:
    page = show(render_report(some_report("a text")), color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf().startswith(b"%PDF")
