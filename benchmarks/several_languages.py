"""One model of several directions against a model for each, at equal total steps, and a direction without a pair.

    python benchmarks/several_languages.py MULTI30K [--directions en-de en-fr de-fr] [--steps 1000] [--seeds 1 2 3]
        [--jobs 2] [--threads 1] [--runs FOLDER] [--out results.json]
    python benchmarks/several_languages.py MULTI30K --tatoeba TATOEBA --seeds 1 …

MULTI30K is the folder of its files (`train.en`, `val.de`, `test_2016_flickr.fr`, …). Each single model takes `--steps`
steps of the recipe `multi30k-en-de`, and the model of all directions the sum of theirs. All are scored on
the test set of each direction, beam 5. With TATOEBA (`train.en`, `train.it`, …), whose pairs are English and Italian,
there is one model, of en-de, de-en, en-it and it-en, which also translates the German captions into Italian, directly
and through English. There is no Italian test set of captions: what it makes is compared with its own
translation of the English captions. Finished runs are not run again, so the command may be stopped at any time.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from command_line import markdown, mean_and_deviation, new_parser, write_figures

from dragoman.evaluating.evaluation import evaluate
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.inference.translator import Translator
from dragoman.run_folder import RunFolder
from dragoman.runs.train import train
from dragoman.text.detection import LanguageDetector

TOGETHER = "together"
SETS = {"path": "train", "dev_path": "val", "test_path": "test_2016_flickr"}
"""The names of Multi30k's files, by setting. Tatoeba's are train, dev and test."""
PIVOT = ("en-de", "de-en", "en-it", "it-en")
"""Directions of the second table."""


class Job:
    """One training: a direction alone, or all together, with one seed."""

    def __init__(self, name: str, seed: int, arguments: Any) -> None:
        self.name, self.seed, self.arguments = name, seed, arguments
        self.directions = arguments.directions if name == TOGETHER else [name]
        self.run = RunFolder(arguments.runs / f"{name}-seed{seed}")

    def files(self, direction: str, key: str) -> tuple[str, str]:
        """Return the two files of a set of one direction."""
        source, target = direction.split("-")
        is_tatoeba = "it" in (source, target)
        folder = self.arguments.tatoeba if is_tatoeba else self.arguments.multi30k
        name = key.removesuffix("_path").replace("path", "train") if is_tatoeba else SETS[key]
        return str((folder / f"{name}.{source}").resolve()), str((folder / f"{name}.{target}").resolve())

    def overrides(self) -> Iterator[str]:
        """Yield the settings that differ from the recipe's."""
        for key in SETS:
            texts = [list(self.files(direction, key)) for direction in self.directions]
            yield f"data.{key}={texts if len(texts) > 1 else texts[0]}"
        yield f"train.steps={self.arguments.steps * len(self.directions)}"
        yield f"train.seed={self.seed}"

    def scores(self) -> dict[str, dict[str, float]]:
        """Train, unless that is done, and return BLEU and chrF of each direction."""
        place = {"runs": self.run.path.parent, "threads": self.arguments.threads, "device": "cpu"}
        if not self.run.scores.is_file():
            train("multi30k-en-de", overrides=[*self.overrides()], name=self.run.path.name, **place)
        translator = Translator.load(self.run.path, "cpu", threads=self.arguments.threads)
        scores = {}
        for direction in self.directions:
            source, target = direction.split("-")
            several: dict[str, Any] = {}
            if translator.directions is not None:
                several = {"source_language": source, "target_language": target}
            tested, reference = map(Path, self.files(direction, "test_path"))
            scored = evaluate(translator, tested, [reference], samples=0, beam_size=5, **several)
            scores[direction] = {name: score.value for name, score in scored.scores.items()}
        return scores


def without_a_pair(job: Job) -> dict[str, dict[str, float]]:
    """Return what the model of all directions makes of German captions in Italian, directly and through English."""
    translator = Translator.load(job.run.path, "cpu", threads=job.arguments.threads)
    english, german = (Path(path).read_text("utf-8").splitlines() for path in job.files("en-de", "test_path"))
    wanted = translator.translate(english, source_language="en", target_language="it", beam_size=5)
    detector, scores_by_way = LanguageDetector(["it"]), {}
    for name, pivot in (("directly", "none"), ("through English", "en")):
        made = translator.translate(german, source_language="de", target_language="it", pivot=pivot, beam_size=5)
        texts = [translation.text for translation in made]
        others = sum(detector.other(text) is not None for text in texts)
        scores = bleu_and_chrf(texts, [[translation.text] for translation in wanted], "it")
        scores_by_way[name] = {"bleu": scores["bleu"], "chrf": scores["chrf"], "not Italian": 100 * others / len(texts)}
    return scores_by_way


def run(number: tuple[str, int], arguments: Any) -> dict[str, dict[str, float]]:
    """Train and score one job, in another process."""
    return Job(*number, arguments).scores()


def main(words: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("multi30k", type=Path)
    parser.add_argument("--tatoeba", type=Path)
    parser.add_argument("--directions", nargs="+")
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("several-languages"))
    arguments = parser.parse_args(words)
    arguments.directions = arguments.directions or (PIVOT if arguments.tatoeba else ["en-de", "en-fr", "de-fr"])
    alone = [] if arguments.tatoeba else arguments.directions
    numbers = [(name, seed) for seed in arguments.seeds for name in (TOGETHER, *alone)]
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        results = dict(zip(numbers, pool.map(partial(run, arguments=arguments), numbers), strict=True))
    rows = []
    for direction in arguments.directions:
        for name in (direction, TOGETHER) if alone else (TOGETHER,):
            scores = [results[name, seed][direction] for seed in arguments.seeds]
            way = "all directions" if name == TOGETHER else "a model for it"
            rows.append(
                [direction, way, *(mean_and_deviation([score[key] for score in scores]) for key in ("bleu", "chrf"))]
            )
    print(markdown(["direction", "model", "BLEU", "chrF"], rows))
    unpaired = {}
    if arguments.tatoeba:
        unpaired = {seed: without_a_pair(Job(TOGETHER, seed, arguments)) for seed in arguments.seeds}
        columns = ["bleu", "chrf", "not Italian"]
        ways = [
            [way, *(mean_and_deviation([unpaired[seed][way][key] for seed in arguments.seeds]) for key in columns)]
            for way in ("directly", "through English")
        ]
        print(markdown(["German to Italian", "BLEU", "chrF", "% not Italian"], ways))
    scores = [{"model": name, "seed": seed, "scores": score} for (name, seed), score in results.items()]
    write_figures(arguments.out, steps=arguments.steps, scores=scores, without_a_pair=unpaired)


if __name__ == "__main__":
    main()
