"""Text to text with small models of random weights: what must be true whatever they say."""

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, get_args

import pytest
import torch
from compiler import needs_compiler
from small_translators import SOURCES, TARGETS, asked, lines, make, make_plain, stored

import dragoman
from dragoman import translate
from dragoman.config import Settings, check
from dragoman.decoding.compiled_stepper import NativeStepper
from dragoman.decoding.device_stepper import DeviceStepper
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.model_stepper import ModelStepper
from dragoman.errors import CheckpointError, ConfigError, DecodeError, OutOfMemory, TokenizerError
from dragoman.inference.options import SearchOptions
from dragoman.inference.runtime import Runtime
from dragoman.inference.translation import (
    DOUBTFUL_LOG_PROB,
    MEANINGS,
    ChosenHypotheses,
    Flag,
    Translation,
    doubtful_below,
    most_loops,
    repeats,
)
from dragoman.inference.translator import Translator
from dragoman.model.transformer import EncoderDecoder
from dragoman.progress import Silent
from dragoman.store.description import StoredModel
from dragoman.store.saving import save_model
from dragoman.surface.conventions import UNKNOWN_CONVENTIONS
from dragoman.surface.learning import learn_pair_conventions
from dragoman.surface.pipeline import Surface
from dragoman.surface.placeholders import WORDS
from dragoman.surface.segment import Context, Segment
from dragoman.surface.sentences import is_blank
from dragoman.system import torch_threads
from dragoman.tokenizing.special_tokens import END, PADDING, START, UNKNOWN
from dragoman.tokenizing.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def translator() -> Translator:
    return make()


@pytest.fixture(scope="module")
def speller() -> Translator:
    """A model that writes pieces of words and bytes, any of them."""
    return make("bpe")


def favour(translator: Translator, *favours: tuple[Sequence[int], float]) -> Translator:
    """Makes the model prefer some tokens at every step, each group by so much."""
    project: Callable[[torch.Tensor], torch.Tensor] = translator.model.project

    def with_favours(hidden: torch.Tensor) -> torch.Tensor:
        logits = project(hidden).clone()
        for tokens, by in favours:
            logits[:, list(tokens)] += by
        return logits

    translator.model.project = with_favours  # pyright: ignore[reportAttributeAccessIssue]
    return translator


@pytest.mark.parametrize("width", [1, 4])
def test_texts_come_back_in_order_whatever_their_company(translator: Translator, width: int) -> None:
    options = asked(beam_size=width, split="never", batch_tokens=100)
    texts = lines(16)
    together = translator.translate(texts, options)
    assert [t.source for t in together] == texts
    for text, translation in zip(texts, together, strict=True):
        (alone,) = translator.translate([text], options)
        assert (alone.text, alone.tokens, alone.flags) == (translation.text, translation.tokens, translation.flags)
        assert alone.score == pytest.approx(translation.score, abs=1e-4)
    backwards = translator.translate(texts[::-1], options)
    assert [t.text for t in backwards[::-1]] == [t.text for t in together]


@pytest.mark.parametrize("settings", [{}, {"beam_size": 1}, {"temperature": 1.0}, {"batch_tokens": 2}])
def test_a_gpu_translates_as_in_pytorch_with_more_rows_but_a_limited_number_of_logits(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    translator, texts, options = make_plain(), lines(16), asked(**settings)
    expected = translator.translate(texts, options)
    plain = translator.search.engine(options)
    translator.runtime.device = "cuda"  # on the processor, but by the ways of a GPU
    on_gpu = translator.search.engine(options)
    assert (type(plain.stepper), type(on_gpu.stepper)) == (ModelStepper, DeviceStepper)
    assert on_gpu.batch_tokens == 32 * plain.batch_tokens
    results = translator.translate(texts, options)
    assert [result.tokens for result in results] == [result.tokens for result in expected]
    vocabulary = translator.model.output.size(0)
    monkeypatch.setattr("dragoman.inference.search._GPU_LOGITS", 10 * vocabulary)
    engine = translator.search.engine(options)
    assert engine.batch_tokens / engine.row_tokens <= 10


@pytest.mark.parametrize("search", [{"beam_size": 1}, {"beam_size": 4}, {"temperature": 1.0, "n_best": 2}])
@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_compiler), False])
def test_batch_invariant_translations_are_the_same_to_the_bit(native: bool, search: dict[str, Any]) -> None:
    model = stored(d_model=64, d_ff=160)  # wide enough for PyTorch to divide a product in several ways
    translator = Translator(model, device="cpu", precision="float32", native=native)
    options = asked(batch_invariant=not native, **search)  # compiled, it needs no asking
    texts = lines(12)
    together = translator.translate(texts, options)
    for threads in (1, 2):
        another = Translator(model, device="cpu", precision="float32", native=native, threads=threads)
        assert [another.translate([text], options)[0] for text in texts] == together
        assert another.translate(texts[::-1], options) == together[::-1]
    scored = translator.score(texts, [each.text for each in together], options)
    assert [translator.score([each.source], [each.text], options)[0] for each in scored] == scored


@pytest.mark.parametrize("text", ["", " ", "\t \u2003", "\n"])
def test_a_blank_text_stays_empty_and_asks_nothing_of_the_model(
    translator: Translator, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NativeStepper, "admit", lambda *_: pytest.fail("the model was asked"))
    assert translator.translate([text]) == [Translation(text)]
    assert list(translator.stream(text)) == []


def test_no_texts_give_no_translations(translator: Translator) -> None:
    assert translator.translate([]) == []


@pytest.mark.parametrize("kind", ["word", "bpe", "unigram", "byte_bpe"])
@pytest.mark.parametrize("width", [1, 3])
def test_what_streams_is_what_translate_gives(kind: str, width: int) -> None:
    translator, options = make(kind), asked(beam_size=width)
    for text in [
        *lines(4),
        "Hello. Where is the cat? Good morning, Anna! ",
        "the cat\nthe dog",
        "xyz",
        "  Hello.\u3000\u3000Hello. ",
        "The cat sees Anna. \0 The dog is old. \0 ",
    ]:
        stretches = list(translator.stream(text, options))
        assert "".join(stretches) == translator.translate([text], options)[0].text
        assert all(stretches)


def test_greedy_streams_word_by_word(translator: Translator) -> None:
    texts = [t for t in lines(12) if len(translator.translate([t], asked(beam_size=1))[0].text.split()) > 3]
    assert texts
    for text in texts:
        for stretch in translator.stream(text, asked(beam_size=1)):
            assert len(stretch.split()) <= 3  # more only where punctuation joins


def test_the_last_character_of_a_script_without_spaces_is_not_settled(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator.writer, "text", lambda text: text)
    settled: Any = translator.writer.settled_text
    assert [settled(text) for text in ("你", "你好", "你好吗", "Ciao 你好", "a b")] == ["", "", "你", "Ciao", "a"]


def test_the_stream_returns_the_whole_translation(translator: Translator) -> None:
    def exhausted() -> Iterator[str]:
        returned.append((yield from translator.stream(SOURCES[0])))

    returned: list[Translation] = []
    assert "".join(exhausted()) == returned[0].text
    assert returned == translator.translate([SOURCES[0]])


def test_scores_and_tokens_go_together(translator: Translator) -> None:
    options = asked(beam_size=4, n_best=4)
    for translation in translator.translate([*lines(5), "the cat . Where is it ? Anna"], options):
        others = translation.alternatives
        assert len(others) == 3
        for t in (translation, *others):
            assert len(t.tokens) == len(t.token_log_probs)
            assert t.log_prob == pytest.approx(sum(t.token_log_probs), abs=1e-4)
        complete = [t.score for t in (translation, *others) if "truncated" not in t.flags]
        assert complete == sorted(complete, reverse=True)


def test_the_score_of_a_translation_is_what_score_says_of_it(translator: Translator) -> None:
    options, compared = asked(beam_size=4, split="never"), 0
    for translation in translator.translate(lines(20), options):
        tokenizer = translator.tokenizers.target
        if "truncated" in translation.flags or not translation.text:
            continue
        if tuple(tokenizer.tokens([*tokenizer.encode(translation.text), END])) != translation.tokens:
            continue  # this text has a shorter way to be written
        (scored,) = translator.score([translation.source], [translation.text], options)
        assert scored.log_prob == pytest.approx(translation.log_prob, abs=1e-4)
        assert scored.score == pytest.approx(translation.score, abs=1e-4)
        assert scored.tokens == translation.tokens
        compared += 1
    assert compared


def test_tags_are_scored_only_in_raw_texts(translator: Translator) -> None:
    sources, targets = ["Is <b>it</b> here ?"], ["È <b>qui</b> ?"]
    assert translator.plain_pairs(sources, targets, asked()) == (["Is it here ?"], ["È qui ?"])
    assert translator.plain_pairs(sources, targets, asked(raw=True)) == (sources, targets)


def test_several_sentences_are_translated_each_by_itself_and_joined(translator: Translator) -> None:
    one, two = "Where is the cat ?", "The dog is old ."
    (joined,) = translator.translate([f"{one} {two}"])
    first, second = translator.translate([one, two])
    assert joined.text == f"{first.text} {second.text}"
    assert joined.flags[0] == "split"
    assert joined.tokens == first.tokens + second.tokens
    assert joined.score == pytest.approx(first.score + second.score, abs=1e-4)
    assert "split" not in translator.translate([f"{one} {two}"], asked(split="long"))[0].flags


def test_white_space_around_and_between_sentences_is_kept(translator: Translator) -> None:
    one, two = "Where is the cat ?", "The dog is old ."
    first, second = (each.text for each in translator.translate([one, two]))
    for before, between, after in [(" ", "  ", " "), ("\u3000", " \u00a0", ""), ("", "   ", "\u2003"), ("", "\t", "")]:
        (found,) = translator.translate([f"{before}{one}{between}{two}{after}"])
        assert found.text == f"{before}{first}{between}{second}{after}"
    assert translator.translate([f"{one}\n\n{two}\n"])[0].text == f"{first} {second}", "one line in, one line out"
    (copied,) = translator.translate([f"  {one} {'x' * 101}  {two} "], asked(prefix="il gatto"))
    assert copied.text.startswith("  il gatto") and copied.text.endswith(f" {'x' * 101}  {second} ")


def test_abbreviations_of_ones_own_keep_a_sentence_whole(translator: Translator) -> None:
    text = "the cat sees Abt. Anna"
    assert "split" in translator.translate([text])[0].flags
    assert "split" not in translator.translate([text], asked(abbreviations=("Abt.",)))[0].flags


def test_alternatives_of_several_sentences_are_the_best_combinations(translator: Translator) -> None:
    one, two = "Where is the cat ?", "The dog is old ."
    options = asked(beam_size=3, n_best=3)
    (joined,) = translator.translate([f"{one} {two}"], options)
    first, second = ([t, *t.alternatives] for t in translator.translate([one, two], options))
    combinations = sorted((a.score + b.score for a in first for b in second), reverse=True)[:3]
    assert [joined.score, *(t.score for t in joined.alternatives)] == pytest.approx(combinations, abs=1e-4)


@pytest.mark.parametrize("split", ["sentence", "long"])
def test_nothing_of_a_text_that_is_too_long_is_left_out(translator: Translator, split: str) -> None:
    text = "the red cat sees the old dog , and the bread is old . " * 20
    options = asked(beam_size=1, split=split, max_source_tokens=8)  # pyright: ignore[reportArgumentType]
    (translation,) = translator.translate([text], options)
    assert translation.flags[:2] == ("broken", "split")
    assert len(translator.translate([text], asked(beam_size=1))[0].tokens) > 20


def test_every_token_of_a_long_text_is_given_to_the_model(translator: Translator) -> None:
    text = "the red cat sees the old dog , and the bread is old . " * 20 + "good" * 25
    tokenizer = translator.tokenizers.source
    (line,) = translator.read([text], asked(split="long", max_source_tokens=8))
    assert [token for part in line.parts for token in part.ids] == tokenizer.encode(text)
    assert max(len(part.ids) for part in line.parts) <= 8


def test_a_text_that_is_too_long_and_may_not_be_split_is_refused_by_number(translator: Translator) -> None:
    with pytest.raises(DecodeError, match="text 2 has 16 tokens, but the model is given at most 8"):
        translator.translate(["cat", "the cat " * 8], asked(split="never", max_source_tokens=8))


def test_learned_positions_bound_what_is_read_and_written() -> None:
    translator = make(positions="learned", max_positions=16)
    (translation,) = translator.translate(["the cat " * 30], asked(beam_size=2, split="long"))
    assert "broken" in translation.flags
    with pytest.raises(DecodeError, match="at most 16"):
        translator.translate(["the cat"], asked(minimum_length=16))
    with pytest.raises(DecodeError, match="positions for 14"):
        translator.score(["the cat " * 8], ["il gatto"])


def test_a_translation_that_never_ends_is_bounded_and_flagged(translator: Translator) -> None:
    with torch.inference_mode():
        never = make_plain()
        row = never.model.output
        row[END] = 0
        row[5] = row[6] = 0
    (translation,) = never.translate(["the cat"], asked(beam_size=1, length_ratio=0.0, length_extra=500))
    assert len(translation.tokens) == 500
    assert {"repetition", "truncated"} <= set(translation.flags)
    (short,) = translator.translate(["the cat"], asked(beam_size=1, length_ratio=0.0, length_extra=1))
    assert len(short.tokens) == 1
    assert ("truncated" in short.flags) == (short.tokens != ("[EOS]",))


def test_loops_are_counted_for_runs_of_any_length() -> None:
    assert [most_loops(tokens) for tokens in ([], [1], [1, 2], [1, 1, 1], [9, 1, 2, 1, 2, 1, 2, 1])] == [0, 1, 1, 3, 3]
    assert not repeats([1] * 6, [2] * 6)
    assert repeats([1] * 3, [2] * 6)


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_special_symbols_are_never_written_and_unknown_ones_only_if_allowed(kind: str) -> None:
    translator = make_plain(kind)
    target = translator.tokenizers.target
    with torch.no_grad():  # a model that would write little else
        for symbol in (PADDING, START, UNKNOWN):
            translator.model.output[symbol] *= 10
    names = {target.tokens([i])[0] for i in (PADDING, START, UNKNOWN)}
    found = translator.translate(lines(12))
    assert not names & {token for t in found for token in t.tokens}
    allowed = translator.translate(lines(12), asked(allow_unknown=True))
    assert names & {token for t in allowed for token in t.tokens} == {target.tokens([UNKNOWN])[0]}


def test_output_is_one_line_whatever_the_model_writes(speller: Translator) -> None:
    target = speller.tokenizers.target
    with torch.no_grad():
        breaks = [b for text in "\n\r\0\x0b\x85\u2028" for b in target.encode(text)]
        favoured = make_plain("bpe")
        favoured.model.output[breaks] *= 8
    found = favoured.translate(lines(12), asked(beam_size=1))
    assert not set("".join(t.text for t in found)) & set("\0\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
    assert any("cleaned" in t.flags for t in found)


def test_every_translation_begins_with_the_prefix(translator: Translator) -> None:
    options = asked(prefix="il gatto", beam_size=2)
    for translation in translator.translate([*lines(5), "The cat . The dog ."], options):
        assert translation.text.startswith("il gatto")
        assert translation.text.count("il gatto") >= 1
    with pytest.raises(DecodeError, match="vocabulary does not: zebra"):
        translator.translate(["the cat"], asked(prefix="il zebra"))
    with pytest.raises(DecodeError, match="prefix repeats a run of 1 tokens"):
        translator.translate(["the cat"], asked(prefix="il il", no_repeat_ngram=1))


def test_only_the_first_sentence_begins_with_the_prefix(translator: Translator) -> None:
    options = asked(prefix="il gatto", beam_size=2)
    one, two = "Where is the cat ?", "The dog is old ."
    (first,), (second,) = translator.translate([one], options), translator.translate([two], raw=True, beam_size=2)
    (both,) = translator.translate([f"{one} {two}"], options)
    assert both.text == f"{first.text} {second.text}"


def test_the_longest_output_counts_from_the_end_of_the_prefix(translator: Translator) -> None:
    def longest(**settings: Any) -> int:
        options = asked(length_ratio=0.0, length_extra=3, **settings)
        ((request,),) = translator.requests.of(translator.read(["the cat"], options), options)
        return request.limit

    assert (longest(), longest(prefix="il gatto rosso")) == (3, 6)
    assert longest(minimum_length=7) == 8, "the end symbol is a token too"


def test_no_more_is_written_than_there_are_positions() -> None:
    translator = make(positions="learned", max_positions=16)
    options = asked(length_ratio=9.0)
    ((request,),) = translator.requests.of(translator.read(["the cat"], options), options)
    assert request.limit == 16


def test_no_run_of_tokens_comes_twice(translator: Translator) -> None:
    for translation in translator.translate(lines(10), asked(no_repeat_ngram=2, minimum_length=10)):
        pairs = list(zip(translation.tokens, translation.tokens[1:], strict=False))
        assert len(set(pairs)) == len(pairs)


def test_unknown_words_are_named(translator: Translator) -> None:
    (translation,) = translator.translate(["the zebra sees Anna ."])
    assert translation.unknown_words == ("zebra",)


def test_unknown_words_are_written_as_they_were_typed(translator: Translator) -> None:
    read = f"the zebra sees ¤{WORDS[0]} ."
    segment = Segment("the ZEBRA sees ¤{name} .", read, ids=translator.tokenizers.source.encode(read))
    assert translator.writer._unknown_words(segment) == ["ZEBRA", "¤"]


def test_contradictory_options_are_refused_together() -> None:
    with pytest.raises(
        ConfigError,
        match="decode.n_best must be at most decode.beam_size, but is 5 with a beam of 4; decode.prefix must",
    ):
        check({"n_best": 5, "prefix": "  "}, "decode", SearchOptions)
    with pytest.raises(ConfigError, match="beam_size"):
        check({"beam_size": 0}, "decode", SearchOptions)
    with pytest.raises(ConfigError, match="beam_size"):
        check({"beem_size": 2}, "decode", SearchOptions)


def test_options_of_the_model_folder_are_used_and_checked(translator: Translator) -> None:
    assert translator.options == asked(beam_size=3)
    model = stored()
    files = model.files._replace(generation={"beem_size": 3})
    misspelt = StoredModel(model.model, model.config, files, model.folder)
    with pytest.raises(
        CheckpointError, match=r"generation_config\.json: unknown setting beem_size; did you mean beam_size"
    ) as caught:
        Translator(misspelt)
    assert caught.value.exit_code == 4, "as for any other damage of a model folder"


def test_wrong_requests_are_refused_in_words(translator: Translator, tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="text 2 should be a string, but is 3"):
        translator.translate(["the cat", 3])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DecodeError, match="put it in a list"):
        translator.translate("the cat")
    with pytest.raises(DecodeError, match="given 2 and 1"):
        translator.score(["a", "b"], ["c"])
    with pytest.raises(DecodeError, match="target 1 is blank"):
        translator.score(["the cat"], [" "])
    with pytest.raises(ConfigError, match="threads must be from 1 to 1,024, but is 0"):
        translate(tmp_path, ["the cat"], threads=0)


def test_texts_may_come_one_by_one(translator: Translator) -> None:
    texts = ["the cat", "", "the dog sees the cat"]
    assert translator.translate(each for each in texts) == translator.translate(texts)


def test_an_observer_sees_model_and_search_and_changes_nothing(translator: Translator) -> None:
    class Watching:
        def __init__(self) -> None:
            self.sites: set[str] = set()
            self.tickets: set[int] = set()

        def tensor(self, site: str, value: torch.Tensor) -> None:
            self.sites.add(site)

        def candidates(self, ticket: int, candidates: Sequence[object]) -> None:
            self.tickets.add(ticket)

    watching, texts, options, plain = Watching(), lines(5), asked(beam_size=3), make_plain()
    requests = [request for (request,) in translator.requests.of(translator.read(texts, options), options)]
    engine = translator.search.engine(options, watching)
    tickets = [engine.admit(request) for request in requests]
    with torch_threads(translator.threads):
        watched = {result.ticket: result.hypotheses for result in engine.run()}
    assert [watched[ticket] for ticket in tickets] == plain.search.hypotheses(requests, options)
    assert [watched[ticket][0].tokens for ticket in tickets] == [
        found[0].tokens for found in translator.search.hypotheses(requests, options)
    ]
    assert len(watching.tickets) == 5
    assert {"encoder.0.self_attention.weights", "decoder.0.cross_attention.weights"} <= watching.sites


def test_settings_of_the_search_are_keywords(translator: Translator, tmp_path: Path) -> None:
    texts, wide = lines(6), translator.options.but(beam_size=8, n_best=2)
    expected = translator.translate(texts, wide)
    assert translator.translate(texts, beam_size=8, n_best=2) == expected
    assert translator.translate(texts, wide.but(beam_size=2), beam_size=8) == expected
    assert [*translator.stream(texts[0], beam_size=1)] == [*translator.stream(texts[0], asked(beam_size=1))]
    save_model(tmp_path / "model", translator.model, stored().files)
    loaded = translate(tmp_path / "model", texts, beam_size=8, n_best=2)
    assert [each.text for each in loaded] == [each.text for each in expected]
    with pytest.raises(ConfigError, match=r"unknown setting beam_sise; did you mean beam_size\?"):
        translate(tmp_path / "model", texts, beam_sise=8)
    with pytest.raises(ConfigError, match="n_best must be at most"):
        translator.translate(texts, n_best=9)


@pytest.mark.parametrize("settings", [{"beam_size": 1}, {"temperature": 1.0, "n_best": 3}])
def test_progress_counts_the_sentences_within_lines(settings: dict[str, Any]) -> None:
    class Counting(Silent):
        unit, total, done, reports = "", 0, 0, 0

        def track(self, label: str, total: int | None = None, unit: str = ""):
            self.unit, self.total = unit, total or 0
            return self

        def __enter__(self):
            return self.advance

        def __exit__(self, *_: object) -> None:
            pass

        def advance(self, count: int = 1, **facts: str) -> None:
            self.done += count
            self.reports += 1

    progress, translator = Counting(), make()
    texts = ["the cat", "", " ".join(["The dog sees the cat ."] * 20)]
    translator.translate(texts, asked(**settings), progress)
    assert progress.total == progress.done == progress.reports == 21 and progress.unit == "sentences"


def test_a_model_folder_is_loaded_and_translates_the_same(translator: Translator, tmp_path: Path) -> None:
    model = stored()
    save_model(tmp_path / "m", model.model, model.files)
    found = translate(tmp_path / "m", SOURCES, device="cpu", precision="float32")
    assert [t.text for t in found] == [t.text for t in translator.translate(SOURCES)]


@needs_compiler
def test_translating_with_the_compiled_model_loads_no_torch(tmp_path: Path) -> None:
    model = stored()
    save_model(tmp_path / "m", model.model, model.files)
    command = ["translate", str(tmp_path / "m"), "--device", "cpu", "--threads", "1", *SOURCES]
    code = f"import sys; from dragoman.cli.main import main; sys.exit(main({command}) or 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == len(SOURCES), done.stderr


MOST_CALLS = 44
"""Calls of our functions around the search for a plain line. A change may lower this number, and never raise it."""


def calls_of_ours(work: Callable[[], object]) -> int:
    """Count the calls of functions of the package, without generators and comprehensions: a Python may inline them."""
    package, passed_over = str(Path(dragoman.__file__).parent), {"<listcomp>", "<setcomp>", "<dictcomp>"}
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        code = frame.f_code
        is_generator = code.co_flags & inspect.CO_GENERATOR
        if event == "call" and code.co_filename.startswith(package) and not is_generator:
            calls += code.co_name not in passed_over

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def test_a_plain_line_costs_few_calls_around_the_search() -> None:
    options = asked()
    words = ["cat", "dog", "water", "bread", "station"]
    texts = [f"I drink water and the {first} sees the {second}." for first in words for second in words]
    model = stored("bpe")
    conventions = learn_pair_conventions([(text, "Il gatto vede il cane.") for text in texts * 9])
    files = model.files._replace(conventions=conventions)
    translator = Translator(StoredModel(model.model, model.config, files, model.folder), "cpu", "float32")
    target = translator.tokenizers.target
    tokens = tuple(translator.framing.labels(target.encode(TARGETS[0])))
    best = Hypothesis(tokens, (-0.1,) * len(tokens), -0.1 * len(tokens), True)

    def around_search(texts: Sequence[str]) -> list[Translation]:
        lines = translator.read(texts, options)
        assert len(translator.requests.of(lines, options)) == len(texts)
        chosen = [ChosenHypotheses(line, translator.writer.choose([[best]], options)) for line in lines]
        assert not any(translator.writer.needs_links(line, options) for line in chosen)
        return [translator.writer.translation(*line, options) for line in chosen]

    assert {translation.flags for translation in around_search(texts)} == {()}  # and caches are full
    half = len(texts) // 2
    calls = [calls_of_ours(lambda count=count: around_search(texts[:count])) for count in (half, 2 * half) * 2]
    assert calls[:2] == calls[2:], "the number of calls is random"
    assert calls[1] - calls[0] <= MOST_CALLS * half, f"{(calls[1] - calls[0]) / half} calls for each line"


def test_threads_count_for_one_call_and_loading_sets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = stored()
    save_model(tmp_path / "m", model.model, model.files)
    before, seen = torch.get_num_threads(), []
    stepper = Runtime.stepper

    def watched(*given: Any) -> object:
        seen.append(given[1])
        return stepper(*given)

    monkeypatch.setattr(Runtime, "stepper", watched)
    translate(tmp_path / "m", ["the cat"], device="cpu", threads=before + 1)
    Translator.load(tmp_path / "m", "cpu").translate(["the cat"])
    assert seen == [before + 1, before]
    assert torch.get_num_threads() == before


def test_bf16_leaves_the_model_it_was_given_alone() -> None:
    model = stored()
    translator = Translator(model, "cpu", "bf16")
    assert len(translator.translate(SOURCES)) == len(SOURCES)
    assert next(model.model.parameters()).dtype == torch.float32


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes"),
        MemoryError("there is no memory for the kernel attention"),
    ],
)
def test_a_full_memory_says_what_to_lower(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(EncoderDecoder, "encode", full)
    monkeypatch.setattr(NativeStepper, "admit", full)
    for translator in (make(), make_plain()):
        with pytest.raises(OutOfMemory, match=r"lower decode.batch_tokens \(now 1,000\) or decode.beam_size \(now 3\)"):
            translator.translate(["the cat"], asked(batch_tokens=1000, beam_size=3))


# Empty translations


@pytest.mark.parametrize("kind", ["word", "bpe", "unigram", "byte_bpe"])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("blanks", [0.0, 60.0], ids=["the end is preferred", "spaces are preferred"])
def test_an_empty_translation_never_wins_where_there_is_something_to_say(kind: str, width: int, blanks: float) -> None:
    translator = make_plain(kind)
    target = translator.tokenizers.target
    spaces = [i for i in range(4, target.size) if not target.decode([i]).strip()]
    favour(translator, ([END], 40.0), (spaces, blanks))
    options = asked(beam_size=width, n_best=width)
    texts = [*SOURCES, "7", "the cat . ! Anna", "zzz"]
    for text, found in zip(texts, translator.translate(texts, options), strict=True):
        for each in (found, *found.alternatives):
            assert each.text.strip(), text
        (alone,) = translator.translate([text], options)
        assert (alone.text, alone.tokens) == (found.text, found.tokens)
        assert "".join(translator.stream(text, options)) == found.text


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character", "byte_bpe"])
@pytest.mark.parametrize(
    "blank", ["\u00a0", "\u3000", "\u0085", "\u2028", "\u200b", "\ufeff", "\u00ad", "\u2800", "\u3164"]
)
@pytest.mark.parametrize("search", [{"beam_size": 1}, {"beam_size": 3, "n_best": 3}, {"temperature": 1.0, "n_best": 2}])
def test_bytes_that_spell_a_blank_are_no_translation(kind: str, blank: str, search: dict[str, Any]) -> None:
    translator = make_plain(kind)
    favour(translator, ([END], 40.0), (sorted({*translator.tokenizers.target.encode(blank)}), 60.0))
    (found,) = translator.translate(["the cat"], asked(**search))
    assert not any(is_blank(each.text) for each in (found, *found.alternatives))


def test_a_prefix_is_enough_to_be_no_empty_translation() -> None:
    translator = make_plain("bpe")
    favour(translator, ([END], 40.0))
    (found,) = translator.translate(["the cat"], asked(beam_size=1, prefix="il gatto"))
    assert found.text == "il gatto"
    (longer,) = translator.translate(["the cat"], asked(beam_size=1, minimum_length=4))
    assert len(longer.tokens) == 5


def test_a_translation_that_replaced_an_empty_one_has_the_models_own_score() -> None:
    translator, compared = make_plain(), 0
    target = translator.tokenizers.target
    favour(translator, ([END], 5.0))
    options = asked(beam_size=3, split="never")
    for found in translator.translate(lines(12), options):
        if tuple(target.tokens([*target.encode(found.text), END])) == found.tokens:
            (scored,) = translator.score([found.source], [found.text], options)
            assert scored.score == pytest.approx(found.score, abs=1e-4)
            compared += 1
    assert compared


def test_what_the_model_itself_finds_unlikely_is_doubtful() -> None:
    seen: set[bool] = set()
    for scale in (0.01, 30.0):  # a model without opinions, and one that is sure of what it says
        translator = make_plain()
        with torch.no_grad():
            translator.model.output.mul_(scale)
        for found in translator.translate(lines(8), asked(beam_size=1)):
            doubtful = found.log_prob < DOUBTFUL_LOG_PROB * len(found.tokens)
            assert ("doubtful" in found.flags) == doubtful
            seen.add(doubtful)
    assert seen == {True, False}


def test_one_doubtful_sentence_makes_a_translation_doubtful(translator: Translator) -> None:
    found = translator.translate(["Where is the cat ?", "The dog is old ."])
    means = [each.log_prob / len(each.tokens) for each in found]
    least = min(means) + 1e-3
    (both,) = translator.translate(["Where is the cat ? The dog is old ."], doubtful_below=least)
    assert least < max(means) and least < both.log_prob / len(both.tokens) and "doubtful" in both.flags


def test_one_sentence_without_an_end_makes_a_translation_truncated(translator: Translator) -> None:
    (line,) = translator.read(["Where is the cat ? The dog is old ."], options := asked())
    whole, cut = Hypothesis((5, END), (-1.0, -1.0), -2.0, True), Hypothesis((5,), (-1.0,), -1.0)
    for parts, is_truncated in (((whole, whole), False), ((whole, cut), True), ((cut, whole), True)):
        assert ("truncated" in translator.writer.translation(line, [parts], options).flags) == is_truncated


def test_a_translation_is_doubtful_below_what_its_options_say(translator: Translator) -> None:
    texts = lines(20)
    means = [each.log_prob / len(each.tokens) for each in translator.translate(texts, asked(split="never"))]
    least = sorted(means)[10]
    found = translator.translate(texts, asked(split="never", doubtful_below=least - 1e-6))
    assert [mean < least - 1e-6 for mean in means] == ["doubtful" in each.flags for each in found]


def test_nearly_all_translations_of_held_out_text_are_not_doubtful() -> None:
    unlikely = [Translation("", log_prob=-number / 100, tokens=("a", "b")) for number in range(201)]
    assert doubtful_below(unlikely) == pytest.approx(-0.99)  # of 201 from 0 to -1, two are lower
    assert doubtful_below([*unlikely, Translation("42", "42")]) == doubtful_below(unlikely), "it has no tokens"
    assert doubtful_below([Translation("", log_prob=-9.0, tokens=("a",))] * 200) == DOUBTFUL_LOG_PROB
    assert doubtful_below(unlikely[:99]) is None


def test_words_and_languages_that_the_model_does_not_read_are_flagged(translator: Translator) -> None:
    texts = ["where is the station ?", "where is the zoo ?", "io non bevo acqua perché il cane è vecchio ."]
    texts.append(f"{texts[0].capitalize()} {texts[2].capitalize()}")
    found = [{"unknown", "language"} & {*each.flags} for each in translator.translate(texts, asked())]
    assert found[:2] == [set(), {"unknown"}]
    assert all("language" in flags for flags in found[2:])


def test_every_flag_has_a_meaning() -> None:
    assert list(MEANINGS) == list(get_args(Flag))


# What says nothing in words

WORDLESS = [
    *("42", "100%", "€ 5", "12/05/2024", "10:30–11:45", "+39 02 1234-567", "1,234.50", "#3", "5 × 7 = 35", "½", "⅔ ℃"),
    *("---", "***", "?", "!", "...", "— ? —", "؟", "。。。", "§ 5.", "•", "\\", "[ ]", "{0}", "50°", "1. 2! 3?"),
    *(":)", ":-(", ";-P", ":D", "xD", "<3", "^_^", "T_T", "😀", "👍🏽 👨‍👩‍👧", "🇮🇹", "❤️", "5️⃣", "→", "✓✓", "♪ ♫"),
    *("٤٢", "४२", "๔๒", "४२ ৳", "￥５", "₹ १०", "①", "Ⅳ", "1   2", "7\t8", "\u200b", "\u2066:)\u2069"),
]


@pytest.mark.parametrize("split", ["sentence", "long", "never"])
def test_a_line_without_words_is_copied_and_the_model_is_not_asked(
    translator: Translator, split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NativeStepper, "admit", lambda *_: pytest.fail("the model was asked"))
    for search in ({"beam_size": 2, "n_best": 2}, {"temperature": 1.0, "n_best": 2}, {"align": True}):
        options = asked(split=split, **search)
        for text, found in zip(WORDLESS, translator.translate(WORDLESS, options), strict=True):
            assert (found.text, found.tokens, found.score, found.alternatives) == (text, (), 0.0, ())
            assert found.flags == ("copied",)
            assert "".join(translator.stream(text, options)) == text
            if options.align:
                assert found.alignment == tuple((word, word) for word in range(len(found.source_words)))


@pytest.mark.parametrize(
    "text", ["7 cats", "5 km", "I", "è", "猫", "2024年", "한", "A.", "¿Y?", "(a cat)", "XS", "Ωμέγα 3"]
)
def test_a_line_with_a_word_is_given_to_the_model(translator: Translator, text: str) -> None:
    (segments,) = translator.read([text], asked())
    assert not any(segment.is_copied for segment in segments.parts)


@pytest.mark.parametrize("kind", ["word", "bpe"])
@pytest.mark.parametrize(
    ("before", "behind"),
    [
        *[("", sign) for sign in (" :)", " 😀", "😀", " ;-P 👍🏽", "  <3", " 🇮🇹🇮🇹", " ?", " ---", " ^_^")],
        *[(sign, "") for sign in ("😀 ", "🎉", ":) ", "→ ", "✓  ", "👨‍👩‍👧 :D ")],
        ("⭐ ", " ⭐"),
    ],
)
@pytest.mark.parametrize("split", ["sentence", "long"])
def test_pictures_and_smileys_beside_a_sentence_are_copied(kind: str, before: str, behind: str, split: str) -> None:
    translator, options = make(kind), asked(split=split)
    (alone,) = translator.translate(["the cat sees Anna."], options)
    text = f"{before}the cat sees Anna.{behind}"
    (found,) = translator.translate([text], options)
    assert found.text == f"{before}{alone.text}{behind}"
    assert (found.tokens, found.score) == (alone.tokens, alone.score)
    assert found.flags == alone.flags
    assert "".join(translator.stream(text, options)) == found.text


@pytest.mark.parametrize(
    "text",
    ["Is it here ?", "« the cat »", "- the cat", "the cat . . .", "it is 42", "it costs 5 €", "( the cat. )", "a :b"],
)
def test_marks_that_belong_to_a_sentence_stay_in_it(translator: Translator, text: str) -> None:
    (segments,) = translator.read([text], asked())
    assert [(segment.typed, segment.is_copied) for segment in segments.parts] == [(text, False)]


def test_a_piece_of_a_long_line_without_words_is_copied(translator: Translator) -> None:
    numbers = " ".join(map(str, range(100)))
    (segments,) = translator.read([f"the cat , {numbers} :) the dog"], asked(max_source_tokens=8))
    assert not any(segment.ids for segment in segments.parts if segment.is_copied)
    assert all(any(map(str.isalpha, segment.text)) for segment in segments.translated)


# Words that no vocabulary holds, and giant lines

BLOB = "https://example.com/" + "aGVsbG8gd29ybGQ" * 20


@pytest.mark.parametrize("split", ["sentence", "long"])
def test_a_word_that_no_vocabulary_holds_is_copied_to_its_place(translator: Translator, split: str) -> None:
    options = asked(beam_size=2, split=split)
    (found,) = translator.translate([f"the cat {BLOB} sees the dog ."], options)
    before, after = translator.translate(["the cat", "sees the dog ."], options)
    assert found.text == f"{before.text} {BLOB} {after.text}"
    assert found.tokens == before.tokens + after.tokens
    assert found.score == pytest.approx(before.score + after.score, abs=1e-4)
    assert {"split", "copied"} <= set(found.flags)
    (alone,) = translator.translate([BLOB], options)
    assert (alone.text, alone.tokens, alone.flags) == (BLOB, (), ("copied",))


@pytest.mark.parametrize("kind", ["word", "bpe"])
@pytest.mark.parametrize("prefix", ["", "il gatto"])
def test_a_copied_word_streams_and_follows_the_prefix(kind: str, prefix: str) -> None:
    translator, options = make(kind), asked(beam_size=2, prefix=prefix)
    for text in [BLOB, f"  {BLOB}  the cat .", f"the cat {BLOB}", f"{BLOB}\n{BLOB} . "]:
        (found,) = translator.translate([text], options)
        assert found.text.lstrip().startswith(prefix) and found.text.count(BLOB) == text.count(BLOB)
        assert "".join(translator.stream(text, options)) == found.text


@pytest.mark.parametrize("text", ["the\0cat . a dog", "the \u2067cat\u2069 .", "\x07the cat\u202c"])
def test_controls_are_read_as_spaces_and_flagged(translator: Translator, text: str) -> None:
    plain = text.translate(str.maketrans("\0\x07", "  ", "\u202c\u2067\u2069"))
    (translation,), (expected,) = translator.translate([text]), translator.translate([plain])
    assert (translation.text, translation.tokens, translation.source) == (expected.text, expected.tokens, text)
    assert translation.flags.count("cleaned") == 1 and set(translation.flags) - {"cleaned"} == set(expected.flags)
    assert "".join(translator.stream(text)) == translation.text


def test_a_message_with_branches_is_copied_as_a_whole(translator: Translator) -> None:
    text = "the cat {n, plural, one {the <b>dog</b>} other {dogs}} . the dog"
    (translation,) = translator.translate([text])
    assert (translation.text, translation.flags) == (text, ("copied",))


def test_a_copied_word_is_one_line_of_unicode(translator: Translator) -> None:
    (found,) = translator.translate(["x" * 120 + "\0" + "12"])
    assert found.text == "x" * 120 + " 12" and {"copied", "cleaned"} <= set(found.flags)
    with pytest.raises(TokenizerError, match="half of a surrogate pair"):
        translator.translate(["x" * 200 + "\ud800"])


def test_a_giant_word_costs_the_model_nothing(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NativeStepper, "admit", lambda *_: pytest.fail("the model was asked"))
    word = "q" * 100_000
    assert translator.translate([word])[0].text == word


@pytest.mark.parametrize("text", ["the cat " * 600_000, "猫" * 5_000_000, "x" * 5_000_000], ids=["words", "猫", "x"])
def test_a_giant_text_that_is_read_whole_is_refused_before_the_tokenizer_sees_it(
    translator: Translator, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short_ones(_: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
        assert max(map(len, texts), default=0) < 1_000
        return [[5]] * len(texts)

    monkeypatch.setattr(Tokenizer, "encode_batch", short_ones)
    with pytest.raises(DecodeError, match="text 1 has [0-9,]+ characters, but the model is given at most 200 tokens"):
        translator.translate([text], asked(split="never"))
    with pytest.raises(DecodeError, match="source 1 has [0-9,]+ characters, too many for 8,192 tokens"):
        translator.score([text], ["il gatto"])
    with pytest.raises(DecodeError, match="target 1 has [0-9,]+ characters, too many for 8,192 tokens"):
        translator.score(["the cat"], [text])


class CountingTokenizer(Tokenizer):
    """A tokenizer that counts the characters it is given."""

    given = 0

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        self.given += sum(map(len, texts))
        return super().encode_batch(texts)


@pytest.mark.parametrize("text", ["the cat sees ", "the cat, the dog, ", "猫", "The cat. ", "x" * 99 + " ", "\u0301"])
@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_the_tokenizer_is_given_a_giant_line_a_bounded_number_of_times(kind: str, text: str) -> None:
    vocabulary = stored(kind).tokenizers.source.vocabulary

    def given(count: int) -> int:
        counting = CountingTokenizer(vocabulary)
        surface = Surface(UNKNOWN_CONVENTIONS, ("en", "it"), counting.encode_batch)
        (line,) = surface.read([text * count], Context(20, is_raw=True))
        assert all(len(part.ids) <= 20 or len(part.text) == 1 for part in line.parts)
        return counting.given

    small = 12_000 // len(text)
    assert given(8 * small) <= 8.5 * given(small), "eight times the text is more than eight times the work"


@needs_compiler
def test_a_model_too_wide_for_sums_of_32_bits_does_not_run_in_int8() -> None:
    with pytest.raises(ConfigError, match="int8 is for d_model and d_ff up to 65,536"):
        Translator(stored(d_ff=65_537), "cpu", "int8")


def test_every_option_is_documented() -> None:
    assert issubclass(SearchOptions, Settings)
    assert SearchOptions.meanings().keys() == SearchOptions.model_fields.keys()


def test_a_search_that_stops_late_finds_nothing_worse(translator: Translator) -> None:
    texts = lines(12)
    usual, late = (translator.translate(texts, asked(beam_size=2, early_stopping=early)) for early in (True, False))
    ended = [(a, b) for a, b in zip(usual, late, strict=True) if not {*a.flags, *b.flags} & {"truncated"}]
    assert ended and all(b.score >= a.score - 1e-5 for a, b in ended)
    late_options = asked(early_stopping=False)
    ((request,), *_) = translator.requests.of(translator.read(texts[:1], late_options), late_options)
    assert not request.early_stopping
