"""Alignment error rate of a model's cross-attention, compared with an aligner that learns from the same text.

    python benchmarks/alignment.py MODEL train.en train.it [--pairs pairs.tsv] [--threads 1] [--out results.json]

The pairs are our own hundred, of English and Italian, or those of a file for other languages. On the odd lines, the
layer, head and step with the lowest alignment error rate are chosen; all systems are judged on the even lines.

    attention               the head that was trained to align; in a model without one, the chosen cross-attention
    last layer but one      the mean over its heads at the step that writes, as for languages without aligned pairs
    diagonal                each target word is linked to the source word in which its middle falls, by share of length
    aligner                 data/aligning.py on the model's tokens, from which a head is trained

Attention gives a target word one link at most, while `della` is surely linked to `of` and `the`. Therefore even a
perfect system of this kind has an error rate above 0, which is printed last. The intervals are 95 % bootstraps over
sentences.
"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command_line import markdown, new_parser, read_sides, write_figures

from dragoman.data.aligning import Aligner, PairBlock
from dragoman.data.corpus import PackedIds
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
from dragoman.system import describe
from dragoman.tokenizing.words import Word, words_in_tokens

SAMPLES, SEED = 10_000, 12345


def aligner_links(translator: Translator, text: Sequence[tuple[str, ...]], pairs: Sequence[AlignedPair]) -> list[Links]:
    """Return the aligner's links of tokens as links of the words that they belong to."""
    sides = [
        tokenizer.encode_batch(list(texts))
        for tokenizer, texts in zip(translator.tokenizers, zip(*text, strict=True), strict=True)
    ]
    source, target = (PackedIds(np.array([*chain(*side)]), np.cumsum([0, *map(len, side)])) for side in sides)
    aligner = Aligner.learn(source, target, (translator.tokenizers.source.size, translator.tokenizers.target.size))
    return [word_links(aligner, translator, pair) for pair in pairs]


def word_links(aligner: Aligner, translator: Translator, pair: AlignedPair) -> Links:
    """Return the aligner's links between the words of a pair."""
    sides = (pair.source, pair.source_words), (pair.target, pair.target_words)
    ids = [np.array([tok.encode(text)]) for tok, (text, _) in zip(translator.tokenizers, sides, strict=True)]
    source, target = (
        words_by_token(words_in_tokens(tok, *side)) for tok, side in zip(translator.tokenizers, sides, strict=True)
    )
    places = enumerate(aligner.links(PairBlock(np.zeros(1, np.int64), *ids))[0].tolist())
    return frozenset(
        (source[place - 1], target[token]) for token, place in places if place - 1 in source and token in target
    )


def words_by_token(words: Sequence[Word]) -> dict[int, int]:
    """Map a token to the word that it belongs to."""
    return {token: number for number, word in enumerate(words) for token in range(word.first, word.last)}


def diagonal(pair: AlignedPair) -> Links:
    """Link each target word to the source word at the same share of the length."""
    source, target = len(pair.source_words), len(pair.target_words)
    return frozenset((int((place + 0.5) * source / target), place) for place in range(target))


def best_single_links(pair: AlignedPair) -> Links:
    """Return a person's links, but one for each target word: a sure link if there is one."""
    links = sorted(pair.possible, key=lambda link: (link[1], link not in pair.sure))
    return frozenset(next(group) for _, group in groupby(links, key=lambda link: link[1]))


def error_rate(links: Sequence[Links], pairs: Sequence[AlignedPair]) -> dict[str, Any]:
    """Return the error rate with its 95 % interval: the bootstrap draws sentences with replacement."""
    counts = np.array([agree(own, pair) for own, pair in zip(links, pairs, strict=True)])
    drawn = np.random.default_rng(SEED).integers(len(pairs), size=(SAMPLES, len(pairs)))
    samples = [Agreement(*row).error_rate for row in counts[drawn].sum(1).tolist()]
    return {"value": judge(links, pairs).error_rate, "interval": np.percentile(samples, [2.5, 97.5]).tolist()}


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


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model", type=Path, help="a model folder or a run folder")
    parser.add_argument("text", type=Path, nargs=2, help="the text that the aligner learns from, aligned line by line")
    parser.add_argument("--pairs", type=Path, help="aligned pairs, as dragoman.explaining.gold_alignment describes")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    translator = Translator.load(options.model, "cpu", "float32")
    pairs = read_gold(options.pairs) if options.pairs else own_gold(*translator.languages)
    if not pairs:
        parser.error(f"there are no pairs of ours for {' to '.join(translator.languages)}; give --pairs")
    choosing, judging = pairs[::2], pairs[1::2]
    heads = measure_heads(translator, choosing)
    trained = AlignmentChoice.of(translator.model.config)
    fallback = AlignmentChoice.unmeasured(len(translator.model.decoder.blocks))
    links = {
        "attention": align_pairs(translator, judging, trained if trained.is_trained else heads[0]),
        "last layer but one": align_pairs(translator, judging, fallback),
        "diagonal": [diagonal(pair) for pair in judging],
        "aligner": aligner_links(translator, [*read_sides(options.text)], judging),
        "at best, one link a word": [best_single_links(pair) for pair in judging],
    }
    systems = {name: error_rate(own, judging) for name, own in links.items()}
    rows = [
        [name, f"{rate['value']:.3f} ({rate['interval'][0]:.3f} - {rate['interval'][1]:.3f})"]
        for name, rate in systems.items()
    ]
    print(markdown(["system", "alignment error rate"], rows))
    print(f"\nlowest error rate on the odd lines: {heads[0].aer:.2f}, {heads[0].how.partition('. ')[0]}")
    print(f"{describe()}; {options.threads} threads")
    counts = {"choosing": len(choosing), "judging": len(judging)}
    write_figures(options.out, systems=systems, heads=[asdict(head) for head in heads], pairs=counts)


if __name__ == "__main__":
    main()
