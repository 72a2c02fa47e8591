"""scripts/check_english.py: a bad docstring fails, a good one passes, and the list of exceptions only shrinks."""

import subprocess
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

Check = Callable[..., tuple[int, str]]

GOOD = '''"""Counting of words."""


class Counter:
    """A counter of words."""

    limit: int = 3
    """Largest number of words to count."""


def count(text: str) -> int:
    """Return the number of words, outstanding ones included."""
    return len(text.split())
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src/words.py").write_text(GOOD)
    return tmp_path


@pytest.fixture
def check(tree: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    spec = spec_from_file_location("check_english", Path(__file__).parents[2] / "scripts" / "check_english.py")
    assert spec and spec.loader
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    return lambda *arguments: (script.main(["--root", str(tree), *arguments]), capsys.readouterr().out)


def test_plain_english_passes(check: Check):
    assert check() == (0, "")


@pytest.mark.parametrize(
    ("good", "bad", "report"),
    [
        ("Return the number", "The number", "src/words.py:12: rule-1: count starts with 'The', not a verb"),
        ("Return the number", "Returns the number", "src/words.py:12: rule-1: count starts with 'Returns', not a verb"),
        ("Largest number", "How many", "src/words.py:8: rule-1: docstring starts with 'How'"),
        ("outstanding ones", "as\n    many", "src/words.py:12: rule-4: word 'as many'"),
        ("return len(text.split())", "return 1  # told by no one", "src/words.py:13: rule-4: word 'told'"),
        ("return len(text.split())", "return sum(1 for each in text)", "src/words.py:13: rule-4: name 'each'"),
        ("def count(", "def of_text(", "src/words.py:11: rule-4: name 'of_text'"),
    ],
)
def test_a_violation_is_reported_with_its_line(tree: Path, check: Check, good: str, bad: str, report: str):
    (tree / "src/words.py").write_text(GOOD.replace(good, bad))
    status, output = check()
    assert status == 1
    assert report in output.splitlines()


def test_a_class_name_is_defined_once(tree: Path, check: Check):
    (tree / "src/_more.py").write_text('class _Counter:\n    """A counter."""\n')
    status, output = check()
    assert status == 1
    assert "src/words.py:4: rule-5" in output
    assert "src/_more.py:1: rule-5" in output


def test_code_in_markdown_is_left_out(tree: Path, check: Check):
    (tree / "README.md").write_text("`told`\n\n```\nso many\n```\nThe proxy\nin front. Left behind, behind a proxy.\n")
    assert check() == (0, "")
    (tree / "README.md").write_text("```\nso many\n```\n\nIt stands.\n")
    assert "README.md:5: rule-4: word 'stands'" in check()[1]


def test_cells_of_the_guide_are_checked_except_for_names(tree: Path, check: Check):
    words = "so-many", "to-ld"
    several, reported = words[0].replace("-", " "), words[1].replace("-", "")  # this file is checked, too
    cell = (
        f'```{{code-cell}}\n:tags: [hide-input]\ndef f(each):\n    """The sum."""\n    return "{several}", each\n```\n'
    )
    (tree / "docs/guide").mkdir(parents=True)
    (tree / "docs/guide/01-sums.md").write_text(f"# Sums\n\n{cell}\nIt is {reported}.\n")
    status, report = check("docs")
    assert status == 1
    assert sorted(report.splitlines()) == [
        "3 violations",
        f"docs/guide/01-sums.md:10: rule-4: word '{reported}'",
        "docs/guide/01-sums.md:6: rule-1: f starts with 'The', not a verb",
        f"docs/guide/01-sums.md:7: rule-4: word '{several}'",
    ]


def test_exceptions_only_shrink(tree: Path, check: Check):
    file = tree / "src/words.py"
    file.write_text(GOOD.replace("Return the", "The") + "\n# told\n# told\n")
    assert check("--update") == (0, "")  # creates the list
    exceptions = tree / "scripts/english_exceptions.txt"
    assert exceptions.read_text() == "src/words.py rule-1 1\nsrc/words.py rule-4 2\n"
    assert check()[0] == 0
    assert check("src")[0] == 1  # a named path reports its exceptions too

    file.write_text(file.read_text() + "# told\n")
    assert check("--update")[0] == 1  # does not raise a count
    assert "src/words.py rule-4 2" in exceptions.read_text()

    file.write_text(GOOD + "\n# told\n")
    status, output = check()
    assert status == 1
    assert "src/words.py rule-4: 1, listed 2" in output
    assert check("--update") == (0, "")
    assert exceptions.read_text() == "src/words.py rule-4 1\n"
