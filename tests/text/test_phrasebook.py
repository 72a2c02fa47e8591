"""The phrasebook as it ships: its four sets, their labels, and the files that a run reads."""

from pathlib import Path

import pytest

from dragoman.text.phrasebook import Phrasebook, read_phrasebook, write_phrasebook


@pytest.fixture(scope="module")
def book() -> Phrasebook:
    return read_phrasebook()


def test_every_word_has_a_part_of_speech_and_every_sentence_a_topic(book: Phrasebook):
    for part in book:
        assert all(len(sentence.words) == len(sentence.tags) for sentence in part)
        assert len({sentence.topic for sentence in part}) == 16


def test_written_files_are_aligned(tmp_path: Path, book: Phrasebook):
    write_phrasebook(tmp_path)
    for name, sentences in book._asdict().items():
        sides = [(tmp_path / f"{name}.{side}").read_bytes().decode().split("\n") for side in ("en", "it")]
        assert list(zip(*sides, strict=True))[:-1] == [sentence[:2] for sentence in sentences]
