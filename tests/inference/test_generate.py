"""What a language model writes: its stepper and its window, texts that grow, and the command."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compiler import needs_compiler
from hypothesis import given
from hypothesis import strategies as st
from reference_search import drawn, search
from small import VOCABULARY, language_model, small_config

import dragoman
from dragoman.cli.main import main
from dragoman.decoding.compiled_stepper import LogitScores
from dragoman.decoding.engine import Engine
from dragoman.decoding.hypothesis import Outputs
from dragoman.decoding.model_stepper import ModelStepper
from dragoman.decoding.request import Request
from dragoman.decoding.sampling import Sampling
from dragoman.decoding.steppers import Stepper, TextStepper
from dragoman.errors import CheckpointError, ConfigError, DecodeError, TokenizerError
from dragoman.inference.generator import Generation, Generator, GrowingText, StopTexts
from dragoman.inference.options import GenerateOptions
from dragoman.model.packing import Packing
from dragoman.model.transformer import LanguageModel, build_model
from dragoman.store.description import ModelFiles, StoredModel
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

# The stepper


def opinionated(**settings: Any) -> LanguageModel:
    model = language_model(**settings)
    with torch.no_grad():
        model.output.mul_(4)  # fresh weights find all tokens alike; these have opinions
    return model.eval()


@torch.inference_mode()
def recomputed(model: LanguageModel, seen: Sequence[int]) -> torch.Tensor:
    """Log-probabilities of what follows these tokens, without a cache."""
    hidden = model.decode(torch.tensor(seen), Packing.of([len(seen)]))
    return model.project(hidden)[-1].log_softmax(-1)


def window(tokens: Sequence[int], context: int | None, prompt: int) -> list[int]:
    """What a row sees of its tokens, of which `prompt` came at once: a full window keeps its newer half."""
    if context is None:
        return list(tokens)
    seen = list(tokens[max(0, prompt - context) : prompt])
    for token in tokens[prompt:]:
        seen = [*(seen[context - context // 2 :] if len(seen) == context else seen), token]
    return seen


def texts(count: int, longest: int = 9) -> list[list[int]]:
    words = random.Random(5)
    return [[words.randrange(4, VOCABULARY) for _ in range(words.randint(1, longest))] for _ in range(count)]


POSITIONS = [{"positions": "rotary"}, {"positions": "sinusoidal"}, {"positions": "learned", "max_positions": 6}]


def test_a_text_stepper_is_a_stepper() -> None:
    assert isinstance(TextStepper(ModelStepper(language_model())), Stepper)


@pytest.mark.parametrize(
    ("settings", "context"),
    [(settings, context) for settings in POSITIONS for context in (2, 5, 6, settings.get("max_positions"))],
    ids=str,
)
@torch.inference_mode()
def test_rows_that_join_double_slide_and_change_places_keep_their_log_probabilities(
    settings: dict[str, Any], context: int | None
) -> None:
    model, words = opinionated(**settings), random.Random(0)
    stepper, waiting = TextStepper(ModelStepper(model), context), texts(10)
    rows: list[tuple[list[int], int]] = []  # the tokens that a row was fed, and how many came at first
    for step in range(16):
        if waiting and step % 2 == 0:
            fresh = [waiting.pop() for _ in range(2)]
            stepper.admit([text[:-1] for text in fresh])
            rows += [(text, len(text)) for text in fresh]
        log_probs = torch.from_numpy(stepper.advance(np.array([tokens[-1] for tokens, _ in rows])).log_probs())
        for (tokens, prompt), row in zip(rows, log_probs, strict=True):
            expected = recomputed(model, window(tokens, context, prompt)).float()
            torch.testing.assert_close(row, expected, atol=1e-5, rtol=1e-5)
        chosen = [words.randrange(len(rows)) for _ in range(words.randint(2, 6))]
        stepper.select(np.array(chosen))
        rows = [([*rows[i][0], words.randrange(4, VOCABULARY)], rows[i][1]) for i in chosen]


@pytest.mark.parametrize("context", [5, None])
def test_prompts_of_any_length_are_continued_as_alone_and_as_the_plain_walk_does(context: int | None) -> None:
    model, never = opinionated(), 0

    def request(number: int, text: list[int]) -> Request:
        sampling = Sampling(1.3, seed=number, sample=number % 2) if number % 3 else None
        return Request(text[:-1], 12, sampling=sampling, start=text[-1])

    requests = [request(number, text) for number, text in enumerate(texts(14))]
    engine = Engine(TextStepper(ModelStepper(model), context), start=2, end=never, batch_tokens=60)
    together = search(engine, requests)
    for number, (text, (found,)) in enumerate(zip(texts(14), together, strict=True)):
        ((alone,),) = search(Engine(TextStepper(ModelStepper(model), context), start=2, end=never), [requests[number]])
        assert found.tokens == alone.tokens
        assert found.total == pytest.approx(alone.total, abs=1e-5)

        def follows(written: tuple[int, ...], text: list[int] = text) -> list[float]:
            seen = window([*text, *written], context, len(text))
            return recomputed(model, seen).float().tolist()

        sampling = requests[number].sampling or Sampling(top_k=1)
        uniforms = [replace(requests[number], sampling=sampling).uniform(position) for position in range(12)]
        assert found.tokens == drawn(follows, 12, never, uniforms, sampling)[0]


def test_a_row_takes_no_more_room_than_its_context() -> None:
    engine = Engine(TextStepper(ModelStepper(opinionated()), 5), start=2, end=0, batch_tokens=40)
    for _ in range(9):
        engine.admit(Request([4] * 30, 100, start=5, context=5))
    engine.step()
    assert len(engine.active) == 8
    assert (Request([4] * 30, 100, start=5).row_tokens, Request([4] * 30, 100).row_tokens) == (130, 30)
    assert Request([4], 2, start=5, context=5).row_tokens == 3


# Texts that grow


@pytest.fixture(scope="module")
def byte_tokenizer() -> Tokenizer:
    return learn_tokenizer(["abc"], TokenizerSettings(kind="byte_bpe", vocabulary_size=260))


@given(
    written=st.lists(st.integers(4, 259), max_size=40)
    | st.text("aé寿🙂ab", max_size=20).map(lambda text: [4 + byte for byte in text.encode()]),
    stops=st.lists(st.text("aé寿b", min_size=1, max_size=4), max_size=3),
)
def test_pieces_of_a_growing_text_joined_are_the_text_up_to_its_stop(
    written: list[int], stops: list[str], byte_tokenizer: Tokenizer
) -> None:
    order = {byte_tokenizer.spelling(token): token for token in range(4, 260)}
    tokens = [order[bytes([token - 4])] for token in written]
    stop = StopTexts(stops, byte_tokenizer)
    end = next((length for length in range(1, len(tokens) + 1) if stop(tokens[:length])), len(tokens))
    growing = GrowingText(byte_tokenizer, stop)
    pieces = [growing.grow([token]) for token in tokens[: end - 1]] + [growing.grow(tokens[end - 1 : end], final=True)]
    whole = byte_tokenizer.decode(tokens[:end])
    first = min((whole.find(text) for text in stops if text in whole), default=None)
    assert "".join(pieces) == whole[:first]
    assert (first is not None) == stop(tokens[:end]), "it ends with the token that completes a stop text"
    assert "\ufffd" in whole or not any("\ufffd" in piece for piece in pieces), "no character is split"


# A run that writes


RHYME = "one for the master, one for the dame, one for the boy down the lane\n"
SETTINGS = [
    "task=language_model", "train.steps=40", "train.validate_every=40", "train.learning_rate=2e-2",
    "model.d_model=32", "model.heads=2", "model.d_ff=48", "model.decoder_layers=1", "batches.sentence_tokens=32",
    "batches.batch_tokens=512", "train.precision=float32",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rhyme")
    (folder / "rhyme.txt").write_text(RHYME * 150, encoding="utf-8")
    return dragoman.train(folder / "rhyme.txt", overrides=SETTINGS, runs=folder, device="cpu").folder


@pytest.fixture(scope="module")
def generator(run: Path) -> Generator:
    return Generator.load(run, "cpu", "float32")


PROMPTS = ["one for", "", "the dame, one for the boy down the lane and then some more of it é寿", "x"]


def collected(stream: Any) -> tuple[list[str], Generation]:
    """What a stream yields, and what it returns."""
    returned: list[Generation] = []

    def watch() -> Iterator[str]:
        returned.append((yield from stream))

    return [*watch()], returned[0]


def test_a_text_is_the_same_alone_together_and_streamed(generator: Generator) -> None:
    options = GenerateOptions(tokens=80, samples=3)
    together = generator.generate(PROMPTS, options)
    assert [(each.prompt, each.sample) for each in together] == [(text, n) for text in PROMPTS for n in (1, 2, 3)]
    assert len({each.text for each in together}) == len(together)
    for prompt, first in zip(PROMPTS, together[::3], strict=True):
        (alone,) = generator.generate([prompt], GenerateOptions(tokens=80))
        assert (alone.text, alone.tokens, alone.reason) == (first.text, 80, "tokens")
        pieces, returned = collected(generator.stream(prompt, options))
        assert returned == alone
        assert "".join(pieces) == alone.text and len(pieces) > 20


def test_a_folder_knows_the_context_and_the_model_forgets_what_is_further_back(run: Path, generator: Generator) -> None:
    assert json.loads((run / "best" / "generation_config.json").read_text()) == {"context": 32}
    assert generator.context(GenerateOptions()) == 32
    near = RHYME * 2
    one, other = generator.generate(["x" * 50 + near, "y" * 90 + near], GenerateOptions(tokens=40, temperature=0))
    assert one.text == other.text
    assert (one.forgotten, other.forgotten) == (50 + len(near) - 32, 90 + len(near) - 32)
    (short,) = generator.generate(["x"], GenerateOptions(tokens=5))
    assert short.forgotten == 0


def test_an_empty_prompt_begins_as_after_a_line_break(generator: Generator) -> None:
    empty, newline = generator.generate(["", "\n"], GenerateOptions(tokens=30))
    assert empty.text == newline.text


def test_a_stop_text_ends_a_sample_and_is_not_shown(generator: Generator) -> None:
    greedy = GenerateOptions(tokens=60, temperature=0.0)
    (whole,) = generator.generate(["one for the"], greedy)
    stop = whole.text[20:24]
    (cut,) = generator.generate(["one for the"], greedy.but(stop=["never written", stop]))
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.reason == "stop" and cut.tokens == len(cut.text + stop)
    assert "".join(generator.stream("one for the", greedy.but(stop=[stop]))) == cut.text


def test_the_log_probability_is_the_models_own_whatever_the_temperature(generator: Generator) -> None:
    for options in (GenerateOptions(tokens=10, temperature=3.0), GenerateOptions(tokens=10, temperature=0.0)):
        (found,) = generator.generate(["one"], options)
        ids = generator.tokenizer.encode("one") + generator.tokenizer.encode(found.text)
        if len(ids) == 3 + found.tokens:  # broken characters do not come back
            total = sum(recomputed(generator.runtime.model, ids[:n])[ids[n]].item() for n in range(3, len(ids)))
            assert found.log_prob == pytest.approx(total, abs=1e-3)


@needs_compiler
def test_a_greedy_text_takes_the_compiled_step_also_with_stop_texts(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []
    write_next = LogitScores.write_next

    def counted(*given: Any) -> np.ndarray | None:
        taken.append((parents := write_next(*given)) is not None)
        return parents

    monkeypatch.setattr(LogitScores, "write_next", counted)
    greedy = GenerateOptions(tokens=60, temperature=0)
    (whole,) = generator.generate(["one for the"], greedy)
    assert taken == [True] * 59 + [False], "the last step ends it"
    taken.clear()
    (cut,) = generator.generate(["one for the"], greedy.but(stop=[whole.text[20:24]]))
    assert cut.reason == "stop" and whole.text.startswith(cut.text) and taken == [True] * cut.tokens


@pytest.mark.parametrize("options", [{"temperature": 0}, {"temperature": 1}, {"temperature": 0, "stop": ("never",)}])
def test_a_step_reads_no_more_of_a_long_text_than_of_a_short_one(
    generator: Generator, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0
    hypothesis, spelling = Outputs.hypothesis, Tokenizer.spelling

    def counted(*given: Any) -> Any:
        nonlocal read
        read += 1
        return spelling(*given)

    monkeypatch.setattr(Tokenizer, "spelling", counted)
    monkeypatch.setattr(Outputs, "hypothesis", lambda *given: whole.append(1) or hypothesis(*given))
    whole: list[int] = []
    costs = []
    for tokens in (50, 100):
        read = 0
        whole.clear()
        collected(generator.stream("one for", GenerateOptions(tokens=tokens, **options)))
        costs.append((read, len(whole)))
    assert costs[1][0] <= 2 * costs[0][0] + 10 and costs[1][1] == costs[0][1] == 1


def test_a_model_with_learned_positions_writes_past_them(tmp_path: Path) -> None:
    (tmp_path / "rhyme.txt").write_text(RHYME * 150, encoding="utf-8")
    few = ["model.positions=learned", "model.max_positions=34", "train.steps=2", "train.validate_every=2"]
    overrides = [*SETTINGS, *few]
    folder = dragoman.train(tmp_path / "rhyme.txt", overrides=overrides, runs=tmp_path, device="cpu").folder
    (found,) = dragoman.generate(folder, ["one"], GenerateOptions(tokens=100, context=50), device="cpu")
    assert found.tokens == 100


def test_the_context_that_is_asked_for_counts_more_than_that_of_the_folder(generator: Generator) -> None:
    assert generator.context(GenerateOptions(context=5)) == 5
    (found,) = generator.generate(["one for the"], GenerateOptions(tokens=2, context=5))
    assert found.forgotten == len("one for the") - 5


def test_no_placeholder_is_written() -> None:
    tokenizer = learn_tokenizer([RHYME] * 3, TokenizerSettings(kind="bpe", vocabulary_size=340))
    placeholders = tokenizer.placeholders
    model = build_model(small_config(family="language_model", target_vocabulary=tokenizer.size), seed=1)
    with torch.no_grad():  # a model that would write little else
        model.output[[*placeholders.values()]] *= 100
    files = ModelFiles(Tokenizers(tokenizer, tokenizer))
    generator = Generator(StoredModel(model.eval(), model.config, files, Path("model")), "cpu", "float32")
    (found,) = generator.generate(["one"], GenerateOptions(tokens=50))
    assert placeholders and found.text and not any(each in found.text for each in placeholders)


def test_a_folder_that_names_no_context_sees_all(generator: Generator, run: Path) -> None:
    stored = dragoman.load_model(run)
    old = Generator(StoredModel(stored.model, stored.config, stored.files._replace(generation={}), stored.folder))
    assert old.context(GenerateOptions()) is None
    wrong = StoredModel(stored.model, stored.config, stored.files._replace(generation={"beam_size": 4}), stored.folder)
    with pytest.raises(CheckpointError, match=r"generation_config\.json: unknown setting beam_size"):
        Generator(wrong)


def test_wrong_prompts_are_refused(generator: Generator) -> None:
    with pytest.raises(DecodeError, match="takes several prompts, but was given one; put it in a list"):
        generator.generate("one")
    with pytest.raises(DecodeError, match="a prompt should be a string, but is 3"):
        generator.generate([3])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TokenizerError, match="half of a surrogate pair"):
        generator.stream("\ud800")
    with pytest.raises(TokenizerError, match="half of a surrogate pair"):
        generator.generate(["one"], GenerateOptions(stop=("\udcff",)))


# The command


def test_the_command_writes_the_prompt_and_what_follows(
    run: Path, generator: Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(run), "one for", "--tokens", "30", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert out == "one for" + generator.generate(["one for"], GenerateOptions(tokens=30))[0].text + "\n"
    assert "cpu, " in err


def test_the_command_reads_standard_input_and_tells_what_the_model_did_not_see(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(("o" * 40 + "\n").encode())))
    assert main(["generate", str(run), "--tokens", "5", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("o" * 40)
    assert "the model sees at most 32 tokens, so the first 8 of the prompt were not read" in err


def test_the_command_writes_several_samples_and_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", str(run), "one", "--tokens", "9", "--samples", "2", "--device", "cpu", "--quiet"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert out.startswith("--- sample 1 of 2 ---\none") and "\n--- sample 2 of 2 ---\none" in out
    assert main([*arguments, "--format", "json", "--stop", "e", "--top-k", "3"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["sample"] for each in found] == [1, 2]
    assert set(found[0]) == {"prompt", "text", "sample", "reason", "tokens", "log_prob", "forgotten"}


WRONG = [
    (["--temperature", "-1"], "'--temperature': Input should be greater than or equal to 0", ConfigError),
    (["--top-p", "0"], "generate.top_p should be greater than 0", ConfigError),
    (["--top-k", "0"], "'--top-k': Input should be greater than or equal to 1", ConfigError),
    (["--tokens", "0"], "'--tokens': Input should be greater than or equal to 1", ConfigError),
    (["--stop", ""], "generate.stop holds an empty text", ConfigError),
    (["--temperature", "0", "--samples", "2"], "generate.temperature = 0 writes the same text each time", ConfigError),
    (["--context", "1"], "'--context': Input should be greater than or equal to 2", ConfigError),
]


@pytest.mark.parametrize(("options", "message", "error"), WRONG, ids=[" ".join(options) for options, _, _ in WRONG])
def test_a_wrong_use_is_one_line(
    options: list[str], message: str, error: type[dragoman.Error], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(run), "one", *options]) == error.exit_code
    out, err = capsys.readouterr()
    assert out == "" and message in err and err.count("error: ") == 1


def test_each_command_names_the_other_for_a_model_of_the_other_kind(
    run: Path, run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(run_folder), "hello"]) == DecodeError.exit_code
    assert f"{run_folder / 'best'} holds a model that translates; use dragoman translate" in capsys.readouterr().err
    assert main(["translate", str(run), "hello"]) == DecodeError.exit_code
    assert "holds a model that continues texts; use dragoman generate" in capsys.readouterr().err
    assert main(["generate", "nowhere", "hello"]) == CheckpointError.exit_code
    assert "nowhere does not exist" in capsys.readouterr().err
