"""Do the tests pass on other machines? Runs them as far as this machine can imitate others: `make machines`.

    .venv/bin/python scripts/machines.py                      everything, in less than an hour on two cores
    .venv/bin/python scripts/machines.py --only onednn user   two of the parts:

    torch     the numerical tests with PyTorch's loops for older processors
    onednn    ... with oneDNN's matrix products for older processors
    kernels   ... with our kernels compiled for older processors, and without a compiler
    threads   ... on one thread and on two
    user      every test as a user who is not root, with a read-only home, in a folder with a space and an ü in its
              path, and with a newer Python if one is found (`--python PATH` names one)

Ends with a table, then with what was skipped or impossible, and why. Fails if a test failed.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PARTS = ("torch", "onednn", "kernels", "threads", "user")
NUMERICAL = [
    *("attention", "dropout", "families", "feed_forward", "kernels", "loss", "muon", "native", "native_step", "norms"),
    *("optimiser", "packing", "positions", "stepper", "translator"),
]
"""The test files that compare numbers: about two minutes together."""
WORKERS = ["-n", "auto", "--maxprocesses", "4", "--dist", "worksteal"]
NOBODY = 65_534


class Way(NamedTuple):
    """One setting of the numerical tests."""

    part: str
    name: str
    environment: Mapping[str, str]
    flag: str | None = None
    """The processor flag without which the setting would change nothing."""


def ways(empty: Path) -> list[Way]:
    """All settings. `empty` is a folder without programs, so without a compiler."""
    return [
        Way("torch", "PyTorch's loops without AVX", {"ATEN_CPU_CAPABILITY": "default"}, "avx2"),
        Way("torch", "PyTorch's loops with AVX2", {"ATEN_CPU_CAPABILITY": "avx2"}, "avx512f"),
        Way("onednn", "oneDNN with AVX2", {"ONEDNN_MAX_CPU_ISA": "AVX2"}, "avx512f"),
        Way("onednn", "oneDNN with AVX-512", {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, "avx512bw"),
        Way("onednn", "oneDNN with AMX", {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"}, "amx_tile"),
        Way("kernels", "kernels for AVX-512 without VNNI", {"DRAGOMAN_MARCH": "skylake-avx512"}, "avx512bw"),
        Way("kernels", "kernels for AVX-VNNI", {"DRAGOMAN_MARCH": "alderlake"}, "avx_vnni"),
        Way("kernels", "kernels for x86-64-v3", {"DRAGOMAN_MARCH": "x86-64-v3"}, "avx2"),
        Way("kernels", "kernels for x86-64", {"DRAGOMAN_MARCH": "x86-64"}, "avx"),
        Way("kernels", "without a compiler", {"PATH": str(empty)}),
        Way("threads", "as this machine is, one thread", {"OMP_NUM_THREADS": "1"}),
        Way("threads", "as this machine is, two threads", {"OMP_NUM_THREADS": "2"}),
    ]


@dataclass
class Row:
    """The result of one way to run tests. `failed` includes errors."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    impossible: str = ""
    """Why it was impossible; empty if it ran."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--python", type=Path, help="a Python newer than this one, for the part `user`")
    options = parser.parse_args()
    rows: list[Row] = []
    interrupted = False
    with tempfile.TemporaryDirectory(prefix="dragoman-machines-") as scratch:
        place = Path(scratch)
        place.chmod(0o755)
        try:
            rows.extend(results(options.only, options.python, place))
        except KeyboardInterrupt:
            interrupted = True
            say("interrupted")
    report(rows)
    sys.exit(interrupted or any(row.failed for row in rows))


def results(parts: Sequence[str], python: Path | None, place: Path) -> Iterator[Row]:
    (place / "empty").mkdir()
    for way in ways(place / "empty"):
        if way.part in parts:
            yield numerical(way, place)
    if "user" in parts:
        yield everything_as_another_user(python, place)


def numerical(way: Way, place: Path) -> Row:
    if way.flag and way.flag not in processor_flags():
        return Row(way.name, impossible=f"this processor ({platform.machine()}) has no {way.flag}")
    tests = [str(path.relative_to(ROOT)) for name in NUMERICAL for path in (ROOT / "tests").rglob(f"test_{name}.py")]
    environment = {**plain_environment(), "XDG_CACHE_HOME": str(place / "cache"), **way.environment}
    shown = " ".join(f"{name}={value}" for name, value in way.environment.items() if name != "PATH")
    row = Row(f"{way.name} ({shown})" if shown else way.name)
    return tested(row, [sys.executable], tests, environment, ROOT, place, os.geteuid())


def everything_as_another_user(newer: Path | None, place: Path) -> Row:
    """Root becomes `nobody`; any other user stays."""
    row = Row("every test: another user, home read-only, ' ' and 'ü' in the path")
    user = NOBODY if os.geteuid() == 0 else os.geteuid()
    home, odd = place / "home", place / "a folder with ü"
    home.mkdir(mode=0o555)
    copy_tree(odd / "dragoman")
    (odd / "temporary").mkdir()
    if user == NOBODY:
        for path in (odd, *odd.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    python, libraries = python_for(user, *installed(newest(newer)), place)
    row.name += f", Python {told(python, 'import platform; print(platform.python_version())', libraries)}"
    environment = {
        **{name: value for name, value in plain_environment().items() if not name.startswith("XDG_")},
        **libraries,
        "HOME": str(home),
        "TMPDIR": str(odd / "temporary"),
        "PYTHONPATH": str(odd / "dragoman" / "src"),
    }
    return tested(row, [str(python)], [], environment, odd / "dragoman", odd / "temporary", user)


def copy_tree(target: Path) -> None:
    """Copies the files that git knows or would add, and the real data beside the repository if it is there."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    if (ROOT.parent / "shared").is_dir():
        shutil.copytree(ROOT.parent / "shared", target.parent / "shared")


# A Python for another user


def newest(named: Path | None) -> Path | None:
    """A Python newer than this one: the one named, or the newest on the PATH."""
    if named is not None:
        return named
    for minor in range(sys.version_info.minor + 5, sys.version_info.minor, -1):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
            return Path(found)
    say(f"the PATH has no Python newer than {platform.python_version()}, which therefore runs the tests (see --python)")
    return None


def installed(newer: Path | None) -> tuple[Path, Path]:
    """The base of a Python and the folder of its packages: this Python's, or a newer one's, installed in `build`."""
    if newer is not None:
        environment = ROOT / "build" / f"environment-{told(newer, 'import platform; print(platform.python_version())')}"
        python = environment / "bin" / "python"
        if subprocess.run([newer, ROOT / "scripts" / "install.py", environment, "test"]).returncode == 0:
            base, packages = told(
                python, "import sys, sysconfig; print(sys.base_prefix, sysconfig.get_path('purelib'), sep='\\n')"
            ).splitlines()
            return Path(base), Path(packages)
        say(f"nothing could be installed for {newer}: this Python runs the tests")
    return Path(sys.base_prefix), Path(sysconfig.get_path("purelib"))


def python_for(user: int, base: Path, packages: Path, place: Path) -> tuple[Path, dict[str, str]]:
    """A Python with these packages that this user can run, and the variables it needs.

    What other users can't reach, for example in root's home, is copied to where they can.
    """
    libraries: dict[str, str] = {}
    if not succeeds(user, [base / "bin" / "python3", "-c", ""]):
        base = copy_or_link(base, place / "python", shutil.ignore_patterns("site-packages", "test"))
        libraries = {"LD_LIBRARY_PATH": str(base / "lib")}
    if not succeeds(user, [base / "bin" / "python3", "-c", f"import os; os.listdir({str(packages)!r})"], libraries):
        packages = copy_or_link(packages, place / "packages")
    environment = place / "environment"
    python = environment / "bin" / "python3"
    subprocess.run([base / "bin" / "python3", "-m", "venv", "--without-pip", environment], check=True)
    own = Path(told(python, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    (own / "packages.pth").write_text(f"{packages}\n", encoding="utf-8")
    return python, libraries


def told(python: Path, program: str, environment: Mapping[str, str] | None = None) -> str:
    """What a short program prints."""
    command = [python, "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


def succeeds(user: int, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> bool:
    with suppress(OSError):
        return subprocess.run(command, **as_user(user), env=environment, cwd="/", capture_output=True).returncode == 0
    return False


def as_user(user: int) -> dict[str, Any]:
    return {} if user == os.geteuid() else {"user": user, "group": user, "extra_groups": []}


def copy_or_link(source: Path, target: Path, ignore: Callable[..., set[str]] | None = None) -> Path:
    """Copies a folder with hard links where the file system allows them, so that it takes no room."""

    def link(one: str, other: str) -> None:
        try:
            os.link(one, other, follow_symlinks=False)
        except OSError:
            shutil.copy2(one, other, follow_symlinks=False)

    say(f"copying {source}")
    shutil.copytree(source, target, symlinks=True, ignore=ignore, copy_function=link)
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir() and not path.is_symlink())):
        folder.chmod(0o755)
    return target


# Tests and their results


def tested(
    row: Row,
    python: Sequence[str],
    tests: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    scratch: Path,
    user: int,
) -> Row:
    """Runs these tests, or all if none are given, and fills in the row."""
    say(row.name)
    results = scratch / "results.xml"
    results.unlink(missing_ok=True)
    command = [*python, "-m", "pytest", "-q", "-rfE", "--tb=short", "-p", "no:cacheprovider", *WORKERS]
    started = time.monotonic()
    done = subprocess.run(
        [*command, f"--junitxml={results}", *tests],
        **as_user(user),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    row.seconds = time.monotonic() - started
    if done.returncode not in (0, 1) or not results.is_file():
        row.failed = 1
        print(done.stdout[-3_000:])
        return row
    if done.returncode:
        print(done.stdout[-30_000:])
    for case in ET.parse(results).iter("testcase"):
        kinds = {child.tag: child for child in case}
        if {"failure", "error"} & kinds.keys():
            row.failed += 1
        elif "skipped" in kinds:
            row.skipped[re.sub(r"\s+", " ", kinds["skipped"].get("message", ""))] += 1
        else:
            row.passed += 1
    say(f"{row.passed:,} passed, {row.failed} failed, {row.skipped.total()} skipped in {row.seconds:.0f} s")
    return row


def plain_environment() -> dict[str, str]:
    """This process's environment without the variables of any way, and with this repository's code first."""
    settings = {name for way in ways(ROOT) for name in way.environment} - {"PATH"}
    kept = {name: value for name, value in os.environ.items() if name not in settings}
    return {**kept, "PYTHONPATH": str(ROOT / "src")}


def processor_flags() -> list[str]:
    sys.path.insert(0, str(ROOT / "src"))
    from dragoman.system import processor

    return processor()["flags"]


def report(rows: Sequence[Row]) -> None:
    width = max((len(row.name) for row in rows), default=0)
    print(f"\n{'':{width}}  {'passed':>7}  {'failed':>7}  {'skipped':>7}  {'seconds':>7}")
    for row in rows:
        figures = (f"{row.passed:,}", str(row.failed), str(row.skipped.total()), f"{row.seconds:.0f}")
        print(f"{row.name:{width}}  " + "  ".join(f"{'-' if row.impossible else each:>7}" for each in figures))
    for row in rows:
        for reason, count in row.skipped.most_common():
            print(f"skipped, {row.name}: {count} ({reason})")
    for row in rows:
        if row.impossible:
            print(f"not done, {row.name}: {row.impossible}")


def say(what: str) -> None:
    print(f"machines: {what}", flush=True)


if __name__ == "__main__":
    main()
