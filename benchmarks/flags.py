"""Precision and recall of the flags that report bad translations.

    python benchmarks/flags.py MODEL --dev SOURCES --test SOURCES REFERENCES [--out FILE]

Each distinct test sentence is translated as the model does by itself. These *clean* translations are compared with
others that have a planted fault. Faults of the translation are forced on the model, which scores them: a *number* is
changed or a *name* left out, the second half is *cut* off, the last word is *repeated*, the source is *copied*, or it
is the translation of *another* sentence. Faults of the source are translated: it is in another *language* (the
target's), it holds *unknown* letters, or its words are *shuffled*. Each fault is meant for one flag, which has its
recall there, and its precision among equally many clean sentences.

`doubtful_below` is what training would measure on 400 dev sentences. Where nothing is planted, a translation is bad if
its best chrF with a reference is below 40. For several statistics, the table has the area under the curve (AUC): how
often a bad translation has a lower value than another one.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from catalogues import lot
from command_line import markdown, new_parser, read_sides, write_figures
from keeping import NAMES, NUMBERS, distinct, renamed

from dragoman import Translator
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.inference.translation import MEANINGS, Translation, chrf, doubtful_below

BAD = 40
STRANGE = ("漢字", "ωμέγα", "зима", "שלום", "ไทย")
FLAG_OF_FAULT = {
    "number": "lost",
    "name": "lost",
    "cut": "doubtful",
    "repeated": "repetition",
    "copied": "doubtful",
    "another": "doubtful",
    "shuffled": "doubtful",
    "language": "language",
    "unknown": "unknown",
}
STATISTICS: dict[str, Callable[[Translation], float]] = {
    "mean log-probability": lambda line: float(np.mean(line.token_log_probs)),
    "mean of the lowest quarter": lambda line: float(
        np.mean(sorted(line.token_log_probs)[: math.ceil(len(line.token_log_probs) / 4)])
    ),
    "lowest": lambda line: min(line.token_log_probs),
}


def forced(translator: Translator, pairs: Iterable[tuple[str, str]]) -> list[Translation]:
    """Return these targets as if the model had chosen them, of the sources that are one piece."""
    options, framing = translator.options, translator.framing
    pairs = list(pairs)
    lines = translator.read([source for source, _ in pairs], options)
    kept = [
        (line, *pair) for line, pair in zip(lines, pairs, strict=True) if len(line.parts) == len(line.translated) == 1
    ]
    sources, targets = [source for _, source, _ in kept], [target for *_, target in kept]
    scored = translator.score(sources, targets, options)
    _, written = translator.plain_pairs(sources, targets, options)
    rows = [framing.labels(ids) for ids in translator.tokenizers.target.encode_batch(written)]
    hypotheses = [
        Hypothesis(tuple(row), score.token_log_probs, score.log_prob, finished=True)
        for row, score in zip(rows, scored, strict=True)
    ]
    segments = [line.translated[0] for line, *_ in kept]
    links = translator._link(list(zip(segments, hypotheses, strict=True)), options) if options.align else None
    return [
        translator.writer.translation(line, [[hypothesis]], options, links)
        for (line, *_), hypothesis in zip(kept, hypotheses, strict=True)
    ]


def plant_in_translations(translator: Translator, clean: Sequence[Translation]) -> dict[str, list[Translation]]:
    """Return translations with a fault that is forced on the model, by their fault."""
    sentences = [frame.format(value) for frames, values in NUMBERS.items() for frame in frames for value in values]
    numbers = translator.translate(sentences, progress=False)
    toms = [line.source for line in clean if re.search(r"\bTom\b", line.source)]
    names = [NAMES[number % len(NAMES)] for number in range(len(toms))]
    sources = [renamed(source, name) for source, name in zip(toms, names, strict=True)]
    named = translator.translate(sources, progress=False)
    targets: dict[str, list[tuple[str, str]]] = {
        "number": [
            (line.source, re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), line.text, count=1))
            for line in numbers
            if "lost" not in line.flags and re.search(r"\d", line.text)
        ],
        "name": [
            (line.source, line.text.replace(name, "", 1).strip())
            for line, name in zip(named, names, strict=True)
            if name in line.text and line.text.strip(".?! ") != name
        ],
        "cut": [(line.source, first_half(line.text)) for line in clean if line.text.count(" ") > 2],
        "repeated": [(line.source, line.text + 4 * f" {line.text.split(' ')[-1]}") for line in clean],
        "copied": [(line.source, line.source) for line in clean],
        "another": [(line.source, next_.text) for line, next_ in zip(clean, [*clean[1:], clean[0]], strict=True)],
    }
    return {fault: forced(translator, pairs) for fault, pairs in targets.items()}


def plant_in_sources(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> dict[str, list[Translation]]:
    """Return translations of sources with a fault, by their fault."""
    words = [STRANGE[number % len(STRANGE)] for number in range(len(sources))]
    texts = {
        "shuffled": [shuffled(source) for source in sources if source.count(" ") > 2],
        "language": references,
        "unknown": [
            source.replace(" ", f" {word} ", 1) for source, word in zip(sources, words, strict=True) if " " in source
        ],
    }
    return {fault: translator.translate(own, progress=False) for fault, own in texts.items()}


def first_half(text: str) -> str:
    """Return the first half of the words."""
    words = text.split(" ")
    return " ".join(words[: len(words) // 2])


def shuffled(source: str) -> str:
    """Return a sentence with its words in random order."""
    words = source.rstrip(".?!")
    order = sorted(enumerate(words.split(" ")), key=lambda word: lot(f"{source}{word[0]}"))
    return " ".join(word for _, word in order) + source[len(words) :]


def similarity(text: str, references: Sequence[str]) -> float:
    """Return the best chrF with a reference."""
    return float(chrf([text, *references])[0, 1:].max())


def area(values: Sequence[float], is_bad: Sequence[bool]) -> float:
    """Return how often a bad value is lower than another one; equal values count half."""
    bad, others = (
        np.array([value for value, is_own in zip(values, is_bad, strict=True) if is_own == wanted])
        for wanted in (True, False)
    )
    return float(np.mean([np.mean(others > value) + np.mean(others == value) / 2 for value in bad]))


def judge_faults(shares: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the recall and precision of each fault's flag."""
    judged = {}
    for fault, flag in FLAG_OF_FAULT.items():
        if fault in shares:
            recall = shares[fault][flag]
            precision = recall / ((recall + shares["clean"][flag]) or 1)
            judged[f"{flag}: {fault}"] = {"recall": recall, "precision": precision}
    return judged


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--dev", type=Path, required=True, metavar="SOURCES")
    parser.add_argument("--test", nargs=2, type=Path, required=True, metavar=("SOURCES", "REFERENCES"))
    options = parser.parse_args()
    translator = Translator.load(options.model, "cpu", progress=False)
    dev = options.dev.read_text(encoding="utf-8").splitlines()
    measured = translator.translate(dev[:: max(1, len(dev) // 400)][:400], progress=False, beam_size=1)
    translator = translator.with_options(doubtful_below=doubtful_below(measured))
    pairs = list(read_sides(options.test))
    references: dict[str, list[str]] = {}
    for source, reference in pairs:
        references.setdefault(source, []).append(reference)
    lines = distinct(pairs)[:2_000]
    sources = [line.source for line in lines]
    clean = translator.translate(sources, progress=False)
    is_bad = [similarity(line.text, references[line.source]) < BAD for line in clean]
    planted = plant_in_translations(translator, clean)
    planted |= plant_in_sources(translator, sources, [line.reference for line in lines])
    groups = {"clean": clean, **{fault: group for fault, group in planted.items() if group}}
    shares = {
        fault: {flag: sum(flag in line.flags for line in group) / len(group) for flag in MEANINGS}
        for fault, group in groups.items()
    }
    judged = judge_faults(shares)
    doubtful = ["doubtful" in line.flags for line in clean]
    both = sum(flagged and bad for flagged, bad in zip(doubtful, is_bad, strict=True))
    nothing = f"doubtful: chrF below {BAD}, nothing planted"
    judged[nothing] = {"recall": both / max(1, sum(is_bad)), "precision": both / max(1, sum(doubtful))}
    areas = {name: area([statistic(line) for line in clean], is_bad) for name, statistic in STATISTICS.items()}
    print(
        f"doubtful_below {translator.options.doubtful_below}; {sum(is_bad)} of {len(clean)} have a chrF below {BAD}\n"
    )
    flags = [flag for flag in MEANINGS if any(share[flag] for share in shares.values())]
    rows = [
        [fault, str(len(groups[fault])), *(f"{100 * share[flag]:.1f}" for flag in flags)]
        for fault, share in shares.items()
    ]
    print(markdown(["% flagged", "lines", *flags], rows), "\n")
    rows = [[name, f"{figures['precision']:.2f}", f"{figures['recall']:.2f}"] for name, figures in judged.items()]
    print(markdown(["flag: fault", "precision", "recall"], rows), "\n")
    print(markdown(["statistic", "AUC"], [[name, f"{value:.3f}"] for name, value in areas.items()]))
    write_figures(
        options.out,
        doubtful_below=translator.options.doubtful_below,
        lines={fault: len(group) for fault, group in groups.items()},
        bad=sum(is_bad),
        flagged=shares,
        judged=judged,
        areas=areas,
    )


if __name__ == "__main__":
    main()
