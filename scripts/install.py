"""Makes a virtual environment and installs Dragoman into it: what every target of the Makefile stands on.

    python scripts/install.py ENVIRONMENT                 what a demo needs
    python scripts/install.py ENVIRONMENT test            ... and the extra `test` of pyproject.toml
    python scripts/install.py ENVIRONMENT all --alone benchmarks/peers/requirements.txt

The stamps `ready` and `ready-EXTRA` in the environment say what it was made from. While that stays, nothing is done.

The packages of `--alone` come last, without their dependencies: the toolkits measured beside Dragoman ask for other
versions of PyTorch, but run with this one. A package that can't be installed is named and left out.

Without an NVIDIA GPU, PyTorch comes first, because its default wheel on Linux brings gigabytes of CUDA libraries. The
script asks PyTorch's own index of CPU wheels, and gives up within seconds if it can't be reached; then, and with a GPU,
pip decides. `TORCH_INDEX=URL` names another index, `TORCH_INDEX=` (empty) leaves the choice to pip at once.
Needs only the standard library, because it runs before anything is installed.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
import urllib.error
import urllib.request
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYPROJECT = ROOT / "pyproject.toml"
VERSIONS = ROOT / "constraints.txt"
DEMO_EXTRAS = ["plots", "serve"]
"""Extras that a demo and the commands of the README need: curves are drawn, and the model is served."""
DEMO_IMPORTS = "import dragoman.runs.train, dragoman.inference.translator, matplotlib.figure, fastapi"
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
PATIENCE_SECONDS = 3
IMPATIENT = ["--timeout", "15", "--retries", "1"]
CONSTRAINTS = ["-c", str(VERSIONS)]
PIP = ["-m", "pip", "install", "--disable-pip-version-check", "--no-compile", "--progress-bar", "off"]
REDRAW_SECONDS = 0.2
BAR_WIDTH = 30
CLEAR = "\x1b[K"
"""What clears a terminal's line from the cursor on."""
SHOWN_LINES = 40
"""How many of pip's last lines are shown when it fails."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", type=Path)
    parser.add_argument("extra", nargs="?", help="an extra of pyproject.toml")
    parser.add_argument("--alone", type=Path, metavar="REQUIREMENTS", help="packages without their dependencies")
    asked = parser.parse_args()
    try:
        install(asked.environment, asked.extra)
        if asked.alone:
            install_alone(asked.environment, asked.alone)
    except KeyboardInterrupt:
        sys.exit("setup: interrupted; the same command starts again")


def install(environment: Path, extra: str | None) -> None:
    """Installs what a demo needs, and the extra; nothing where the stamps say that all of it is there."""
    base, stamp = environment / "ready", environment / (f"ready-{extra}" if extra else "ready")
    if is_current(base, None) and is_current(stamp, extra):
        base.touch()
        stamp.touch()
        return
    started = time.monotonic()
    create(environment)
    install_torch(environment)
    say(f"installing Dragoman{f' and its extra {extra}' if extra else ''}")
    own = [] if is_current(base, None) else ["-e", str(ROOT)]
    before = installed(environment)
    if not pip(environment, *CONSTRAINTS, *own, *requirements(*DEMO_EXTRAS, *([extra] if extra else []))):
        sys.exit("pip could not install Dragoman: its last messages stand above")
    if installed(environment) != before:
        write_bytecode(environment, everything=extra is not None)
    base.write_text(identity(None), encoding="utf-8")
    stamp.write_text(identity(extra), encoding="utf-8")
    done = f"done in {time.monotonic() - started:.0f} s"
    say(done if extra else f"{done}. {next_steps(environment)}")


# Stamps and requirements


def is_current(stamp: Path, extra: str | None) -> bool:
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == identity(extra)


def identity(extra: str | None) -> str:
    """A hash of all that an installation follows from; of pyproject.toml, what no other tool reads."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    described = json.dumps([project["project"], project["build-system"], extra]).encode()
    return hashlib.sha256(described + VERSIONS.read_bytes() + Path(__file__).read_bytes()).hexdigest()


def requirements(*extras: str) -> list[str]:
    """The packages of these extras, and of the extras that they name."""
    known = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    found: list[str] = []
    for line in [line for extra in extras for line in known[extra]]:
        named = re.fullmatch(r"dragoman\[(.*)\]", line)
        found += requirements(*named[1].split(",")) if named else [line]
    return list(dict.fromkeys(found))


# What is installed


def create(environment: Path) -> None:
    """Makes the virtual environment if it is missing or has no pip."""
    python = python_of(environment)
    if python.exists() and subprocess.run([python, "-c", "import pip"], capture_output=True).returncode == 0:
        return
    say(f"making {environment} with Python {sys.version.split()[0]}")
    try:
        venv.create(environment, clear=True, with_pip=True, symlinks=os.name != "nt")
    except (subprocess.CalledProcessError, ImportError):
        # Debian and Ubuntu ship Python without venv.
        sys.exit(f"{sys.executable} can't make virtual environments: install its venv package (python3-venv)")


def install_torch(environment: Path) -> None:
    """Installs PyTorch from the index named or the one for this machine; otherwise leaves it to come with Dragoman."""
    if has_torch(environment) or not (index := torch_index()):
        return
    say(f"installing PyTorch from {index}")
    # Without dependencies: an index of PyTorch holds few versions of them. They come with Dragoman.
    if pip(environment, *CONSTRAINTS, *IMPATIENT, "--no-deps", "--index-url", index, "torch"):
        return
    if index != CPU_WHEELS:
        sys.exit(f"TORCH_INDEX={index} did not serve PyTorch: pip's last messages stand above")
    say(f"{index} did not serve it: pip chooses")


def has_torch(environment: Path) -> bool:
    """Whether the tested version is there."""
    program = "import importlib.metadata; print(importlib.metadata.version('torch').partition('+')[0])"
    found = subprocess.run([python_of(environment), "-c", program], capture_output=True, text=True)
    return f"torch=={found.stdout.strip()}" in VERSIONS.read_text(encoding="utf-8").splitlines()


def install_alone(environment: Path, packages: Path) -> None:
    """Installs exactly these packages. If they don't all install together, tries them one by one."""
    say(f"installing the packages of {packages}")
    if pip(environment, "--no-deps", "-r", str(packages)):
        return
    lines = [line for line in packages.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    failed = [line for line in lines if not pip(environment, "--no-deps", line)]
    say(f"LEFT OUT, because pip could not install them: {', '.join(failed)}")


def write_bytecode(environment: Path, everything: bool) -> None:
    """Compiles what a demo imports, or all packages, on all cores. pip would compile all of them on one.

    A demo imports a fifth of the files. With PYTHONDONTWRITEBYTECODE set, each process that a test starts would compile
    again, so that variable is ignored here.
    """
    say("compiling Python's bytecode")
    what = ["-m", "compileall", "-qq", "-j", "0", str(packages_of(environment))] if everything else ["-c", DEMO_IMPORTS]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([python_of(environment), *what], capture_output=True, text=True, env=variables)
    if done.returncode and not everything:  # some packages ship files for other versions of Python
        sys.exit(f"{done.stderr}Dragoman was installed, but can't be imported: the error stands above")


# PyTorch's index


def torch_index() -> str | None:
    """The index to ask for PyTorch; None leaves the choice to pip."""
    if (chosen := os.environ.get("TORCH_INDEX")) is not None:
        return chosen or None
    if has_nvidia_gpu():
        say("found an NVIDIA GPU")
        return None
    if not answers(CPU_WHEELS):
        say(f"no NVIDIA GPU, and {CPU_WHEELS} can't be reached from here")
        return None
    return CPU_WHEELS


def has_nvidia_gpu() -> bool:
    if not (tool := shutil.which("nvidia-smi")):
        return False
    try:
        found = subprocess.run([tool, "-L"], capture_output=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0 and b"GPU" in found.stdout


def answers(url: str) -> bool:
    """Whether a server answers within `PATIENCE_SECONDS`, including the lookup of its name."""
    return in_time(lambda: reached(url), PATIENCE_SECONDS)


def reached(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/torch/", timeout=PATIENCE_SECONDS):
            return True
    except (urllib.error.URLError, OSError):
        return False


def in_time(question: Callable[[], bool], seconds: float) -> bool:
    """The answer, or False if it takes longer; the question then keeps running in its thread."""
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(question()), daemon=True)
    thread.start()
    thread.join(seconds)
    return any(results)


# pip, quietly


def pip(environment: Path, *arguments: str) -> bool:
    """Installs with one call of pip, whose own words go to a log; its end is shown on failure."""
    log = environment / "install.log"
    command = [str(python_of(environment)), *PIP, *arguments]
    with log.open("a", encoding="utf-8") as written:
        written.write(f"\n{' '.join(command)}\n")
        written.flush()
        begin = written.tell()
        running = subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT)
    try:
        watch(running, log, begin, packages_of(environment))
    finally:
        running.wait()
    if running.returncode:
        print("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-SHOWN_LINES:]))
        say(f"pip failed; all that it said is in {log}")
    return running.returncode == 0


def watch(running: "subprocess.Popen[bytes]", log: Path, begin: int, packages: Path) -> None:
    """Shows how far pip is, until it ends: on a terminal in one line that redraws, elsewhere a line for each stage."""
    started, shown = time.time(), ""
    redraws = sys.stdout.isatty()
    try:
        while running.poll() is None:
            stage, done, total = progress(log.read_bytes()[begin:].decode("utf-8", "replace"), packages, started)
            if redraws:
                line = f"setup: {stage} {bar(done, total)}, {time.time() - started:.0f} s"
                print(f"\r{line[: shutil.get_terminal_size().columns - 1]}{CLEAR}", end="", flush=True)
            elif stage != shown:
                say(f"{stage} ({total})" if total else stage)
            shown = stage
            time.sleep(REDRAW_SECONDS)
    finally:
        if redraws:
            print(f"\r{CLEAR}", end="", flush=True)


def progress(said: str, packages: Path, started: float) -> tuple[str, int, int]:
    """What pip is doing after it said this, with how many packages, and of how many; 0 while that is unknown."""
    if chosen := re.search(r"^Installing collected packages: (.*)$", said, re.MULTILINE):
        written = [path for path in packages.glob("*.dist-info") if path.stat().st_mtime >= started]
        total = len(chosen[1].split(","))
        return "installing packages", min(len(written), total), total
    return "collecting packages", len(re.findall(r"^(?:Collecting|Processing) ", said, re.MULTILINE)), 0


def bar(done: int, total: int) -> str:
    """For 1 of 2: `[###############---------------] 1 of 2`; without a total, the number alone."""
    if not total:
        return str(done)
    filled = BAR_WIDTH * done // total
    return f"[{'#' * filled}{'-' * (BAR_WIDTH - filled)}] {done} of {total}"


def python_of(environment: Path) -> Path:
    return environment.absolute() / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def installed(environment: Path) -> set[str]:
    """The packages that are there, with their versions."""
    return {path.name for path in packages_of(environment).glob("*.dist-info")}


def packages_of(environment: Path) -> Path:
    """The folder of its packages."""
    return next(environment.absolute().glob("[Ll]ib/**/site-packages"))


def next_steps(environment: Path) -> str:
    """What to type next, with the path of the installed command."""
    command = environment / ("Scripts/dragoman.exe" if os.name == "nt" else "bin/dragoman")
    return f"Next: {command} demo, or with your own text: {command} train FILE"


def say(what: str) -> None:
    print(f"setup: {what}", flush=True)


if __name__ == "__main__":
    main()
