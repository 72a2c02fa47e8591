"""The site of the guide, built as `make docs` builds it, but with trainings cut short."""

import os
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def build_site(folder: Path) -> tuple[Path, str]:
    """The folder of its pages, and what the build said.

    Raises:
        AssertionError: the build failed or warned; the message is what it said.
    """
    site = folder / "html"
    cache = f"nb_execution_cache_path={folder / 'executed'}"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-d", str(folder / "doctrees"), "-D", cache]
    done = subprocess.run(
        [*command, str(DOCS), str(site)],
        env={**os.environ, "GUIDE_SHORT": "1", "GUIDE_RUNS": str(folder / "runs"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1_500,
    )
    assert not done.returncode, f"{done.stdout[-6_000:]}\n{done.stderr[-6_000:]}"
    return site, done.stdout
