"""A page translates as the package does: Node runs the model of a page that was written."""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from closeness import assert_close
from exporting import COMBINATIONS, KINDS, as_words, make, outcome, phrases
from numpy_model import Model
from small_translators import several

import dragoman
from dragoman.decoding.hypothesis import BeamCandidate
from dragoman.errors import ConfigError
from dragoman.exporting.web import node, page
from dragoman.exporting.web.node import NodeModel
from dragoman.exporting.web.page import obstacles, page_facts, render_page
from dragoman.inference.translator import Translator
from dragoman.store.description import StoredModel
from dragoman.store.folder import load_model
from dragoman.store.saving import save_model
from dragoman.surface.segment import Segment

MODEL = Path(dragoman.__file__).parent / "inference" / "phrasebook"
EXACT = {"device": "cpu", "precision": "float32", "progress": False}
HOSTILE = [
    *(" ", "  a  b ", "\t\n x", "\x00\x01", "a" * 300, "\u2000 \u2002x", " dog", "I'ſ he's HE'S 's", "\x85a\ufeffb"),
    *("citta\u0300 \u00df \u6f22\u5b57", "[SOS] [UNK] [EOS] <0x0A> <0x41>", "👩\u200d👩\u200d👧 e\u0301", "\ufeffdog"),
    *("l'uomo d'Italia, 1.234,56 «ciao»", "Ω≈ç√∫", "▁dog", "</script><script>", "\u212a\u0345\u1e9b\u0323"),
]
Opened = Callable[[Path], AbstractContextManager[NodeModel]]


class Watcher:
    """An observer that keeps the candidates of every step."""

    def __init__(self, steps: list[list[BeamCandidate]]) -> None:
        self.steps = steps

    def tensor(self, site: str, value: torch.Tensor) -> None: ...

    def candidates(self, ticket: int, candidates: Sequence[BeamCandidate]) -> None:
        self.steps.append([*candidates])


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Return a function that opens the page of a model folder in Node."""
    if shutil.which("node") is None:
        pytest.skip("node is missing, which runs the model of a page")

    def open_model(folder: Path) -> AbstractContextManager[NodeModel]:
        stored, path = load_model(folder), tmp_path_factory.mktemp("page") / "index.html"
        path.write_text(render_page(stored), "utf-8")
        return NodeModel.open(path, stored)

    return open_model


@pytest.fixture(scope="module")
def shipped(opened: Opened) -> Iterator[NodeModel]:
    """Open the page of the model that the package ships."""
    with opened(MODEL) as model:
        yield model


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(MODEL, **EXACT)


def evenly(part: str, count: int) -> list[str]:
    sentences = [pair.source for pair in phrases(part)]
    return sentences[:: len(sentences) // count][:count]


@pytest.mark.parametrize(
    ("count", "beam"), [(10, 4), (10, 1), pytest.param(100, 4, marks=pytest.mark.thorough), (5, 8)], ids=str
)
def test_the_page_writes_what_translate_writes(
    count: int, beam: int, shipped: NodeModel, translator: Translator
) -> None:
    """The same tokens, for sentences of known patterns and of new ones, 200 in `make test-all`. Only a near tie may
    differ, whose margin rounding explains; none of these sentences has one. Texts that Dragoman rewrites before the
    model, because of a name that it protects, are compared as the model reads them.
    """
    texts = [*evenly("test", count), *evenly("new_patterns", count)]
    usual = translator.translate(texts, split="never", beam_size=beam)
    as_typed = translator.translate(texts, split="never", beam_size=beam, raw=True)
    near_ties = {}
    for text, ours, plain in zip(texts, usual, as_typed, strict=True):
        written = shipped.ask("translate", {"text": text, "beamSize": beam})
        best = written["hypotheses"][0]
        if translator.tokenizers.target.tokens(best["tokens"]) != list(plain.tokens):
            near_ties[text] = (plain.text, written["text"], plain.log_prob - best["total"])
        assert written["text"] in (plain.text, ours.text) and (ours.rewritten or ours.text == plain.text)
    assert not near_ties
    assert sum(bool(ours.rewritten) for ours in usual) < len(texts) / 5


@pytest.mark.parametrize(
    "text", ["The train leaves at 7:30.", "Write to anna@example.org.", "I have 3 cats and 14 dogs.", "Room 1."]
)
def test_numbers_and_addresses_are_copied_as_translate_copies_them(
    text: str, shipped: NodeModel, translator: Translator
) -> None:
    written = shipped.ask("translate", {"text": text})["text"]
    assert written == translator.translate([text])[0].text
    assert all(piece in written for piece in re.findall(r"\S*[\d@]\S*[\w]", text)[:1])


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_every_step_of_the_beam_is_that_of_the_search(beam: int, shipped: NodeModel, translator: Translator) -> None:
    """All candidates, in order, and what became of them."""
    text = "My sister is very tired because it is raining."
    steps: list[list[BeamCandidate]] = []
    options = translator.options.but(beam_size=beam)
    segment = Segment(text, text, ids=tuple(translator.tokenizers.source.encode(text)))
    ((request,),) = translator.requests.of([Segment(text, text, parts=(segment,))], options)
    engine = translator.search.engine(options, Watcher(steps))
    engine.admit(request)
    (*_, result) = engine.run()
    written = shipped.ask("translate", {"text": text, "beamSize": beam})
    ours = [[(list(c.hypothesis.tokens), c.status) for c in few] for few in steps]
    assert [[(c["tokens"], c["status"]) for c in few] for few in written["steps"]] == ours
    totals = [c["total"] for few in written["steps"] for c in few]
    assert_close(torch.tensor(totals), torch.tensor([c.hypothesis.total for few in steps for c in few]))
    assert written["hypotheses"][0]["tokens"] == list(result.hypotheses[0].tokens)


@pytest.mark.parametrize(
    "options",
    [
        {"length_penalty": 0.0},
        {"length_penalty": 5.0},
        {"early_stopping": False},
        {"length_ratio": 0.1, "length_extra": 5},
    ],
    ids=str,
)
def test_a_model_keeps_its_search_options(
    options: dict[str, Any], tmp_path: Path, opened: Opened, translator: Translator
) -> None:
    """All hypotheses of the n-best list, in order."""
    stored, texts = load_model(MODEL), evenly("new_patterns", 4)
    generation = {"beam_size": 4, "n_best": 4, **options}
    save_model(tmp_path / "model", stored.model, stored.files._replace(generation=generation))
    changed = translator.options.but(**generation, raw=True, split="never")
    tokens = translator.tokenizers.target.tokens
    with opened(tmp_path / "model") as model:
        for text, ours in zip(texts, translator.translate(texts, changed), strict=True):
            hypotheses = model.ask("translate", {"text": text})["hypotheses"]
            best = [list(translation.tokens) for translation in (ours, *ours.alternatives)]
            assert [tokens(hypothesis["tokens"]) for hypothesis in hypotheses] == best


def test_a_prefix_is_written_and_continued(shipped: NodeModel, translator: Translator) -> None:
    text, prefix = "My sister is tired.", "Tua"
    ids = translator.tokenizers.target.encode(prefix)
    written = shipped.ask("translate", {"text": text, "prefix": ids})
    assert written["text"] == translator.translate([text], prefix=prefix)[0].text
    assert written["text"].startswith(prefix) and written["text"] != shipped.ask("translate", {"text": text})["text"]


@pytest.mark.parametrize(
    "settings",
    [{"preset": "modern"}, {"preset": "paper", "activation": "geglu"}, {"preset": "modern", "kv_heads": 2}],
    ids=as_words,
)
def test_the_page_is_as_exact_as_pytorch(settings: dict[str, Any], tmp_path: Path, opened: Opened) -> None:
    """Compared with float64, and with the size of the numbers: the page adds in float64, and stores float32."""
    folder = make(tmp_path / "model", settings)
    stored = load_model(folder)
    text, translation = "Where is the station?", "Dov'è la stazione?"
    source = stored.files.framing.source(stored.tokenizers.source.encode(text))
    target = stored.tokenizers.target.encode(translation)
    sites, logits = Model(folder).run(source, stored.files.framing.target(target))
    exact = (
        logits
        - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True))
        - logits.max(1, keepdims=True)
    )
    with opened(folder) as model:
        written = np.array(model.ask("follow", {"source": source, "target": target}))
        weights = model.ask("inside", {"source": source, "tokens": target})
    assert written.shape == exact.shape
    assert np.abs(written - exact).max() < 64 * np.finfo(np.float32).eps * np.abs(exact).max()
    for stack, attention in (("encoder", "self"), ("decoder", "self"), ("decoder", "cross")):
        for layer in range(2):
            rows = weights[f"{stack}.blocks.{layer}.{attention}_attention"]
            wanted = sites[f"{stack}.{layer}.{attention}_attention.weights"]
            for t, heads in enumerate(rows):
                seen = np.array(heads, np.float64)
                assert_close(torch.tensor(seen), torch.tensor(wanted[:, t, : seen.shape[1]]), share=1e-5)
                assert not wanted[:, t, seen.shape[1] :].any(), "the page leaves out only what the mask hides"


@pytest.mark.parametrize(
    ("name", "heads"), [("encoder.blocks.0.self_attention", [0, 2]), ("decoder.blocks.2.cross_attention", [1, 2, 3])]
)
def test_a_head_that_is_off_adds_nothing(
    name: str, heads: list[int], tmp_path: Path, shipped: NodeModel, translator: Translator
) -> None:
    """As if the columns of W^O that read it were zero."""
    stored, texts = load_model(MODEL), evenly("test", 5)
    weight: torch.Tensor = stored.model.get_submodule(f"{name}.output").weight  # pyright: ignore[reportAssignmentType]
    with torch.no_grad():
        for head in heads:
            weight.unflatten(1, (stored.config.heads, -1))[:, head] = 0
    save_model(tmp_path / "model", stored.model, stored.files)
    ours = Translator.load(tmp_path / "model", **EXACT).translate(texts, split="never")
    off = [f"{name}.{head}" for head in heads]
    written = [shipped.ask("translate", {"text": text, "off": off}) for text in texts]  # texts that nothing rewrites
    assert [answer["text"] for answer in written] == [translation.text for translation in ours]
    totals = torch.tensor([answer["hypotheses"][0]["total"] for answer in written])
    assert_close(totals, torch.tensor([translation.log_prob for translation in ours]))
    whole = translator.translate(texts, split="never")
    assert ((totals - torch.tensor([translation.log_prob for translation in whole])).abs() > 1e-3).all()


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_every_text_has_the_same_ids(kind: str, tmp_path: Path, opened: Opened) -> None:
    folder = make(tmp_path / "model", {"preset": "modern", "tied": "all"}, kind)
    tokenizer = load_model(folder).tokenizers.source
    texts = [*HOSTILE, *evenly("test", 20), *(pair.target for pair in phrases("test")[:20])]
    with opened(folder) as model:
        encoded = model.encode(texts)
        assert [ids[1:-1] for ids in encoded] == tokenizer.encode_batch(texts)
        for ids in encoded:
            assert model.decode(ids) == tokenizer.decode(ids)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(settings, marks=[pytest.mark.thorough] if at % 6 else [])
        for at, settings in enumerate(COMBINATIONS)
    ],
    ids=as_words,
)
def test_every_architecture_travels(settings: dict[str, Any], tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is missing, which runs the model of a page")
    assert float(outcome(make(tmp_path / "model", settings), "web", tmp_path / "out")) < 1e-4


def test_no_translation_is_blank(tmp_path: Path, opened: Opened) -> None:
    """A model that would rather end at once, then write a placeholder or spaces, writes something visible."""
    folder = make(tmp_path / "model", {"preset": "modern", "tied": "all", "output_bias": True})
    stored = load_model(folder)
    blank = page_facts(stored, [])["blank"]
    assert stored.tokenizers.target.tokens(blank).count("▁") == 2, "as a byte and as a piece"
    with torch.no_grad():
        bias: torch.Tensor = stored.model.output_bias  # pyright: ignore[reportAssignmentType]
        bias[3], bias[blank] = 60.0, 50.0
        bias[[*stored.tokenizers.target.placeholders.values()]] = 55.0
    save_model(tmp_path / "blank", stored.model, stored.files)
    ours = Translator.load(tmp_path / "blank", **EXACT).translate(["Where is it?"], split="never")[0].text
    with opened(tmp_path / "blank") as model:
        assert model.ask("translate", {"text": "Where is it?"})["text"] == ours
    assert ours.strip()


def test_the_page_holds_translations_that_a_browser_can_compare(translator: Translator) -> None:
    texts = ["Where is the station?", "It costs 25 euros.", "<!-- <script & x"]
    html = render_page(load_model(MODEL), texts)
    facts = json.loads(re.findall(r'id="facts">(.*?)</script>', html, re.DOTALL)[0])
    (first, second) = facts["checks"]
    assert first == [texts[0], translator.translate(texts[:1])[0].text]
    assert second[0] == texts[2], "data cannot end a script"
    assert html.count("<script") == 4 and "://" not in re.sub(r"(?s)<script.*?</script>", "", html)


def refused(folder: Path, out: Path, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        dragoman.export(folder, "web", out, ["Where is it?"])
    assert not out.exists()


def test_what_a_page_cannot_do_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(
        make(tmp_path / "word", {"preset": "modern"}, "word"), tmp_path / "out", "kind word, and the page reads bpe"
    )
    (several_languages,) = obstacles(several(kind="bpe"))
    assert several_languages.startswith("it translates several languages (en, it, de")
    stored = load_model(make(tmp_path / "model", {"preset": "modern"}))
    for name, value in {"no_repeat_ngram": 3, "minimum_length": 2, "temperature": 0.5, "prefix": "Il"}.items():
        files = stored.files._replace(generation={name: value})
        save_model(tmp_path / name, stored.model, files)
        refused(
            tmp_path / name, tmp_path / "out", f"cannot be exported to a page: .*generation_config.json sets {name}"
        )
    monkeypatch.setattr(page, "MOST_BYTES", 1_000)
    refused(tmp_path / "model", tmp_path / "out", "MB of weights, and the page takes 0 MB; dragoman quantize")


def test_a_wrong_page_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is missing, which runs the model of a page")
    model = make(tmp_path / "model", {"preset": "modern"})

    def broken(stored: StoredModel, texts: Any, before: str, after: str) -> str:
        html = render_page(stored, texts)
        assert html.count(before) == 1
        return html.replace(before, after)

    for (before, after), match in {
        ("first * cosine - second * sine", "first * cosine + second * sine"): "differ",
        ("/ Math.sqrt(width)", ""): "differ",
        ("class Tokenizer {", "class Tokenizers {"): "Node could not run the page: ReferenceError",
    }.items():
        monkeypatch.setattr(node, "render_page", partial(broken, before=before, after=after))
        refused(model, tmp_path / "out", match)


def test_without_node_the_page_is_written_and_the_note_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    result = dragoman.export(make(tmp_path / "model", {"preset": "modern"}), "web", tmp_path / "out", ["Where is it?"])
    assert result.proof is None and "nothing was proved here" in result.notes[1]
    assert [path.name for path in result.folder.iterdir()] == ["index.html"]
