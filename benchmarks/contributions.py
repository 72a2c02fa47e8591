"""Which measure finds the source word that decides a word of a translation?

    python benchmarks/contributions.py PHRASEBOOK_RUN [--agreement RUN test.en] [--threads 1] [--out results.json]

In 200 sentences of the phrasebook (`cues.py`), one English word is known to decide the form of an
Italian one: its gender, its number, or how people are addressed. A measure is right if it ranks that word first among
all words and marks of the source, where chance is one in their number. The sentences are not in training. All measures
read the same translation up to the word in question. A vector is what enters the encoder's first layer.

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
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cues
import numpy as np
import torch
from command_line import command_line, figures_file
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.errors import Error
from dragoman.evaluating.metrics import SAMPLES, SEED, interval
from dragoman.explaining.why import probability_drops, read_choice
from dragoman.formats.lines import read_lines
from dragoman.inference.alignment import Word
from dragoman.inference.teacher_forcing import ForcedText, Seen, teacher_force
from dragoman.inference.translator import Translator
from dragoman.model.transformer import EncoderDecoder
from dragoman.system import describe, machine
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.words import words_of

SENTENCES = 200
CONTRASTIVE = "contrastive erasure"
BAR = 0.8
"""How often `CONTRASTIVE` is to find the word."""


class Gradients(NamedTuple):
    """What a score owes to the vector of each of S source tokens."""

    norm: Float[Tensor, "S"]
    """The length of the gradient (Simonyan et al. 2014; in contrast, Yin and Neubig 2022): never below zero."""
    product: Float[Tensor, "S"]
    """Gradient times input (Denil et al. 2014), which is the derivative by the length of the vector."""


def gradients(model: EncoderDecoder, given: ForcedText, score: Callable[[Float[Tensor, "V"]], Tensor]) -> Gradients:
    """The gradients of a score, which is a function of the logits after all that the decoder has read."""
    vectors: list[Tensor] = []

    def cut(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        vectors.append(output.detach().requires_grad_())
        return vectors[-1]

    hook = model.source_embedding.register_forward_hook(cut)
    try:
        hidden, _ = teacher_force(model, [given])
    finally:
        hook.remove()
    logits = model.project(hidden[-1:]).float()[0]
    (gradient,) = torch.autograd.grad(score(logits), vectors[:1])
    return Gradients(gradient.norm(dim=-1), (gradient * vectors[0]).sum(-1).detach())


def by_word(tokens: Float[Tensor, "*B S"], words: Sequence[Word]) -> Float[Tensor, "*B W"]:
    """The sums over the tokens of each word."""
    return torch.stack([tokens[..., word.first : word.last].sum(-1) for word in words], -1)


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
    translator: Translator, given: ForcedText, words: Sequence[Word], pair: Tensor
) -> tuple[bool, dict[str, Tensor], Tensor]:
    model, step = translator.model, len(given.labels) - 1
    seen = Seen()
    hidden, _ = teacher_force(model, [given], seen)
    logits = model.project(hidden[-1:]).float()[0, pair]
    fall, others_fall = probability_drops(model, given, words, [], pair.expand(step + 1, 2))[:, step].T
    chosen, other = pair
    contrast = gradients(model, given, lambda logits: logits[chosen] - logits[other])
    plain = gradients(model, given, lambda logits: logits.log_softmax(-1)[chosen])
    weights = [value[0, :, step] for site, value in seen.items() if site.endswith("cross_attention.weights")]
    heads = torch.stack([by_word(of_layer, words) for of_layer in weights])
    measures = {
        CONTRASTIVE: fall - others_fall,
        "contrastive gradient": by_word(contrast.norm, words),
        "contrastive gradient x input": by_word(contrast.product, words),
        "erasure": fall,
        "gradient": by_word(plain.norm, words),
        "gradient x input": by_word(plain.product, words),
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
    """Kendall's tau of gradients with erasure over the source words: mean over steps, then over sentences."""
    tokenizers = translator.tokenizers
    found: dict[str, list[float]] = {"gradient": [], "gradient_x_input": []}
    for source, translation in zip(sources, translator.translate(list(sources)), strict=True):
        ids = tokenizers.source.encode(source), tokenizers.target.encode(translation.text)
        taus = _agreements_of(translator.model, ForcedText.of(translator.framing, *ids), tokenizers.source)
        for name, of_steps in zip(found, zip(*taus, strict=True), strict=False):
            found[name].append(float(np.mean(of_steps)))
    return {"tau": {name: mean(taus) for name, taus in found.items()}}


def _agreements_of(model: EncoderDecoder, given: ForcedText, tokenizer: Tokenizer) -> list[tuple[float, float]]:
    """Tau of the gradient's length and of gradient x input with erasure, at each step that ranks the words."""
    words, labels = words_of(tokenizer, given.source or []), torch.tensor(given.labels)
    spoken = probability_drops(model, given, words, [], labels[:, None])[:, :, 0].T
    found = []
    for step, label in enumerate(given.labels):
        read = given._replace(target=given.target[: step + 1])
        gradient = gradients(model, read, lambda logits, label=label: logits.log_softmax(-1)[label])
        taus = [kendall(by_word(each, words).numpy(), spoken[step].numpy()) for each in gradient]
        if None not in taus:
            found.append(tuple(taus))
    return found


def kendall(
    first: Sequence[float] | Float[np.ndarray, "W"], second: Sequence[float] | Float[np.ndarray, "W"]
) -> float | None:
    """Kendall's tau-b: pairs in the same order minus pairs in opposite order, as a share of the pairs without ties.

    1 is the same ranking, -1 the opposite one. None if all numbers of a ranking are equal.

    >>> kendall([1, 2, 3], [10, 30, 20])
    0.3333333333333333
    """
    a, b = (np.sign(np.subtract.outer(x, x)) for x in (np.asarray(first), np.asarray(second)))
    untied = float((a * a).sum()), float((b * b).sum())
    return float((a * b).sum() / np.sqrt(untied[0] * untied[1])) if all(untied) else None


def mean(numbers: Sequence[float]) -> dict[str, float]:
    """A mean, and its interval by bootstrap."""
    drawn = np.random.default_rng(SEED).choice(numbers, (SAMPLES, len(numbers))).mean(1)
    low, high = interval(drawn)
    return {"mean": float(np.mean(numbers)), "low": low, "high": high, "count": len(numbers)}


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share that was seen in `count` cases (Wilson 1927).

    >>> [round(end, 3) for end in wilson(0.5, 10)]
    [0.237, 0.763]
    """
    z = 1.959964  # the standard normal's quantile at 97.5 %
    middle = share + z**2 / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    whole = 1 + z**2 / count
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)


def spread(texts: Sequence[str], most: int) -> list[str]:
    """At most this many of the texts, spread evenly over all of them."""
    count = min(most, len(texts))
    return [texts[number * len(texts) // count] for number in range(count)]


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
