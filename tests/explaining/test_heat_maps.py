"""Records outside the page: maps of where the model looked, as text and as pictures, and the forms of a file."""

import json
import re
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_records import store_language_model, store_translator

from dragoman.errors import ConfigError, MissingExtra
from dragoman.explaining.record import (
    Alignment,
    CandidateRecord,
    PartRecord,
    Record,
    SearchRecord,
    Stack,
    StepRecord,
    Token,
)
from dragoman.explaining.recording import record
from dragoman.explaining.writing import HeatMap, draw, format_of, heat_lines, heat_maps, render, summary, write_record

SENTENCE = "the red cat sees the old dog ."
EMPTY = np.zeros((0, 0), dtype=np.float32)


def heat_map(rows: int = 2, columns: int = 3) -> HeatMap:
    weights = np.linspace(0, 1, rows * columns, dtype=np.float32).reshape(rows, columns)
    names = [f"word {number}" for number in range(1, 1 + max(rows, columns))]
    return HeatMap("a map", tuple(names[:rows]), tuple(names[:columns]), weights)


@pytest.fixture(scope="module")
def translated(tmp_path_factory: pytest.TempPathFactory) -> Record:
    return record(store_translator(tmp_path_factory.mktemp("maps") / "model", preset="modern"), SENTENCE)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """A text that a language model read."""
    return record(store_language_model(tmp_path_factory.mktemp("maps") / "language model"), SENTENCE)


# Which map


def test_the_usual_map_is_the_alignment_of_words(translated: Record) -> None:
    (heat,) = heat_maps(translated)
    (part,) = translated.parts
    assert part.alignment is not None
    assert heat.title == f"alignment: {part.alignment.how}"
    assert (heat.rows, heat.columns) == (part.written, tuple(SENTENCE.split()))
    np.testing.assert_array_equal(heat.weights, part.alignment.weights)


def test_the_usual_map_of_a_language_model_is_the_mean_over_the_last_layers_heads(read: Record) -> None:
    (heat,) = heat_maps(read)
    attention = read.parts[0].stacks[0].layers[-1].attentions[0]
    assert heat.title == "mean over the heads of decoder.1.self_attention"
    assert heat.columns == tuple(SENTENCE.split())
    assert heat.rows[:2] == ("the → red", "red → cat")
    np.testing.assert_allclose(heat.weights, sum(attention.weights) / len(attention.weights), rtol=1e-6)


def test_a_head_is_found_by_its_name_and_its_tokens_are_named(translated: Record) -> None:
    encoder, decoder = translated.parts[0].stacks
    sources, reads = (tuple(token.text for token in stack.tokens) for stack in (encoder, decoder))
    writes = [step.token.text for step in translated.parts[0].steps]
    steps = tuple(f"{one} → {other}" for one, other in zip(reads, writes, strict=True))
    for stack, place, columns in ((encoder, 0, sources), (decoder, 0, reads), (decoder, 1, sources)):
        for layer in stack.layers:
            attention = layer.attentions[place]
            for number, weights in enumerate(attention.weights):
                name = f"{layer.name}.{attention.name}.{number}"
                (heat,) = heat_maps(translated, name)
                assert heat.title == name
                assert (heat.rows, heat.columns) == (sources if stack is encoder else steps, columns)
                np.testing.assert_array_equal(heat.weights, weights)


@pytest.mark.parametrize("name", ["decoder.1.cross_attention.4", "encoder.0.cross_attention.0", "decoder.0", "3", ""])
@pytest.mark.parametrize("form", ["terminal", "svg"])
def test_an_unknown_head_is_refused_with_a_name_that_exists(translated: Record, name: str, form: str) -> None:
    expected = re.escape(f"head must be one of the model's, as in decoder.1.cross_attention.3, but is {name}") + "$"
    with pytest.raises(ConfigError, match=expected):
        render(translated, form, name)  # pyright: ignore[reportArgumentType]


def test_a_language_model_names_a_head_that_it_has(read: Record) -> None:
    with pytest.raises(ConfigError, match=r"as in decoder\.1\.self_attention\.3, but is encoder"):
        heat_maps(read, "encoder.0.self_attention.0")


def test_each_part_has_a_map_and_a_copied_one_none(translated: Record) -> None:
    (part,) = translated.parts
    copied = PartRecord("xxx", "xxx", copied=True)
    assert len(heat_maps(replace(translated, parts=(part, copied, part)))) == 2


# As text


def test_a_map_as_text() -> None:
    weights = np.array([[0.0, 0.2, 0.8], [0.55, 0.4, 0.004]], dtype=np.float32)
    heat = HeatMap("who looked where", ("il", "gatto"), ("the", "red", "cat"), weights)
    assert [*heat_lines(heat)] == [
        "who looked where",
        "       1  2  3",
        "   il    ░░ ██",
        "gatto ▒▒ ▒▒   ",
        "1 the  2 red  3 cat",
        "   il ← cat 0.80, red 0.20",
        "gatto ← the 0.55, red 0.40",
    ]


def test_darker_is_more() -> None:
    line = [*heat_lines(heat_map(1, 11))][2]
    shades = [" ░▒▓█".index(shade) for shade in line.removeprefix("word 1")[1::3]]
    assert shades == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4]


def test_a_map_that_is_too_wide_for_a_terminal_names_the_strongest_alone() -> None:
    lines = [*heat_lines(heat_map(2, 61))]
    assert lines == [
        "a map",
        "word 1 ← word 61 0.50, word 60 0.49, word 59 0.48",
        "word 2 ← word 61 1.00, word 60 0.99, word 59 0.98",
    ]


def test_long_names_are_cut_and_a_map_of_nothing_is_its_title() -> None:
    assert [*heat_lines(heat_map(1, 1)._replace(rows=("a" * 40,)))][2] == "a" * 24 + " " + "  "
    assert [*heat_lines(HeatMap("nothing", (), (), EMPTY))] == ["nothing", "", ""]


def by_hand(written: str = "il gatto", log_prob: float = -2.0) -> Record:
    """A record of two words, with figures that are easy to follow."""
    tokens = [Token(4 + number, word, number) for number, word in enumerate(written.split())]
    others = (CandidateRecord(8, "lo", 1.0, float(np.log(0.25))), CandidateRecord(9, "la", 0.5, float(np.log(0.125))))
    steps = tuple(
        StepRecord(
            token, float(np.log(0.5)), 1, (CandidateRecord(token.id, token.text, 2.0, -0.5), *others), (0.0,) * 5
        )
        for token in tokens
    )
    stack = Stack("encoder", (), ("the", "cat"), EMPTY, None, EMPTY, (), EMPTY)
    search = SearchRecord(2, 0.6, True, (), 0, written, log_prob, -1.5)
    weights = np.array([[0.9, 0.1], [0.1, 0.7]], dtype=np.float32)
    alignment = Alignment(0, 1, False, "layer 0, head 1", weights, ((0, 0), (1, 1)))
    part = PartRecord(
        "the cat", written, False, (stack,), steps, tuple(written.split()), log_prob, (search,), alignment
    )
    return Record("model", "encoder_decoder", ("en", "it"), {}, 7, "1.0", "the cat", written, False, {}, (), (part,))


def test_a_record_in_a_terminal() -> None:
    assert [*summary(by_hand())] == [
        "source  the cat",
        "target  il gatto",
        "log-probability -2.0000, -1.0000 a token",
        "",
        "  1  il      50.0%  others lo 25.0%, la 12.5%",
        "  2  gatto   50.0%  others lo 25.0%, la 12.5%",
        "",
        "* beam 2: il gatto  (total -2.0000, score -1.5000; 0 hypotheses kept, 0 dropped)",
        "",
        "alignment: layer 0, head 1",
        "       1  2",
        "   il ██   ",
        "gatto    ▓▓",
        "1 the  2 cat",
        "   il ← the 0.90, cat 0.10",
        "gatto ← cat 0.70, the 0.10",
        "",
    ]


def test_a_terminal_hears_of_copies_flags_and_unknown_words() -> None:
    found = by_hand()
    copied = PartRecord("x" * 101, "x" * 101, copied=True)
    flagged = replace(found, parts=(copied, *found.parts), flags={"copied": "a string"}, unknown_words=("zebra", "gnu"))
    lines = [*summary(flagged)]
    assert lines[:3] == [f"copied  {'x' * 101}", "", "source  the cat"]
    assert lines[-2:] == ["note: a string", "words that the model does not know: zebra, gnu"]


def test_the_summary_counts_what_was_kept_and_dropped(translated: Record) -> None:
    lines = [*summary(translated)]
    searches = [line for line in lines if re.match("[* ] beam", line)]
    assert [line[0] for line in searches] == [" ", " ", "*", " ", " "]
    for line, search in zip(searches, translated.parts[0].searches, strict=True):
        dropped = sum(node.status == "dropped" for node in search.nodes)
        assert f"{len(search.nodes) - dropped} hypotheses kept, {dropped} dropped" in line
        assert line.startswith(f"  beam {search.width}: {search.text}  (" if line[0] == " " else "* beam 3: ")


def test_a_language_models_mean_leaves_out_what_it_expects_next(read: Record) -> None:
    (part,) = read.parts
    lines = [*summary(read)]
    assert lines[0] == f"target  {SENTENCE}"
    assert lines[1] == f"log-probability {part.log_prob:.4f}, {part.log_prob / (len(SENTENCE.split()) - 1):.4f} a token"


@pytest.mark.parametrize("which", ["translated", "read"])
def test_text_has_no_control_codes(which: str, request: pytest.FixtureRequest) -> None:
    text = render(request.getfixturevalue(which), "terminal").decode()
    assert text.endswith("\n") and text.replace("\n", "").isprintable()


# As pictures and files

BEGINNINGS = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF-"}


@pytest.fixture
def matplotlib() -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plots")


@pytest.mark.usefixtures("matplotlib")
@pytest.mark.parametrize("form", BEGINNINGS)
def test_a_picture_is_what_its_form_says_and_equal_pictures_are_equal_files(form: str) -> None:
    heats = [heat_map(2, 3), heat_map(3, 4)]
    first = draw(heats, form)  # pyright: ignore[reportArgumentType]
    assert first.startswith(BEGINNINGS[form])
    assert first == draw(heats, form)  # pyright: ignore[reportArgumentType]
    assert first != draw(heats[:1], form)  # pyright: ignore[reportArgumentType]


@pytest.mark.usefixtures("matplotlib")
def test_a_picture_is_readable_to_its_end() -> None:
    """Chunks of the PNG in order, each with its checksum."""
    rest, kinds = draw([heat_map()], "png")[8:], []
    while rest:
        end = 8 + int.from_bytes(rest[:4])
        assert zlib.crc32(rest[4:end]) == int.from_bytes(rest[end : end + 4])
        kinds.append(rest[4:8])
        rest = rest[end + 4 :]
    assert kinds[0] == b"IHDR" and kinds[-1] == b"IEND"


@pytest.mark.usefixtures("matplotlib")
def test_a_picture_names_rows_columns_and_heads_as_they_are() -> None:
    heat = HeatMap("head $3$", ("$a$ → b_c", "città"), ("x^2", "&"), np.eye(2, dtype=np.float32))
    svg = draw([heat], "svg").decode()
    for label in ("head $3$", "$a$ → b_c", "città", "x^2", "&amp;"):
        assert f"<!-- {label} -->" in svg


@pytest.mark.usefixtures("matplotlib")
@pytest.mark.parametrize("name", ["寿司", "東京 → に", "हिन्दी", "\U0001fae0"])
def test_a_name_that_no_font_can_write_is_a_number_and_the_log_says_which(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from matplotlib import font_manager

    own = [font for font in font_manager.fontManager.ttflist if "matplotlib" in font.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    svg = draw([HeatMap("a map", ("the", name), (name, "cat"), np.eye(2, dtype=np.float32))], "svg").decode()
    assert f"<!-- {name} -->" not in svg and "<!-- 2 -->" in svg and "<!-- cat -->" in svg
    assert f"the picture shows numbers: 2 {name}; a font of the script" in caplog.text


@pytest.mark.usefixtures("matplotlib")
def test_an_installed_font_that_has_the_letters_is_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of all fonts that matplotlib brings, one alone has the sign that stands for a Japanese font here."""
    from matplotlib import font_manager

    fonts = font_manager.fontManager.ttflist
    usual = {*font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap()}
    other = next(font for font in fonts if font.name == "STIXGeneral" and font.style == "normal")
    letter = chr(min({*font_manager.get_font(other.fname).get_charmap()} - usual))
    svg = draw([HeatMap("a map", (letter,), ("cat",), np.eye(1, dtype=np.float32))], "svg").decode()
    assert f"<!-- {letter} -->" in svg and "numbers" not in caplog.text


@pytest.mark.usefixtures("matplotlib")
@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (3, 0), (0, 0)])
def test_a_map_without_words_is_drawn_too(rows: int, columns: int) -> None:
    weights = np.zeros((rows, columns), dtype=np.float32)
    heat = HeatMap("nothing", ("a",) * rows, ("b",) * columns, weights)
    assert draw([heat], "png").startswith(BEGINNINGS["png"])


@pytest.mark.parametrize("form", BEGINNINGS)
def test_a_picture_without_matplotlib_says_what_to_install(
    form: str, translated: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"dragoman\[plots\]"):
        write_record(tmp_path / f"map.{form}", translated)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["a.html", "a.HTML", "a.json", "b.png", "c.svg", "d.e.pdf"])
def test_a_file_is_what_its_name_says(name: str) -> None:
    assert format_of(Path(name)) == name.rpartition(".")[2].lower()


@pytest.mark.parametrize("name", ["a", "a.txt", "html", "a.html.gz", "a.terminal"])
def test_a_name_that_says_no_form_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} must end in .html, .json, .png, .svg or .pdf; or name the form"):
        format_of(Path(name))


def test_json_holds_the_facts(translated: Record, tmp_path: Path) -> None:
    write_record(tmp_path / "facts.json", translated)
    written = (tmp_path / "facts.json").read_bytes()
    assert json.loads(written) == translated.facts()
    assert written == render(translated, "json") and written.endswith(b"}\n")


@pytest.mark.usefixtures("matplotlib")
def test_a_form_that_is_named_outweighs_the_name_of_the_file(translated: Record, tmp_path: Path) -> None:
    head = "encoder.0.self_attention.2"
    write_record(tmp_path / "map.json", translated, "svg", head)
    assert (tmp_path / "map.json").read_bytes() == draw(heat_maps(translated, head), "svg")
