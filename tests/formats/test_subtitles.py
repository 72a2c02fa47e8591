"""Subtitles: only the text of cues changes, every cue is read, and no sentence is joined with another."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.formats.document import Document
from dragoman.formats.reading import read_document


def read(folder: Path, content: str, encoding: str = "utf-8", languages: tuple[str, str] = ("en", "it")) -> Document:
    path = folder / ("a.vtt" if "WEBVTT" in content else "a.srt")
    path.write_bytes(content.encode(encoding))
    return read_document(path, languages)


def cues(*texts: str, seconds: float = 1.9) -> str:
    """SRT with these cues, one every two seconds."""
    times = "{0}\n00:00:{1:02},000 --> 00:00:{2:06.3f}\n{3}\n\n"
    return "".join(times.format(number, 2 * number, 2 * number + seconds, text) for number, text in enumerate(texts, 1))


def in_capitals(document: Document) -> bytes:
    return document.translated([re.sub(r"</?g\d+/?>|\w+", capitals, text) for text in document.texts])


def capitals(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("<") else found[0].upper()


@pytest.mark.parametrize(
    "content",
    [
        "WEBVTT\n\n00:01.000 --> 00:02.000 align:start line:90%\n{start}\n\n"
        "00:03.000 --> 00:04.000 align:end\n{Align the line}!\n",
        "1\n00:00:08,000 --> 00:00:10,000 X1:10\n10\n{years ago it was} 08:00:10.\n",
        "1\n00:00:01 --> 00:00:02\n{One cat}.\n\n2\n00:03,5 --> 00:04,5\n{Two cats}.\n",
        "1\n00:00:01:500 --> 00:00:02:500\n{One cat}.\n\n2\n00:00:03, 000-->0:00:04,00\n{Two cats}.\n",
        "WEBVTT\n\n00:00:01,000 --> 00:00:02,000\n{One cat}.\n\n5 --> 6 line:0\n{Two cats}.\n",
        "1\n00:00:01,000 -> 00:00:02,000\n{One cat}.\n\n2\n00:00:03,000 → 00:00:04,000\n{Two cats}.\n",
        "00:00:01,000 --> 00:00:02,000\n{One cat}.\n00:00:03,000 --> 00:00:04,000\n{Two cats}.\n",
        "\n\n0\n00:00:01,000 --> 00:00:02,000\n\n{One cat}\n\n\n{and two}.\n\n\n3\n00:00:03,000 --> 00:00:04,000\n12\n",
        "1\n00:00:01,000 --> 00:00:02,000\n{One cat}.\n2\n00:00:03,000 --> 00:00:04,000\n{Two cats}.\n",
        "1\n00:00:01,000 --> 00:00:02,000\n{Go to A} --> {B now}.\n\n2\n00:00:03,000 --> 00:00:04,000\n\n2\n",
        "1\n00:00:01,000 --> 00:00:02,000\n <i> {One cat} </i> \n<b>\n{and two}.\n</b>\n",
        "WEBVTT Kind: x\nRegion: en\n00:01.000 --> 00:02.000\n{One cat}\nNOTE {is text}.\n\n"
        "NOTE a comment\nof two lines\n\nSTYLE\n::cue(b)\n\nREGION\nid:fred\n\nthe name of it\n"
        "00:03.000 --> 00:04.000\n<v Tom>{Two} <00:03.500>{cats}.\n\nNOTE\n",
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le"])
def test_every_text_of_a_cue_changes_and_nothing_else(tmp_path: Path, content: str, end: str, encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    content = mark + content.replace("\n", end)
    source = content.replace("{", "").replace("}", "")
    document = read(tmp_path, source, encoding)
    assert document.translated(document.texts) == source.encode(encoding)
    assert not document.left
    expected = re.sub(r"\{(.*?)\}", lambda text: text[1].upper(), content)
    assert in_capitals(document) == expected.encode(encoding)


@pytest.mark.parametrize(
    "times", ["00:00:0l,000 --> 00:00:04,000", "00:00:03,000 -->", "O0:OO:03 --> 00:00:04", "3s --> 4s"]
)
def test_times_that_cannot_be_read_are_refused_with_their_line(tmp_path: Path, times: str) -> None:
    with pytest.raises(DataError, match="line 6"):
        read(tmp_path, f"1\n00:00:01,000 --> 00:00:02,000\nOne.\n\n2\n{times}\nTwo.\n")


@pytest.mark.parametrize(
    ("content", "reason", "line"),
    [
        ("the first\n00:00:01,000 --> 00:00:02,000\nOne.\n", "number", 1),
        ("1\n00:00:01,000 --> 00:00:02,000 The first.\nOne.\n", "times", 2),
        ("The first.\n\n1\n00:00:01,000 --> 00:00:02,000\nOne.\n", "no cue", 1),
        ("WEBVTT\n\nNOTE\n00:01.000 --> 00:02.000\nThe first.\n\n00:01.000 --> 00:02.000\nOne.\n", "comment", 3),
    ],
)
def test_words_in_the_wrong_place_stay_and_are_reported(tmp_path: Path, content: str, reason: str, line: int) -> None:
    document = read(tmp_path, content)
    assert in_capitals(document).decode() == content.replace("One.", "ONE.")
    (left,) = document.left
    assert reason in left.reason
    assert left.place == f"line {line}"


@pytest.mark.parametrize(
    "texts",
    [
        ["Where is the station", "My sister is tired", "I would like a coffee"],
        ["where is the station", "my sister is tired", "i would like a coffee"],
        ["The dog sleeps\nin the house", "The cat drinks milk."],
        ["my friend", "Tom went home."],
        ["the dog sleeps", "the dog sleeps", "and the cat too."],
        ["the dog", "the dog sleeps", "the dog sleeps here."],
        ["it starts in", "3", "2", "seconds."],
        ["the dog sleeps", "♪", "and the cat too."],
        ["我的狗在房子里", "猫喝牛奶"],
    ],
)
def test_a_cue_that_may_begin_a_sentence_is_a_text_of_its_own(tmp_path: Path, texts: list[str]) -> None:
    expected = [text.replace("\n", " ") for text in texts if any(map(str.isalpha, text))]
    assert read(tmp_path, cues(*texts)).texts == expected


@pytest.mark.parametrize(
    ("texts", "seconds", "language"),
    [
        (["At the same time, the other dogs", "begin", "to eat."], 1.9, "en"),
        (["He said,", "Tom is at home."], 1.9, "en"),
        (["Yesterday I went with\nTom to the station", "and it was late."], 1.9, "en"),
        (["THE DOG SLEEPS AND", "THE CAT DRINKS."], 1.9, "en"),
        (["Wir sehen morgen das", "Haus am See."], 1.9, "de"),
        (["At the same time", "the other dogs begin"], 1.9, "en"),
        (["sit", "on a", "red", "line"], 0.4, "en"),
    ],
)
def test_a_sentence_that_goes_on_is_one_text(tmp_path: Path, texts: list[str], seconds: float, language: str) -> None:
    document = read(tmp_path, cues(*texts, seconds=seconds), languages=(language, "it"))
    assert document.texts == [" ".join(texts).replace("\n", " ")]


def test_the_lines_of_a_cue_are_sentences_of_their_own_if_the_file_marks_no_ends(tmp_path: Path) -> None:
    assert len(read(tmp_path, cues("The dog sleeps\nThe cat drinks milk")).texts) == 2
    assert (
        len(read(tmp_path, "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Tom>He said that\n<v Ann>you are late.\n").texts) == 2
    )


def halved(text: str) -> str:
    return " ".join(text.split()[::2])


@pytest.mark.parametrize("change", [str.upper, halved, lambda text: f"{text} {text}", lambda _: "Ja.", lambda _: ""])
def test_no_cue_with_words_is_empty(tmp_path: Path, change: Callable[[str], str]) -> None:
    source = cues("<i>One two three\nfour</i>", "<i>five</i>", "<i>six\nseven eight\nnine.</i>", "I\nknow")
    document = read(tmp_path, source)
    assert document.texts == ["One two three four five six seven eight nine.", "I know"]
    written = document.translated([change(text) for text in document.texts]).decode()
    times = re.compile(r"^\d+\n.* --> .*$", re.MULTILINE)
    assert times.findall(written) == times.findall(source)
    shown = [re.sub(r"<[^>]*>", "", text).strip() for text in times.split(written)[1:]]
    assert all(shown)
    assert not any("\n\n" in text for text in shown)
    words = [word for text in document.texts for word in change(text).split()]
    assert [word for word in " ".join(shown).split() if word != "…"] == words


def test_markup_inside_a_sentence_stays_in_its_cue(tmp_path: Path) -> None:
    document = read(tmp_path, cues("It is", "late\nand <i>very</i> cold."))
    assert in_capitals(document).decode() == cues("IT IS", "LATE\nAND <i>VERY</i> COLD.")
    assert document.translated(["x"] * len(document.texts)).decode() == cues("x", "…\n<i>x</i>")


@pytest.mark.parametrize("header", ["WEBVTT\nLanguage: fr", "WEBVTT - film\nKind: captions\r\nLanguage: fr-CA"])
def test_webvtt_in_another_language_is_refused(tmp_path: Path, header: str) -> None:
    path = tmp_path / "a.vtt"
    path.write_text(f"{header}\n\n00:01.000 --> 00:02.000\nThe dog\n")
    with pytest.raises(DataError, match="French"):
        read_document(path, ("en", "it"))
    assert list(read_document(path, ("fr", "it")).texts) == ["The dog"]
    path.write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nLanguage: fr\n")
    assert list(read_document(path, ("en", "it")).texts) == ["Language: fr"]


def test_the_moments_of_words_go_up_whatever_the_order_of_the_words(tmp_path: Path) -> None:
    source = "WEBVTT\n\n00:01.000 --> 00:02.000\n<00:00:01.100>We <00:00:01.200>all <00:00:01.300>live here\n"
    document = read(tmp_path, source)
    assert list(document.texts) == ["We <g1/>all <g2/>live here"]
    written = document.translated(["Noi <g2/>viviamo <g1/>tutti qui"]).decode()
    assert "<00:00:01.100>Noi <00:00:01.200>viviamo <00:00:01.300>tutti qui" in written


@pytest.mark.parametrize(
    ("header", "written"),
    [
        ("WEBVTT\nLanguage: en", "WEBVTT\nLanguage: it"),
        ("WEBVTT\r\nKind: captions\r\nLANGUAGE: en-US \r\nX: y", "WEBVTT\r\nKind: captions\r\nLANGUAGE: it \r\nX: y"),
        ("WEBVTT - lang=en", "WEBVTT - lang=it"),
        ("WEBVTT\nLanguage: und", "WEBVTT\nLanguage: und"),
        ("WEBVTT\nLanguage: English", "WEBVTT\nLanguage: English"),
    ],
)
def test_the_header_names_the_language_of_the_translation(tmp_path: Path, header: str, written: str) -> None:
    document = read(tmp_path, f"{header}\n\n00:01.000 --> 00:02.000\nLanguage: en is\n")
    assert document.translated(["x"]).decode() == f"{written}\n\n00:01.000 --> 00:02.000\nx\n"
    assert len(document.notes) == ("English" in header)


def test_how_a_word_is_read_parts_no_sentence_and_stays(tmp_path: Path) -> None:
    ruby = "<ruby>{ba<rt>one two</rt>se}<RT lang=x>th<b>re</b>e</ruby>"
    document = read(
        tmp_path, f"WEBVTT\n\n00:01.000 --> 00:02.000\n{{I see}} {ruby} {{now}}.\n".translate({123: "", 125: ""})
    )
    assert document.texts == ["I see <g1>base<g2/><g3/></g1> now."]
    assert "I SEE <ruby>BASE<rt>one two</rt><RT lang=x>th<b>re</b>e</ruby> NOW." in in_capitals(document).decode()
    assert [left.place for left in document.left] == ["line 4"] * 2


def test_short_words_count_with_their_spaces_when_lines_are_filled(tmp_path: Path) -> None:
    document = read(tmp_path, cues("I see the dog,\nand it sleeps."))
    assert "\na b\nc d\n" in document.translated(["a b c d"]).decode()
