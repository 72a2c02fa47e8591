"""Runs in several directions: what is drawn, learned and measured for each, and directions added to a model."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_directions import sentences, write_direction, write_directions
from small_runs import SETTINGS, AtSteps, terminate, weights

from dragoman.cli.train import options_of_direction, show_run
from dragoman.data.batching import Batches
from dragoman.data.corpus import EncodedCorpus, Pool
from dragoman.data.variation import VariedBatches
from dragoman.errors import ConfigError, DecodeError, Interrupted
from dragoman.evaluating.scores import read_scores
from dragoman.inference.translator import Translator
from dragoman.run_folder import RunFolder
from dragoman.runs.compare import compare
from dragoman.runs.directed import DirectedText, RunText, shares
from dragoman.runs.fine_tune import fine_tune
from dragoman.runs.metrics_log import read_metrics
from dragoman.runs.quantize import quantize
from dragoman.runs.recipe import read_recipe
from dragoman.runs.starting import with_new_rows
from dragoman.runs.status import list_runs
from dragoman.runs.train import RunResult, train
from dragoman.runs.translation import TranslationTask
from dragoman.store.description import Languages, read_config
from dragoman.store.folder import load_model
from dragoman.store.tensors import model_of
from dragoman.surface.conventions import LanguageConventions
from dragoman.text.report import direction_folders

SETS = ("train", "dev", "test")
DIRECTIONS = {("en", "it"): 300, ("en", "de"): 60, ("de", "it"): 40}
PIECES = (
    *(setting for setting in SETTINGS if not setting.startswith(("data.", "tokenizer."))),
    "tokenizer.kind=bpe", "tokenizer.vocabulary_size=420",
)  # fmt: skip
WORDS = (*(setting for setting in PIECES if not setting.startswith("tokenizer.")), "task=translation", "train.steps=1",
         "tokenizer.minimum_frequency=1")  # fmt: skip


def train_in(folder: Path, *overrides: str, counts: Any = DIRECTIONS, **options: Any) -> Path:
    data = folder / "several"
    if not data.exists():
        write_directions(data, counts)
    settings = [*PIECES, "task=translation", *overrides]
    return train(str(data), overrides=settings, runs=folder / "runs", device="cpu", **options).folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_in(tmp_path_factory.mktemp("run"))


class Counted(DirectedText):
    def __init__(self, count: int) -> None:
        self.count = count


@pytest.mark.parametrize(
    ("counts", "temperature", "expected"),
    [
        ((81, 16), 1, [81, 16]),
        ((81, 16), 2, [67, 30]),  # 9 : 4
        ((81, 16), 4, [58, 39]),  # 3 : 2
        ((29_000, 29_000, 29_000), 5, [29_000] * 3),
        ((7, 0), 5, [7, 0]),
    ],
)
def test_an_epoch_has_roots_of_the_amounts(counts: tuple[int, ...], temperature: float, expected: list[int]) -> None:
    assert shares([*map(Counted, counts)], sum(counts), temperature) == expected


def rows_of(corpus: EncodedCorpus, epoch: int, seed: int = 1) -> list[int]:
    return np.concatenate(list(Batches(corpus, 300, seed=seed).epoch(epoch))).tolist()


def test_every_epoch_draws_from_each_direction_its_share_of_all_pairs(run: Path) -> None:
    corpus, counts = EncodedCorpus.open(run / "corpus/train"), [count - 12 for count in DIRECTIONS.values()]
    wanted, ends = shares([*map(Counted, counts)], sum(counts), 5), np.cumsum([0, *counts]).tolist()
    assert len(corpus) == sum(counts) and wanted[2] > counts[2]
    epochs = [Counter(rows_of(corpus, epoch)) for epoch in range(3)]
    for drawn in epochs:
        parts = [[drawn[row] for row in range(*part)] for part in pairwise(ends)]
        assert [sum(part) for part in parts] == wanted
        assert all(max(part) - min(part) <= 1 for part in parts), "evenly"
    assert epochs[0] != epochs[1] and epochs[0] == Counter(rows_of(corpus, 0)), "a function of seed and epoch"
    assert [facts.drawn for facts in corpus.facts.pools.values()] == wanted


def test_a_corpus_of_an_earlier_version_has_its_one_pool_still(run: Path) -> None:
    facts = EncodedCorpus.open(run / "corpus/train").facts
    assert facts.model_copy(update={"pool": Pool(rows=30, drawn=3)}).pools == {facts.rows - 30: Pool(rows=30, drawn=3)}
    assert facts.model_copy(update={"pool": None}).pools == {}


def test_sources_begin_with_the_symbol_of_the_target_language(run: Path) -> None:
    corpus, (source, target) = EncodedCorpus.open(run / "corpus/train"), load_model(run).tokenizers
    assert source is target and list(source.languages) == ["en", "de", "it"]
    assert corpus.source is not None
    begins = [source.tokens(corpus.source.row(row)[:1].tolist())[0] for row in (0, 288, 336)]
    assert begins == [">>it<<", ">>de<<", ">>it<<"]
    assert min(source.languages.values()) == source.size - 3 and source.size <= 420
    assert not {*source.languages.values()} & set(corpus.target.ids.tolist())


def test_the_model_names_its_directions_and_translates_in_them(run: Path) -> None:
    stored = load_model(run)
    assert stored.files.directions is not None and [*stored.files.directions.pairs()] == [*DIRECTIONS]
    assert stored.languages == Languages("mul", "mul")
    assert isinstance(stored.files.conventions, LanguageConventions)
    assert stored.files.conventions.languages.keys() == {"en", "it", "de"}
    assert stored.files.conventions.copied.keys() == {"en-it", "en-de", "de-it"}
    assert "Kater" in stored.files.conventions.of("de", "it").source.words
    translator = Translator(stored, "cpu")
    assert translator.translate(["the cat"], source_language="de", target_language="it", beam_size=1)
    with pytest.raises(DecodeError, match="was not trained to translate de to en|no target language"):
        translator.translate(["der Kater"], source_language="de", target_language="en")


def test_each_direction_is_measured_scored_and_listed(run: Path) -> None:
    line = [line for line in read_metrics(run) if "dev_chrf" in line][-1]
    for metric in ("loss", "bleu", "chrf"):
        measured = [line[f"dev_{metric}_{name}"] for name in ("en-it", "en-de", "de-it")]
        assert line[f"dev_{metric}"] == pytest.approx(sum(measured) / 3)
    assert [*read_scores(run / "scores.json")] == ["test.en-it", "test.en-de", "test.de-it"]
    assert list_runs(run)[0].score is not None
    card = (run / "best/README.md").read_text()
    for part in (
        "en to it, en to de, de to it",
        "28 pairs of train.jsonl (de-it)",
        "- de: ",
        "tokens a word",
        "of each direction",
    ):
        assert part in card


def test_scores_and_advice_name_the_direction(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_run(RunResult(run, 1, ()))
    out = capsys.readouterr().out
    assert [out.count(f"test.{name}.jsonl") > 1 for name in ("en-it", "en-de", "de-it")] == [True] * 3
    assert "test set" in out
    assert options_of_direction(run) == " --source-language en --target-language it"


def test_prepared_directions_keep_their_rules_and_are_copied(run: Path) -> None:
    assert not read_recipe(run / "recipe.toml").data.checks.drop_duplicates
    data = run.parents[1] / "several"
    assert [*direction_folders(data)] == [*direction_folders(run / "data")] == [*DIRECTIONS]
    for direction, folder in direction_folders(data).items():
        copy = direction_folders(run / "data")[direction]
        assert all((copy / f"{name}.jsonl").read_bytes() == (folder / f"{name}.jsonl").read_bytes() for name in SETS)


def test_text_of_any_direction_that_was_trained_on_is_named_in_scores(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compare([run], run / "data/de-it/train.jsonl", overrides=["data.source_language=de", "data.target_language=it"])
    assert "28 of 28 sentences of train.jsonl are in the text that" in caplog.text


def test_a_quantized_run_is_scored_in_each_direction(run: Path, tmp_path: Path) -> None:
    scores = quantize(run, tmp_path / "quantized", progress=False).scores
    assert scores is not None and len(scores.evaluations) == 6


def test_the_dev_loss_of_a_direction_is_that_of_its_pairs_alone(run: Path) -> None:
    task = TranslationTask(RunFolder(run), read_recipe(run / "recipe.toml")).encode()
    batches = task._dev_batches
    assert [sum(len(batch) for batch in part) for part in batches] == [6, 6, 6]
    rows = [np.concatenate([batch.pairs.numpy() for batch in part]) for part in batches]
    assert [sorted(part.tolist()) for part in rows] == [[*range(6)], [*range(6, 12)], [*range(12, 18)]]


def test_joined_rows_are_of_one_direction_and_have_one_symbol(run: Path) -> None:
    recipe = read_recipe(run / "recipe.toml").but(
        variation={"joined": 0.6, "rough": 0.3, "protected": 0.3}, train={"alignment_weight": 0.0}
    )
    task = TranslationTask(RunFolder(run), recipe).encode()
    batches, tokenizer = task.batches, task.corpora.tokenizers.source
    assert isinstance(batches, VariedBatches)
    symbols, ends, joined = {*tokenizer.languages.values()}, (288, 336, 364), 0
    for item in batches.epoch(0):
        batch = batches.batch(item)
        assert batch.source is not None and batch.source_lengths is not None
        rows = batch.source.split(batch.source_lengths.tolist())
        targets = batch.target.split(batch.target_lengths.tolist())
        assert sum(map(len, rows)) and len(batch.pairs) >= len(rows)
        joined += len(batch.pairs) - len(rows)
        for row, target in zip(rows, targets, strict=True):
            assert [place for place, id_ in enumerate(row.tolist()) if id_ in symbols] == [1], "after the start"
            language = tokenizer.tokens(row[1:2].tolist())[0].strip("<>")
            written = {*tokenizer.decode(target.tolist()).split()}
            wrong = {"it": "de", "de": "it"}[language]
            assert len(written & {*WORDS_OF[language]}) > len(written & {*WORDS_OF[wrong]})
    assert joined > 20 and ends


WORDS_OF = {
    language: [word for pair in sentences("en", language, 40) for word in pair[1].split()] for language in ("it", "de")
}


def test_a_stopped_run_ends_in_the_same_bytes(run: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train_in(tmp_path, progress=AtSteps({6: terminate}))
    assert weights(train_in(tmp_path)) == weights(run)


def test_words_and_spacy_fit_or_say_why(tmp_path: Path) -> None:
    data = write_directions(tmp_path / "several", {("en", "it"): 60, ("de", "it"): 60})
    options: dict[str, Any] = {"runs": tmp_path / "runs", "device": "cpu"}
    train(str(data), overrides=[*WORDS, "tokenizer.kind=word"], name="words", **options)
    with pytest.raises(ConfigError, match="kind = 'spacy' needs one language"):
        train(str(data), overrides=[*WORDS, "tokenizer.kind=spacy"], name="spacy", **options)


def test_a_model_learns_which_language_a_symbol_asks_for(tmp_path: Path) -> None:
    counts = {("en", "it"): 400, ("en", "de"): 400}
    run = train_in(
        tmp_path, "model.d_model=64", "model.d_ff=128", "train.steps=200", "train.learning_rate=0.005",
        "batches.batch_tokens=600", "train.validate_every=200", "model.dropout=0", counts=counts,
    )  # fmt: skip
    translator = Translator.load(run, "cpu")
    for language in ("it", "de"):
        pairs = sentences("en", language, 30, seed=77)
        written = translator.translate([source for source, _ in pairs], source_language="en", target_language=language)
        assert sum(result.text == target for result, (_, target) in zip(written, pairs, strict=True)) >= 20


# Directions added to a model


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train in one direction, with pieces of words."""
    folder = tmp_path_factory.mktemp("one")
    data = write_direction(folder, ("en", "it"), sentences("en", "it", 120))
    return train(str(data), overrides=[*PIECES, "task=translation"], runs=folder, name="one", device="cpu").folder


def tune_on(model: Path, folder: Path, languages: tuple[str, str], *overrides: str, **options: Any) -> Any:
    """Train a model further on text in another direction."""
    data = folder / "new.tsv"
    data.write_text("".join(f"{a}\t{b}\n" for a, b in sentences(*languages, 60, seed=5)), encoding="utf-8")
    named = [f"data.{side}_language={code}" for side, code in zip(("source", "target"), languages, strict=True)]
    settings = ("batches.batch_tokens=200", "decode.beam_size=1", "train.steps=6", "train.precision=float32",
                "data.dev_size=6", "data.test_size=6", "train.validate_every=3")  # fmt: skip
    return fine_tune(
        model, str(data), overrides=[*settings, *named, *overrides], runs=folder / "runs", device="cpu", **options
    )


def test_a_direction_is_added_to_a_model_with_one(
    single: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "dragoman"):
        result = tune_on(single, tmp_path, ("en", "ru"))
    assert "the vocabulary grows by" in caplog.text and "learns to translate en to ru too" in caplog.text
    stored, first = load_model(result.folder), load_model(single)
    assert stored.files.directions is not None and [*stored.files.directions.pairs()] == [("en", "it"), ("en", "ru")]
    assert [*stored.tokenizers.source.languages] == ["en", "it", "ru"]
    assert stored.config.source_vocabulary == stored.tokenizers.source.size > first.tokenizers.source.size + 20
    assert [scored.system for scored in result.before] == ["before, old test"]
    assert [scored.system for scored in result.after] == ["after, new test", "after, old test"]
    assert [scored.test_name for scored in result.after] == ["test.en-ru.jsonl", "test.en-it.jsonl"]
    assert isinstance(stored.files.conventions, LanguageConventions) and first.files.conventions is not None
    assert stored.files.conventions.of("en", "it").source == first.files.conventions.of("en", "it").source
    assert stored.files.conventions.languages["ru"].sentences
    corpus = EncodedCorpus.open(result.folder / "corpus/train")
    assert corpus.source is not None
    tags = {stored.tokenizers.source.tokens(corpus.source.row(row)[:1].tolist())[0] for row in range(len(corpus))}
    assert tags == {">>it<<", ">>ru<<"}, "old pairs have a symbol too"
    again = tune_on(result.folder, tmp_path / "runs", ("it", "en"), name="third")  # of known languages
    third = load_model(again.folder)
    assert third.tokenizers.source.identity == stored.tokenizers.source.identity
    assert third.files.directions is not None and third.files.directions.has("it", "en")
    assert [scored.system for scored in again.before] == ["before, old test"]


def test_languages_by_any_of_their_codes_are_those_of_the_model(run: Path, tmp_path: Path) -> None:
    for codes, expected in ((("eng", "ita"), ("en", "it")), (("de-AT", "fr"), ("de", "fr"))):
        data = write_direction(tmp_path, codes, sentences("en", "it", 60))
        assert [text.languages for text in RunText(data, None, None, read_config(run / "best")).new] == [expected]


def test_growth_alone_changes_no_logit_of_the_old_direction(single: Path, tmp_path: Path) -> None:
    from dragoman.tokenizing.growing import grow
    from dragoman.tokenizing.tokenizers import Tokenizers

    stored = load_model(single)
    texts = [target for _, target in sentences("en", "ru", 60)]
    old = stored.tokenizers.source
    first = grow(old, ["en", "it"], None)
    new = grow(first, ["ru"], texts)  # symbols move after the new pieces
    sources, targets = zip(*sentences("en", "it", 20, seed=9), strict=True)
    assert new.encode_batch(sources) == old.encode_batch(sources)
    sizes = {"source_vocabulary": new.size, "target_vocabulary": new.size}
    weights = with_new_rows(stored.weights, stored.tokenizers, Tokenizers(new, new))
    grown = model_of(stored.config.model_copy(update=sizes), weights)
    batch = [torch.tensor(ids) for ids in (old.encode(sources[0]), old.encode(targets[0]))]
    lengths = [torch.tensor([len(side)]) for side in batch]
    with torch.inference_mode():
        before, after = (
            model.double().eval()(batch[0], lengths[0], batch[1], lengths[1]) for model in (stored.model, grown)
        )
    assert torch.equal(after[:, : old.size], before)
    piece = next(id_ for id_ in range(old.size, new.size) if not new.is_special(id_))
    table = dict(grown.named_parameters())["output"]
    spelled = new.spelling(piece).decode()
    start = load_model(single).model.get_parameter("output")[
        old.encode(spelled.strip())[-len(spelled.strip().encode()) :]
    ]
    if len(spelled.strip()) == 1 and not spelled.startswith(" "):
        assert torch.allclose(table[piece].float(), start.mean(0))


def test_what_cannot_be_added_is_said_in_one_line(single: Path, run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tuning.lora leaves the vocabulary as it is"):
        tune_on(single, tmp_path, ("en", "ru"), lora=2)
    data = tmp_path / "bare.tsv"
    data.write_text("".join(f"{a}\t{b}\n" for a, b in sentences("en", "it", 60)))
    with pytest.raises(
        ConfigError, match="the text does not name its languages; name them: --set data.source_language"
    ):
        fine_tune(run, str(data), overrides=["train.steps=2"], runs=tmp_path / "runs", device="cpu", name="bare")


def test_a_model_of_whole_words_gets_no_direction(tmp_path: Path) -> None:
    data = write_direction(tmp_path, ("en", "it"), sentences("en", "it", 60))
    model = train(
        str(data), overrides=[*WORDS, "tokenizer.kind=word"], runs=tmp_path, name="words", device="cpu"
    ).folder
    with pytest.raises(ConfigError, match="whole words .*to which no language can be added"):
        tune_on(model, tmp_path, ("en", "ru"))


def test_a_model_with_symbols_before_the_target_is_tuned_in_several_directions(run: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    from dragoman.store.saving import save_model

    stored = load_model(run)
    framing = replace(stored.files.framing, target_prefix=True)
    save_model(tmp_path / "prefixed", stored.model, stored.files._replace(framing=framing))
    data = write_directions(tmp_path / "several", {("en", "it"): 60, ("de", "it"): 60})
    settings = ("batches.batch_tokens=200", "decode.beam_size=1", "train.steps=4", "train.precision=float32")
    tuned = fine_tune(tmp_path / "prefixed", data, overrides=settings, runs=tmp_path / "runs", device="cpu").folder
    assert read_config(tuned / "best").framing.target_prefix
    corpus, tokenizer = EncodedCorpus.open(tuned / "corpus/train"), load_model(tuned).tokenizers.source
    assert corpus.source is not None
    for row, source in ((0, ">>en<<"), (len(corpus) - 1, ">>de<<")):
        begins = [tokenizer.tokens(side.row(row)[:1].tolist())[0] for side in (corpus.source, corpus.target)]
        assert begins == [source, ">>it<<"]
    translator = Translator.load(tuned, "cpu")
    assert translator.directions == stored.files.directions
    assert translator.translate(["the cat"], source_language="en", target_language="it")


def test_what_looks_like_a_tag_in_a_row_is_text(tmp_path: Path) -> None:
    rows = [(f">>de<< {source}" if number % 2 else f">>OK<< {source}", target) for number, (source, target) in
            enumerate(sentences("en", "it", 40))]  # fmt: skip
    for name, pairs in (("en-it", rows), ("en-de", sentences("en", "de", 40))):
        table = "\n".join("\t".join(pair) for pair in [name.split("-"), *pairs])
        (tmp_path / f"{name}.tsv").write_text(table + "\n", "utf-8")
    paths = [str(tmp_path / f"{name}.tsv") for name in ("en-it", "en-de")]
    settings = [*PIECES, "task=translation", "train.steps=1", "data.dev_size=2", "data.test_size=0"]
    folder = train(paths, overrides=settings, runs=tmp_path / "runs", device="cpu").folder
    corpus, tokenizer = EncodedCorpus.open(folder / "corpus/train"), load_model(folder).tokenizers.source
    assert corpus.source is not None
    read = tokenizer.tokens(corpus.source.row(0).tolist())
    assert read[0] == ">>it<<" and "".join(read[1:]).startswith(("▁>>de<<", "▁>>OK<<"))
