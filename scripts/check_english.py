"""Check the English of docstrings, names, comments, messages and pages: part of `make check`.

    .venv/bin/python scripts/check_english.py                       everything, except what english_exceptions.txt lists
    .venv/bin/python scripts/check_english.py src/dragoman/model    every violation in these paths, also the listed ones
    .venv/bin/python scripts/check_english.py --update              lower the listed counts to what is left

    rule-1   a docstring starts with a noun, or with a verb in the imperative if it is a function's
    rule-4   words and names of our old dialect are not used
    rule-5   a class name is defined once in the package; solutions of the workshop have names of their own

A function's first word is in english_verbs.txt; properties and tests may start with a noun. Of the cells of the guide,
docstrings, other strings and comments are checked.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
VERBS = frozenset((HERE / "english_verbs.txt").read_text("utf-8").split())
EXCEPTIONS = "scripts/english_exceptions.txt"
PYTHON = ("src/", "tests/", "benchmarks/", "scripts/", "tools/", "docs/")
PROSE = re.compile(
    r"(README|CONTRIBUTING|ARCHITECTURE)\.md|docs/([^/]+|guide/[^/]+)\.md|(benchmarks|examples)/README\.md|src/.+\.(md|js|html|cpp|h)"
)
OPENER = re.compile(r"(What|Whether|How|Which|Those|That of|The same of|Of|Who|Whoever|Whose)\b")
BANNED = re.compile(
    r"\b(stands?|stood|told|tells|beside|behind|under way|mend(s|ed|ing)?|so many|as many|anew|unasked|alike|in turns"
    r"|at last|comes out|goes in|of its own)\b".replace(" ", r"\s+"),
    re.IGNORECASE,
)
ALLOWED = re.compile(r"left\s+behind|behind\s+((a|an|the|your)\s+)?(reverse\s+)?prox(y|ies)", re.IGNORECASE)
NAMES = frozenset(["each", "one", "other", "found", "given"])
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n((?::[^\n]*\n)*)(.*?)^```$", re.DOTALL | re.MULTILINE)
"""A cell of the guide: its options, and its code."""
CODE = re.compile(r"^ *(```|~~~).*?^ *\1|(`+).+?\2", re.DOTALL | re.MULTILINE)


class Violation(NamedTuple):
    """A line that breaks a rule, with the words that do."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def check_words(path: str, text: str, first_line: int = 1) -> Iterator[Violation]:
    """Yield the banned words in a text that starts at this line of its file."""
    allowed = [span.span() for span in ALLOWED.finditer(text)]
    for word in BANNED.finditer(text):
        if not any(start <= word.start() < end for start, end in allowed):
            line = first_line + text.count("\n", 0, word.start())
            yield Violation(path, line, "rule-4", f"word {' '.join(word[0].split())!r}")


def check_prose(path: str, text: str) -> Iterator[Violation]:
    """Yield the banned words of a file that is not Python; Markdown's code is left out, except the guide's cells."""
    if path.endswith(".md"):
        for cell in CELL.finditer(text):
            before = text.count("\n", 0, cell.start(2))
            for violation in check_cell(path, cell[2]):
                yield violation._replace(line=violation.line + before)
        text = CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
    yield from check_words(path, text)


def check_python(path: str, source: str, tree: ast.Module) -> Iterator[Violation]:
    """Yield the violations in docstrings, comments, string literals and names of a Python file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from check_words(path, node.value, node.lineno)
        elif name := _bound_name(node):
            yield Violation(path, getattr(node, "lineno", 1), "rule-4", f"name {name!r}")
        for line, docstring in _docstrings(node):
            if opener := OPENER.match(docstring.strip()):
                yield Violation(path, line, "rule-1", f"docstring starts with {opener[0]!r}")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _may_start_with_noun(node):
                first = (docstring.split() or [""])[0]
                if first.strip("`.,:;").lower() not in VERBS:
                    yield Violation(path, line, "rule-1", f"{node.name} starts with {first!r}, not a verb")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from check_words(path, token.string, token.start[0])


def check_cell(path: str, code: str) -> Iterator[Violation]:
    """Yield the violations in docstrings, other strings and comments of a cell; names are its own affair."""
    for violation in check_python(path, code, ast.parse(code)):
        if not violation.text.startswith("name "):
            yield violation


def _bound_name(node: ast.AST) -> str | None:
    """Return the banned name that a node binds, if any."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in NAMES:
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.lstrip("_").startswith("of_"):
            return name
    return None


def _docstrings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of a definition's docstring, and of those of a class's or module's attributes."""
    match node:
        case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
            statements = body[:1]
        case ast.Module(body=statements) | ast.ClassDef(body=statements):
            pass
        case _:
            return
    for statement in statements:
        match statement:
            case ast.Expr(value=ast.Constant(value=str(docstring), lineno=line)):
                yield line, docstring


def _may_start_with_noun(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in function.decorator_list}
    return function.name.startswith("test_") or bool(decorators & {"property", "cached_property"})


def check_classes(trees: dict[str, ast.Module]) -> Iterator[Violation]:
    """Yield the definitions of classes whose name has another definition in the package."""
    places: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append((path, node.lineno))
    for name, definitions in places.items():
        if len(definitions) > 1:
            files = ", ".join(sorted({path for path, _ in definitions}))
            for path, line in definitions:
                yield Violation(path, line, "rule-5", f"class {name!r} is defined {len(definitions)} times: {files}")


def check(root: Path) -> list[Violation]:
    """Return all violations in the files that git tracks or would track."""
    listed = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, check=True, capture_output=True, encoding="utf-8").stdout.splitlines()
    texts = {
        path: (root / path).read_text("utf-8")
        for path in sorted(set(files))
        if (PROSE.fullmatch(path) or (path.endswith(".py") and path.startswith(PYTHON))) and (root / path).is_file()
    }
    trees = {path: ast.parse(text) for path, text in texts.items() if path.endswith(".py")}
    package = {path: tree for path, tree in trees.items() if path.startswith("src/") and "/solutions/" not in path}
    violations = [*check_classes(package)]
    for path, text in texts.items():
        violations += check_python(path, text, trees[path]) if path in trees else check_prose(path, text)
    return sorted(violations)


def read_exceptions(file: Path) -> Counter[tuple[str, str]]:
    """Return the number of known violations for each file and rule."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return Counter({(path, rule): int(count) for path, rule, count in map(str.split, lines)})


def compare(violations: list[Violation], exceptions: Counter[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Return the violations in files with more than their exceptions, and the exceptions that are too high."""
    counts = Counter((violation.path, violation.rule) for violation in violations)
    new = [str(v) for v in violations if counts[v.path, v.rule] > exceptions[v.path, v.rule]]
    fixed = [
        f"{path} {rule}: {counts[path, rule]}, listed {listed}"
        for (path, rule), listed in exceptions.items()
        if counts[path, rule] < listed
    ]
    return new, fixed


def main(arguments: list[str] | None = None) -> int:
    """Report violations; return the exit status."""
    parser = argparse.ArgumentParser(description="Check the English of the code and its pages.")
    parser.add_argument("paths", nargs="*", help="list every violation in these files or folders, relative to the root")
    parser.add_argument("--root", type=Path, default=HERE.parent, help="the working tree to check")
    parser.add_argument("--update", action="store_true", help="lower the listed exceptions; create the list if absent")
    options = parser.parse_args(arguments)
    violations = check(options.root)
    if options.paths:
        paths = tuple(Path(path).as_posix() for path in options.paths)
        chosen = [str(v) for v in violations if any(v.path == path or v.path.startswith(f"{path}/") for path in paths)]
        print(*chosen, f"{len(chosen)} violations", sep="\n")
        return int(bool(chosen))
    file = options.root / EXCEPTIONS
    exceptions = read_exceptions(file)
    if options.update:
        counts = Counter((v.path, v.rule) for v in violations)
        exceptions = exceptions & counts if file.exists() else counts
        lines = [f"{path} {rule} {count}\n" for (path, rule), count in sorted(exceptions.items())]
        file.write_text("".join(lines), "utf-8")
    new, fixed = compare(violations, exceptions)
    print(*new, *fixed, sep="\n", end="\n" if new or fixed else "")
    if new:
        print(f"English: rewrite these lines (rules: {Path(__file__).name}, top).")
    if fixed:
        print("English: fewer violations than listed. Lower the list with: scripts/check_english.py --update")
    return int(bool(new or fixed))


if __name__ == "__main__":
    sys.exit(main())
