"""BLEU of published models after conversion, compared with published figures. It was not run where it was written,
because that machine has no network; no figure of ours is known.

    python benchmarks/published.py [--models opus-mt-en-de …] [--threads 2] [--out results.json]
    python benchmarks/published.py --source test.en --reference test.de --models opus-mt-en-de

Each model is loaded from the hub, which converts and keeps it, and translates the test set of its row, which sacreBLEU
downloads, or the files that are given. Beam 5, sacreBLEU's own tokenizer of the row. A difference of more than one BLEU
is a reason to look for an error of ours: the published figures come from other versions of search and metric.
"""

import argparse
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from command_line import markdown, new_parser, report, write_figures

from dragoman.errors import Error


class Published(NamedTuple):
    """A model of the hub, a public test set by sacreBLEU's names, and its published BLEU."""

    address: str
    pair: tuple[str, str]
    """Languages as the model names them."""
    test_set: str
    direction: str
    bleu: float | None
    """None: the source gives figures for many directions; look it up and pass `--published`."""
    source: str
    tokenize: str = "13a"


MODELS = {
    "opus-mt-en-de": Published(
        "hub:Helsinki-NLP/opus-mt-en-de",
        ("en", "de"),
        "wmt19",
        "en-de",
        40.9,
        "https://huggingface.co/Helsinki-NLP/opus-mt-en-de (table Benchmarks, newstest2019-ende)",
    ),
    "m2m100_418M": Published(
        "hub:facebook/m2m100_418M",
        ("en", "de"),
        "wmt19",
        "en-de",
        None,
        "https://github.com/facebookresearch/fairseq/tree/main/examples/m2m_100 (figures are of WMT by direction)",
    ),
    "nllb-200-distilled-600M": Published(
        "hub:facebook/nllb-200-distilled-600M",
        ("eng_Latn", "deu_Latn"),
        "wmt19",
        "en-de",
        None,
        "https://github.com/facebookresearch/fairseq/tree/nllb (table of models: metrics by direction, flores200)",
        "flores200",
    ),
}
TOLERANCE = 1.0
"""Difference in BLEU that other versions of search and metric explain."""
HUB = "https://huggingface.co"


class Row(NamedTuple):
    """The BLEU of a converted model next to the published one."""

    model: str
    test: str
    sentences: int
    bleu: float
    signature: str
    published: float | None

    @property
    def verdict(self) -> str:
        """Say whether both agree.

        >>> Row("a", "wmt19", 10, 40.2, "", 40.9).verdict
        'as published (-0.7)'
        """
        if self.published is None:
            return "no published figure given"
        difference = self.bleu - self.published
        agrees = abs(difference) < TOLERANCE + 0.05
        return f"{'as published' if agrees else 'DIFFERS'} ({difference:+.1f})"


def refuse_without_network() -> None:
    """End with one line if the hub cannot be reached."""
    try:
        urllib.request.urlopen(HUB, timeout=10).close()
    except OSError as error:
        raise SystemExit(f"error: {HUB} cannot be reached ({error}); published models need a network") from None


def test_of(model: Published, options: argparse.Namespace) -> tuple[str, list[str], list[str]]:
    """Return the name, sources and references of the test: files that are given, or sacreBLEU's."""
    if options.source is not None:
        name, files = options.source.name, (options.source, options.reference)
    else:
        from sacrebleu.utils import get_reference_files, get_source_file

        name = model.test_set
        files = (
            Path(get_source_file(name, model.direction)),
            Path(get_reference_files(name, model.direction)[0]),
        )
    sources, references = (file.read_text("utf-8").splitlines() for file in files)
    if len(sources) != len(references):
        raise SystemExit(f"error: {name} has {len(sources):,} sources but {len(references):,} references")
    return name, sources, references


def measure(name: str, model: Published, options: argparse.Namespace) -> Row:
    """Translate the test with a model and score it."""
    from sacrebleu.metrics.bleu import BLEU

    from dragoman.inference.translator import Translator

    test, sources, references = test_of(model, options)
    translator = Translator.load(model.address, "cpu", threads=options.threads)
    languages: dict[str, Any] = {}
    if translator.directions is not None:
        languages = {"source_language": model.pair[0], "target_language": model.pair[1]}
    lines = translator.translate(sources, beam_size=5, **languages)
    bleu = BLEU(tokenize=model.tokenize)
    score = bleu.corpus_score([line.text for line in lines], [references]).score
    published = model.bleu if options.published is None else options.published
    return Row(name, test, len(sources), score, str(bleu.get_signature()), published)


def main(words: list[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--source", type=Path, help="another test, one sentence a line")
    parser.add_argument("--reference", type=Path, help="its references")
    parser.add_argument("--published", type=float, help="the published BLEU of this test, for one model")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args(words)
    if (options.source is None) != (options.reference is None):
        parser.error("--source and --reference go together")
    if options.published is not None and len(options.models) > 1:
        parser.error("--published is the figure of one model; name it with --models")
    refuse_without_network()
    rows: list[Row] = []
    for name in options.models:
        report(f"{name}: {MODELS[name].source}")
        try:
            rows.append(measure(name, MODELS[name], options))
        except Error as error:
            raise SystemExit(f"error: {name}: {error}") from None
    cells = [
        [row.model, row.test, f"{row.sentences:,}", f"{row.bleu:.1f}", str(row.published or ""), row.verdict]
        for row in rows
    ]
    print(markdown(["model", "test", "sentences", "BLEU", "published", "verdict"], cells))
    write_figures(options.out, rows=[row._asdict() for row in rows])


if __name__ == "__main__":
    main()
