"""Quality of two recipes after the same minutes: English to Italian, Tatoeba, each in its own process.

    make bench-tatoeba         installs transformers into .venv-peers and runs everything, or by hand:
    python benchmarks/tatoeba.py [--minutes 30] [--only dragoman marian] [--out results.json]

    dragoman    `dragoman train tatoeba-en-it` on this data (or `--recipe "NAME --set …"`), beam 5
    marian      Hugging Face Marian, `small` with AdamW at a hand-tuned rate, translated by CTranslate2, beam 5

Minutes are minutes of training from the first step on; Dragoman's include its validations and checkpoints. Dragoman
takes as many steps as it forecast. If they take longer, Marian, which stops by the clock, gets the same time.
`wall_seconds` includes everything before and after. In all processes the allocator keeps freed memory, as in Dragoman.
sacreBLEU scores the whole test set, against its single references and against all references.
"""

import dataclasses
import importlib
import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

import torch
from command_line import command_line, new_parser
from peers.processes import patient_threads
from peers.race import Outcome, Race

from dragoman.evaluating.metrics import score
from dragoman.evaluating.references import ReferenceSet, read_references
from dragoman.memory import keep_freed_memory
from dragoman.system import choose_precision, describe, gemm_rate, machine

SYSTEMS = ("dragoman", "marian")
SAMPLES = 3


def run(name: str, race: Race) -> Outcome:
    """Train one system and translate with it. Call it in a fresh process, because it imports a toolkit."""
    torch.set_num_threads(race.threads)
    keep_freed_memory()
    return importlib.import_module(f"peers.{name}_race").run(race)


def measure(name: str, race: Race, tests: dict[str, ReferenceSet]) -> dict[str, Any]:
    """Return a system's run and its scores."""
    precision = choose_precision()[0]
    roof, start = gemm_rate(precision), time.monotonic()
    with patient_threads(), multiprocessing.get_context("spawn").Pool(1) as pool:
        outcome = pool.apply(run, (name, race))
    translation = dict(zip(race.sentences, outcome.translations, strict=True))
    scores = {}
    for test, references in tests.items():
        texts = [translation[line] for line in references.sources]
        results = score(texts, references.references, language="it", metrics=("bleu", "chrf"))
        scores[test] = {metric: dataclasses.asdict(result) for metric, result in results.items()}
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


def show(result: dict[str, Any]) -> None:
    """Print the result of one system."""
    print(
        f"\n{result['system']}: {result['parameters']:,} weights, {result['steps']:,} steps, "
        f"{result['tokens_per_second']:,.0f} tokens/s for {result['training_seconds'] / 60:.1f} minutes"
    )
    for test, scores in result["scores"].items():
        for figure in scores.values():
            interval = f"[{figure['low']:.1f}, {figure['high']:.1f}]"
            print(f"  {test:<18}{figure['name']:<6}{figure['value']:>5.1f} {interval:<14}{figure['signature']}")
    for source, translation in result["samples"]:
        print(f"  {source}  ->  {translation}")
    sys.stdout.flush()


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--only", nargs="+", default=SYSTEMS, choices=SYSTEMS, metavar="SYSTEM")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/tatoeba-en-it"))
    parser.add_argument("--recipe", default="tatoeba-en-it", help="a recipe for `dragoman train`")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    single = read_references(options.data / "test.en", [options.data / "test.it"])
    tests = {"single reference": single, "all references": read_references(options.data / "test.multiref.tsv")}
    sentences = tuple(dict.fromkeys(line for test in tests.values() for line in test.sources))
    race = Race(options.data, options.minutes, options.threads, sentences, options.recipe)
    results: list[dict[str, Any]] = []
    for name in (system for system in SYSTEMS if system in options.only):
        results.append(measure(name, race, tests))
        show(results[-1])
        if name == "dragoman":
            race = race._replace(minutes=max(race.minutes, results[-1]["training_seconds"] / 60))
        if options.out:  # also if the next system fails
            text = json.dumps({"results": results}, indent=2, ensure_ascii=False)
            options.out.write_text(f"{text}\n", encoding="utf-8")
    print(f"\n{describe()}")


if __name__ == "__main__":
    main()
