"""The command line: results on standard output, all else on standard error, mistakes as one line with a code."""

import errno
import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterator
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest
from rich.console import Console

import dragoman
from dragoman import errors
from dragoman.cli import console
from dragoman.cli.bars import Bars, state_of
from dragoman.cli.console import open_screen
from dragoman.cli.main import COMMANDS, main
from dragoman.cli.options import build
from dragoman.cli.train import show_demo_scores
from dragoman.cli.translations import write_translations
from dragoman.evaluating.evaluation import Evaluation, evaluate
from dragoman.evaluating.references import ReferenceSet
from dragoman.evaluating.scores import write_scores
from dragoman.formats import lines as data_lines
from dragoman.inference import documents
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.progress import Progress, silent
from dragoman.runs.train import RunResult
from dragoman.text.prepared import read_split


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Return a function that makes bytes the standard input."""
    return lambda content: monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(content)))


# Commands and their help


def test_commands_are_the_public_functions() -> None:
    functions = {command.__name__ for command in COMMANDS}
    assert functions == {
        *("prepare_data", "train_tokenizer", "train", "translate", "evaluate", "fine_tune", "benchmark"),
        *("doctor", "guide", "workshop", "demo", "runs", "settings", "explain", "embeddings", "merge", "average"),
        *("predict", "generate", "convert", "export", "quantize", "score", "filter", "back_translate", "distil"),
        *("serve", "keys", "report"),
    }
    named = {"runs": "list_runs", "settings": "list_settings", "explain": "record", "embeddings": "load_embeddings"}
    named |= {"filter": "filter_pairs", "guide": "find_guide", "workshop": "make_workshop"}
    assert {named.get(name, name) for name in functions - {"demo", "serve", "keys"}} <= set(dir(dragoman))


def test_every_option_of_every_command_is_explained() -> None:
    for function in COMMANDS:
        command = build(function)
        assert command.help, function
        unexplained = [parameter.name for parameter in command.params if not getattr(parameter, "help", None)]
        assert not unexplained, f"{command.name}: {unexplained}"


# Mistakes


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.Error)]
)
def test_an_error_is_one_line_and_its_own_code(
    kind: type[errors.Error], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise kind("[bold]corpus.de has 4,500 lines\nbut corpus.en 4,499")

    monkeypatch.setattr(dragoman, "doctor", fail, raising=False)
    assert main(["doctor"]) == kind.exit_code
    out, err = capsys.readouterr()
    start, end = ("", " after 0:00:00") if kind is errors.Interrupted else ("error: ", "")
    assert (out, err) == ("", f"{start}[bold]corpus.de has 4,500 lines but corpus.en 4,499{end}\n")


def test_our_own_mistakes_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(dragoman, "doctor", fail, raising=False)
    with pytest.raises(RuntimeError, match="ours"):
        main(["doctor"])


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("there is no memory for the kernel attention"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes"),
        RuntimeError("can't start new thread"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
)
def test_memory_that_runs_out_anywhere_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(dragoman, "doctor", fail, raising=False)
    assert main(["doctor"]) == 6
    assert capsys.readouterr().err.startswith("error: there is not enough memory")


def test_an_interrupt_ends_in_one_word(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dragoman, "doctor", interrupt, raising=False)
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


# What is drawn


def test_without_a_terminal_nothing_is_coloured_or_folded(capsys: pytest.CaptureFixture[str]) -> None:
    open_screen()
    console.note("a note of " + 40 * "many words " + "[bold]and brackets[/bold]")
    console.write_table(["name", "count"], [["[red]x", "1"], ["y" * 200, "10"]])
    out, err = capsys.readouterr()
    assert err.endswith("[bold]and brackets[/bold]\n") and err.count("\n") == 1
    assert "\x1b" not in out + err
    assert "[red]x" in out and "y" * 200 in out


@pytest.mark.parametrize("character", ["\x1b", "\x07", "\r", "\x9b", "\x7f", "\u202e", "\u200f", "\ud800"])
def test_no_foreign_text_controls_the_terminal(
    character: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, shown = f"a{character}[31mb", f"a{repr(character)[1:-1]}[31mb"
    progress = Bars(Console(stderr=True, width=1000))
    monkeypatch.setattr(logging.getLogger("dragoman"), "propagate", False)  # pytest would send half a character around
    open_screen()
    console.note(text)
    logging.getLogger("dragoman").warning(text)
    console.complain(text)
    with progress.track(text) as advance:
        advance(1, fact=text)
    console.write_table([text], [[text]])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    console.write(text)
    console.write_text(text)
    out, err = capsys.readouterr()
    assert character not in (out + err) and (out + err).count(shown) == 9
    with Bars(Console(stderr=True, force_terminal=True, width=200)).track(text) as advance:
        advance(1, fact=text)
    assert capsys.readouterr().err.count(shown) >= 2


def test_a_text_reaches_a_file_as_it_is_and_a_name_spelt_out(capsys: pytest.CaptureFixture[str]) -> None:
    console.write_text("a\x1b[31mb")
    console.write("a\x1b[31mb")
    assert capsys.readouterr().out == "a\x1b[31mb\na\\x1b[31mb\n"


def test_a_quiet_screen_leaves_results_and_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    progress = open_screen(quiet=True)
    log = logging.getLogger("dragoman.somewhere")
    console.note("a note")
    log.info("information")
    log.warning("row %d looks shifted", 7)
    console.write("a result")
    assert progress is silent
    assert capsys.readouterr() == ("a result\n", "warning: row 7 looks shifted\n")


def test_the_content_of_a_file_does_not_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile, shown = "a\x1b[31m\x07\x9b b\tc", r"a\x1b[31m\x07\x9b b"
    open_screen()
    console.complain(hostile)
    logging.getLogger("dragoman").warning(hostile)
    console.write_table(["name"], [[hostile]])
    out, err = capsys.readouterr()
    assert err.count(shown) == 2 and out.count(shown) == 1
    assert not {"\x1b", "\x07", "\x9b"} & {*out, *err}


def test_numbers_are_aligned_right_and_words_left(capsys: pytest.CaptureFixture[str]) -> None:
    console.write_table(["what", "how many"], [["a", "5"], ["b", "1,000"]])
    lines = capsys.readouterr().out.split("\n")
    assert lines[2].endswith("    5") and lines[3].endswith("1,000")


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    clock, output = Clock(), StringIO()
    with Bars(Console(file=output, width=1000, get_time=clock)).track("train", 100, "steps") as advance:
        for step in range(100):
            clock.now += 1
            advance(1, loss=f"{100 - step}.0", learning_rate="1e-3")
    assert output.getvalue().split("\n") == [
        "train: 30 of 100 steps, 0:01:10 left, 1 steps/s, loss 71.0, learning rate 1e-3",
        "train: 60 of 100 steps, 0:00:40 left, 1 steps/s, loss 41.0, learning rate 1e-3",
        "train: 90 of 100 steps, 0:00:10 left, 1 steps/s, loss 11.0, learning rate 1e-3",
        "train: 100 of 100 steps, 0:01:40, 1 steps/s, loss 1.0, learning rate 1e-3",
        "",
    ]


def test_progress_before_a_resume_does_not_count_as_speed() -> None:
    clock, output = Clock(), StringIO()
    with Bars(Console(file=output, width=1000, get_time=clock)).track("train", 10_000, "steps") as advance:
        advance(9_000)
        for _ in range(3):
            clock.now += 10
            advance(100)
    assert "train: 9,300 of 10,000 steps, 0:01:10 left, 10 steps/s\n" in output.getvalue()


def test_one_unit_is_named_in_the_singular() -> None:
    output = StringIO()
    for unit in ("libraries", "steps"):
        with Bars(Console(file=output, width=1000, get_time=Clock())).track("compile", 1, unit) as advance:
            advance()
    assert output.getvalue() == "compile: 1 of 1 library, 0:00:00\ncompile: 1 of 1 step, 0:00:00\n"


def test_nested_work_does_not_report_its_end() -> None:
    output = StringIO()
    progress = Bars(Console(file=output, width=1000, get_time=Clock()))
    with progress.track("train", 2) as advance, progress.track("validate", 3) as validated:
        validated(3)
        advance(2)
    assert output.getvalue() == "train: 2 of 2, 0:00:00\n"


@pytest.mark.parametrize("width", [30, 45, 60, 80, 100, 120, 200])
def test_a_bar_drops_parts_where_a_terminal_is_narrow_and_cuts_none(width: int) -> None:
    output, facts = StringIO(), {"loss": "2.31", "tokens": "12,345/s", "memory": "471 MiB", "dev": "5.01 BLEU 9.5"}
    screen = Console(file=output, force_terminal=True, color_system=None, width=width)
    with Bars(screen).track("train", 2_000, "steps") as advance:
        advance(1_000, **facts)
    last = output.getvalue().split("\x1b[2K")[-1].splitlines()[0].rstrip()
    whole = ", ".join(["1,000 of 2,000 steps", "0:00:00", *(f"{name} {fact}" for name, fact in facts.items())])
    shown = last[last.index("1,000") :]
    dropped = whole.removeprefix(shown)
    assert len(last) <= width and (not dropped or dropped.startswith(", "))
    assert not dropped or len(last) + len(", ".join(dropped.split(", ")[:2])) > width


def test_bars_on_a_terminal_leave_standard_output_alone(capsys: pytest.CaptureFixture[str]) -> None:
    output = StringIO()
    progress = Bars(Console(file=output, force_terminal=True, width=120))
    with progress.track("train", 2, "steps") as advance:
        with progress.track("validate", 1) as validated:
            validated()
        sys.stdout.write("a result\n")
        advance(2, loss="3.2")
    with pytest.raises(ValueError, match="inside"), progress.track("again"):
        raise ValueError("inside")
    assert capsys.readouterr().out == "a result\n"
    last = output.getvalue().split("\r")[-1]
    assert "train" in output.getvalue() and "loss 3.2" in output.getvalue() and "validate" not in last


# translate


def test_one_line_in_is_one_line_out(
    run_folder: Path, type_in: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    type_in("\ufeffthe gatt\r\n\n  \nthe can\x0c sees\u2028the top\nlast".encode())
    assert main(["translate", str(run_folder), "--quiet"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 6 and lines[1:3] == ["", ""] and lines[5] == ""


def test_every_way_of_giving_a_text_gives_the_same_translation(
    run_folder: Path, tmp_path: Path, type_in: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    text, model = "the gatt sees the top", str(run_folder)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text(text + "\n", encoding="utf-8")
    ways = [[text], ["--input", str(source)], [], ["--input", str(source), "--output", str(target)]]
    outputs = []
    for way in ways:
        type_in(text.encode())
        assert main(["translate", model, *way, "--quiet"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] == outputs[2] == target.read_text(encoding="utf-8")
    assert outputs[3] == ""


def test_words_streamed_to_a_terminal_join_to_the_same_text(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["translate", str(run_folder), "the gatt sees the top", "--quiet"]
    main(command)
    whole = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    main(command)
    assert capsys.readouterr().out == whole


def test_json_is_one_object_a_line(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", str(run_folder), "the gatt", "--format", "json", "--n-best", "2", "--quiet"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["line"], facts["source"]) == (1, "the gatt") and len(facts["alternatives"]) == 1
    assert sum(facts["token_log_probs"]) == pytest.approx(facts["log_prob"])
    assert len(facts["tokens"]) == len(facts["token_log_probs"])


def test_json_says_the_line(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "source"
    source.write_text("the gatt\n\nthe can\n")
    assert main(["translate", str(run_folder), "--input", str(source), "--format", "json", "--quiet"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["line"], row["source"]) for row in rows] == [(1, "the gatt"), (2, ""), (3, "the can")]


def test_several_translations_of_a_line_are_numbered(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", str(run_folder), "the gatt", "--n-best", "2", "--quiet"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [row[:2] for row in rows] == [["1", "1"], ["1", "2"]]
    assert float(rows[0][2]) >= float(rows[1][2])


def test_an_item_shows_source_target_and_prediction(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = json.loads((run_folder / "data" / "test.jsonl").read_text("utf-8").split("\n")[1])
    assert main(["translate", str(run_folder), "--item", "2", "--quiet"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[:2] == [f"source:     {source}", f"target:     {target}"] and lines[2].startswith("prediction: ")


def test_unknown_words_are_named(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", str(run_folder), "the zebra sees"]) == 0
    assert "words that the model does not know: zebra" in capsys.readouterr().err


def test_a_quiet_command_says_what_is_wrong(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["translate", str(run_folder), "--quiet"]
    assert main([*command, "the zebra sees"]) == 0
    assert "words that the model does not know: zebra" in capsys.readouterr().err
    source = tmp_path / "a.json"
    source.write_text('{"a": "the zebra", "b": "{n, plural, one {can}}", "c": "IN_STOCK"}')
    assert main([*command, "--input", str(source), "--output", str(tmp_path / "b.json")]) == 0
    told = capsys.readouterr().err
    assert "flagged unknown (line 1)" in told and "1 text left" in told and "'c' (1, such as 'IN_STOCK')" in told
    assert "2 texts: " not in told and "cpu" not in told


def test_several_texts_are_translated_each_by_itself(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*arguments: str) -> str:
        assert main(["translate", str(run_folder), *arguments, "--quiet"]) == 0
        return capsys.readouterr().out

    first, second = "the gatt sees the top", "the can"
    assert printed(first, second) == printed(first) + printed(second)
    rows = [line.split("\t") for line in printed(first, second, "--n-best", "2").split("\n")[:-1]]
    assert [row[:2] for row in rows] == [["1", "1"], ["1", "2"], ["2", "1"], ["2", "2"]]


def test_a_word_that_happens_to_be_the_name_of_a_file_is_translated(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("gatt", "top.en"):
        (tmp_path / name).write_text("the can", encoding="utf-8")
    assert main(["translate", str(run_folder), "gatt", "--quiet"]) == 0
    assert main(["translate", str(run_folder), "top.en", "--quiet"]) == 2
    assert main(["translate", str(run_folder), "other.en", "--quiet"]) == 0


@pytest.mark.parametrize(
    "content",
    [
        *("", "\n", "\n\n", "the gatt", "the gatt\r", "the gatt\r\n\r\nthe can\r\n", "\ufeffthe gatt\n\ufeff\n"),
        *("a\rb\x0cc\u2028d\x85e\x1cf\nlast", "\0\n \n\t", "the gatt sees. The can.\n"),
    ],
)
def test_lines_of_a_file_and_of_standard_input_follow_the_same_rules(
    content: str, run_folder: Path, tmp_path: Path, type_in: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_bytes(content.encode())
    type_in(content.encode())
    command = ["translate", str(run_folder), "--quiet"]
    assert main(command) == 0
    typed = capsys.readouterr().out
    assert main([*command, "--input", str(tmp_path / "in.txt")]) == 0
    assert capsys.readouterr().out == typed
    assert typed.count("\n") == content.count("\n") + (content[-1:] not in ("\n", ""))


def test_standard_input_refuses_giant_and_undecodable_lines_as_a_file_does(
    run_folder: Path,
    type_in: Callable[[bytes], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["translate", str(run_folder), "--quiet"]
    type_in("città\n".encode("latin-1"))
    assert main(command) == 2
    told = capsys.readouterr().err
    assert "standard input:1 is not valid UTF-8 at byte 4 (0xe0); convert it to UTF-8" in told
    assert "encoding_errors" not in told
    monkeypatch.setattr(data_lines, "LONGEST_LINE_BYTES", 1 << 20)
    type_in(b"a" * (1 << 20) + b"\n")
    assert main(command) == 2
    assert "standard input:1 is longer than 1 MiB" in capsys.readouterr().err


def test_invalid_text_is_answered_with_advice_that_translate_can_follow(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_bytes("città\n".encode("latin-1"))
    assert main(["translate", str(run_folder), "--input", str(tmp_path / "in.txt"), "--quiet"]) == 2
    told = capsys.readouterr().err
    assert "iconv -f" in told and "encoding_errors" not in told


class Echo:
    """A translator that hands back what it is given."""

    def translate(self, texts: list[str], options: SearchOptions, progress: Progress) -> list[Translation]:
        return [
            Translation(text, text, alternatives=(Translation(text, text),) * (options.n_best - 1)) for text in texts
        ]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("n_best", [1, 2])
def test_output_is_written_in_batches_and_appears_when_complete(
    as_json: bool, n_best: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "LINES", 100)
    long = "x" * 1000  # more than a file's buffer holds in a batch
    output, ahead = tmp_path / "out", []

    def texts() -> Iterator[str]:
        for number in range(1000):
            (aside,) = tmp_path.iterdir()
            ahead.append(number - aside.read_text("utf-8").count(long) // (n_best * (2 if as_json else 1)))
            yield long

    options = SearchOptions(n_best=n_best)
    write_translations(Echo(), texts(), options, output, as_json)  # pyright: ignore[reportArgumentType]
    assert max(ahead) <= 120, "what was translated is held in memory"
    assert list(tmp_path.iterdir()) == [output]
    assert output.read_text("utf-8").count("\n") == (1000 if as_json else 1000 * n_best)


def test_batches_are_limited_in_lines_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "LINES", 3)
    monkeypatch.setattr(documents, "CHARACTERS", 10)
    texts = ["a", "b", "c", "d" * 30, "e", "", "f", "g"]
    assert list(documents.chunks(texts, len)) == [["a", "b", "c"], ["d" * 30], ["e", "", "f"], ["g"]]


@pytest.mark.parametrize("empty_lines", [0, 5])
def test_only_chunks_of_empty_texts_are_longer(monkeypatch: pytest.MonkeyPatch, empty_lines: int) -> None:
    monkeypatch.setattr(documents, "LINES", 3)
    texts = [*"abcd", *[""] * 16, "e", "", "", "", "", "f"]
    made = list(documents.chunks(texts, len, None, empty_lines))
    assert [text for chunk in made for text in chunk] == texts
    assert max(len(chunk) for chunk in made if not any(chunk)) == max(3, empty_lines)
    assert all(len(chunk) <= 3 for chunk in made if any(chunk))


def test_flags_are_counted_and_explained_once(
    run_folder: Path, type_in: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(b"The gatt. The can.\nthe top\nThe can. The gatt.\n")
    assert main(["translate", str(run_folder), "--set", "length_extra=3"]) == 0
    told = capsys.readouterr().err
    assert told.count("2 of 3 lines flagged split (line 1, 3): translated in several pieces, each by itself\n") == 1
    assert told.count("flagged split") == 1
    type_in(b"The gatt. The can.")
    assert main(["translate", str(run_folder)]) == 0
    told = capsys.readouterr().err
    assert "1 of 1 line flagged split" in told and "1 lines" not in told


@pytest.mark.parametrize("way", ["text", "texts", "pipe", "file"])
def test_a_refused_flag_ends_a_translation_with_code_9_when_all_is_written(
    way: str, run_folder: Path, type_in: Callable[[bytes], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["the zoo"] if way == "text" else ["the can", "the top", "the zoo sees the zoo"]
    number, source = len(texts), tmp_path / "source"
    source.write_text("".join(f"{text}\n" for text in texts))
    type_in(source.read_bytes())
    output = tmp_path / "output"
    inputs = {"pipe": [], "file": ["--input", str(source), "--output", str(output)]}.get(way, texts)
    command = ["translate", str(run_folder), *inputs, "--set", "length_extra=3", "--fail-on"]
    assert main([*command, "lost,cleaned", "--fail-on", "split"]) == 0
    output.unlink(missing_ok=True)
    type_in(source.read_bytes())
    capsys.readouterr()
    assert main([*command, "lost, unknown"]) == errors.GateFailed.exit_code
    told = capsys.readouterr()
    assert f"error: --fail-on: some translations are flagged unknown (line {number})\n" in told.err
    assert (output.read_text() if way == "file" else told.out).count("\n") == number


def test_a_flag_that_there_is_not_is_refused(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", str(run_folder), "the top", "--fail-on", "split,odd"]) == 2
    assert "there is no flag 'odd', only split, broken, copied," in capsys.readouterr().err


def test_flags_of_all_translations_are_said_and_scores_explained(
    run_folder: Path, type_in: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    n_best = ["translate", str(run_folder), "--set", "length_extra=3", "--n-best", "2"]
    type_in(b"the top\nThe gatt. The can.\n")
    assert main(n_best) == 0
    told = capsys.readouterr().err
    assert "1 of 2 lines flagged split (line 2): " in told and "nearer a score is to 0, the likelier" in told
    assert main([*n_best, "The gatt. The can."]) == 0
    told = capsys.readouterr().err
    assert "translation 1 is flagged split" in told and "translation 2 is flagged split" in told


def test_the_time_left_is_counted_down_between_two_steps() -> None:
    now = [0.0]
    screen = Console(file=StringIO(), force_terminal=True, width=120, get_time=lambda: now[0])
    shown = list[str]()
    bars = Bars(screen)
    with bars.track("train", 100, "steps") as advance:
        drawing = bars._drawing
        assert drawing is not None
        for _ in range(5):
            now[0] += 10
            advance()
        for _ in range(4):
            shown.append(state_of(drawing.tasks[0]).split(", ")[1])
            now[0] += 3
    assert shown == ["0:15:50 left", "0:15:47 left", "0:15:44 left", "0:15:41 left"]


def test_a_test_set_that_stands_in_training_is_said(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = list(read_split(run_folder / "data", "train"))[:2]
    pairs = [*known, ("The lup fears the pirate.", "Il lupo teme il pirata.")]
    (tmp_path / "test.tsv").write_text("en\tit\n" + "".join(f"{source}\t{target}\n" for source, target in pairs))
    assert main(["evaluate", str(run_folder), str(tmp_path / "test.tsv")]) == 0
    assert "2 of 3 sentences of test.tsv are in the text that" in capsys.readouterr().err
    assert main(["evaluate", str(run_folder)]) == 0
    assert "are in the text" not in capsys.readouterr().err


def test_scores_count_the_flags_of_the_translations(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dragoman.inference.translation.DOUBTFUL_LOG_PROB", 0.0)  # whatever a model is not sure of
    assert main(["evaluate", str(run_folder), "--samples", "0", "--beam-size", "1", "--quiet"]) == 0
    assert "6 doubtful" in capsys.readouterr().out


# demo


@pytest.mark.parametrize("talks", [False, True])
def test_the_demo_ends_with_what_to_do_next(
    talks: bool, run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dragoman, "train", lambda *_, **__: RunResult(run_folder, 1, ()), raising=False)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: talks)
    monkeypatch.setattr("dragoman.cli.train.converse", interrupt)
    assert main(["demo"]) == 0
    *_, own, train, translate, end = capsys.readouterr().err.split("\n")
    assert "your own text" in own and "dragoman train FILE" in train and "dragoman translate runs/" in translate
    assert end == ""


def test_the_demo_says_what_each_test_set_tries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ("una casa rossa e blu", "il gatto vede il cane")
    (tmp_path / "found.txt").write_text("\n".join(texts), encoding="utf-8")
    sets = [ReferenceSet(f"{name}.jsonl", texts, ((texts[0],), (texts[0],))) for name in ("new_patterns", "test")]
    write_scores(tmp_path / "scores.json", [evaluate(tmp_path / "found.txt", test_set, samples=0) for test_set in sets])
    show_demo_scores(tmp_path)
    told = capsys.readouterr().out
    assert 0 < told.index("known patterns") < told.index("new patterns") and "new_patterns" not in told


# The other commands


def test_prepared_data_is_reported_as_a_table_or_json(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["prepare-data", str(run_folder.parent / "pairs.tsv"), "--set", "test_size=10", "--quiet"]
    assert main([*command, "--folder", str(tmp_path / "one")]) == 0
    assert "en → it" in capsys.readouterr().out
    assert main([*command, "--folder", str(tmp_path / "two"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["splits"]["test"]["pairs"] == 10


@pytest.mark.parametrize("is_terminal", [True, False])
def test_cells_that_run_from_right_to_left_keep_the_order_of_a_table_on_a_terminal(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    console.write_table(["word", "other"], [["שלום", "abc"], ["سلام, سلام", "1 \u202e"]])
    shown = capsys.readouterr().out
    for word in ("שלום", "سلام, سلام"):
        assert word in shown and (f"\u2068{word}\u2069" in shown) == is_terminal
    assert shown.count("\u2068") == 2 * is_terminal and "1 \\u202e" in shown and "abc" in shown


def test_what_was_dropped_is_shown_once(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (run_folder.parent / "pairs.tsv").read_text("utf-8")
    (tmp_path / "twice.tsv").write_text(text * 2, "utf-8")
    new = ["--runs", str(tmp_path), "--set", "train.steps=1", "--set", "model.size=tiny"]
    for command in (["prepare-data", "--folder", str(tmp_path / "data")], ["train", *new]):
        assert main([*command, str(tmp_path / "twice.tsv"), "--set", "data.header=true"]) == 0
        assert "".join(capsys.readouterr()).count("duplicate of an earlier pair") == 1


def test_a_tokenizer_is_trained_on_prepared_data_or_on_a_file(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, data in (("one", run_folder / "data"), ("two", run_folder.parent / "pairs.tsv")):
        command = ["train-tokenizer", str(data), "--folder", str(tmp_path / name), "--kind", "byte_bpe", "--quiet"]
        assert main([*command, "--vocabulary-size", "280"]) == 0
        assert (tmp_path / name / "tokenizer.json").is_file()
        assert "280" in capsys.readouterr().out


def test_scores_are_printed_with_signature_and_interval_and_compared(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, scores = tmp_path / "output", tmp_path / "scores.json"
    command = ["evaluate", str(run_folder), "--samples", "50", "--quiet", "--beam-size", "1"]
    assert main([*command, "--output", str(output), "--scores", str(scores)]) == 0
    plain = capsys.readouterr().out
    assert "in short: " in plain and "nrefs:1" not in plain
    assert main([*command[:-3], "--beam-size", "1", "--verbose"]) == 0
    printed = capsys.readouterr().out
    assert "BLEU" in printed and "nrefs:1" in printed and "greedy" in printed
    assert len(output.read_text("utf-8").split("\n")) == 7
    assert json.loads(scores.read_text("utf-8"))["evaluations"][0]["test"]["lines"] == 6
    test = str(run_folder / "data" / "test.jsonl")
    assert main(["evaluate", str(output), test, "--against", str(output), "--metric", "chrf", "--quiet"]) == 0
    assert "no difference" in capsys.readouterr().out


def test_every_command_that_reads_pairs_takes_the_same_settings(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, folder = tmp_path / "table.csv", tmp_path / "made"
    rows = [f"{n},the gatt sees the top {n},il gatto vede il topo {n},die Katze sieht es {n}\n" for n in range(40)]
    table.write_text("nr,alfa,beta,gamma\n" + "".join(rows), encoding="utf-8")
    chosen = [f"--set=data.{setting}" for setting in ("source_column=alfa", "target_column=3", "header=true")]
    assert main(["prepare-data", str(table), "--folder", str(folder), "--quiet", *chosen]) == 0
    assert "alfa → beta" in capsys.readouterr().out
    kind = ["--set", "tokenizer.vocabulary_size=300", "--kind", "byte_bpe", "--quiet"]
    assert main(["train-tokenizer", str(table), "--folder", str(tmp_path / "tokens"), *kind, *chosen]) == 0
    scored = ["--samples", "0", "--quiet", "--set", "decode.beam_size=1", "--set", "length_extra=3"]
    assert main(["evaluate", str(run_folder), str(table), *scored, *chosen]) == 0
    assert "table.csv: 40 lines" in (printed := capsys.readouterr().out) and "greedy" in printed
    assert main(["evaluate", str(run_folder), str(table), *scored, "--set", "data.colum=2"]) == 2
    assert "unknown setting data.colum" in capsys.readouterr().err
    assert main(["evaluate", str(run_folder), str(table), *scored]) == 2
    assert "--set data.source_column=NAME" in capsys.readouterr().err


def test_evaluate_takes_the_columns_that_the_run_learnt_from(run_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(run_folder, run)
    report = json.loads((run / "data" / "data.json").read_text("utf-8"))
    report["inputs"]["train"]["columns"] = ["beta", "alfa"]
    (run / "data" / "data.json").write_text(json.dumps(report), encoding="utf-8")
    table = tmp_path / "table.csv"
    table.write_text("alfa,beta\n" + "".join(f"topo {n},top {n}\n" for n in range(9)), encoding="utf-8")
    for model in (run, run / "best"):
        (run / "recipe.toml").write_text("")  # as every run has
        (evaluation,) = dragoman.compare(model, table, overrides=["decode.beam_size=1"], samples=0).evaluations
        assert isinstance(evaluation, Evaluation) and evaluation.test.sources[0] == "top 0"


def test_a_misspelt_run_is_suggested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs" / "my").mkdir(parents=True)
    (tmp_path / "corpus.csv").write_text("en,it\n")
    for command, name in (
        (["evaluate", "runs/mu"], "runs/my"),
        (["translate", "run/my", "text"], "runs/my"),
        (["fine-tune", "runs/mu", "corpus.csv"], "runs/my"),
        (["train", "corpsu.csv"], "corpus.csv"),
        (["prepare-data", "corpus.cvs", "--folder", "new"], "corpus.csv"),
    ):
        arguments = [str(tmp_path / word) if "/" in word or "." in word or word == "new" else word for word in command]
        assert main(arguments) in (2, 4)
        assert f"did you mean {tmp_path / name}?" in capsys.readouterr().err


def test_a_benchmark_names_machine_and_search(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", str(run_folder), "--sentences", "3", "--rounds", "1", "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "greedy" in printed and "tokens/s" in printed and "torch 2" in printed and "GFLOP/s" in printed


def test_a_benchmark_measures_the_search_that_is_asked_for(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["benchmark", str(run_folder), "--sentences", "2", "--rounds", "1", "--format", "json", "--quiet"]
    for asked, searches in (
        ("decode.beam_size=3", {"beam 3, length penalty 0.6"}),
        ("length_penalty=1", {"greedy", "beam 4, length penalty 1"}),
    ):
        assert main([*command, "--set", asked]) == 0
        speeds = json.loads(capsys.readouterr().out)["speeds"]
        assert {speed["search"] for speed in speeds} == searches


def test_a_setting_of_the_search_has_one_name_in_all_commands(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["translate", str(run_folder), "the gatt"], ["evaluate", str(run_folder), "--samples", "0"]):
        outputs = []
        for asked in ([], ["--set", "decode.prefix='il lupo'"], ["--set", "prefix='il lupo'"]):
            assert main([*command, "--quiet", *asked, "--set", "decode.beam_size=1"]) == 0
            outputs.append(capsys.readouterr().out)
        assert outputs[0] != outputs[1] == outputs[2]


def test_the_doctor_tells_what_was_chosen_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--format", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["precision"] in {"float32", "bf16"} and facts["torch"].startswith("2.")
    assert main(["doctor"]) == 0
    assert "processor" in capsys.readouterr().out


def test_a_group_of_options_is_spread_over_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"--{name}" in shown for name in ("minutes", "set", "name", "runs", "fresh", "anyway", "device"))
