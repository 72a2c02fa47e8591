"""How fast models translate on this machine, measured side by side."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from dragoman.config import choose
from dragoman.documents import write_json
from dragoman.evaluating.references import own_test_pairs
from dragoman.evaluating.speed import SEARCHES, Benchmark, benchmark_models
from dragoman.files import check_output
from dragoman.inference.options import SearchOptions
from dragoman.progress import Progress, silent
from dragoman.text.lines import read_lines


def benchmark(
    models: Sequence[Path | str],
    texts: Path | str | Sequence[str] | None = None,
    *,
    sentences: int = 500,
    rounds: int = 3,
    overrides: Sequence[str] = (),
    output: Path | str | None = None,
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    progress: Progress = silent,
) -> Benchmark:
    """Measures tokens a second and latency of each model, greedy and with a beam of 4, or as the `decode.` settings
    among `overrides` say; and the memory of all.

    `texts` are sentences, or a file with one on each line; by default, the test set of the first model's run. The first
    `sentences` of them are translated. All measurements are written to `output` as JSON.

    Raises:
        DataError: there is no text, or `output` cannot be written.
        ConfigError: there is less than one round, a model is named twice, or a setting is unknown.
        CheckpointError: a folder has no model that can be loaded.
    """
    if output is not None:
        check_output(output, texts if isinstance(texts, str | Path) else None)
    searches = dict.fromkeys(choose(SearchOptions, "decode", overrides, each) for each in SEARCHES)
    found = benchmark_models(
        models,
        list(islice(_lines(models, texts), sentences)),
        searches=list(searches),
        rounds=rounds,
        limit=sentences,
        device=device,
        precision=precision,
        threads=threads,
        progress=progress,
    )
    if output is not None:
        write_json(output, found.facts())
    return found


def _lines(models: Sequence[Path | str], texts: Path | str | Sequence[str] | None) -> Iterator[str]:
    if texts is None:
        return (source for source, _ in own_test_pairs(models[0]))
    return read_lines(Path(texts)) if isinstance(texts, Path | str) else iter(texts)
