"""The workshop: solutions pass, other right ways pass, usual mistakes are named, and the reader's program trains."""

import re
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from readers_of_workshop import RIGHT, WRONG

import dragoman
from dragoman.errors import ConfigError, DataError
from dragoman.workshop import checks
from dragoman.workshop.cases import CASES
from dragoman.workshop.exercises import FILES, SOLUTIONS, list_parts, make_workshop
from dragoman.workshop.judging import compare, judge, observe, read_mistakes, solutions, variants

PARTS = {part.name: part for part in list_parts()}
TOGETHER = "together"


def verdict(name: str, code: str) -> str:
    """Return the verdict on a part that is written like this."""
    defined = dict(solutions())
    exec(code, defined)
    return judge(PARTS[name], defined)


@pytest.fixture
def solved(tmp_path: Path) -> Path:
    return make_workshop(tmp_path / "mine", solutions=True)


def replace(path: Path, before: str, after: str) -> None:
    text = path.read_text("utf-8")
    assert before in text
    path.write_text(text.replace(before, after), "utf-8")


# The folder


def test_exercises_have_docstrings_and_no_bodies(tmp_path: Path) -> None:
    folder = make_workshop(tmp_path / "mine")
    for file in FILES:
        text = (folder / file).read_text("utf-8")
        compile(text, file, "exec")
        assert len(text) < len((SOLUTIONS / file).read_text("utf-8")) and "..." in text
    verdicts = dragoman.check_workshop(folder, progress=False)
    assert [(verdict.part, verdict.result) for verdict in verdicts] == [(name, "to write") for name in PARTS]
    assert "dragoman" not in "".join(path.read_text("utf-8").lower() for path in folder.glob("*.py"))


def test_an_existing_folder_is_left_alone(solved: Path) -> None:
    (solved / FILES[0]).write_text("mine", "utf-8")
    with pytest.raises(DataError, match="exists already"):
        make_workshop(solved)
    assert (solved / FILES[0]).read_text("utf-8") == "mine"


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no step_4_gradients.py"):
        dragoman.check_workshop(tmp_path)


# Verdicts


def test_each_part_has_a_case_and_usual_mistakes() -> None:
    assert set(CASES) == {*PARTS, TOGETHER} and set(read_mistakes()) == set(PARTS)
    assert len([row for rows in read_mistakes().values() for row in rows]) >= 30


@pytest.mark.parametrize("name", PARTS)
def test_our_own_part_passes_and_says_the_same_twice(name: str) -> None:
    assert judge(PARTS[name], dict(solutions())) == ""
    assert not compare(observe(name, solutions()), observe(name, solutions()))


SLOW = {"initialise", "Transformer", "DecoderLayer", "network_gradients", "attend"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough) if name in SLOW else name for name in PARTS]
)
def test_each_usual_mistake_is_named_by_its_own_sentence(name: str) -> None:
    rows = read_mistakes()[name]
    programs = list(islice(variants(PARTS[name]), len(rows)))
    assert [says for says, _ in programs] == [row["says"] for row in rows]
    for says, defined in programs:
        assert judge(PARTS[name], defined).startswith(says) if says else not judge(PARTS[name], defined)


@pytest.mark.parametrize("name", RIGHT)
def test_other_right_ways_pass(name: str) -> None:
    assert verdict(name, RIGHT[name]) == ""


@pytest.mark.parametrize(("name", "before", "after", "says"), WRONG, ids=lambda value: value[:20])
def test_mistakes_in_other_ways_are_named(name: str, before: str, after: str, says: str) -> None:
    assert before in RIGHT[name]
    assert re.search(says, verdict(name, RIGHT[name].replace(before, after)))


def test_a_weight_that_ours_has_not_is_said() -> None:
    own = "self.output = nn.Linear(d_model, target_words)\n        initialise(self)"
    code = RIGHT["Transformer"].replace("initialise(self)", own)
    says = verdict("Transformer", code.replace("y @ self.target_embedding.weight.T", "self.output(y)"))
    assert "It has a weight that ours has not: output.weight." in says


def test_two_mistakes_are_both_named() -> None:
    says = verdict("LayerNorm", RIGHT["LayerNorm"].replace(", unbiased=False", "").replace(" + self.shift", ""))
    assert "divides by D - 1" in says and "shift is not added" in says


def test_a_changed_argument_a_cut_gradient_and_another_shape_are_said() -> None:
    assert "changes its argument x in place" in verdict(
        "join_heads", "def join_heads(x):\n    y = x.transpose(1, 2).flatten(2)\n    x.zero_()\n    return y"
    )
    assert "no gradient of x arrives" in verdict(
        "join_heads", "def join_heads(x):\n    return x.detach().transpose(1, 2).flatten(2)"
    )
    assert "shape of the result is [3, 5, 5], expected [5, 5]" in verdict(
        "causal_mask", "def causal_mask(ids):\n    return torch.ones(3, 5, 5, dtype=torch.bool).tril()"
    )
    assert "dtype of the result is torch.float32, expected torch.bool" in verdict(
        "causal_mask", "def causal_mask(ids):\n    return torch.ones(5, 5).tril()"
    )
    assert "NoneType" in verdict("causal_mask", "def causal_mask(ids):\n    torch.ones(5, 5).tril()")


def test_the_place_of_a_wrong_number_is_said() -> None:
    code = "def causal_mask(ids):\n    mask = torch.ones(5, 5).tril() > 0\n    mask[2, 3] = True\n    return mask"
    assert "row 2, column 3 (counted from 0) is True, expected False" in verdict("causal_mask", code)


# A reader's files


def test_solutions_pass_also_together(solved: Path) -> None:
    verdicts = dragoman.check_workshop(solved, progress=False)
    assert [(verdict.part, verdict.says) for verdict in verdicts] == [(name, "") for name in (*PARTS, TOGETHER)]


@pytest.mark.thorough
def test_whatever_a_file_does_is_a_verdict_on_its_part(solved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SECONDS", 15.0)
    replace(solved / "step_4_gradients.py", "    z = x @ W1\n", "    z = x @ W3\n")
    replace(solved / "step_4_gradients.py", "    p = logits.softmax(-1)\n", "    import os; os._exit(3)\n")
    replace(solved / "step_5_positions.py", "    wave = ", "    while True: pass\n    wave = ")
    replace(solved / "step_6_attention.py", "class Attention(", "class Attention(nn.Modul, ")
    replace(solved / "step_7_layers.py", "    variance = ", "    raise SystemExit('x')\n        variance = ")
    replace(solved / "step_8_model.py", "def initialise(model):", "def initialize(model):")
    replace(solved / "step_9_trainer.py", "    log_probs = ", "    print('a print')\n    log_probs = ")
    says = {verdict.part: verdict.says for verdict in dragoman.check_workshop(solved, progress=False)}
    assert says["network_gradients"].startswith("step_4_gradients.py, line 12: z = x @ W3: NameError")
    assert says["logits_gradient"] == "It ends Python itself."
    assert says["positions"].startswith("It takes too long")
    assert "step_6_attention.py cannot be imported: AttributeError" in says["attend"] and says["Attention"]
    assert "line 19: raise SystemExit('x'): SystemExit: x" in says["LayerNorm"]
    assert says["initialise"] == "step_8_model.py has no initialise."
    assert TOGETHER not in says
    passing = ("finite_differences", "embed", "FeedForward", "DecoderLayer", "smoothed_loss", "greedy")
    assert [says[name] for name in passing] == [""] * len(passing)


def test_a_byte_order_mark_and_a_file_named_as_a_module_do_no_harm(
    solved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = solved / FILES[0]
    file.write_text(file.read_text("utf-8"), "utf-8-sig")
    (solved / "token.py").write_text("raise SystemExit", "utf-8")
    monkeypatch.chdir(solved)
    verdicts = dragoman.check_workshop(progress=False)
    assert {verdict.result for verdict in verdicts if verdict.page == 4} == {"passes"}


def test_a_file_that_is_no_python_names_its_line(solved: Path) -> None:
    replace(solved / "step_5_positions.py", "def embed(table, ids):", "def embed(table, ids)")
    for file in FILES[:1] + FILES[2:]:
        (solved / file).unlink()
    says = {verdict.part: verdict.says for verdict in dragoman.check_workshop(solved, progress=False)}
    assert says["embed"].startswith("step_5_positions.py, line 15: expected ':'")
    assert "step_6_attention.py cannot be read" in says["attend"]


def test_the_readers_program_asks_for_all_parts_first(tmp_path: Path) -> None:
    folder = make_workshop(tmp_path / "mine")
    ended = subprocess.run([sys.executable, "my_transformer.py"], cwd=folder, capture_output=True, encoding="utf-8")
    assert ended.returncode == 1 and ended.stderr == "write all parts first, and let them be checked\n"


def test_the_curve_of_the_readers_program_is_the_mean_of_the_last_hundred_steps(solved: Path) -> None:
    code = """
import torch
import my_transformer as program
losses = iter(range(1, 201))
program.STEPS, program.train_step, program.save_model = 200, lambda *_: next(losses), lambda *_: None
program.train(torch.nn.Linear(1, 1), [("a", "b")] * 64, {}, {}, "cpu")
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=solved, capture_output=True, encoding="utf-8", check=True)
    assert re.findall(r"loss +([\d.]+)", ended.stdout) == ["1.00", "50.50", "150.50"]


@pytest.mark.thorough
def test_the_readers_program_trains_and_translates(solved: Path) -> None:
    replace(
        solved / "my_transformer.py",
        "STEPS, WARMUP_STEPS, BATCH_SIZE = 3_000, 400, 64",
        "STEPS, WARMUP_STEPS, BATCH_SIZE = 12, 5, 8",
    )
    for name, count in (("train", 400), ("test", 10)):
        lines = (solved / f"{name}.tsv").read_text("utf-8").splitlines(keepends=True)[:count]
        (solved / f"{name}.tsv").write_text("".join(lines), "utf-8")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "my_transformer.py", *arguments]
        return subprocess.run(command, cwd=solved, input="Hello.\n", capture_output=True, encoding="utf-8", timeout=300)

    assert "train first" in run("Good evening.").stderr
    trained = run()
    assert re.search(
        r"^step +1  loss .+\nstep +12  loss +\d\.\d\d  #+\n\d+ of 10 test sentences .+\n.*\n\Z", trained.stdout
    ), trained
    translated = run("Good evening.", "Good evening.")
    first, second = translated.stdout.splitlines()
    assert first == second and not translated.stderr
