import struct
from pathlib import Path

import pytest
from catalogues import interface_strings, kinds_of, messages, sentence_pairs
from keeping import PLANTED, Line, has_number, holds_word, planted, spans_of

SENTENCES = [Line("The old man walks home.", ""), Line("Is Tom's brother here?", ""), Line("Stop!", "")]


def test_each_planted_span_is_found_and_nothing_else() -> None:
    parts = sorted(part for span in PLANTED for part in span.split("…") if part)
    lines = planted(SENTENCES, count=len(PLANTED) * len(SENTENCES))
    found = [span for line in lines for span in spans_of(line)]
    assert sorted({*found}) == sorted({*parts})
    assert not [span for sentence in SENTENCES for span in spans_of(sentence.source)]


@pytest.mark.parametrize(
    ("value", "text", "kept"),
    [
        ("3.5", "Costa 3,5 euro.", True),
        ("3.5", "Costa 13,5 euro.", False),
        ("3.5", "Costa 3,55 euro.", False),
        ("17", "Costa 177 euro.", False),
        ("12,500", "Ne ho 12.500.", True),
        ("12,500", "Ne ho 12 500.", True),
        ("12,500", "Ne ho 12.", False),
        ("May 5, 2023", "Il 5 maggio 2023.", True),
        ("May 5, 2023", "A maggio del 2023.", False),
        ("+39 06 6982", "Chiama +39 06 6982.", True),
    ],
)
def test_a_number_is_kept_if_its_digits_are(value: str, text: str, kept: bool) -> None:
    assert has_number(text, value) is kept


def test_a_name_is_kept_as_a_word() -> None:
    assert holds_word("Ha visto O'Hara.", "O'Hara")
    assert not holds_word("Ha visto Nakamurano.", "Nakamura")


def test_a_catalogue_gives_messages_without_contexts_and_the_first_of_plural_forms(tmp_path: Path) -> None:
    rows = [("", "header"), ("menu\x04Open the file", "Открыть файл"), ("%d file\0%d files", "%d файл\0%d файла")]
    texts = [text.encode() for row in rows for text in row]
    begin = 28 + 16 * len(rows)
    starts = [begin + sum(len(text) + 1 for text in texts[:place]) for place in range(len(texts))]
    spans = [(len(text), start) for text, start in zip(texts, starts, strict=True)]
    table = [number for side in (0, 1) for span in spans[side::2] for number in span]
    head = struct.pack("<7I", 0x950412DE, 0, len(rows), 28, 28 + 8 * len(rows), 0, 0)
    path = tmp_path / "one.mo"
    path.write_bytes(head + struct.pack(f"<{len(table)}I", *table) + b"".join(text + b"\0" for text in texts))
    assert [*messages(path)] == [("Open the file", "Открыть файл"), ("%d file", "%d файл")]


def test_no_sentence_of_either_language_stands_in_two_pairs() -> None:
    first = ("Open the _last file", "Открыть последний файл")
    again = [("Open the last file", "Открыть другой файл"), ("Open that last file", "Открыть последний файл")]
    assert sentence_pairs([first, *again]) == [("Open the last file", "Открыть последний файл")]


def test_strings_take_turns_among_kinds() -> None:
    printf = [(f"Could not open file number {number} of %s", "") for number in range(50)]
    drawn = interface_strings([*printf, ("Write to <b>the file</b> now", "")], count=5)
    assert len(drawn) == 5
    assert [*map(kinds_of, drawn)].count(["markup"]) == 1
