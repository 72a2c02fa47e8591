"""When executed cells are out of date: after a change of the code that they could run."""

import hashlib
from pathlib import Path


def fingerprint(root: Path) -> str:
    """Return a hash of the package and of what the pages import."""
    files = [*(root / "src").rglob("*"), *(root / "docs" / "guide").glob("*.py")]
    digest = hashlib.sha256()
    for file in sorted(path for path in files if path.is_file() and "__pycache__" not in path.parts):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
