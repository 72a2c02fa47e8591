"""The page of a report: hostile text stays text, nothing is loaded, and its JSON is read again as it was."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from small_reports import HOSTILE, some_report

from dragoman.config import read_json_as
from dragoman.errors import DataError
from dragoman.evaluating.report_page import render_report
from dragoman.evaluating.trust_report import FORMAT, TrustReport
from dragoman.serialization import write_json


class Collector(HTMLParser):
    """Collects the tags of a page, their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("is_document", [False, True])
def test_hostile_text_is_only_text(is_document: bool) -> None:
    hostile, harmless = (
        Collector(render_report(some_report(text, is_document))) for text in (HOSTILE, "a harmless text")
    )
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in harmless.tags]
    assert [attributes.keys() for _, attributes in hostile.tags] == [
        attributes.keys() for _, attributes in harmless.tags
    ]
    assert HOSTILE in "".join(hostile.words)


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    tags = Collector(render_report(some_report("text"))).tags
    assert not {"script", "img", "iframe", "object", "form", "base"} & {tag for tag, _ in tags}
    links = [value for _, attributes in tags for name, value in attributes.items() if name in ("href", "src")]
    assert all(value and value.startswith(("#", "data:")) for value in links)
    assert not any(name.startswith("on") for _, attributes in tags for name in attributes)
    (policy,) = (own["content"] for tag, own in tags if tag == "meta" and own.get("http-equiv"))
    assert policy and policy.startswith("default-src 'none'") and "script-src" not in policy


def test_every_link_within_the_page_leads_to_a_section() -> None:
    page = render_report(some_report("text"))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'id="([^"]+)"', page))


def test_the_verdict_names_a_better_baseline_and_what_was_not_tested() -> None:
    words = " ".join("".join(Collector(render_report(some_report("text"))).words).split())
    verdict, _, rest = words.partition("Scores")
    assert "test.jsonl has 3 texts, too few to decide." in verdict
    assert "Do not use it: the closest training sentence is better" in verdict
    assert "2 of its 3 sentences are in the training text" in verdict
    untested = rest.partition("What it was not tested on")[2]
    assert "no list of terms was given" in untested and "COMET" in untested and "too few" in untested


def test_the_json_is_read_again(tmp_path: Path) -> None:
    report = some_report(HOSTILE)
    write_json(tmp_path / "report.json", report.model_dump(mode="json"))
    assert read_json_as(tmp_path / "report.json", TrustReport, FORMAT, error=DataError) == report
    write_json(tmp_path / "report.json", {**report.model_dump(mode="json"), "format": 2})
    with pytest.raises(DataError, match="format"):
        read_json_as(tmp_path / "report.json", TrustReport, FORMAT, error=DataError)
