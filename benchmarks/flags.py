"""Does a flag say with reason that a translation went wrong?

    python benchmarks/flags.py MODEL --dev SOURCES --test SOURCES REFERENCES [--out FILE]

Each distinct test sentence is translated as the model does by itself. Beside these *clean* translations stand others
with a planted fault. Faults of the translation are forced on the model, which scores them: a *number* is changed or a
*name* left out, the second half is *cut* off, the last word is *repeated*, the source is *copied*, or it is that of
*another* sentence. Faults of the source are translated: it is in another *language* (the target's), it holds *unknown*
letters, or its words are *shuffled*. Each fault is meant for one flag, which has its recall there, and its precision
where there are as many clean sentences.

`doubtful_below` is what training would measure on 400 dev sentences. Where nothing is planted, a translation is bad if
its best chrF with a reference is below 40. For several statistics, the table has the area under the curve (AUC): how
often a bad translation has a lower value than another one.
"""

import argparse
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from catalogues import lot
from command_line import command_line, figures_file, markdown
from keeping import NAMES, NUMBERS, distinct, renamed

from dragoman import Translator
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.inference.translation import MEANINGS, Translation, chrf, doubtful_below
from dragoman.system import machine

BAD = 40
STRANGE = ("漢字", "ωμέγα", "зима", "שלום", "ไทย")
MEANT = {
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
"""The flag that each fault is meant for."""
STATISTICS: dict[str, Callable[[Translation], float]] = {
    "mean log-probability": lambda one: float(np.mean(one.token_log_probs)),
    "mean of the lowest quarter": lambda one: float(
        np.mean(sorted(one.token_log_probs)[: math.ceil(len(one.token_log_probs) / 4)])
    ),
    "lowest": lambda one: min(one.token_log_probs),
    "sum": lambda one: one.log_prob,
    "sum over the root of the length": lambda one: one.log_prob / len(one.tokens) ** 0.5,
    "short": lambda one: len(one.text) / len(one.source),
    "long": lambda one: -len(one.text) / len(one.source),
}


def forced(translator: Translator, pairs: Sequence[tuple[str, str]]) -> list[Translation]:
    """What these targets would be flagged with, had the model chosen them; those of sources in one piece."""
    options, framing = translator.options, translator.framing
    lines = translator.read([source for source, _ in pairs], options)
    kept = [
        (line, *pair) for line, pair in zip(lines, pairs, strict=True) if len(line.all) == len(line.translated) == 1
    ]
    sources, targets = [source for _, source, _ in kept], [target for *_, target in kept]
    scored = translator.score(sources, targets, options)
    _, written = translator.plain_pairs(sources, targets, options)
    rows = [framing.labels(ids) for ids in translator.tokenizers.target.encode_batch(written)]
    hypotheses = [
        Hypothesis(tuple(row), one.token_log_probs, one.log_prob, finished=True)
        for row, one in zip(rows, scored, strict=True)
    ]
    return [
        translator.writer.translation(line, [[one]], options) for (line, *_), one in zip(kept, hypotheses, strict=True)
    ]


def faulty(
    translator: Translator, clean: Sequence[Translation], references: Sequence[str]
) -> dict[str, list[Translation]]:
    """Translations with each planted fault."""

    def translated(sources: Sequence[str]) -> list[Translation]:
        return translator.translate(sources, progress=False)

    numbers = translated(
        [frame.format(value) for frames, values in NUMBERS.items() for frame in frames for value in values]
    )
    toms = [one.source for one in clean if re.search(r"\bTom\b", one.source)]
    names = [NAMES[number % len(NAMES)] for number in range(len(toms))]
    named = translated([renamed(source, name) for source, name in zip(toms, names, strict=True)])
    halves = [(one, one.text.split(" ")) for one in clean]
    strange = [STRANGE[number % len(STRANGE)] for number in range(len(clean))]
    targets: dict[str, list[tuple[str, str]]] = {
        "number": [
            (one.source, re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), one.text, count=1))
            for one in numbers
            if "lost" not in one.flags and re.search(r"\d", one.text)
        ],
        "name": [
            (one.source, one.text.replace(name, "", 1).strip())
            for one, name in zip(named, names, strict=True)
            if name in one.text and one.text.strip(".?! ") != name
        ],
        "cut": [(one.source, " ".join(words[: len(words) // 2])) for one, words in halves if len(words) > 3],
        "repeated": [(one.source, f"{one.text} {' '.join(words[-1:] * 4)}") for one, words in halves],
        "copied": [(one.source, one.source) for one in clean],
        "another": [(one.source, other.text) for one, other in zip(clean, [*clean[1:], clean[0]], strict=True)],
    }
    return {
        **{fault: forced(translator, pairs) for fault, pairs in targets.items()},
        "shuffled": translated([shuffled(one.source) for one in clean if one.source.count(" ") > 2]),
        "language": translated(references),
        "unknown": translated(
            [
                one.source.replace(" ", f" {word} ", 1)
                for one, word in zip(clean, strange, strict=True)
                if " " in one.source
            ]
        ),
    }


def shuffled(source: str) -> str:
    words = source.rstrip(".?!")
    order = sorted(enumerate(words.split(" ")), key=lambda word: lot(f"{source}{word[0]}"))
    return " ".join(word for _, word in order) + source[len(words) :]


def likeness(text: str, references: Sequence[str]) -> float:
    return float(chrf([text, *references])[0, 1:].max())


def area(values: Sequence[float], is_bad: Sequence[bool]) -> float:
    bad, others = (
        [value for value, one in zip(values, is_bad, strict=True) if one == wanted] for wanted in (True, False)
    )
    return float(np.mean([np.mean(np.array(others) > value) + np.mean(np.array(others) == value) / 2 for value in bad]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--dev", type=Path, required=True, metavar="SOURCES")
    parser.add_argument("--test", nargs=2, type=Path, required=True, metavar=("SOURCES", "REFERENCES"))
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    translator = Translator.load(options.model, "cpu", progress=False)
    dev = options.dev.read_text(encoding="utf-8").splitlines()
    measured = translator.translate(dev[:: max(1, len(dev) // 400)][:400], progress=False, beam_size=1)
    translator.options = translator.options.but(doubtful_below=doubtful_below(measured))
    references: dict[str, list[str]] = {}
    for source, reference in zip(*(path.read_text("utf-8").splitlines() for path in options.test), strict=True):
        references.setdefault(source, []).append(reference)
    lines = distinct(*options.test)[:2_000]
    clean = translator.translate([line.source for line in lines], progress=False)
    likenesses = [likeness(one.text, references[one.source]) for one in clean]
    is_bad = [value < BAD for value in likenesses]
    planted = faulty(translator, clean, [line.reference for line in lines])
    found = {"clean": clean, **{fault: ones for fault, ones in planted.items() if ones}}
    shares = {
        fault: {flag: sum(flag in one.flags for one in ones) / len(ones) for flag in MEANINGS}
        for fault, ones in found.items()
    }
    judged = {
        f"{flag}: {fault}": {"recall": recall, "precision": recall / ((recall + shares["clean"][flag]) or 1)}
        for fault, flag in MEANT.items()
        if fault in found
        for recall in [shares[fault][flag]]
    }
    doubtful = ["doubtful" in one.flags for one in clean]
    both = sum(one and other for one, other in zip(doubtful, is_bad, strict=True))
    judged[f"doubtful: chrF below {BAD}, nothing planted"] = {
        "recall": both / sum(is_bad),
        "precision": both / max(1, sum(doubtful)),
    }
    areas = {name: area([statistic(one) for one in clean], is_bad) for name, statistic in STATISTICS.items()}
    flags = [flag for flag in MEANINGS if any(share[flag] for share in shares.values())]
    print(
        f"doubtful_below {translator.options.doubtful_below}; {sum(is_bad)} of {len(clean)} have a chrF below {BAD}\n"
    )
    rows = [[fault, str(len(found[fault])), *(f"{100 * shares[fault][flag]:.1f}" for flag in flags)] for fault in found]
    print(markdown(["% flagged", "lines", *flags], rows), "\n")
    rows = [[name, f"{one['precision']:.2f}", f"{one['recall']:.2f}"] for name, one in judged.items()]
    print(markdown(["flag: fault", "precision", "recall"], rows), "\n")
    print(markdown(["statistic", "AUC"], [[name, f"{value:.3f}"] for name, value in areas.items()]))
    if options.out:
        figures = {
            "command": command_line(),
            "machine": machine(),
            "doubtful_below": translator.options.doubtful_below,
            "lines": {fault: len(ones) for fault, ones in found.items()},
            "bad": sum(is_bad),
            "flagged": shares,
            "judged": judged,
            "areas": areas,
        }
        options.out.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
