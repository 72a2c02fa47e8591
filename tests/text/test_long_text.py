"""Text longer than memory: read, split, learnt from and encoded in pieces, with the result of the whole text."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.encoding import encode_text
from dragoman.errors import DataError
from dragoman.formats import lines
from dragoman.runs import language_model
from dragoman.text import prepare_running as plain
from dragoman.text.prepare import is_made_from, prepare_text
from dragoman.text.prepared import read_text
from dragoman.text.settings import DataSettings
from dragoman.tokenizing import tokenizer as tokenizing
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

# What the whole text gives, in memory


def whole_text(path: Path, errors: lines.EncodingErrors) -> str:
    return "".join(line + "\n" for line in lines.read_lines(path, errors))


def cut(text: bytes, size: int) -> tuple[bytes, bytes]:
    end = len(text) - size
    first = max(0, end - 2 * size)
    place = text.rfind(b"\n", first, end) + 1 or text.rfind(b" ", first, end) + 1 or end
    while text[place:].decode(errors="replace").encode() != text[place:]:
        place += 1  # no character is cut
    return text[:place], text[place:]


def split(texts: dict[str, str]) -> dict[str, str]:
    parts = {name: text.encode() for name, text in texts.items()}
    size = int(0.05 * len(parts["train"]))
    for name in ("test", "dev"):
        if name not in parts:
            parts["train"], parts[name] = cut(parts["train"], size)
    return {name: part.decode() for name, part in parts.items()}


def windows(ids: list[int], length: int) -> list[list[int]]:
    return [ids[first : first + length + 1] for first in range(0, len(ids) - 1, length)]


# Files

BYTES = [*(text.encode() for text in ("a", " ", "\n", "\r", "\r\n", "é", "寿", "🙂", "\ufeff")), b"\xe5"]
CONTENTS = st.lists(
    st.sampled_from(BYTES),
    min_size=1,
    max_size=30,
).map(b"".join)


def said(read: Callable[[], str]) -> str | tuple[str]:
    """What is read, or the error."""
    try:
        return read()
    except DataError as error:
        return (str(error),)


@given(content=CONTENTS, size=st.integers(1, 7), errors=st.sampled_from(["strict", "replace"]))
def test_a_file_read_in_blocks_is_its_lines(
    content: bytes, size: int, errors: lines.EncodingErrors, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("file") / "text.txt"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_PIECE", max(size, 3))  # no mark is cut
        found = [
            said(lambda: whole_text(path, errors)),
            said(lambda: "".join(lines.read_running(path, errors))),
        ]
    assert found[0] == found[1], "an error names the same line and byte"


LINE = st.text("ab é寿🙂\u2028\x85\r", max_size=30)


@given(
    train=st.lists(LINE, min_size=40, max_size=80).map("\n".join),
    dev=st.none() | st.lists(LINE, min_size=8, max_size=9).map("\n".join),
    block=st.integers(3, 40),
)
def test_a_text_is_split_as_a_whole_and_has_its_identity(
    train: str, dev: str | None, block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("text")
    texts = {"train": train, **({} if dev is None else {"dev": dev})}
    for name, text in texts.items():
        (folder / f"{name}.txt").write_bytes(text.encode() or b"\n")
    dev_path = None if dev is None else str(folder / "dev.txt")
    settings = DataSettings(path=str(folder / "train.txt"), dev_path=dev_path)
    read = {name: whole_text(folder / f"{name}.txt", "strict") for name in texts}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "LEAST_CHARACTERS", 0)
        patch.setattr(plain, "LEAST_HELD_OUT", 0)
        patch.setattr(lines, "_PIECE", block)
        patch.setattr(plain, "_BLOCK", block)
        report = prepare_text(settings, folder / "data")
        assert {name: "".join(read_text(folder / "data", name)) for name in report.splits} == split(read)
        assert report.identity == hashlib.sha256(json.dumps([*read.items()]).encode()).hexdigest()
        assert is_made_from(folder / "data", settings, "language_model")
        assert prepare_text(settings, folder / "data") == report, "it is found again"
    for name, text in split(read).items():
        assert (report.splits[name].characters, report.splits[name].sha256) == (
            len(text),
            hashlib.sha256(text.encode()).hexdigest(),
        )


# Ids

TEXT = "".join(f"It was {n}, and  the dog's\n\tcat 寿司 é🙂\n{'x' * (n % 7)}; who\u2028 knows?\n\n" for n in range(60))


@pytest.fixture(scope="module", params=["byte_bpe", "bpe", "unigram", "character"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    settings = TokenizerSettings(kind=request.param, vocabulary_size=330)
    return learn_tokenizer(TEXT.splitlines(keepends=True), settings)


@pytest.mark.parametrize("part", [1, 7, 100, 10_000])
def test_windows_of_a_text_in_parts_are_those_of_the_whole(
    tokenizer: Tokenizer, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = tokenizer.encode(TEXT)
    monkeypatch.setattr(tokenizing, "_RUNNING", 20)
    parts = [TEXT[place : place + part] for place in range(0, len(TEXT), part)]
    for length in (1, 16, len(expected) - 1, len(expected) + 5):
        corpus = encode_text(parts, tokenizer, tmp_path / f"{length}", length)
        rows = [corpus.target.row(number).tolist() for number in range(len(corpus))]
        assert rows == windows(expected, length)
        predicted = [row[1:] for row in rows]
        assert np.concatenate(predicted).tolist() == expected[1:], "every token but the first, exactly once"


@given(text=st.text(" \n\tab'寿.", max_size=60), running=st.integers(1, 8), part=st.integers(1, 9))
def test_any_text_has_the_same_ids_in_any_parts(text: str, running: int, part: int) -> None:
    for kind in ("bpe", "unigram", "byte_bpe", "character"):
        known = learnt(kind)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tokenizing, "_RUNNING", running)
            parts = [text[place : place + part] for place in range(0, len(text), part)]
            assert [i for ids in known.encode_running(parts) for i in ids] == known.encode(text)


LEARNT: dict[str, Tokenizer] = {}


def learnt(kind: str) -> Tokenizer:
    if kind not in LEARNT:
        LEARNT[kind] = learn_tokenizer([TEXT], TokenizerSettings(kind=kind, vocabulary_size=330))  # pyright: ignore[reportArgumentType]
    return LEARNT[kind]


@given(
    text=st.lists(st.sampled_from(["ab", " ", "\n", "\r", "\u2028", "abcdefgh", "  "]), max_size=60).map("".join),
    part=st.integers(1, 9),
)
def test_a_vocabulary_is_learnt_from_the_same_lines(text: str, part: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language_model, "LEARNED_AT_A_TIME", 6)
        parts = [text[place : place + part] for place in range(0, len(text), part)]
        assert [*language_model.lines_of(parts)] == [
            piece
            for line in text.splitlines(keepends=True)
            for piece in language_model.cut_running([line], 6, language_model.SPACE_BETWEEN_WORDS)
        ]


# Memory

SCRIPT = """
import resource, sys
from pathlib import Path
from dragoman.data.encoding import encode_text
from dragoman.text.settings import DataSettings
from dragoman.text.prepare import prepare_text
from dragoman.text.prepared import evenly_spaced, read_text
from dragoman.tokenizing import tokenizer as tokenizing
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer
from dragoman.runs.language_model import lines_of

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

folder = Path(sys.argv[1])
tokenizing._RUNNING = 50_000
tokenizer = learn_tokenizer(["abc"], TokenizerSettings(kind="byte_bpe", vocabulary_size=260))
for name in ("short", "long"):
    prepare_text(DataSettings(path=str(folder / f"{name}.txt")), folder / name)
    encode_text(read_text(folder / name, "train"), tokenizer, folder / f"{name}.ids", 64)
    for _ in lines_of(evenly_spaced(read_text(folder / name, "train"), 2, 1)):
        pass
    print(peak())
"""


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    words = "".join(f"word {n * n} is not a word {n}\n" for n in range(30_000))
    for name, megabytes in (("short", 2), ("long", 22)):
        (tmp_path / f"{name}.txt").write_text(words * (megabytes * 1_000_000 // len(words) + 1))
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=True)
    short, long = map(float, done.stdout.split())
    assert long - short < 10, f"{short:.0f} MiB for 2 MB of text, {long:.0f} MiB for 22 MB"
