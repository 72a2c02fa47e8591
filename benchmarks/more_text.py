"""Precision and recall of `filter` for pairs spoilt on purpose, and BLEU with filtered and with back-translated text.

    python benchmarks/more_text.py TATOEBA OTHER [--pairs 10000] [--sentences 100000] [--steps 3000] [--seeds 1]
        [--jobs 2] [--runs FOLDER] [--out results.json]

TATOEBA is a folder with `train.en`, `train.it`, `dev.en` and so on; OTHER is the start of the names of two files of
another origin, such as `gnome_user_docs`. For each seed, a model for each direction learns from random pairs. The
reverse model translates Italian sentences back, whose English no model has read, and another model learns from the
pairs and from these. Then the same number of other pairs is taken, and a tenth of them is spoilt in five ways
(`SPOILERS`). `filter` judges them with the first two models, and models learn from the clean, the spoilt and the
filtered text. All models learn for the same number of steps, and are scored with beam 4 on the first 1,000 pairs of
both tests. What is finished is not done again, so the command may be stopped at any time.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from command_line import markdown, mean_and_deviation, new_parser, read_sides, write_figures

from dragoman.curating.filtering import filter_pairs
from dragoman.curating.judgements import DROPPED, KEPT
from dragoman.curating.translating import back_translate
from dragoman.evaluating.evaluation import evaluate
from dragoman.inference.translator import Translator
from dragoman.runs.train import train

DEV_LINES, TEST_LINES, SPOILT = 500, 1_000, 0.1
"""Pairs of the dev set and of each test, and the share of the pairs that is spoilt."""
CLEAN = "not spoilt"
SPANISH = ("No sé qué decirte ahora.", "¿Dónde está la estación?", "Mañana vamos a la playa.", "Me gusta mucho leer.")
SPOILERS: dict[str, Callable[[str, str, str], tuple[str, str]]] = {
    "target of another pair": lambda source, target, stranger: (source, stranger),
    "sides exchanged": lambda source, target, stranger: (target, source),
    "source copied": lambda source, target, stranger: (source, source),
    "second half of the target missing": lambda source, target, stranger: (source, first_half(target)),
    "target in Spanish": lambda source, target, stranger: (source, SPANISH[len(source) % len(SPANISH)]),
}
"""Each returns a pair, spoilt; it is given the target of another pair too."""
FIRST = {"forward": ("pairs", "en-it"), "reverse": ("pairs", "it-en")}
SECOND = {
    "synthetic": ("pairs", "en-it"),
    "clean": ("clean", "en-it"),
    "spoilt": ("spoilt", "en-it"),
    "filtered": ("filter/kept", "en-it"),
}
"""The models by name, each with its text and its direction. The second ones need the first."""
METRICS = {"bleu": "BLEU", "chrf": "chrF"}
FIGURES = [(test, key) for test in ("Tatoeba", "other origin") for key in METRICS]
ROWS = {
    "forward": "the pairs",
    "synthetic": "the pairs and back-translated sentences",
    "clean": "other pairs",
    "spoilt": "the same, a tenth spoilt",
    "filtered": "the same, filtered",
}


def first_half(text: str) -> str:
    """Return the first half of the words of a text."""
    words = text.split()
    return " ".join(words[: len(words) // 2])


def spoil(pairs: Sequence[tuple[str, ...]], seed: int) -> tuple[list[tuple[str, ...]], dict[int, str]]:
    """Return the pairs, of which a tenth is spoilt, and the way in which each of these is, by its number from 1."""
    generator, spoilt = random.Random(seed), list(pairs)
    long = [place for place, pair in enumerate(pairs) if len(pair[1].split()) >= 4]
    ways, names = dict[int, str](), list(SPOILERS)
    for place in generator.sample(long, round(SPOILT * len(pairs))):
        ways[place + 1] = names[len(ways) % len(names)]
        source, target = pairs[place]
        spoilt[place] = SPOILERS[ways[place + 1]](source, target, generator.choice(pairs)[1])
    return spoilt, ways


class Experiment:
    """The texts and models of a seed, in a folder."""

    def __init__(self, seed: int, arguments: Any) -> None:
        self.seed, self.arguments, self.folder = seed, arguments, (arguments.runs / f"seed{seed}").resolve()

    def write_texts(self) -> None:
        """Write the texts, drawn at random: pairs, other pairs, the same spoilt, and Italian sentences."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [*read_sides([self.arguments.tatoeba / f"train.{code}" for code in ("en", "it")])]
        random.Random(self.seed).shuffle(lines)
        count = self.arguments.pairs
        pairs, clean, rest = lines[:count], lines[count : 2 * count], lines[2 * count :]
        spoilt, ways = spoil(clean, self.seed)
        dev = [*read_sides([self.arguments.tatoeba / f"dev.{code}" for code in ("en", "it")])][:DEV_LINES]
        for name, rows in (("pairs", pairs), ("clean", clean), ("spoilt", spoilt), ("dev", dev)):
            for code, side in zip(("en", "it"), zip(*rows, strict=True), strict=True):
                write_lines(self.folder / f"{name}.{code}", side)
        known = {target for _, target in lines[: 2 * count]}
        sentences = [*dict.fromkeys(target for _, target in rest if target not in known)]
        write_lines(self.folder / "sentences.it", sentences[: self.arguments.sentences])
        (self.folder / "spoilt.json").write_text(json.dumps(ways), "utf-8")

    def train(self, name: str) -> None:
        """Train a model, unless it is finished."""
        text, direction = {**FIRST, **SECOND}[name]
        source, target = direction.split("-")
        table = self.folder / f"{text}.jsonl"
        dev, files = ([str(self.folder / f"{start}.{code}") for code in (source, target)] for start in ("dev", text))
        overrides = [f"train.seed={self.seed}", f"train.steps={self.arguments.steps}", f"data.dev_path={dev}"]
        if name == "synthetic":
            overrides.append(f"synthetic.path={str(self.folder / 'made' / KEPT)!r}")
        what = [table] if table.is_file() else files
        train(what, overrides=[*overrides, "data.test_size=0"], name=name, runs=self.folder, threads=1, device="cpu")

    def back_translate(self) -> None:
        """Translate the Italian sentences back."""
        back_translate(self.folder / "reverse", self.folder / "sentences.it", self.folder / "made", device="cpu")

    def filter(self) -> None:
        """Judge the spoilt text."""
        text = str(self.folder / "spoilt.en"), str(self.folder / "spoilt.it")
        filter_pairs(self.folder / "forward", self.folder / "reverse", text, self.folder / "filter", device="cpu")

    def dropped(self) -> dict[str, Counter[str]]:
        """Count the pairs of each kind: all, and those that rules and models dropped."""
        ways = json.loads((self.folder / "spoilt.json").read_text("utf-8"))
        counts = {kind: Counter[str]() for kind in (*SPOILERS, CLEAN)}
        for number in range(1, self.arguments.pairs + 1):
            counts[ways.get(str(number), CLEAN)]["all"] += 1
        for line in (self.folder / "filter" / DROPPED).read_text("utf-8").splitlines():
            row = json.loads(line)
            kind = ways.get(row["origin"].rpartition(":")[2], CLEAN)
            counts[kind]["by rules" if row["quality"] is None else "by models"] += 1
        return counts

    def scores(self, name: str) -> dict[str, dict[str, float]]:
        """Return BLEU and chrF of a model on both tests."""
        translator, scores = Translator.load(self.folder / name, "cpu", threads=1), {}
        for test, start in (("Tatoeba", self.arguments.tatoeba / "test"), ("other origin", self.arguments.other)):
            pairs = [*read_sides([Path(f"{start}.{code}") for code in ("en", "it")])][:TEST_LINES]
            files = [self.folder / f"{test.split()[0]}.{code}" for code in ("en", "it")]
            for path, side in zip(files, zip(*pairs, strict=True), strict=True):
                write_lines(path, side)
            scored = evaluate(translator, files[0], [files[1]], samples=0, beam_size=4)
            scores[test] = {key: score.value for key, score in scored.scores.items()}
        return scores


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a text, a sentence a line."""
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def work(name: str, seed: int, arguments: Any) -> None:
    """Do a part of an experiment, in a new process."""
    experiment = Experiment(seed, arguments)
    if name == "back-translate":
        experiment.back_translate()
    elif name == "filter":
        experiment.filter()
    else:
        experiment.train(name)


def main(words: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("tatoeba", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=3_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=Path("more-text"))
    arguments = parser.parse_args(words)
    experiments = [Experiment(seed, arguments) for seed in arguments.seeds]
    for experiment in experiments:
        experiment.write_texts()
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        for stage in ([*FIRST], ["back-translate", "filter"], [*SECOND]):
            parts = [(name, seed) for seed in arguments.seeds for name in stage]
            list(pool.map(partial(work, arguments=arguments), *zip(*parts, strict=True)))
    dropped = [experiment.dropped() for experiment in experiments]
    kinds = {kind: sum((counts[kind] for counts in dropped), Counter()) for kind in (*SPOILERS, CLEAN)}
    columns = ["all", "by rules", "by models"]
    print(
        markdown(
            ["pairs", *columns], [[kind, *(str(counts[key]) for key in columns)] for kind, counts in kinds.items()]
        )
    )
    scores = {name: [experiment.scores(name) for experiment in experiments] for name in ROWS}
    rows = [
        [text, *(mean_and_deviation([score[test][key] for score in scores[name]]) for test, key in FIGURES)]
        for name, text in ROWS.items()
    ]
    print(markdown(["text", *(f"{test}: {METRICS[key]}" for test, key in FIGURES)], rows))
    write_figures(arguments.out, dropped=kinds, scores=scores)


if __name__ == "__main__":
    main()
