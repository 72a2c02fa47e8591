"""Quality, size, speed and memory of small students, with and without a teacher.

    python benchmarks/students.py TEACHER [--sizes tiny micro nano] [--steps 2000] [--vocabulary 2000] [--seed 1]
        [--jobs 2] [--runs FOLDER] [--out results.json]

TEACHER is a finished run of `dragoman train`. It translates the sources of its training text with beam 4, and the most
similar to the reference of the 4 best is taken (`distil`). Students of each size learn from the text as it is and
from the teacher's translations, for the same number of steps, and are rounded to 8 bits. All are scored on the
teacher's test set, with beam 4, and timed in one process, interleaved, on the first 300 sentences of it, greedy. The
p-values are those of differences in BLEU. Memory is the peak of a process that translates these sentences. What is
finished is not done again, so the command may be stopped at any time. It prints the table as Markdown, and draws BLEU
against speed next to the JSON file.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from command_line import markdown, new_parser, write_figures

from dragoman.curating.judgements import KEPT
from dragoman.curating.translating import distil
from dragoman.evaluating.evaluation import Evaluation, evaluate
from dragoman.evaluating.significance import compare_systems
from dragoman.evaluating.speed import ALL, ONE, benchmark
from dragoman.inference.options import SearchOptions
from dragoman.inference.translator import Translator
from dragoman.memory import peak_memory_bytes
from dragoman.runs.quantize import quantize
from dragoman.runs.train import train
from dragoman.store.description import WEIGHTS
from dragoman.store.folder import find_model
from dragoman.text.prepared import read_split

TIMED = 300
"""Sentences that are timed."""
PLAIN, TAUGHT = "plain", "taught"


class School:
    """The teacher, its text, and the students, in a folder."""

    def __init__(self, arguments: Any) -> None:
        self.arguments, self.teacher, self.folder = arguments, arguments.teacher.resolve(), arguments.runs.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.languages = Translator.load(self.teacher, "cpu").languages
        self.students = [self.folder / f"{size}-{text}" for size in arguments.sizes for text in (PLAIN, TAUGHT)]
        self.models = [path for run in (self.teacher, *self.students) for path in (run, self.in_int8(run))]

    def in_int8(self, run: Path) -> Path:
        """Return the folder of a run's model in 8 bits."""
        return self.folder / f"{run.name}-int8"

    def files(self, part: str) -> list[str]:
        """Return the two files of a set."""
        return [str(self.folder / f"{part}.{language}") for language in self.languages]

    def write_texts(self) -> None:
        """Write the sets of the teacher as two files each."""
        for part in ("train", "dev", "test"):
            for path, side in zip(
                self.files(part), zip(*read_split(self.teacher / "data", part), strict=True), strict=True
            ):
                Path(path).write_text("".join(f"{line}\n" for line in side), "utf-8")

    def teach(self) -> None:
        """Let the teacher translate the sources of its training text."""
        source, references = self.files("train")
        distil(self.teacher, source, self.folder / "made", references=references, n_best=4, beam_size=4, device="cpu")

    def train(self, run: Path) -> None:
        """Train a student, and round it to 8 bits; the teacher is only rounded."""
        if run != self.teacher:
            size, _, text = run.name.partition("-")
            overrides = [f"data.dev_path={self.files('dev')}", f"data.test_path={self.files('test')}"]
            overrides += [f"train.steps={self.arguments.steps}", f"train.seed={self.arguments.seed}"]
            what = [self.folder / "made" / KEPT] if text == TAUGHT else self.files("train")
            overrides += [f"model.size={size}", f"tokenizer.vocabulary_size={self.arguments.vocabulary}"]
            train(what, overrides=overrides, name=run.name, runs=self.folder, threads=1, device="cpu")
        if not self.in_int8(run).exists():
            quantize(run, self.in_int8(run), progress=False)

    def score(self, model: Path) -> Evaluation:
        """Translate the test set with a model."""
        source, references = map(Path, self.files("test"))
        return evaluate(Translator.load(model, "cpu", threads=1), source, [references], samples=0, beam_size=4)

    def timed(self) -> list[str]:
        """Return the sentences that are timed."""
        return Path(self.files("test")[0]).read_text("utf-8").splitlines()[:TIMED]


def learn(run: Path, arguments: Any) -> None:
    """Train a student in a new process."""
    School(arguments).train(run)


def score(model: Path, arguments: Any) -> Evaluation:
    """Score a model in a new process."""
    return School(arguments).score(model)


def memory(model: Path, arguments: Any) -> int | None:
    """Return the peak of a process that translates with a model, in bytes."""
    Translator.load(model, "cpu", threads=1).translate(School(arguments).timed(), SearchOptions(beam_size=1))
    return peak_memory_bytes("cpu")


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw BLEU against speed; the area of a point is the size on disk."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 5), layout="constrained")
    for row in rows:
        axes.scatter(row["tokens_per_second"], row["bleu"], s=20 * row["megabytes"], alpha=0.6)
        axes.annotate(
            row["model"],
            (row["tokens_per_second"], row["bleu"]),
            textcoords="offset points",
            xytext=(6, -12 if row["model"].endswith("int8") else 5),
        )
    axes.margins(x=0.2, y=0.1)  # space for the names
    axes.set(xlabel="tokens per second (file, greedy)", ylabel="BLEU (beam 4)", title="area: size on disk")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(words: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "micro", "nano"])
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--vocabulary", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=Path("students"))
    arguments = parser.parse_args(words)
    school = School(arguments)
    school.write_texts()
    school.teach()
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        list(pool.map(partial(learn, arguments=arguments), [*school.students, school.teacher]))
        scored = dict(zip(school.models, pool.map(partial(score, arguments=arguments), school.models), strict=True))
        peaks = dict(zip(school.models, pool.map(partial(memory, arguments=arguments), school.models), strict=True))
    measured = benchmark(school.models, school.timed(), rounds=5, overrides=["decode.beam_size=1"], threads=1)
    speeds = {(speed.model, speed.batch): speed for speed in measured.speeds}
    rows = [row_of(school, model, scored, peaks[model], speeds) for model in school.models]
    columns = ["model", "MB", "BLEU", "chrF", "p to the teacher", "p to the same without", "tokens/s", "p50 ms", "MiB"]
    print(markdown(columns, [[*map(cell, row.values())] for row in rows]))
    facts = measured.facts()
    for fact in (*facts["speeds"], *facts["ratios"]):
        fact |= {key: Path(fact[key]).name for key in ("model", "against") if key in fact}
    write_figures(arguments.out, rows=rows, speeds=facts)
    if arguments.out:
        draw(rows, arguments.out.with_suffix(".png"))


def cell(value: float | str | None) -> str:
    """Return a value as text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return f"{value:,.0f}" if value > 100 else f"{value:.2g}" if value < 1 else f"{value:.1f}"


def row_of(
    school: School, model: Path, scored: dict[Path, Evaluation], peak: int | None, speeds: dict[Any, Any]
) -> dict[str, Any]:
    """Return the figures of a model."""

    def p_value(rival: Path) -> float | None:
        if rival == model:
            return None
        return compare_systems([scored[model]], [scored[rival]], metrics=["bleu"])["bleu"].p_value

    untaught = model.with_name(model.name.replace(TAUGHT, PLAIN))
    evaluation, file, alone = scored[model], speeds[str(model), ALL], speeds[str(model), ONE]
    return {
        "model": model.name,
        "megabytes": (find_model(model) / WEIGHTS).stat().st_size / 1e6,
        "bleu": evaluation.scores["bleu"].value,
        "chrf": evaluation.scores["chrf"].value,
        "p_teacher": p_value(school.teacher),
        "p_untaught": p_value(untaught),
        "tokens_per_second": file.tokens_per_second.median,
        "p50_ms": alone.latency_ms.p50,
        "mebibytes": None if peak is None else peak / 2**20,
    }


if __name__ == "__main__":
    main()
