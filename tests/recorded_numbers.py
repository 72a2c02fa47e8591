"""What a record must say of one text, number by number, from `numpy_model` and `numpy_search` alone.

    expected = Reference(folder).translation("the red cat .")
    check_part(facts["parts"][0], expected)

Of the package it takes the vocabularies: which ids a text has, and what an id is called.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy_model import Array, Model, Sites, log_softmax
from numpy_search import BeamSearch, Follow, Rules, beam_search

from dragoman.store.folder import load_model
from dragoman.tokenizing.special_tokens import END, PADDING, START, UNKNOWN
from dragoman.tokenizing.tokenizer import Tokenizer

Facts = dict[str, Any]

SHARE = 1e-5
"""Of the largest number of what is compared: a record is float32 and the reference float64."""
WIDTHS = {1, 2, 4, 8}
"""Of the searches that every record holds, beside the model's own."""


class Expected(NamedTuple):
    """One text as the plain model reads and writes it."""

    source: list[int] | None
    read: list[int]
    written: list[int]
    known: int
    """How many of the written tokens were in the text; a language model's last is what it expects after it."""
    sites: Sites
    logits: Array
    searches: dict[int, BeamSearch]
    reference: "Reference"


class Reference:
    """A model folder in plain numpy, and how it searches."""

    def __init__(self, folder: Path) -> None:
        stored = load_model(folder)
        self.model, self.framing = Model(folder), stored.files.framing
        self.source, self.target = stored.tokenizers
        self.generation: dict[str, Any] = json.loads((folder / "generation_config.json").read_text())

    def translation(self, text: str) -> Expected:
        """What the model's own search writes."""
        return self._read(text, None)

    def given(self, text: str, target: str) -> Expected:
        """A translation that is given."""
        return self._read(text, [*self.target.encode(target), END])

    def reading(self, text: str) -> Expected:
        """A text that a language model reads."""
        ids = self.target.encode(text)
        sites, logits = self.model.run(None, ids)
        return Expected(None, ids, [*ids[1:], int(logits[-1].argmax())], len(ids) - 1, sites, logits, {}, self)

    def _read(self, text: str, written: list[int] | None) -> Expected:
        source, start = self.framing.source(self.source.encode(text)), self.framing.target_start
        rules, follow = self.rules(len(self.source.encode(text))), follower(self.model, source, start)
        searches = {width: beam_search(follow, width, rules) for width in sorted({*WIDTHS, self.own_width})}
        if written is None:
            written = list(searches[self.own_width].best.tokens)
        read = [start, *written[:-1]]
        return Expected(source, read, written, len(written), *self.model.run(source, read), searches, self)

    @property
    def own_width(self) -> int:
        return self.generation["beam_size"]

    def rules(self, tokens: int) -> Rules:
        """What a search obeys for a source of so many tokens that says something."""
        limit = int(self.generation["length_ratio"] * tokens) + self.generation["length_extra"]
        symbols = {PADDING, START, self.framing.target_start, UNKNOWN}
        unwritten = frozenset({*symbols, *self.target.placeholders.values()})
        spellings = [b"" if token in unwritten else self.target.spelling(token) for token in range(self.target.size)]
        return Rules(
            end=END,
            limit=min(limit, self.model.settings.get("max_positions", limit)),
            exponent=self.generation["length_penalty"],
            banned=unwritten,
            spellings=spellings,
        )


def follower(model: Model, source: list[int], start: int) -> Follow:
    """What may follow a beginning, from the plain model, which reads every beginning from its start."""
    memory: Sites = {}
    model.stack("encoder", source, memory)
    known: dict[tuple[int, ...], list[float]] = {}

    def follow(tokens: tuple[int, ...]) -> list[float]:
        if tokens not in known:
            output = model.stack("decoder", [start, *tokens], dict(memory))
            known[tokens] = log_softmax(output[-1] @ model.weights["output"].T).tolist()
        return known[tokens]

    return follow


# Each part of the facts


def check(found: Any, expected: Any, size: float | None = None) -> None:
    """Asserts that numbers are those expected, up to rounding of the largest, or of `size` where that cancelled."""
    assert np.shape(found) == np.shape(expected)
    largest = float(np.abs(expected).max()) if size is None else size
    np.testing.assert_allclose(found, expected, rtol=0, atol=SHARE * largest)


def check_part(part: Facts, expected: Expected) -> None:
    """Everything that the equations say of a part; what a word or a head does is for other tests."""
    model, target = expected.reference.model, expected.reference.target
    if expected.source is None:
        (decoder,) = part["stacks"]
    else:
        encoder, decoder = part["stacks"]
        check_stack(encoder, "encoder", expected.sites, expected.reference.source, expected.source, model)
    check_stack(decoder, "decoder", expected.sites, target, expected.read, model)
    check_steps(part["steps"], expected.logits, expected.written, target)
    tokens = [step["token"] for step in part["steps"]]
    check_words(tokens[: expected.known], part["written"], target)
    assert all(token["word"] is None for token in tokens[expected.known :])
    own = log_softmax(expected.logits)[range(expected.known), expected.written[: expected.known]]
    check(part["log_prob"], own.sum(), float(np.abs(own).sum()))
    assert [search["width"] for search in part["searches"]] == list(expected.searches)
    for search in part["searches"]:
        assert search["chosen"] == (search["width"] == expected.reference.own_width)
        check_search(search, expected.searches[search["width"]], target)
    for matrix in part["matrices"]:
        check_matrix(matrix, expected.sites, model)


def check_stack(stack: Facts, name: str, sites: Sites, tokenizer: Tokenizer, ids: list[int], model: Model) -> None:
    settings = model.settings
    embedding = {"encoder": "source", "decoder": "target"}[name] + "_embedding"
    assert stack.keys() == {"name", "tokens", "words", "embedding", "positions", "entering", "layers", "norms"}
    assert stack["name"] == name
    assert [token["id"] for token in stack["tokens"]] == ids
    assert [token["text"] for token in stack["tokens"]] == tokenizer.tokens(ids)
    check_words(stack["tokens"], stack["words"], tokenizer)
    check(stack["embedding"], sites[f"{embedding}.tokens"])
    if settings["positions"] == "rotary":
        assert stack["positions"] is None
    else:
        check(stack["positions"], sites[f"{embedding}.positions"])
    check(stack["entering"], sites[f"{name}.embedding"])
    check(stack["norms"], lengths(sites[f"{name}.output"]))
    assert [layer["name"] for layer in stack["layers"]] == [f"{name}.{i}" for i in range(settings[f"{name}_layers"])]
    for layer in stack["layers"]:
        check_layer(layer, sites)


def check_words(tokens: list[Facts], words: list[str], tokenizer: Tokenizer) -> None:
    """Every token belongs to the word of the token before or to the next one, and symbols to none; the tokens of a word
    spell it.
    """
    numbers = [token["word"] for token in tokens]
    symbols = [token["id"] != UNKNOWN and tokenizer.is_special(token["id"]) for token in tokens]
    assert [number is None for number in numbers] == symbols
    known = [number for number in numbers if number is not None]
    assert known == sorted(known) and set(known) == set(range(len(words)))
    for number, word in enumerate(words):
        assert tokenizer.decode([token["id"] for token in tokens if token["word"] == number]).strip() == word


def check_layer(layer: Facts, sites: Sites) -> None:
    name = layer["name"]
    assert layer.keys() == {"name", "attentions", "norms", "units"}
    crosses = f"{name}.cross_attention.query" in sites
    attentions = ["self_attention", "cross_attention"] if crosses else ["self_attention"]
    assert [attention["name"] for attention in layer["attentions"]] == attentions
    for attention in layer["attentions"]:
        check_attention(attention, name, sites)
    assert layer["norms"].keys() == {f"{each}_residual" for each in ("self", "cross", "feed")[:: 1 if crosses else 2]}
    for residual, found in layer["norms"].items():
        check(found, lengths(sites[f"{name}.{residual}"]))
    check_units(layer["units"], sites[f"{name}.feed_forward.hidden"])


def check_attention(attention: Facts, layer: str, sites: Sites) -> None:
    arrays = {"query", "key", "value", "products", "weights"}
    assert attention.keys() == {"name", "keys", "causal", *arrays}
    decodes, itself = layer.startswith("decoder"), attention["name"] == "self_attention"
    assert attention["keys"] == ("decoder" if decodes and itself else "encoder")
    assert attention["causal"] == (decodes and itself)
    for array in arrays:
        check(attention[array], sites[f"{layer}.{attention['name']}.{array}"])


def check_units(units: Facts, hidden: Array) -> None:
    """The strongest units: values in their order; which units they are may be open only between equals."""
    count = len(units["unit"][0])
    assert count == min(5, hidden.shape[1])
    assert all(len(set(row)) == count and max(row) < hidden.shape[1] for row in units["unit"])
    check(units["value"], np.take_along_axis(hidden, np.array(units["unit"]), axis=1))
    check(np.abs(units["value"]), -np.sort(-np.abs(hidden))[:, :count])


def check_steps(steps: list[Facts], logits: Array, written: list[int], tokenizer: Tokenizer) -> None:
    log_probs, largest = log_softmax(logits), float(np.abs(logits).max())
    assert [step["token"]["id"] for step in steps] == written
    assert [step["token"]["text"] for step in steps] == tokenizer.tokens(written)
    for step, row, log_row in zip(steps, logits, log_probs, strict=True):
        own = log_row[step["token"]["id"]]
        check(step["log_prob"], own, largest)
        near = SHARE * largest
        assert (log_row > own + near).sum() < step["rank"] <= (log_row > own - near).sum()
        check_candidates(step["candidates"], row, log_row, tokenizer)
        check(step["normalisers"], [np.log(np.exp(row / each).sum()) for each in (0.25, 0.5, 1.0, 1.5, 2.0)])


def check_candidates(candidates: list[Facts], row: Array, log_row: Array, tokenizer: Tokenizer) -> None:
    ids = [candidate["id"] for candidate in candidates]
    assert len(ids) == len(set(ids)) == min(10, len(row)) and max(ids) < len(row)
    assert [candidate["text"] for candidate in candidates] == tokenizer.tokens(ids)
    check([candidate["logit"] for candidate in candidates], row[ids])
    check([candidate["logit"] for candidate in candidates], -np.sort(-row)[: len(ids)])
    check([candidate["log_prob"] for candidate in candidates], log_row[ids], float(np.abs(row).max()))


def check_search(search: Facts, expected: BeamSearch, tokenizer: Tokenizer, ties: bool = False) -> None:
    """The tree beside the search of plain loops, candidate by candidate; `ties` are welcome where numbers are exact."""
    assert ties or expected.closest > 1e-4, "a near tie, which rounding may break otherwise: take another seed"
    leaves = [(number, leaf) for number, step in enumerate(expected.steps, 1) for leaf in step]
    assert len(search["nodes"]) == len(leaves)
    for place, (node, (step, leaf)) in enumerate(zip(search["nodes"], leaves, strict=True)):
        assert node["parent"] is None or node["parent"] < place
        assert tuple(path_to(search, place)) == leaf.tokens
        assert (node["step"], node["status"]) == (step, leaf.fate)
        assert [node["text"]] == tokenizer.tokens([node["id"]])
        check(node["total"], leaf.total, 10.0)
        check(node["log_prob"], leaf.log_prob, 10.0)
        assert (node["score"] is None) == (leaf.fate != "ended")
        if leaf.fate == "ended":
            check(node["score"], expected.score(leaf), 10.0)
    best = expected.best
    assert search["winner"] < len(leaves)
    assert tuple(path_to(search, search["winner"])) == best.tokens
    assert search["text"] == tokenizer.decode(best.tokens)
    assert search["length_penalty"] == expected.rules.exponent
    check(search["total"], best.total, 10.0)
    check(search["score"], expected.score(best), 10.0)


def path_to(search: Facts, place: int) -> list[int]:
    """The tokens of the hypothesis that a node is."""
    node = search["nodes"][place]
    return [*([] if node["parent"] is None else path_to(search, node["parent"])), node["id"]]


def check_matrix(matrix: Facts, sites: Sites, model: Model) -> None:
    assert f"{matrix['name']}.input" in sites
    check(matrix["input"], sites[f"{matrix['name']}.input"])
    weight, bias = model.matrix(matrix["name"])
    check(matrix["weight"], weight)
    assert (matrix["bias"] is None) == (bias is None)
    if bias is not None:
        check(matrix["bias"], bias)


def lengths(x: Array) -> Array:
    return np.sqrt((x**2).sum(-1))
