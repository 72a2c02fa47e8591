"""What does each way to find a translation give, and what does it cost?

    python benchmarks/searching.py MODEL [--ensemble OTHER ...] [--data FOLDER] [--lines 1000] [--out FILE]

The first lines of `test.multiref.tsv` are translated by greedy search, beam 5, samples, minimum Bayes risk, and beam 5
of an ensemble with other models. sacreBLEU scores them against all references. Five translations of a line by a beam
and five samples are compared in how much they differ (the mean chrF of one with another; lower is more different) and
in the best of them (oracle: the one with the highest sentence chrF). Times are of one run after a short one to warm up,
beside beam 5 in the same process.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from command_line import command_line, figures_file, markdown
from sacrebleu.metrics.chrf import CHRF

from dragoman.evaluating.evaluation import describe as in_words
from dragoman.evaluating.metrics import score
from dragoman.evaluating.references import ReferenceSet, read_references
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation, chrf
from dragoman.inference.translator import Translator
from dragoman.system import describe, machine

BASELINE = "beam 5"
SEARCHES: dict[str, dict[str, Any]] = {
    BASELINE: {"beam_size": 5},
    "greedy": {"beam_size": 1},
    "sampling, temperature 1": {"temperature": 1.0},
    "sampling, top-k 10": {"top_k": 10},
    "sampling, top-p 0.9": {"top_p": 0.9},
    **{f"minimum Bayes risk, {count} samples": {"risk_samples": count} for count in (16, 32, 64)},
}
FIVE: dict[str, dict[str, Any]] = {
    "five best of beam 5": {"beam_size": 5, "n_best": 5},
    "five samples, temperature 1": {"temperature": 1.0, "n_best": 5},
}
WARM_UP = 20


def translate(
    translator: Translator, sources: Sequence[str], options: SearchOptions
) -> tuple[list[Translation], float]:
    """The translations, and the seconds that they took."""
    translator.translate(sources[:WARM_UP], options)
    started = time.perf_counter()
    found = translator.translate(sources, options)
    return found, time.perf_counter() - started


def quality(texts: Sequence[str], test: ReferenceSet, language: str) -> dict[str, Any]:
    scores = score(texts, test.references, language=language, metrics=("bleu", "chrf"))
    return {name: dataclasses.asdict(found) for name, found in scores.items()}


def measure(systems: dict[str, tuple[Translator, SearchOptions]], test: ReferenceSet) -> list[dict[str, Any]]:
    """Quality and time of each system."""
    results = []
    for name, (translator, options) in systems.items():
        found, seconds = translate(translator, test.sources, options)
        scores = quality([each.text for each in found], test, translator.languages[1])
        results.append({"system": name, "search": in_words(options), "scores": scores, "seconds": seconds})
        print(f"{name}: {seconds:.1f} s", flush=True)
    return results


def differences(systems: dict[str, tuple[Translator, SearchOptions]], test: ReferenceSet) -> list[dict[str, Any]]:
    """How much several translations of a line differ, and how good the best of them is."""
    results = []
    for name, (translator, options) in systems.items():
        found = [[each, *each.alternatives] for each in translator.translate(test.sources, options)]
        texts = [[each.text for each in own] for own in found]
        best = [nearest(own, references) for own, references in zip(texts, test.references, strict=True)]
        results.append(
            {
                "system": name,
                "search": in_words(options),
                "pairwise_chrf": float(np.mean([likeness(own) for own in texts])),
                "different": float(np.mean([len(set(own)) for own in texts])),
                "oracle": quality(best, test, translator.languages[1]),
            }
        )
    return results


def likeness(texts: Sequence[str]) -> float:
    """The mean chrF of each text with each other one."""
    values = chrf(texts)
    return float(values[~np.eye(len(texts), dtype=bool)].mean())


def nearest(texts: Sequence[str], references: Sequence[str]) -> str:
    """The text that is most like one of the references."""
    return max(texts, key=lambda text: CHRF().sentence_score(text, references).score)


def table(results: Sequence[dict[str, Any]]) -> str:
    baseline = next(each["seconds"] for each in results if each["system"] == BASELINE)
    rows = [
        [each["system"], *map(interval, each["scores"].values()), f"{each['seconds'] / baseline:.2f}"]
        for each in results
    ]
    return markdown(["search", "BLEU", "chrF", "time, beam 5 = 1"], rows)


def table_of_five(results: Sequence[dict[str, Any]]) -> str:
    rows = [
        [
            each["system"],
            f"{each['different']:.1f}",
            f"{each['pairwise_chrf']:.1f}",
            *map(interval, each["oracle"].values()),
        ]
        for each in results
    ]
    return markdown(["translations", "different ones", "chrF of one with another", "oracle BLEU", "oracle chrF"], rows)


def interval(found: dict[str, Any]) -> str:
    return f"{found['value']:.1f} [{found['low']:.1f}, {found['high']:.1f}]"


def main() -> None:
    options = parse()
    whole = read_references(options.data / "test.multiref.tsv")
    lines = slice(options.lines)
    test = dataclasses.replace(whole, sources=whole.sources[lines], references=whole.references[lines])
    translator = Translator.load(options.model, options.device, threads=options.threads)

    def asked(searches: dict[str, dict[str, Any]]) -> dict[str, tuple[Translator, SearchOptions]]:
        plain = translator.options.searching(n_best=1)
        return {name: (translator, plain.but(**changes)) for name, changes in searches.items()}

    systems = asked(SEARCHES)
    if options.ensemble:
        several = Translator.load(options.model, options.device, ensemble=options.ensemble, threads=options.threads)
        systems["beam 5, ensemble"] = (several, systems[BASELINE][1])
    results, fives = measure(systems, test), differences(asked(FIVE), test)
    facts = {"lines": len(test), "machine": machine(), "command": command_line()}
    print(f"\n{table(results)}\n\n{table_of_five(fives)}\n")
    for found in results[0]["scores"].values():
        print(found["signature"])
    print(f"{test}; {translator.precision} on {describe()}")
    if options.out:
        figures = {**facts, "precision": translator.precision, "results": results, "five": fives}
        options.out.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path, help="a model folder or a run folder")
    parser.add_argument("--ensemble", type=Path, nargs="+", default=[], help="models that translate with it as one")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/tatoeba-en-it"))
    parser.add_argument("--lines", type=int, default=1000, help="test sentences, from the first")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    if not (options.data / "test.multiref.tsv").exists():
        parser.error(f"{options.data} does not hold test.multiref.tsv; name the folder with --data")
    if options.lines < 1:
        parser.error(f"--lines must be at least 1, but is {options.lines}")
    return options


if __name__ == "__main__":
    main()
