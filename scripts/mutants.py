"""Small faults planted in the code, one at a time: does `make test` notice them?

    python scripts/mutants.py [--count 60] [--seed 1] [--out mutants.json]
    python scripts/mutants.py --try mutants.json --tests OTHER_CHECKOUT    # the survivors, under the tests of another

A seeded draw picks places in the functions of `TARGETS`, evenly over the subjects. At each, one operator changes: a
comparison, a sum, a product, `and`, a condition, or a number. The tests run in a clone of the checkout and stop at the
first failure. Those that import the mutated file, or lie in the folder of its room, come first; the others follow only
if these pass. What survives is a fault that nobody would notice, a change that changes nothing, or a place that only
`make test-all` reaches.
"""

import argparse
import ast
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
TARGETS = {
    "loss": ["training/loss.py", "training/objective.py"],
    "masks": ["model/attention_backends.py", "model/packing.py", "training/masking.py"],
    "cache": ["model/cache.py", "model/attention_backends.py"],
    "beam": ["decoding/beam.py", "decoding/batched_beam.py", "decoding/engine.py", "decoding/hypothesis.py"],
    "sampling": ["decoding/sampling.py"],
    "resume": ["training/checkpoint.py", "runs/session.py", "inference/resumable.py"],
    "files": ["files.py", "store/manifest.py"],
    "split": ["text/split.py"],
    "metrics": ["evaluating/metrics.py", "evaluating/label_metrics.py"],
    "significance": ["evaluating/significance.py"],
    "adapters": ["model/adapters.py", "store/adapters.py"],
    "export": ["exporting/ctranslate2.py", "store/marian.py", "exporting/proof.py"],
}
"""Files of the package by subject."""
SWAPS: dict[type[ast.AST], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
    ast.FloorDiv: "*", ast.Mod: "*", ast.And: "or", ast.Or: "and",
}  # fmt: skip
MAKE_TEST = "not thorough and not browser"
"""What `make test` runs."""
SECONDS = 1_200
"""After which a run counts as a failure: the fault made something endless."""


class Mutant(NamedTuple):
    """One fault: in `file` of the package, `before` becomes `after`, at a column of the line that reads `text`."""

    subject: str
    file: str
    line: int
    text: str
    column: int
    before: str
    after: str

    def planted(self, source: str) -> str | None:
        """The source with this fault; None if it has no such line. Of several, the nearest counts."""
        starts = line_starts(source)
        alike = [at for at, start in enumerate(starts) if source[start:].startswith(f"{self.text}\n")]
        if not alike:
            return None
        start = starts[min(alike, key=lambda at: abs(at + 1 - self.line))] + self.column
        end = start + len(self.before)
        return f"{source[:start]}{self.after}{source[end:]}" if source[start:end] == self.before else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--try", dest="tried", type=Path, help="try the survivors in this file again")
    parser.add_argument("--tests", type=Path, default=ROOT, help="the checkout whose code and tests are used")
    options = parser.parse_args()
    if options.tried:
        known = json.loads(options.tried.read_text("utf-8"))
        mutants = [Mutant(**{name: row[name] for name in Mutant._fields}) for row in known if not row["caught_by"]]
    else:
        mutants = drawn(options.count, options.seed)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="dragoman-mutants-") as scratch:
        place = Path(scratch) / "dragoman"
        subprocess.run(["git", "clone", "--quiet", options.tests, place], check=True)
        (Path(scratch) / "shared").symlink_to((options.tests.parent / "shared").resolve())  # real data, if there is any
        for mutant in mutants:
            caught = noticed(mutant, place)
            rows.append({**mutant._asdict(), "caught_by": caught})
            where = f"{mutant.subject}: {mutant.file}:{mutant.line}: {mutant.before} -> {mutant.after}"
            print(f"{len(rows)}/{len(mutants)} {where}: {caught or 'SURVIVED'}", flush=True)
            if options.out:
                options.out.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    survived = sum(not row["caught_by"] for row in rows)
    print(f"{len(rows) - survived} passed, {survived} failed")


def drawn(count: int, seed: int) -> list[Mutant]:
    """As many mutants of each subject, up to one, at places that the seed decides."""
    draw, chosen = random.Random(seed), list[Mutant]()
    subjects = list(TARGETS)
    for number, subject in enumerate(subjects):
        possible = [mutant for file in TARGETS[subject] for mutant in mutants_of(subject, file)]
        share = count * (number + 1) // len(subjects) - count * number // len(subjects)
        chosen += draw.sample(possible, min(share, len(possible)))
    return chosen


def mutants_of(subject: str, file: str) -> Iterator[Mutant]:
    """Every possible fault in the functions of a file."""
    source = (ROOT / "src" / "dragoman" / file).read_text("utf-8")
    starts = line_starts(source)

    def place(line: int, column: int) -> int:
        text = source[starts[line - 1] :].encode()[:column]
        return starts[line - 1] + len(text.decode())

    def span(node: Any) -> tuple[int, int]:
        return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)

    functions = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef)]
    seen: set[tuple[int, int]] = set()
    for node in (inner for function in functions for part in function.body for inner in ast.walk(part)):
        for start, end, after in changes(node, span, source):
            if (start, end) not in seen:
                seen.add((start, end))
                at = source.count("\n", 0, start)
                text = source[starts[at] :].partition("\n")[0]
                yield Mutant(subject, file, at + 1, text, start - starts[at], source[start:end], after)


def line_starts(source: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", source))]


def changes(node: ast.AST, span: Any, source: str) -> Iterator[tuple[int, int, str]]:
    """From where to where the source changes for this node, and into what."""

    def operator(left: ast.AST, right: ast.AST, kind: ast.AST) -> Iterator[tuple[int, int, str]]:
        start, end = span(left)[1], span(right)[0]
        text = source[start:end]
        found = re.search(r"[<>=!+\-*/%]+|\b(?:not in|is not|in|is|and|or)\b", text)
        if found and type(kind) in SWAPS and "#" not in text:
            yield start + found.start(), start + found.end(), SWAPS[type(kind)]

    if isinstance(node, ast.Compare):
        yield from operator(node.left, node.comparators[0], node.ops[0])
    elif isinstance(node, ast.BinOp):
        yield from operator(node.left, node.right, node.op)
    elif isinstance(node, ast.BoolOp):
        yield from operator(node.values[0], node.values[1], node.op)
    elif isinstance(node, (ast.If, ast.IfExp)):
        start, end = span(node.test)
        yield start, end, f"not ({source[start:end]})"
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        start, end = span(node)
        yield start, end, f"({source[start:end]} + 1)"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        start, end = span(node)[0], span(node.operand)[0]
        yield start, end, source[start:end].lstrip("-").removeprefix("not")


def noticed(mutant: Mutant, place: Path) -> str | None:
    """Which test notices the fault; None if none does. A place that the checkout lacks counts as noticed."""
    path = place / "src" / "dragoman" / mutant.file
    source = path.read_text("utf-8") if path.exists() else ""
    if (faulty := mutant.planted(source)) is None:
        return "not in this checkout"
    path.write_text(faulty, encoding="utf-8")
    try:
        first, others = tests_by_import(mutant.file, place)
        return failure(first, place) or failure(others, place)
    finally:
        path.write_text(source, encoding="utf-8")


def tests_by_import(file: str, place: Path) -> tuple[list[str], list[str]]:
    """The test files that import a file of the package or mirror its room, and the others."""
    module = "dragoman." + file.removesuffix(".py").replace("/", ".")
    room, _, name = module.rpartition(".")
    imports = re.compile(rf"\b{re.escape(module)}\b|from {re.escape(room)} import .*\b{name}\b")
    files = sorted(path for path in (place / "tests").rglob("test_*.py") if "browser" not in path.parts)
    near = [
        path for path in files if path.parent.name == room.rpartition(".")[2] or imports.search(path.read_text("utf-8"))
    ]
    return [str(path) for path in near], [str(path) for path in files if path not in near]


def failure(tests: Sequence[str], place: Path) -> str | None:
    """The first test that fails, or how the run ended otherwise; None if all pass."""
    if not tests:
        return None
    workers = ["-n", "2", "--dist", "loadfile"] if len(tests) > 4 else []
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", MAKE_TEST, *workers, *tests]
    environment = {**os.environ, "PYTHONPATH": str(place / "src")}
    try:
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"more than {SECONDS} seconds"
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return None if done.returncode in (0, 5) else found[1] if found else f"exit code {done.returncode}"


if __name__ == "__main__":
    main()
