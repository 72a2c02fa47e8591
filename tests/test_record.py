"""A record holds what the equations give and what the translator says: every number beside a plain reference."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy_model import Array, Model, Sites, log_softmax
from numpy_search import Follow, Rules, BeamSearch, beam_search
from small_records import GENERATION, store_language_model, store_translator

from dragoman.errors import ConfigError, DecodeError
from dragoman.explaining.recording import MOST_TOKENS, WIDTHS, Recorder, record
from dragoman.model.attention.multi_head import Attention
from dragoman.store import load_model
from dragoman.tokenizing.framing import Framing
from dragoman.tokenizing.specials import END, PADDING, START, UNKNOWN
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.translating import Translator

Facts = dict[str, Any]

SHARE = 1e-5
"""Of the largest number of what is compared: a record is float32 and the reference float64."""
SENTENCE = "the red cat sees the old station ."
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper"},
    "modern": {"preset": "modern"},
    "paper, norm first": {"preset": "paper", "norm_position": "pre", "final_norm": True},
    "shared keys, learned positions": {
        "preset": "paper",
        "seed": 18,
        "kv_heads": 2,
        "positions": "learned",
        "max_positions": 40,
    },
    "one key head, gelu, no scale": {
        "preset": "paper",
        "seed": 1,
        "kv_heads": 1,
        "activation": "gelu",
        "embedding_scale": False,
    },
    "modern, geglu, biases": {"preset": "modern", "seed": 4, "activation": "geglu", "bias": True, "kv_heads": 2},
    "layer norm without bias": {"preset": "paper", "seed": 3, "bias": False, "norm_epsilon": 1e-3},
    "paper, embedding norm": {"preset": "paper", "embedding_norm": True},
    "modern, embedding norm": {"preset": "modern", "embedding_norm": True, "position_base": 100.0},
    "tied": {"preset": "modern", "seed": 8, "tied": "target"},
    "tied, joint, pieces": {"preset": "paper", "tied": "all", "kind": "bpe", "seed": 4},
    "another framing": {"preset": "paper", "framing": Framing(source_before=(), target_start=PADDING)},
    "a wide beam": {"preset": "modern", "seed": 8, "generation": {"beam_size": 5, "length_penalty": 1.0}},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_number_is_that_of_the_reference(variant: str, tmp_path: Path) -> None:
    folder = store_translator(tmp_path / "model", **VARIANTS[variant])
    framing = VARIANTS[variant].get("framing", Framing())
    facts, model, tokenizers = record(folder, SENTENCE).facts(), Model(folder), load_model(folder).tokenizers
    (part,) = facts["parts"]
    source = framing.source(tokenizers.source.encode(SENTENCE))
    (chosen,) = [search for search in part["searches"] if search["chosen"]]
    written = path_to(chosen, chosen["winner"])
    read = [framing.target_start, *written[:-1]]
    sites, logits = model.run(source, read)
    encoder, decoder = part["stacks"]
    check_stack(encoder, "encoder", sites, tokenizers.source, source, model)
    check_stack(decoder, "decoder", sites, tokenizers.target, read, model)
    check_steps(part["steps"], logits, written, tokenizers.target)
    check_words([step["token"] for step in part["steps"]], part["written"], tokenizers.target)
    own = log_softmax(logits)[range(len(written)), written]
    check(part["log_prob"], own.sum(), float(np.abs(own).sum()))
    generation = {**GENERATION, **VARIANTS[variant].get("generation", {})}
    assert [search["width"] for search in part["searches"]] == sorted({*WIDTHS, generation["beam_size"]})
    rules = rules_of(model, tokenizers.target, len(tokenizers.source.encode(SENTENCE)), generation, framing)
    follow = follower(model, source, framing.target_start)
    for search in part["searches"]:
        assert search["chosen"] == (search["width"] == generation["beam_size"])
        check_search(search, beam_search(follow, search["width"], rules), rules, tokenizers)


def test_units_of_a_narrow_network_are_all_recorded(tmp_path: Path) -> None:
    layer = record(store_translator(tmp_path / "model", d_ff=3), SENTENCE).parts[0].stacks[0].layers[0]
    assert np.sort(layer.units.unit, axis=1).tolist() == [[0, 1, 2]] * len(layer.units.unit)


# What a record says is what a translator says


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_translator(tmp_path_factory.mktemp("record") / "model", preset="modern")


@pytest.fixture(scope="module")
def speller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of pieces, whose spaces are tokens too."""
    return store_translator(tmp_path_factory.mktemp("record") / "speller", preset="modern", kind="bpe")


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_language_model(tmp_path_factory.mktemp("record") / "language model")


TEXTS = [
    SENTENCE,
    "where is the old cat ? The dog drinks water . ",
    "Good morning, Anna! Where is the station? I drink.",
    "the zebra sees the cat .",
    "?",
    f"the cat sees {'x' * 101} and the dog .",
    "  the cat\tand the dog ",
]


@pytest.mark.parametrize("generation", [{}, {"beam_size": 1}, {"beam_size": 8}, {"split": "long", "beam_size": 6}])
def test_a_record_says_what_the_translator_says(generation: dict[str, Any], tmp_path: Path) -> None:
    folder = store_translator(tmp_path / "model", preset="modern", generation=generation)
    translator, recorder = Translator.load(folder, "cpu", "float32"), Recorder(load_model(folder))
    for text, translation in zip(TEXTS, translator.translate(TEXTS), strict=True):
        found = recorder.record(text)
        assert (found.source, found.target, found.given) == (text, translation.text, False)
        assert found.flags.keys() == set(translation.flags)
        assert found.unknown_words == translation.unknown_words
        parts = [part for part in found.parts if not part.copied]
        steps = [step for part in parts for step in part.steps]
        assert tuple(step.token.text for step in steps) == translation.tokens
        assert [step.log_prob for step in steps] == pytest.approx(translation.token_log_probs, abs=1e-4)
        assert sum(part.log_prob for part in parts) == pytest.approx(translation.log_prob, abs=1e-4)
        chosen = [search for part in parts for search in part.searches if search.chosen]
        assert [search.width for search in chosen] == [translator.options.beam_size] * len(parts)
        assert sum(search.total for search in chosen) == pytest.approx(translation.log_prob, abs=1e-4)
        assert sum(search.score for search in chosen) == pytest.approx(translation.score, abs=1e-4)


@pytest.mark.parametrize("model", ["folder", "speller"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_search_finds_what_the_translator_finds(model: str, width: int, request: pytest.FixtureRequest) -> None:
    translator = Translator.load(request.getfixturevalue(model), "cpu", "float32")
    (part,) = record(request.getfixturevalue(model), SENTENCE).parts
    (search,) = [search for search in part.searches if search.width == width]
    (alone,) = translator.translate([SENTENCE], translator.options.model_copy(update={"beam_size": width}))
    assert translator.writer.text(translator.tokenizers.target.encode(search.text)) == alone.text
    assert (search.total, search.score) == pytest.approx((alone.log_prob, alone.score), abs=1e-4)


def test_a_part_stands_for_each_sentence_and_each_copied_word(folder: Path) -> None:
    found = record(folder, f"where is the cat ? {'x' * 101} The dog sees Anna .")
    assert [part.source for part in found.parts] == ["where is the cat ?", "x" * 101, "The dog sees Anna ."]
    assert [part.copied for part in found.parts] == [False, True, False]
    assert found.target == " ".join(part.target for part in found.parts)
    assert found.parts[1].target == "x" * 101 and not found.parts[1].stacks and not found.parts[1].searches


def test_words_of_the_stacks_are_those_of_the_texts(speller: Path) -> None:
    (part,) = record(speller, "Good morning, Anna!", "Buongiorno, Anna!").parts
    encoder, decoder = part.stacks
    assert encoder.words == ("Good", "morning", ",", "Anna", "!")
    assert decoder.words == ("Buongiorno", ",", "Anna", "!")


@pytest.mark.parametrize("model", ["folder", "speller"])
@pytest.mark.parametrize(
    ("source", "target"),
    [(SENTENCE, "il gatto rosso ."), (f"  {SENTENCE} ", " io  bevo "), ("where ? The cat .", "dov'è ? Il cane .")],
)
def test_a_given_target_is_scored_as_the_translator_scores_it(
    model: str, source: str, target: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(model)
    (expected,) = Translator.load(path, "cpu", "float32").score([source.strip()], [target])
    found = record(path, source, target)
    (part,) = found.parts
    assert (found.source, found.target, found.given) == (source, target, True)
    assert tuple(step.token.text for step in part.steps) == expected.tokens
    assert [step.log_prob for step in part.steps] == pytest.approx(expected.token_log_probs, abs=1e-4)
    assert part.log_prob == pytest.approx(expected.log_prob, abs=1e-4)
    assert found.unknown_words == expected.unknown_words
    assert [search.width for search in part.searches] == [1, 2, 3, 4, 8]


def test_every_number_of_a_given_target_is_that_of_the_reference(speller: Path) -> None:
    target = "io bevo acqua"
    facts, model, tokenizers = record(speller, SENTENCE, target).facts(), Model(speller), load_model(speller).tokenizers
    (part,) = facts["parts"]
    source, written = [START, *tokenizers.source.encode(SENTENCE), END], [*tokenizers.target.encode(target), END]
    sites, logits = model.run(source, [START, *written[:-1]])
    check_stack(part["stacks"][0], "encoder", sites, tokenizers.source, source, model)
    check_stack(part["stacks"][1], "decoder", sites, tokenizers.target, [START, *written[:-1]], model)
    check_steps(part["steps"], logits, written, tokenizers.target)


def test_a_chosen_search_is_the_greedy_one_of_a_beam_of_one(folder: Path) -> None:
    (part,) = record(folder, SENTENCE).parts
    (greedy,) = [search for search in part.searches if search.width == 1]
    assert [node.parent for node in greedy.nodes] == [None, *range(len(greedy.nodes) - 1)]
    assert all(not node.reason for node in greedy.nodes)


# A language model reads one text


@pytest.mark.parametrize(
    "settings",
    [{}, {"preset": "paper"}, {"tied": "none", "activation": "geglu", "kv_heads": 2}, {"positions": "learned"}],
)
def test_every_number_of_a_language_model_is_that_of_the_reference(settings: dict[str, Any], tmp_path: Path) -> None:
    folder = store_language_model(tmp_path / "model", **settings)
    facts, model, tokenizer = record(folder, SENTENCE).facts(), Model(folder), load_model(folder).tokenizers.target
    (part,) = facts["parts"]
    (stack,) = part["stacks"]
    ids = tokenizer.encode(SENTENCE)
    sites, logits = model.run(None, ids)
    check_stack(stack, "decoder", sites, tokenizer, ids, model)
    check_steps(part["steps"], logits, [*ids[1:], int(logits[-1].argmax())], tokenizer)
    own = log_softmax(logits)[range(len(ids) - 1), ids[1:]]
    check(part["log_prob"], own.sum(), float(np.abs(own).sum()))
    assert (part["source"], part["target"], part["searches"]) == (None, SENTENCE, [])
    assert (facts["family"], facts["languages"], facts["target"]) == ("language_model", None, None)


# The matrices of a layer


@pytest.mark.parametrize("layer", ["encoder.1", "decoder.0"])
@pytest.mark.parametrize("variant", ["paper", "modern, geglu, biases", "modern", "shared keys, learned positions"])
def test_input_times_matrix_is_what_is_recorded_next(variant: str, layer: str, tmp_path: Path) -> None:
    folder = store_translator(tmp_path / "model", **VARIANTS[variant])
    facts, model = record(folder, SENTENCE, weights=layer).facts(), Model(folder)
    (part,) = facts["parts"]
    matrices = {matrix["name"].removeprefix(f"{layer}."): matrix for matrix in part["matrices"]}
    attentions = ["self_attention", "cross_attention"] if layer.startswith("decoder") else ["self_attention"]
    gate = ["gate"] if variant.startswith("modern") else []
    assert set(matrices) == {
        f"{each}.{part}" for each in attentions for part in ("query", "key", "value", "output")
    } | {f"feed_forward.{each}" for each in (*gate, "inner", "outer")}
    output = {name: multiplied(matrix) for name, matrix in matrices.items()}
    for name, matrix in matrices.items():
        stored = f"{layer.replace('.', '.blocks.')}.{name}"
        check(matrix["weight"], model.weights[f"{stored}.weight"])
        assert (matrix["bias"] is None) == (f"{stored}.bias" not in model.weights)
        if matrix["bias"] is not None:
            check(matrix["bias"], model.weights[f"{stored}.bias"])
    source, target = ([token["id"] for token in stack["tokens"]] for stack in part["stacks"])
    sites, _ = model.run(source, target)
    for attention in attentions:
        turned = model.settings["positions"] == "rotary" and attention == "self_attention"
        for name, heads in (("query", model.heads), ("key", model.kv_heads), ("value", model.kv_heads)):
            split = model.split(output[f"{attention}.{name}"], heads)
            rotated = model.rotate(split) if turned and name != "value" else split
            check(rotated, recorded(facts, layer, attention)[name])
        check(output[f"{attention}.output"], sites[f"{layer}.{attention}.output"])
    check(matrices["feed_forward.outer"]["input"], sites[f"{layer}.feed_forward.hidden"])


def multiplied(matrix: Facts) -> Array:
    """Input times weight and bias, in float64."""
    bias = 0.0 if matrix["bias"] is None else np.array(matrix["bias"], dtype=np.float64)
    return np.array(matrix["input"], dtype=np.float64) @ np.array(matrix["weight"], dtype=np.float64).T + bias


def recorded(facts: Facts, layer: str, attention: str) -> Facts:
    """The record of one attention of the only part."""
    layers = [each for stack in facts["parts"][0]["stacks"] for each in stack["layers"] if each["name"] == layer]
    return next(each for each in layers[0]["attentions"] if each["name"] == attention)


def test_matrices_of_a_language_model_are_recorded(language_model: Path) -> None:
    (part,) = record(language_model, SENTENCE, weights="decoder.1").parts
    assert part.matrices[0].name == "decoder.1.self_attention.query"
    assert not record(language_model, SENTENCE).parts[0].matrices


# What can't be recorded


@pytest.mark.parametrize(
    ("layer", "known"), [("encoder.2", "encoder.0, encoder.1, decoder.0, decoder.1"), ("decoder", "decoder.1")]
)
def test_an_unknown_layer_is_refused_with_the_names_of_all(folder: Path, layer: str, known: str) -> None:
    with pytest.raises(ConfigError, match=f"{known}.*, but is {layer}$"):
        record(folder, SENTENCE, weights=layer)


@pytest.mark.parametrize("model", ["folder", "speller", "language_model"])
@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_a_blank_text_is_refused(model: str, text: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(DecodeError, match="nothing to record"):
        record(request.getfixturevalue(model), text)


def test_a_blank_source_or_target_is_refused(folder: Path) -> None:
    with pytest.raises(DecodeError, match="the text holds nothing that the model reads"):
        record(folder, " ", "il gatto")
    with pytest.raises(DecodeError, match="the target holds nothing that the model reads"):
        record(folder, SENTENCE, " ")


def test_a_language_model_takes_no_target(language_model: Path) -> None:
    with pytest.raises(DecodeError, match="a language model has no target"):
        record(language_model, SENTENCE, "il gatto")


def test_what_is_too_long_is_refused_before_any_work(
    tmp_path: Path, language_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store_translator(tmp_path / "model", generation={"max_source_tokens": 1_000})
    recorder, long = Recorder(load_model(folder)), "cat " * (MOST_TOKENS + 1)
    monkeypatch.setattr(recorder.model, "encode", lambda *_, **__: pytest.fail("the model was asked"))
    with pytest.raises(DecodeError, match="has 401 tokens, but a record holds at most 400"):
        recorder.record(long)
    with pytest.raises(DecodeError, match="has 401 tokens, but a record holds at most 400"):
        recorder.record(long, "il gatto")
    with pytest.raises(DecodeError, match="the target has 401 tokens, but a record holds at most 400"):
        recorder.record(SENTENCE, long)
    with pytest.raises(DecodeError, match="has 401 tokens, but a record holds at most 400"):
        record(language_model, long)


def test_what_is_longer_than_the_positions_is_refused(tmp_path: Path) -> None:
    positions: dict[str, Any] = {"positions": "learned", "max_positions": 12}
    model, language_model = (
        store_translator(tmp_path / "a", **positions),
        store_language_model(tmp_path / "b", **positions),
    )
    with pytest.raises(DecodeError, match="the text has 20 tokens, but the model has positions for 12"):
        record(language_model, "the cat " * 10)
    with pytest.raises(DecodeError, match="target 1 has 20 tokens, but the model has positions for 11"):
        record(model, SENTENCE, "il gatto " * 10)
    assert len(record(model, "the cat " * 10).parts) > 1


# Facts are plain, and a record leaves no trace


@pytest.mark.parametrize("model", ["folder", "language_model"])
def test_facts_are_strict_json(model: str, request: pytest.FixtureRequest) -> None:
    facts = record(request.getfixturevalue(model), SENTENCE, weights="decoder.0").facts()
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["format"] == 1 and facts["temperatures"] == [0.25, 0.5, 1.0, 1.5, 2.0]
    assert facts["model"] == str(request.getfixturevalue(model))


def test_a_caller_chooses_how_arrays_are_written(folder: Path) -> None:
    facts = record(folder, SENTENCE).facts(array=lambda array: {"shape": list(array.shape)})
    assert facts["parts"][0]["stacks"][0]["entering"] == {"shape": [10, 16]}


def test_facts_name_the_model(folder: Path) -> None:
    stored, facts = load_model(folder), record(folder, SENTENCE).facts()
    assert facts["weight_count"] == sum(weight.numel() for weight in stored.model.parameters())
    assert facts["settings"] == stored.config.model_dump(mode="json", exclude_none=True)
    assert facts["languages"] == ["en", "it"]


def test_recording_changes_nothing(folder: Path) -> None:
    translator, recorder = Translator.load(folder, "cpu", "float32"), Recorder(load_model(folder))
    assert recorder.translator is not None
    before = [weight.clone() for weight in recorder.model.parameters()]
    first, again = recorder.record(SENTENCE, weights="decoder.0"), recorder.record(SENTENCE, weights="decoder.0")
    assert first.facts() == again.facts()
    for matrix in first.parts[0].matrices:
        matrix.weight[:] = 0.0
    assert all(torch.equal(a, b) for a, b in zip(before, recorder.model.parameters(), strict=True))
    assert {module.way for module in recorder.model.modules() if isinstance(module, Attention)} == {None}
    assert recorder.translator.translate(TEXTS) == translator.translate(TEXTS)


# Each part of a record


def check(found: Any, expected: Any, size: float | None = None) -> None:
    """Asserts that numbers are those expected, up to rounding of the largest, or of `size` where that cancelled."""
    assert np.shape(found) == np.shape(expected)
    largest = float(np.abs(expected).max()) if size is None else size
    np.testing.assert_allclose(found, expected, rtol=0, atol=SHARE * largest)


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


def check_layer(layer: Facts, sites: Sites) -> None:
    name = layer["name"]
    assert layer.keys() == {"name", "attentions", "norms", "units"}
    crosses = f"{name}.cross_attention.query" in sites
    attentions = ["self_attention", "cross_attention"] if crosses else ["self_attention"]
    assert [attention["name"] for attention in layer["attentions"]] == attentions
    for attention in layer["attentions"]:
        arrays = {"query", "key", "value", "products", "weights"}
        assert attention.keys() == {"name", "keys", "causal", *arrays}
        decodes, itself = name.startswith("decoder"), attention["name"] == "self_attention"
        assert attention["keys"] == ("decoder" if decodes and itself else "encoder")
        assert attention["causal"] == (decodes and itself)
        for array in arrays:
            check(attention[array], sites[f"{name}.{attention['name']}.{array}"])
    assert layer["norms"].keys() == {f"{each}_residual" for each in ("self", "cross", "feed")[:: 1 if crosses else 2]}
    for residual, found in layer["norms"].items():
        check(found, lengths(sites[f"{name}.{residual}"]))
    check_units(layer["units"], sites[f"{name}.feed_forward.hidden"])


def check_units(units: Facts, hidden: Array) -> None:
    """The strongest units: values in their order; which units they are may be open only between equals."""
    count = len(units["unit"][0])
    assert count == min(5, hidden.shape[1])
    assert all(len(set(row)) == count for row in units["unit"])
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
        assert (log_row > own + near).sum() < step["rank"] <= (log_row > own - near).sum() + 1
        ids = [candidate["id"] for candidate in step["candidates"]]
        assert len(ids) == len(set(ids)) == min(10, len(row))
        assert [candidate["text"] for candidate in step["candidates"]] == tokenizer.tokens(ids)
        check([candidate["logit"] for candidate in step["candidates"]], row[ids])
        check([candidate["logit"] for candidate in step["candidates"]], -np.sort(-row)[: len(ids)])
        for candidate in step["candidates"]:
            check(candidate["log_prob"], log_row[candidate["id"]], largest)
        expected = [np.log(np.exp(row / temperature).sum()) for temperature in (0.25, 0.5, 1.0, 1.5, 2.0)]
        check(step["normalisers"], expected)


def check_words(tokens: list[Facts], words: list[str], tokenizer: Tokenizer) -> None:
    """Every token belongs to the word after or at that of the token before, and symbols to none."""
    numbers = [token["word"] for token in tokens]
    assert [number is None for number in numbers] == [tokenizer.is_special(token["id"]) for token in tokens]
    known = [number for number in numbers if number is not None]
    assert known == sorted(known) and set(known) == set(range(len(words)))


def check_search(search: Facts, expected: BeamSearch, rules: Rules, tokenizers: Any) -> None:
    """The tree beside the search of plain loops, candidate by candidate."""
    assert expected.closest > 1e-4, "a near tie, which rounding may break otherwise: take another seed"
    leaves = [(number, leaf) for number, step in enumerate(expected.steps, 1) for leaf in step]
    assert len(search["nodes"]) == len(leaves)
    for place, (node, (step, leaf)) in enumerate(zip(search["nodes"], leaves, strict=True)):
        assert tuple(path_to(search, place)) == leaf.tokens
        assert (node["step"], node["fate"]) == (step, leaf.fate)
        check(node["total"], leaf.total, 10.0)
        check(node["log_prob"], leaf.log_prob, 10.0)
        assert (node["score"] is None) == (leaf.fate != "ended")
        if leaf.fate == "ended":
            check(node["score"], rules.score(leaf.total, step), 10.0)
    best = expected.best
    assert tuple(path_to(search, search["winner"])) == best.tokens
    assert search["text"] == tokenizers.target.decode(best.tokens)
    assert search["length_penalty"] == rules.exponent
    check(search["total"], best.total, 10.0)
    check(search["score"], rules.score(best.total, len(best.tokens)), 10.0)


def path_to(search: Facts, place: int) -> list[int]:
    """The tokens of the hypothesis that a node is."""
    node = search["nodes"][place]
    return [*([] if node["parent"] is None else path_to(search, node["parent"])), node["id"]]


def lengths(x: Array) -> Array:
    return np.sqrt((x**2).sum(-1))


def rules_of(model: Model, target: Tokenizer, tokens: int, generation: Facts, framing: Framing) -> Rules:
    """What the search obeys for a source of so many tokens that says something."""
    limit = int(generation["length_ratio"] * tokens) + generation["length_extra"]
    shown = {token: target.decode([token]) for token in range(target.size)}
    blank = {token for token, text in shown.items() if not any(c.isprintable() and not c.isspace() for c in text)}
    return Rules(
        end=END,
        limit=min(limit, model.settings.get("max_positions", limit)),
        exponent=generation["length_penalty"],
        banned=frozenset({PADDING, START, framing.target_start, UNKNOWN}),
        blank=frozenset(blank - {END}),
        speaks=True,
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
