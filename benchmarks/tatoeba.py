"""What do four recipes reach in the same minutes? English to Italian, Tatoeba, each in a process of its own.

    make bench-tatoeba         installs the others into .venv-peers and runs everything, or by hand:
    python benchmarks/tatoeba.py [--minutes 30] [--only dragoman marian tutorial tutorial-large] [--out results.json]

    dragoman         `dragoman train tatoeba-en-it` on this data (or `--recipe "NAME --set …"`), beam 5
    marian           Hugging Face Marian, `small` with AdamW at a hand-tuned rate, translated by CTranslate2, beam 5
    tutorial         the well-known tutorial as published: words, 1 layer, 1 head, eight sentences padded to 350
    tutorial-large   the same with 6 layers, 8 heads, 2048

Minutes are minutes of training from the first step on; Dragoman's include its validations and checkpoints. Dragoman
takes as many steps as it forecast. If they take longer, the others, who stop by the clock, get the same time.
`wall_seconds` includes everything before and after. In all processes the allocator keeps freed memory, as in Dragoman.
sacreBLEU scores the whole test set, against its single references and against all references.
"""

import argparse
import dataclasses
import importlib
import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

import torch
from command_line import command_line, figures_file
from peers.race import Outcome, Race
from peers.worker import patient_threads

from dragoman.evaluating.metrics import score
from dragoman.evaluating.references import ReferenceSet, read_references
from dragoman.memory import keep_freed_memory
from dragoman.system import choose_precision, describe, gemm_rate, machine

SYSTEMS = {
    "dragoman": ("dragoman_race", "run"),
    "marian": ("marian_race", "run"),
    "tutorial": ("tutorial_race", "run_as_written"),
    "tutorial-large": ("tutorial_race", "run_large"),
}
SAMPLES = 3


def run(name: str, race: Race) -> Outcome:
    """Trains one system and translates with it. Call it in a fresh process, because it imports a toolkit."""
    torch.set_num_threads(race.threads)
    keep_freed_memory()
    module, function = SYSTEMS[name]
    return getattr(importlib.import_module(f"peers.{module}"), function)(race)


def measure(name: str, race: Race, tests: dict[str, ReferenceSet]) -> dict[str, Any]:
    """A system's run and its scores."""
    precision = choose_precision()[0]
    roof, start = gemm_rate(precision), time.monotonic()
    with patient_threads(), multiprocessing.get_context("spawn").Pool(1) as pool:
        outcome = pool.apply(run, (name, race))
    translation = dict(zip(race.sentences, outcome.translations, strict=True))
    scores = {
        test: {
            metric: dataclasses.asdict(found)
            for metric, found in score(
                [translation[line] for line in references.sources],
                references.references,
                language=race.target,
                metrics=("bleu", "chrf"),
            ).items()
        }
        for test, references in tests.items()
    }
    return {
        "system": name,
        "scores": scores,
        "parameters": outcome.parameters,
        "steps": outcome.steps,
        "tokens": outcome.tokens,
        "tokens_per_second": outcome.tokens / outcome.seconds,
        "training_seconds": outcome.seconds,
        "wall_seconds": time.monotonic() - start,
        "minutes": race.minutes,
        "roof_gflops": {precision: roof},
        "machine": machine(),
        "command": command_line(),
        "samples": [[line, translation[line]] for line in race.sentences[:SAMPLES]],
    }


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The figures of each system, as `write` wrote them; empty without a file."""
    found = json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else []
    return {result["system"]: result for result in found}


def write(path: Path, results: dict[str, dict[str, Any]]) -> None:
    ordered = [results[name] for name in SYSTEMS if name in results]
    path.write_text(json.dumps({"results": ordered}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def show(result: dict[str, Any]) -> None:
    print(
        f"\n{result['system']}: {result['parameters']:,} weights, {result['steps']:,} steps, "
        f"{result['tokens_per_second']:,.0f} tokens/s for {result['training_seconds'] / 60:.1f} minutes"
    )
    for test, scores in result["scores"].items():
        for found in scores.values():
            interval = f"[{found['low']:.1f}, {found['high']:.1f}]"
            print(f"  {test:<18}{found['name']:<6}{found['value']:>5.1f} {interval:<14}{found['signature']}")
    for source, translation in result["samples"]:
        print(f"  {source}  ->  {translation}")
    sys.stdout.flush()


def main() -> None:
    options = parse()
    single = read_references(options.data / "test.en", [options.data / "test.it"])
    tests = {"single reference": single, "all references": read_references(options.data / "test.multiref.tsv")}
    sentences = tuple(dict.fromkeys(line for test in tests.values() for line in test.sources))
    race = Race(options.data, "en", "it", options.minutes, options.threads, sentences, options.recipe)
    results = read(options.out) if options.out else {}
    for name in (each for each in SYSTEMS if each in options.only):
        results[name] = measure(name, race, tests)
        show(results[name])
        if name == "dragoman":
            race = race._replace(minutes=max(race.minutes, results[name]["training_seconds"] / 60))
        if options.out:
            write(options.out, results)
    print(f"\n{describe()}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--only", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS), metavar="SYSTEM")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/tatoeba-en-it"))
    parser.add_argument("--recipe", default="tatoeba-en-it", help="what `dragoman train` is given")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=figures_file, help="write figures as JSON after each system; others in it stay")
    options = parser.parse_args()
    if not (options.data / "test.multiref.tsv").exists():
        parser.error(f"{options.data} does not hold train, dev and test with test.multiref.tsv; name it with --data")
    return options


if __name__ == "__main__":
    main()
