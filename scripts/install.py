"""Makes a virtual environment and installs Dragoman and its tools into it: what `make setup` runs.

    python scripts/install.py ENVIRONMENT [REQUIREMENTS]

The packages of a REQUIREMENTS file come last, without their dependencies: the toolkits measured beside Dragoman ask for
other versions of PyTorch, but run with this one. A package that can't be installed is named and left out.

PyTorch comes first, because its default wheel on Linux brings gigabytes of CUDA libraries. Without an NVIDIA GPU the
script asks PyTorch's own index of CPU wheels, and gives up within seconds if it can't be reached; then, and with a GPU,
pip decides. `TORCH_INDEX=URL` names another index, `TORCH_INDEX=` (empty) leaves the choice to pip at once.
Needs only the standard library, because it runs before anything is installed.
"""

import os
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
PATIENCE_SECONDS = 3
IMPATIENT = ["--timeout", "15", "--retries", "1"]
CONSTRAINTS = ["-c", str(ROOT / "constraints.txt")]


def main() -> None:
    environment = Path(sys.argv[1]).absolute()
    python = create(environment)
    install_torch(python)
    say("installing Dragoman, its extras and its tools")
    if not pip(python, *CONSTRAINTS, "-e", f"{ROOT}[all,docs,dev]"):
        sys.exit("pip could not install Dragoman: its own message stands above")
    for requirements in sys.argv[2:]:
        install_alone(python, Path(requirements))
    say("done" if sys.argv[2:] else f"done. {next_steps(sys.argv[1])}")


def create(environment: Path) -> Path:
    """The Python of the virtual environment, which is made if it is missing or has no pip."""
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists() or subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode:
        say(f"making {environment} with Python {sys.version.split()[0]}")
        try:
            venv.create(environment, clear=True, with_pip=True, symlinks=os.name != "nt")
        except (subprocess.CalledProcessError, ImportError):
            # Debian and Ubuntu ship Python without venv.
            sys.exit(f"{sys.executable} can't make virtual environments: install its venv package (python3-venv)")
    return python


def install_torch(python: Path) -> None:
    """Installs PyTorch from the index named or the one for this machine, otherwise from wherever pip finds it."""
    index = torch_index()
    if index:
        say(f"installing PyTorch from {index}")
        # Without dependencies: an index of PyTorch holds few versions of them. They come with Dragoman.
        if pip(python, *CONSTRAINTS, *IMPATIENT, "--no-deps", "--index-url", index, "torch"):
            return
        if index != CPU_WHEELS:
            sys.exit(f"TORCH_INDEX={index} did not serve PyTorch: pip's own message stands above")
        say(f"{index} did not serve it")
    say("installing PyTorch from where pip finds it")
    if not pip(python, *CONSTRAINTS, "torch"):
        sys.exit("pip could not install PyTorch: its own message stands above")


def install_alone(python: Path, requirements: Path) -> None:
    """Installs exactly these packages. If they don't all install together, tries them one by one."""
    say(f"installing the packages of {requirements}")
    if pip(python, "--no-deps", "-r", str(requirements)):
        return
    lines = [line for line in requirements.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    failed = [line for line in lines if not pip(python, "--no-deps", line)]
    say(f"LEFT OUT, because pip could not install them: {', '.join(failed)}")


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


def pip(python: Path, *arguments: str) -> bool:
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    return subprocess.run(command).returncode == 0


def next_steps(environment: str) -> str:
    """What to type next, with the path of the installed command."""
    command = Path(environment) / ("Scripts/dragoman.exe" if os.name == "nt" else "bin/dragoman")
    return f"Next: {command} demo, or with your own text: {command} train FILE"


def say(what: str) -> None:
    print(f"setup: {what}", flush=True)


if __name__ == "__main__":
    main()
