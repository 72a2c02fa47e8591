"""The documents: what they name exists, and the pages that promise to be short are."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import dragoman
from dragoman.cli.main import COMMANDS
from dragoman.cli.options import build

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for folder in (ROOT, ROOT / "docs", ROOT / "benchmarks", ROOT / "benchmarks/results")
    for path in folder.glob("*.md")
)
HOMES = (ROOT, ROOT / "src/dragoman", ROOT / "benchmarks", ROOT / "benchmarks/results")
"""Folders that a path may start from."""
MADE = re.compile(r"^(runs/|parts/|data/|my\.toml|recipe\.toml)")
"""What stands in a run or in examples, not in the repository."""


def code(page: Path) -> Iterator[str]:
    """The lines of code blocks, and what stands between backticks."""
    prose, *blocks = re.split(r"^```\w*\n(.*?)^```$", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for index, part in enumerate([prose, *blocks]):
        yield from part.replace("\\\n", " ").splitlines() if index % 2 else re.findall(r"`([^`]+)`", part)


def anchors(page: Path) -> set[str]:
    """The headings of a page as a code host links them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
        if not link.startswith("http"):
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = {word for word in code(page) if re.fullmatch(r"[\w./-]+/[\w.-]+\.(py|cpp|toml|md|json|png)", word)}
    missing = [name for name in named if not MADE.match(name) and not any((home / name).exists() for home in HOMES)]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_line_is_understood(page: Path) -> None:
    commands = {function.__name__.replace("_", "-"): function for function in COMMANDS}
    for line in code(page):
        command = re.search(r"(?:^|\| |-m )dragoman ([a-z][a-z-]*) ?(.*)", line.partition("  #")[0])
        if command is None:
            continue
        name, rest = command.groups()
        assert name in commands, line
        known = {"--help"} | {option for parameter in build(commands[name]).params for option in parameter.opts}
        options = [word for word in shlex.split(rest) if re.fullmatch("--[a-z-]+", word)]
        assert set(options) <= known, line


def test_short_pages_are_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < 110
    assert len((ROOT / "ARCHITECTURE.md").read_text("utf-8").split()) <= 1_500
    assert len((ROOT / "LOG.md").read_text("utf-8").split()) <= 8_000
    assert len((ROOT / "benchmarks/README.md").read_text("utf-8").split()) <= 5_800


def test_each_question_of_the_log_has_an_entry() -> None:
    log = (ROOT / "LOG.md").read_text("utf-8")
    questions = re.findall(r"^\| ([A-Z]\d+) \| ([^|]+?) \|", log, re.MULTILINE)
    assert questions == re.findall(r"^\*\*([A-Z]\d+)\. (.+?)\*\*", log, re.MULTILINE)


def test_an_entry_of_the_log_is_short() -> None:
    entries = re.findall(
        r"^\*\*[A-Z]\d+\..*?(?=\n\n|\Z)", (ROOT / "LOG.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert max(len(entry.splitlines()) for entry in entries) <= 4


def test_the_reference_lists_the_functions_of_all_commands() -> None:
    reference = (ROOT / "docs" / "settings.md").read_text("utf-8")
    section = reference.partition("## Commands and functions\n")[2].partition("\n## ")[0]
    names = re.findall(r"`([a-z_]+)`", section.partition("Exceptions: ")[2])
    commands = {function.__name__ for function in COMMANDS}
    assert {name for name in names if name not in dragoman.__all__} == commands - set(dragoman.__all__)
