"""How well does a model's cross-attention align words, beside the aligner that learns from the same text?

    python benchmarks/alignment.py MODEL train.en train.it [--pairs pairs.tsv] [--threads 1] [--out results.json]

The pairs are our own hundred, of English and Italian, or those of a file for other languages. On the odd lines, the
layer, head and step with the lowest alignment error rate are chosen; all systems are judged on the even lines.

    attention               the head that was trained to align; in a model without one, the chosen cross-attention
    last layer but one      the mean over its heads at the step that writes, as for languages without aligned pairs
    diagonal                each target word is linked to the source word in which its middle falls, by share of length
    aligner                 data/aligning.py on the model's tokens: what a head is trained on

Attention gives a target word one link at most, while `della` is surely linked to `of` and `the`. So even a perfect
system of this kind has an error rate above 0, which is printed last. The intervals are 95 % bootstraps over sentences.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command_line import command_line, figures_file

from dragoman.data.aligning import Aligner, PairBlock
from dragoman.data.corpus import PackedIds
from dragoman.errors import Error
from dragoman.explaining.gold_alignment import (
    Agreement,
    AlignedPair,
    Links,
    agree,
    align_pairs,
    judge,
    own_gold,
    pair_weights,
    read_gold,
)
from dragoman.inference.alignment import AlignmentChoice, best_links, word_weights
from dragoman.inference.translator import Translator
from dragoman.system import describe, machine
from dragoman.text.readers import open_pairs
from dragoman.tokenizing.words import Word, words_in_tokens

SAMPLES, SEED = 10_000, 12345
FIGURES = ("error_rate", "precision", "recall")


def aligner_links(translator: Translator, text: Sequence[tuple[str, str]], pairs: Sequence[AlignedPair]) -> list[Links]:
    """What the aligner says of tokens, as links of the words that they belong to."""
    sides = [
        tokenizer.encode_batch(list(texts))
        for tokenizer, texts in zip(translator.tokenizers, zip(*text, strict=True), strict=True)
    ]
    source, target = (PackedIds(np.array([*chain(*side)]), np.cumsum([0, *map(len, side)])) for side in sides)
    aligner = Aligner.learn(source, target, (translator.tokenizers.source.size, translator.tokenizers.target.size))
    return [_aligned(aligner, translator, pair) for pair in pairs]


def _aligned(aligner: Aligner, translator: Translator, pair: AlignedPair) -> Links:
    given = (pair.source, pair.source_words), (pair.target, pair.target_words)
    ids = [np.array([tok.encode(text)]) for tok, (text, _) in zip(translator.tokenizers, given, strict=True)]
    source, target = (
        _word_of_token(words_in_tokens(tok, *side)) for tok, side in zip(translator.tokenizers, given, strict=True)
    )
    places = enumerate(aligner.links(PairBlock(np.zeros(1, np.int64), *ids))[0].tolist())
    return frozenset(
        (source[place - 1], target[token]) for token, place in places if place - 1 in source and token in target
    )


def _word_of_token(words: Sequence[Word]) -> dict[int, int]:
    return {token: number for number, word in enumerate(words) for token in range(word.first, word.last)}


def diagonal(pair: AlignedPair) -> Links:
    source, target = len(pair.source_words), len(pair.target_words)
    return frozenset((int((place + 0.5) * source / target), place) for place in range(target))


def best_of_one_each(pair: AlignedPair) -> Links:
    """The links of a person, but one for each target word: a sure one if there is one."""
    links = sorted(pair.possible, key=lambda link: (link[1], link not in pair.sure))
    return frozenset(next(group) for _, group in groupby(links, key=lambda link: link[1]))


def figures(found: Sequence[Links], pairs: Sequence[AlignedPair]) -> dict[str, Any]:
    """Each figure with its 95 % interval: the bootstrap draws sentences with replacement."""
    counts = np.array([agree(links, pair) for links, pair in zip(found, pairs, strict=True)])
    drawn = np.random.default_rng(SEED).integers(len(pairs), size=(SAMPLES, len(pairs)))
    samples = [Agreement(*row) for row in counts[drawn].sum(1).tolist()]
    whole = judge(found, pairs)
    return {
        name: {
            "value": getattr(whole, name),
            "interval": np.percentile([getattr(sample, name) for sample in samples], [2.5, 97.5]).tolist(),
        }
        for name in FIGURES
    }


def measure_heads(translator: Translator, pairs: Sequence[AlignedPair]) -> list[AlignmentChoice]:
    """Return every cross-attention with its alignment error rate on these pairs, the best first.

    These are all heads and the mean of each layer's heads, at the step that writes a word and at the one that reads it.
    The best of many has a higher rate on other pairs.
    """
    links_of: dict[AlignmentChoice, list[Links]] = {}
    for weights, source, target in pair_weights(translator, pairs):
        layers, heads = weights.shape[:2]
        with_mean = np.concatenate([weights, weights.mean(1, keepdims=True)], axis=1)
        for shifted in (False, True):
            by_word = word_weights(with_mean, source, target, shifted)
            for layer, head in product(range(layers), range(heads + 1)):
                choice = AlignmentChoice(layer, None if head == heads else head, shifted)
                links_of.setdefault(choice, []).append(best_links(by_word[layer, head]))
    measured = [choice.measured(judge(links, pairs).error_rate, len(pairs)) for choice, links in links_of.items()]
    return sorted(measured, key=lambda choice: choice.aer or 0.0)


def measure(translator: Translator, text: Sequence[tuple[str, str]], pairs: Sequence[AlignedPair]) -> dict[str, Any]:
    choosing, judging = pairs[::2], pairs[1::2]
    started = time.perf_counter()
    heads = measure_heads(translator, choosing)
    chosen = time.perf_counter()
    layers = len(translator.model.decoder.blocks)
    trained, fallback = AlignmentChoice.of(translator.model.config), AlignmentChoice.unmeasured(layers)
    links = {
        "attention": align_pairs(translator, judging, trained if trained.is_trained else heads[0]),
        "last layer but one": align_pairs(translator, judging, fallback),
        "diagonal": [diagonal(pair) for pair in judging],
    }
    before = time.perf_counter()
    links["aligner"] = aligner_links(translator, text, judging)
    learned = time.perf_counter()
    links["at best, one link a word"] = [best_of_one_each(pair) for pair in judging]
    return {
        "systems": {name: figures(found, judging) for name, found in links.items()},
        "heads": [asdict(head) for head in heads],
        "seconds": {"choosing a head": chosen - started, "the aligner": learned - before},
        "pairs": {"choosing": len(choosing), "judging": len(judging), "text": len(text)},
    }


def show(results: dict[str, Any]) -> None:
    print(f"{'':<26}" + "".join(f"{name.replace('_', ' '):<22}" for name in FIGURES))
    for name, found in results["systems"].items():
        cells = (
            f"{found[each]['value']:.3f} ({found[each]['interval'][0]:.3f}-{found[each]['interval'][1]:.3f})"
            for each in FIGURES
        )
        print(f"{name:<26}" + "".join(f"{cell:<22}" for cell in cells))
    choice = AlignmentChoice(**results["heads"][0])
    where, _, _ = choice.how.partition(". ")
    print(f"\nlowest error rate on the odd lines: {choice.aer:.2f}, {where}")
    print("; ".join(f"{name}: {seconds:.1f} s" for name, seconds in results["seconds"].items()))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path, help="a model folder or a run folder")
    parser.add_argument("source", type=Path, help="the text that the aligner learns from")
    parser.add_argument("target", type=Path, help="its translation, line by line")
    parser.add_argument("--pairs", type=Path, help="aligned pairs, as dragoman.explaining.gold_alignment describes")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    try:
        translator = Translator.load(options.model, "cpu", "float32")
        pairs = read_gold(options.pairs) if options.pairs else own_gold(*translator.languages)
        text = [pair[:2] for pair in open_pairs((str(options.source), str(options.target)))]
    except Error as error:
        raise SystemExit(f"error: {error}") from None
    if not pairs:
        languages = " to ".join(translator.languages)
        raise SystemExit(f"error: the model translates {languages}, for which there are no pairs of ours; give --pairs")
    results = {"model": options.model.resolve().name, **measure(translator, text, pairs)}
    show(results)
    print(f"\n{describe()}; {options.threads} threads")
    if options.out:
        facts = {"machine": machine(), "command": command_line(), "results": results}
        options.out.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
