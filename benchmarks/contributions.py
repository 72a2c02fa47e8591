"""Which measure finds the source word that decides a word of a translation?

    python benchmarks/contributions.py PHRASEBOOK_RUN [--agreement RUN test.en] [--threads 1] [--out results.json]

In 200 sentences of the phrasebook (`dragoman.text.phrasebook.cues`), one English word is known to decide the form of an
Italian one: its gender, its number, or how people are addressed. A measure is right if it ranks that word first among
all words and marks of the source, where chance is one in their number. The sentences are not in training. All measures
read the same translation up to the word in question.

    contrastive erasure             fall of log p(word) - fall of log p(other form), without each source word
    contrastive gradient            length of the gradient of logit(word) - logit(other form)
    contrastive gradient x input    its product with the vectors, signed
    erasure, gradient, ...          the same of log p(word) alone
    attention, last layer but one   cross-attention at the step that writes the word, mean over heads
    attention, best head            the head that is right most often on the other half of the sentences

`--agreement` tells how well erasure and gradients agree: Kendall's tau over the source words, mean over the steps of
the model's own translation of 200 different sentences, taken from all over a test set. Intervals are of 95 %: Wilson's
for rates, bootstrap for means.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cues
import numpy as np
import torch
from command_line import command_line, figures_file
from jaxtyping import Float
from torch import Tensor

from dragoman.aligning.passes import Given, Seen, run_given
from dragoman.aligning.words import Word, words_of
from dragoman.errors import Error
from dragoman.explaining.contributions.agreement import Mean
from dragoman.explaining.contributions.erasure import falls
from dragoman.explaining.contributions.gradients import by_word, difference, gradients, log_prob_of, side_by_side
from dragoman.explaining.contributions.question import read_choice
from dragoman.explaining.contributions.scores import contributions_of
from dragoman.explaining.embeddings.directions import wilson
from dragoman.explaining.heads.table import spread
from dragoman.machine import describe, machine
from dragoman.text.reading.lines import read_lines
from dragoman.translating.translator import Translator

SENTENCES = 200
CANDIDATES = 10
CONTRASTIVE = "contrastive erasure"
BAR = 0.8
"""How often `CONTRASTIVE` is to find the word."""


class Found(NamedTuple):
    """What the measures say of one sentence: a number for each of W source words."""

    cue: cues.Cue
    words: list[str]
    right: int
    preferred: bool
    """Whether the model finds the word likelier than its other form."""
    measures: dict[str, Float[Tensor, "W"]]
    heads: Float[Tensor, "L H W"]

    def finds(self, measure: str) -> bool:
        return int(self.measures[measure].argmax()) == self.right


def judge(translator: Translator, cue: cues.Cue) -> Found:
    """All measures of one sentence."""
    tokenizers, source = translator.tokenizers, cue.pair.source
    given, instead = read_choice(tokenizers, translator.framing, *cue.pair[:2], _numbered(cue), cue.instead)
    words = words_of(tokenizers.source, given.source or [])
    deciding = cues.words_of(source)[cue.cue]
    (right,) = (place for place, word in enumerate(words) if word.text == deciding)
    pair = torch.tensor([given.labels[-1], instead])
    return Found(
        cue,
        [word.text for word in words],
        right,
        *_measures(translator, given, words, pair),
    )


def _numbered(cue: cues.Cue) -> str:
    """The word in question, by its number among equal ones."""
    words = cues.words_of(cue.pair.target)
    return f"{words[cue.place]}#{words[: cue.place + 1].count(words[cue.place])}"


def _measures(
    translator: Translator, given: Given, words: Sequence[Word], pair: Tensor
) -> tuple[bool, dict[str, Tensor], Tensor]:
    model, step = translator.model, len(given.labels) - 1
    seen = Seen()
    hidden, _ = run_given(model, [given], seen)
    logits = model.project(hidden[-1:]).float()[0, pair]
    fall, others_fall = falls(model, given, words, [], pair.expand(step + 1, 2))[:, step].T
    chosen, other = pair.expand(step + 1, 2).unbind(1)
    found = gradients(model, given, side_by_side(difference(chosen, other), log_prob_of(chosen)), [step])
    (contrast, plain), (contrast_x, plain_x) = (by_word(each[:, 0], words) for each in found)
    weights = [value[0, :, step] for site, value in seen.items() if site.endswith("cross_attention.weights")]
    heads = torch.stack([by_word(of_layer, words) for of_layer in weights])
    measures = {
        CONTRASTIVE: fall - others_fall,
        "contrastive gradient": contrast,
        "contrastive gradient x input": contrast_x,
        "erasure": fall,
        "gradient": plain,
        "gradient x input": plain_x,
        "attention, last layer but one": heads[max(len(heads) - 2, 0)].mean(0),
    }
    return bool(logits[0] > logits[1]), measures, heads


def best_heads(found: Sequence[Found]) -> list[bool]:
    """Whether the head that is right most often on the other half of the sentences is right on each."""
    right = np.stack([(each.heads.argmax(-1) == each.right).flatten().numpy() for each in found])
    even = np.arange(len(found)) % 2 == 0
    best = right[~even].mean(0).argmax(), right[even].mean(0).argmax()
    return np.where(even, right[:, best[0]], right[:, best[1]]).tolist()


def rate(right: Sequence[bool]) -> dict[str, Any]:
    """A share and its interval."""
    share = sum(right) / len(right)
    return {"right": sum(right), "of": len(right), "rate": share, "interval": wilson(share, len(right))}


def rates(found: Sequence[Found]) -> dict[str, Any]:
    """How often each measure is right: on all sentences, on each kind, and where the model finds the word likelier."""
    right = {name: [each.finds(name) for each in found] for name in found[0].measures}
    right["attention, best head"] = best_heads(found)
    groups = {kind: [each.cue.kind == kind for each in found] for kind in cues.COUNTS}
    groups = {"all": [True] * len(found), **groups, "model is right": [each.preferred for each in found]}
    table: dict[str, Any] = {
        name: {
            group: rate([r for r, chosen in zip(each, among, strict=True) if chosen]) for group, among in groups.items()
        }
        for name, each in right.items()
    }
    chance = {
        group: float(np.mean([1 / len(each.words) for each, chosen in zip(found, among, strict=True) if chosen]))
        for group, among in groups.items()
    }
    return {"measures": table, "chance": chance}


def missed(found: Sequence[Found]) -> list[dict[str, Any]]:
    """Sentences where the contrastive measure ranks another word first."""
    return [
        {
            "source": each.cue.pair.source,
            "target": each.cue.pair.target,
            "word": _numbered(each.cue),
            "instead": each.cue.instead,
            "cue": each.words[each.right],
            "first": each.words[int(each.measures[CONTRASTIVE].argmax())],
            "likelier": each.preferred,
        }
        for each in found
        if not each.finds(CONTRASTIVE)
    ]


def agreements(translator: Translator, sources: Sequence[str]) -> dict[str, Any]:
    """Kendall's tau of gradients with erasure over the source words, as records hold it; mean over sentences."""
    model, tokenizers = translator.model, translator.tokenizers
    found: dict[str, list[float]] = {"gradient": [], "gradient_x_input": []}
    seconds = []
    for source, translation in zip(sources, translator.translate(list(sources)), strict=True):
        target = tokenizers.target.encode(translation.text)
        given = Given.of(translator.framing, tokenizers.source.encode(source), target)
        words = words_of(tokenizers.source, given.source or []), words_of(tokenizers.target, given.target)
        hidden, _ = run_given(model, [given])
        candidates = model.project(hidden).topk(CANDIDATES).indices
        started = time.perf_counter()
        agreed: Mapping[str, float | None] = contributions_of(model, given, *words, candidates).agreement
        seconds.append(time.perf_counter() - started)
        for name, tau in agreed.items():
            found[name] += [] if tau is None else [tau]
    means = {name: Mean.of(taus)._asdict() for name, taus in found.items()}
    return {"tau": means, "seconds_median": float(np.median(seconds))}


def show(results: dict[str, Any]) -> None:
    table, chance = results["cues"]["measures"], results["cues"]["chance"]
    print(f"{'':<32}" + "".join(f"{group:<22}" for group in chance))
    for name, each in table.items():
        cells = (
            f"{100 * r['rate']:.1f} % ({100 * r['interval'][0]:.0f}-{100 * r['interval'][1]:.0f})"
            for r in each.values()
        )
        print(f"{name:<32}" + "".join(f"{cell:<22}" for cell in cells))
    print(f"{'chance':<32}" + "".join(f"{f'{100 * share:.1f} %':<22}" for share in chance.values()))
    for name, each in results.get("agreement", {}).get("tau", {}).items():
        print(f"tau of {name} and erasure: {each['mean']:.3f} ({each['low']:.3f} to {each['high']:.3f})")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path, help="a model of the phrasebook, or its run")
    parser.add_argument(
        "--agreement", type=Path, nargs=2, metavar=("MODEL", "SOURCES"), help="any model, and a text to translate"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    try:
        translator = Translator.load(options.model, "cpu", "float32")
        found = [judge(translator, cue) for cue in cues.cues()]
        results: dict[str, Any] = {"cues": rates(found), "missed": missed(found)}
        if options.agreement:
            other = Translator.load(options.agreement[0], "cpu", "float32")
            different = list(dict.fromkeys(read_lines(options.agreement[1])))
            results["agreement"] = agreements(other, spread(different, SENTENCES))
    except Error as error:
        raise SystemExit(f"error: {error}") from None
    show(results)
    print(f"\n{describe()}; {options.threads} threads")
    if options.out:
        facts = {"machine": machine(), "command": command_line(), "results": results}
        options.out.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
