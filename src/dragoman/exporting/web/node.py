"""Export to a page (`export_web`), and its proof: Node runs the model of the page that was written."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from dragoman.errors import ConfigError
from dragoman.exporting.proof import Ids, Proof, prove, suppressed_ids
from dragoman.exporting.web.page import render_page
from dragoman.files import write_file
from dragoman.store.description import StoredModel

PAGE = "index.html"
_PROVE = Path(__file__).parent / "parts" / "prove.js"


def export_web(stored: StoredModel, folder: Path, texts: Sequence[str]) -> tuple[Proof | None, list[str]]:
    """Write the page of a model into a folder; prove that it translates as our model does, if there is Node.

    Raises:
        ConfigError: the page does not support a part of this model, or the proof failed; the message names it.
    """
    page = render_page(stored, texts)
    write_file(folder / PAGE, page)
    size = f"{PAGE} has {len(page.encode()) / 1e6:.1f} MB; open it in a browser, with or without a server"
    if shutil.which("node") is None:
        return None, [size, "Node is not installed, so nothing was proved here; the page can check itself"]
    with NodeModel.open(folder / PAGE, stored) as model:
        return prove(stored, model, texts, "the page"), [size]


class NodeModel:
    """The model of a page, run by Node."""

    def __init__(self, process: "subprocess.Popen[str]", stored: StoredModel) -> None:
        self.process, self.framing = process, stored.files.framing
        self.suppressed = suppressed_ids(stored.tokenizers, self.framing)

    @classmethod
    @contextmanager
    def open(cls, page: Path, stored: StoredModel) -> Iterator[Self]:
        """Start Node with a page, and end it after the block."""
        command = [shutil.which("node") or "node", str(_PROVE), str(page)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        ) as process:
            yield cls(process, stored)
            process.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]

    def ask(self, question: str, subject: Any) -> Any:
        """Return the answer of `prove.js`.

        Raises:
            ConfigError: Node could not run the page.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        try:
            self.process.stdin.write(json.dumps([question, subject]) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            lines = self.process.stderr.read().strip().splitlines()
            raise ConfigError(f"Node could not run the page: {next((x for x in lines if 'Error' in x), 'it ended')}")
        return json.loads(line)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self.ask("encode", list(texts))

    def decode(self, ids: Ids) -> str:
        return self.ask("decode", list(ids))

    def translate(self, source: Ids, longest: int) -> list[int]:
        return self.ask("greedy", {"source": list(source), "longest": longest, "suppressed": self.suppressed})

    def score(self, source: Ids, target: Ids) -> list[float]:
        return self.ask("score", {"source": list(source), "labels": self.framing.labels(target)})
