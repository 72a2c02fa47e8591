"""Quality and cost of each search.

    python benchmarks/searching.py MODEL [--ensemble OTHER ...] [--data FOLDER] [--lines 1000] [--out FILE]

The first lines of `test.multiref.tsv` are translated by greedy search, beam 5, samples, minimum Bayes risk, and beam 5
of an ensemble with other models. sacreBLEU scores them against all references. Times are of one run after a short run
that warms up, relative to beam 5 in the same process.
"""

import dataclasses
import time
from pathlib import Path
from typing import Any

from command_line import markdown, new_parser, write_figures

from dragoman.evaluating.metrics import score
from dragoman.evaluating.references import ReferenceSet, read_references
from dragoman.inference.translator import Translator
from dragoman.system import describe

BASELINE = "beam 5"
SEARCHES: dict[str, dict[str, Any]] = {
    BASELINE: {"beam_size": 5},
    "greedy": {"beam_size": 1},
    "sampling, temperature 1": {"temperature": 1.0},
    "sampling, top-k 10": {"top_k": 10},
    "sampling, top-p 0.9": {"top_p": 0.9},
    **{f"minimum Bayes risk, {count} samples": {"risk_samples": count} for count in (16, 32, 64)},
}
WARM_UP = 20


def measure(name: str, translator: Translator, test: ReferenceSet, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the quality and time of one search."""
    options = translator.options.searching(n_best=1).but(**settings)
    translator.translate(test.sources[:WARM_UP], options)
    started = time.perf_counter()
    texts = [line.text for line in translator.translate(test.sources, options)]
    seconds = time.perf_counter() - started
    print(f"{name}: {seconds:.1f} s", flush=True)
    scores = score(texts, test.references, language=translator.languages[1], metrics=("bleu", "chrf"))
    figures = {metric: dataclasses.asdict(value) for metric, value in scores.items()}
    return {"system": name, "scores": figures, "seconds": seconds}


def interval(score: dict[str, Any]) -> str:
    """Return a score with its interval."""
    return f"{score['value']:.1f} [{score['low']:.1f}, {score['high']:.1f}]"


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model", type=Path, help="a model folder or a run folder")
    parser.add_argument("--ensemble", type=Path, nargs="+", default=[], help="models that translate with it as one")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/tatoeba-en-it"))
    parser.add_argument("--lines", type=int, default=1000, help="test sentences, from the first")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    whole = read_references(options.data / "test.multiref.tsv")
    lines = slice(options.lines)
    test = dataclasses.replace(whole, sources=whole.sources[lines], references=whole.references[lines])
    translator = Translator.load(options.model, "cpu", threads=options.threads)
    results = [measure(name, translator, test, settings) for name, settings in SEARCHES.items()]
    if options.ensemble:
        several = Translator.load(options.model, "cpu", ensemble=options.ensemble, threads=options.threads)
        results.append(measure("beam 5, ensemble", several, test, SEARCHES[BASELINE]))
    rows = [
        [
            result["system"],
            *map(interval, result["scores"].values()),
            f"{result['seconds'] / results[0]['seconds']:.2f}",
        ]
        for result in results
    ]
    print(f"\n{markdown(['search', 'BLEU', 'chrF', 'time, beam 5 = 1'], rows)}\n")
    for value in results[0]["scores"].values():
        print(value["signature"])
    print(f"{test}; {translator.precision} on {describe()}")
    write_figures(options.out, lines=len(test), precision=translator.precision, results=results)


if __name__ == "__main__":
    main()
