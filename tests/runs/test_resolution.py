"""What nobody asked for is chosen from what is known, with a reason, and never against what was asked."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from small import parse
from small_runs import SETTINGS, write_corpus

from dragoman.config import override, reasons_in, render
from dragoman.errors import ConfigError, DataError
from dragoman.run_folder import RunFolder
from dragoman.runs.choices import (
    RecipeDraft,
    Start,
    TextFacts,
    VocabularySizes,
    choose_before_text,
    choose_by_text,
    choose_by_vocabularies,
)
from dragoman.runs.lookup import RunOptions, find_recipe, library
from dragoman.runs.recipe import Recipe
from dragoman.runs.resolving import resolve_run
from dragoman.runs.steps import choose_length, enlarge_steps, limit_of

JOINT = VocabularySizes(500, 500, joint=True)
FINISHED = Start(Recipe().model.but(source_vocabulary=500, target_vocabulary=500, d_model=256), joint=True)
TUNED = {"start": {"model": "runs/books"}}


BUILTIN = ("batches.batch_tokens", "train.steps", "train.learning_rate")
"""Settings of a built-in recipe."""


class Resolved(NamedTuple):
    recipe: Recipe
    reasons: dict[str, str]


def resolved(
    tables: dict[str, Any] | None = None,
    *,
    text: TextFacts | None = None,
    vocabularies: VocabularySizes | None = None,
    precision: tuple[str, str] = ("auto", ""),
    length: dict[str, Any] | None = None,
    **facts: Any,
) -> Resolved:
    """What a run chooses, as far as these facts go, in the order in which it learns them."""
    draft = RecipeDraft(tables or {})
    choose_before_text(draft, **facts)
    if text is not None:
        choose_by_text(draft, text)
    if vocabularies is not None:
        choose_by_vocabularies(draft, vocabularies, *precision)
    if length is not None:
        choose_length(draft, **length)
    return Resolved(draft.recipe, draft.reasons)


def with_steps(tables: dict[str, Any], steps: int, continued_from: int | None = None) -> Resolved:
    tables = {**tables, "train": {**tables.get("train", {}), "steps": steps}}
    return resolved(tables, length={"continued_from": continued_from})


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({}, "model.positions must be 'sinusoidal', but is 'rotary'"),
        ({"model": {"preset": "paper", "norm": "rms"}}, "model.norm must be 'layer', but is 'rms'"),
        ({"model": {"preset": "paper"}}, None),
        ({"task": "classify"}, None),
    ],
)
def test_a_model_that_transformers_cannot_hold_is_named_before_text_is_read(
    asked: dict[str, Any], named: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missing = {"data": {"path": str(tmp_path / "missing.tsv")}}
    with caplog.at_level("INFO", "dragoman"), pytest.raises(DataError):
        resolve_run(RunFolder(tmp_path / "run"), {**asked, **missing}, RunOptions())
    said = [message for message in caplog.messages if "transformers" in message]
    assert (not said) if named is None else (len(said) == 1 and named in said[0] and "preset=paper" in said[0])


def test_sizes_grow_with_the_data() -> None:
    sizes = []
    for pairs in (300, 29_000, 300_000, 2_000_000, 10_000_000):
        recipe, reasons = resolved(text=TextFacts(pairs))
        model, vocabulary = recipe.model, recipe.tokenizer.vocabulary_size
        sizes.append((model.size, vocabulary, model.dropout, recipe.batches.batch_tokens))
        unmeasured = ", extrapolated from fewer" if pairs > 1_000_000 else ""
        assert reasons["model.size"] == f"for {pairs:,} training pairs{unmeasured}"
    assert sizes == [
        ("tiny", 4_000, 0.2, 1_024),
        ("tiny", 8_000, 0.2, 2_048),
        ("mini", 8_000, 0.1, 2_048),
        ("small", 8_000, 0.1, 2_048),
        ("base", 32_000, 0.1, 8_192),
    ]


def test_a_head_learns_alignments_if_the_text_is_enough() -> None:
    def chosen(pairs: int, tables: dict[str, Any] | None = None, **facts: Any) -> tuple[float | None, Any]:
        recipe, _ = resolved(tables, text=TextFacts(pairs), **facts)
        return recipe.train.alignment_weight, recipe.model.alignment_head

    assert chosen(9_999) == (None, None)
    assert chosen(10_000) == (0.05, (1, 0))
    assert chosen(300, {"train": {"alignment_weight": 0.5}, "model": {"decoder_layers": 1}}) == (0.5, (0, 0))
    assert chosen(300, {"model": {"alignment_head": [2, 1]}}) == (0.05, (2, 1))
    assert chosen(10_000, {"train": {"alignment_weight": 0}}) == (0, None)
    assert chosen(10_000, TUNED, start=FINISHED) == (None, None)
    with_head = FINISHED._replace(model=FINISHED.model.but(alignment_head=(2, 1)))
    assert chosen(10_000, TUNED, start=with_head) == (None, (2, 1))
    assert chosen(300, {**TUNED, "train": {"alignment_weight": 0.5}}, start=with_head) == (0.5, (2, 1))
    with pytest.raises(ConfigError, match="but the starting model has no alignment head"):
        chosen(300, {**TUNED, "train": {"alignment_weight": 0.5}}, start=FINISHED)
    with pytest.raises(ConfigError, match="model.alignment_head would learn nothing with"):
        chosen(300, {"train": {"alignment_weight": 0}, "model": {"alignment_head": [0, 0]}})
    with pytest.raises(ConfigError, match="train.alignment_weight is about translations; leave it out"):
        resolved({"task": "language_model", "train": {"alignment_weight": 0.5}})


def test_what_was_asked_for_stays() -> None:
    asked = {"model": {"size": "big", "dropout": 0.0}, "batches": {"batch_tokens": 64}, "tokenizer": {"kind": "word"}}
    asked["variation"] = {"joined": 0.0, "joined_tokens": 50, "rough": 0.0, "protected": 0.5}
    recipe, reasons = resolved(asked, text=TextFacts(300))
    assert recipe.variation.protected == 0.5
    assert (recipe.model.size, recipe.model.dropout, recipe.batches.batch_tokens) == ("big", 0.0, 64)
    assert recipe.tokenizer.vocabulary_size is None
    assert reasons == {}


def test_what_is_not_known_leaves_choices_open() -> None:
    assert resolved() == (Recipe(), {})
    assert {key.partition(".")[0] for key in resolved(text=TextFacts(300)).reasons} == {
        "tokenizer",
        "model",
        "batches",
        "variation",
    }
    assert {key.partition(".")[0] for key in resolved(vocabularies=JOINT).reasons} == {"model", "train"}


def test_new_translations_are_varied_and_nothing_that_names_no_variation() -> None:
    """An older run's recipe has no such table, and goes on as it began."""
    for tables in ({}, TUNED):
        assert None not in resolved(tables, text=TextFacts(300)).recipe.variation.model_dump().values()
    labelled = resolved({"task": "classify"}, text=TextFacts(300)).recipe
    for unvaried in (Recipe(), labelled):
        assert {*unvaried.variation.model_dump().values()} == {None}


def test_data_without_pairs_is_refused() -> None:
    with pytest.raises(ConfigError, match="no pair is left to train on; the data report says why"):
        resolved(text=TextFacts(0))


@pytest.mark.parametrize(
    ("tables", "optimiser", "schedule"),
    [
        ({}, "muon", "wsd"),
        ({"model": {"d_model": 256}}, "adamw", "wsd"),
        ({"train": {"optimiser": "adamw"}}, "adamw", "wsd"),
        ({"train": {"schedule": "noam"}}, "adamw", "noam"),
        ({"model": {"preset": "paper"}}, "adamw", "linear"),
        (TUNED, "adamw", "linear"),
    ],
)
def test_narrow_models_take_muon_except_in_fine_tuning_and_the_papers_way(
    tables: dict[str, Any], optimiser: str, schedule: str
) -> None:
    train = resolved({"model": {"d_model": 192}, **tables}, vocabularies=JOINT).recipe.train
    assert (train.optimiser, train.schedule) == (optimiser, schedule)


def test_without_a_limit_it_is_half_an_hour_or_some_epochs_of_fine_tuning() -> None:
    assert limit_of(Recipe()) == ("minutes", 30.0, "the default")
    assert limit_of(resolved(TUNED).recipe) == ("epochs", 6.0, "the default")
    assert limit_of(resolved({"train": {"epochs": 2.0}}).recipe) == ("epochs", 2.0, "as asked for")


def test_the_rate_falls_with_the_width_and_for_fine_tuning() -> None:
    models = [{"d_model": width} for width in (256, 1024)]
    assert [with_steps({"model": each}, 1_000).recipe.train.learning_rate for each in models] == [2e-3, 1e-3]
    assert with_steps({"model": models[0], **TUNED}, 1_000).recipe.train.learning_rate == 5e-4


def test_each_optimiser_has_its_rate() -> None:
    orthogonal = with_steps({"model": {"d_model": 256}, "train": {"optimiser": "muon"}}, 1_000)
    assert orthogonal.recipe.train.learning_rate == 5.6e-3


def test_the_papers_schedule_has_the_papers_peak() -> None:
    paper = {"model": {"size": "base"}, "train": {"schedule": "noam", "warmup_steps": 4_000}}
    assert with_steps(paper, 100_000).recipe.train.learning_rate == pytest.approx(512**-0.5 * 4_000**-0.5)


@pytest.mark.parametrize("steps", [50, 1_000_000])
def test_the_reason_of_a_warmup_holds_for_long_and_short_runs(steps: int) -> None:
    assert with_steps({}, steps).reasons["train.warmup_steps"] == "a tenth of all steps, at most 4,000"


@pytest.mark.parametrize(("steps", "warmup", "every"), [(1, 1, 1), (500, 50, 50), (1_000_000, 4_000, 100_000)])
def test_warmup_and_validations_follow_from_the_steps(steps: int, warmup: int, every: int) -> None:
    train = with_steps({}, steps).recipe.train
    assert (train.warmup_steps, train.validate_every) == (warmup, every)


def test_epochs_become_steps_by_the_batches_in_them() -> None:
    asked = {"train": {"epochs": 2.5, "accumulate": 4}}
    recipe, reasons = resolved(asked, length={"batches": 103})
    train = recipe.train
    assert (train.steps, train.epochs) == (25, None), "one limit is left"
    assert reasons["train.steps"] == "2.5 epochs, as asked for"


@pytest.mark.parametrize(
    ("batches", "steps", "reason"),
    [
        (600, 600, "6 epochs, the default"),
        (60, 300, "30 epochs, the default for so little text"),
        (6, 40, "40 epochs, the default for so little text"),
    ],
)
def test_little_text_for_a_finished_model_gets_more_epochs(batches: int, steps: int, reason: str) -> None:
    draft = RecipeDraft({"start": {"model": "old"}})
    choose_length(draft, batches)
    assert (draft.recipe.train.steps, draft.reasons["train.steps"]) == (steps, reason)
    draft = RecipeDraft({"start": {"model": "old"}, "train": {"epochs": 6}})
    choose_length(draft, batches)
    assert draft.recipe.train.steps == batches


def test_minutes_become_steps_by_a_trial_and_leave_room_for_validations() -> None:
    recipe, reasons = resolved(length={"seconds": (0.5, 60.0)})
    steps = round((30 * 60 * 0.97 - 6 * 60) / 0.5)
    assert (recipe.train.steps, recipe.train.minutes) == (steps, None)
    assert reasons["train.steps"] == "30 minutes, the default, at 0.500 s a step in a trial"
    assert recipe.train.validate_every == -(-steps // 6)
    assert reasons["train.validate_every"] == "6 validations of 60 s"
    asked = {"train": {"minutes": 10.0, "validate_every": 100}}
    recipe, reasons = resolved(asked, length={"seconds": (0.5, 50.0)})
    assert (recipe.train.steps, recipe.train.validate_every) == (round(10 * 60 * 0.97 / (0.5 + 50 / 100)), 100)
    assert "train.validate_every" not in reasons


def test_new_steps_of_a_finished_run_are_counted_from_its_beginning() -> None:
    recipe, reasons = with_steps({}, 500, continued_from=2_000)
    train = recipe.train
    assert (train.steps, train.continued_from, train.warmup_steps, train.validate_every) == (2_500, 2_000, 50, 50)
    assert reasons["train.steps"] == "500 new ones: as asked for"
    assert reasons["train.warmup_steps"] == "a tenth of the new steps, at most 4,000"


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_precision_is_that_of_the_machine(precision: str) -> None:
    recipe, reasons = resolved(vocabularies=JOINT, precision=(precision, "it was measured"))
    assert (recipe.train.precision, reasons["train.precision"]) == (precision, "it was measured")


def test_prepared_data_tells_its_languages_and_rules() -> None:
    prepared = {
        "data.source_language": "en",
        "data.target_language": "und",
        "data.checks": {"max_words": 77},
    }
    data, reasons = (
        resolved({"data": {"target_language": "it"}}, prepared=prepared).recipe.data,
        "from the prepared data",
    )
    assert (data.source_language, data.target_language, data.checks.max_words) == ("en", "it", 77)
    assert resolved(prepared=prepared).reasons == {"data.source_language": reasons, "data.checks": reasons}


def test_every_process_has_a_batch_of_every_step() -> None:
    assert resolved(processes=3).recipe.train.accumulate == 3
    assert resolved({"train": {"accumulate": 4}}, processes=3).recipe.train.accumulate == 4
    with pytest.raises(ConfigError, match=r"train\.accumulate is 2, so 3 processes cannot share a step's batches"):
        resolved({"train": {"accumulate": 2}}, processes=3)


def test_vocabularies_follow_from_the_tokenizers_and_tie_what_they_share() -> None:
    for vocabularies, tied in ((JOINT, "all"), (VocabularySizes(300, 400, joint=False), "target")):
        model = resolved(vocabularies=vocabularies).recipe.model
        assert (model.source_vocabulary, model.target_vocabulary, model.tied) == (*vocabularies[:2], tied)
    with pytest.raises(ConfigError, match="source_vocabulary is 7, but the source tokenizer has 500 tokens; leave it"):
        resolved({"model": {"source_vocabulary": 7}}, vocabularies=JOINT)
    with pytest.raises(ConfigError, match="needs one joint vocabulary"):
        resolved({"model": {"tied": "all"}}, vocabularies=VocabularySizes(300, 400, joint=False))


def test_lines_of_several_sentences_are_translated_whole() -> None:
    assert resolved(text=TextFacts(29_000, 0.1)).recipe.decode.split == "sentence"
    recipe, reasons = resolved(text=TextFacts(29_000, 0.256))
    assert recipe.decode.split == "long"
    assert reasons["decode.split"] == "26% of the training lines hold several sentences"


def test_fine_tuning_keeps_the_model_and_its_vocabulary_but_for_dropout() -> None:
    recipe, reasons = resolved({**TUNED, "model": {"dropout": 0.3}}, start=FINISHED, text=TextFacts(29_000))
    assert recipe.model == FINISHED.model.but(dropout=0.3)
    assert (recipe.batches.batch_tokens, recipe.tokenizer.joint) == (1_024, True)
    assert reasons.pop("batches.batch_tokens") == "for 29,000 training pairs"
    assert {key.partition(".")[0] for key in reasons} == {"variation"}
    for group, setting in (("model", {"d_model": 64}), ("tokenizer", {"kind": "word"})):
        (name,) = setting
        with pytest.raises(ConfigError, match=rf"fine-tuning keeps the model's .*; {group}\.{name} cannot be set"):
            resolved({**TUNED, group: setting}, start=FINISHED)


@pytest.mark.parametrize("name", library())
def test_every_recipe_of_the_library_is_resolved_with_its_reasons(name: str) -> None:
    facts: dict[str, Any] = {"text": TextFacts(29_000), "vocabularies": JOINT, "precision": ("float32", "measured")}
    facts["length"] = {"batches": 9_000, "seconds": (0.3, 2.0)}
    recipe, reasons = resolved(find_recipe(name).tables, **facts)
    assert recipe.train.steps and recipe.train.learning_rate and recipe.train.validate_every
    text = render(recipe, reasons)
    assert parse(text, name, Recipe) == recipe
    assert reasons_in(text) == reasons
    again = resolved(recipe.model_dump(mode="json", exclude_none=True), **facts)
    assert again.recipe == recipe, "nothing is left to choose"


LITTLE, MUCH = TextFacts(29_000), TextFacts(9_000_000)


@pytest.mark.parametrize(
    ("tables", "builtin", "text", "sizes"),
    [
        ({}, (), LITTLE, (16_384, None)),
        ({}, (), MUCH, (16_384, None)),
        ({"train": {"steps": 500}}, (), LITTLE, (16_384, 500)),
        ({"train": {"minutes": 5}, "start": {"model": "old"}}, (), LITTLE, (8_192, None)),
        ({"batches": {"batch_tokens": 1_024}, "train": {"steps": 501}}, BUILTIN, LITTLE, (8_192, 251)),
        ({"batches": {"batch_tokens": 1_024}, "train": {"steps": 501}}, BUILTIN[:1], LITTLE, (8_192, 501)),
        ({"batches": {"batch_tokens": 1_024}, "train": {"minutes": 5}}, BUILTIN, LITTLE, (8_192, None)),
        ({"batches": {"batch_tokens": 7_000}, "train": {"steps": 500}}, BUILTIN, LITTLE, (14_000, 250)),
        # The user chose this size, or a larger one would leave too few steps, or the step is large already.
        ({"batches": {"batch_tokens": 1_024}, "train": {"steps": 500}}, BUILTIN[1:], LITTLE, (1_024, 500)),
        ({"train": {"epochs": 9}}, (), LITTLE, (2_048, None)),
        ({"start": {"model": "old"}}, (), LITTLE, (1_024, None)),
        ({"train": {"steps": 500, "accumulate": 4}}, BUILTIN, LITTLE, (2_048, 500)),
        ({"batches": {"batch_tokens": 9_000}, "train": {"steps": 500}}, BUILTIN, LITTLE, (9_000, 500)),
    ],
)
def test_a_gpu_takes_larger_steps_unless_the_user_set_their_size(
    tables: dict[str, Any], builtin: tuple[str, ...], text: TextFacts, sizes: tuple[int, int | None]
) -> None:
    draft = RecipeDraft(tables)
    choose_by_text(draft, text)
    before = draft.recipe.batches.batch_tokens
    enlarge_steps(draft, builtin)
    assert (draft.recipe.batches.batch_tokens, draft.recipe.train.steps) == sizes
    reason = f"a GPU takes {sizes[0] // before} times the tokens a step"
    if sizes[0] != before:
        assert draft.reasons["batches.batch_tokens"] == reason
    if sizes[1] is not None:
        choose_length(draft)
        is_asked = sizes[1] == tables["train"]["steps"]
        assert draft.reasons["train.steps"] == ("as asked for" if is_asked else reason)


@pytest.mark.parametrize("name", library())
def test_no_recipe_of_the_library_learns_from_fewer_tokens_on_a_gpu(name: str) -> None:
    source, tokens = find_recipe(name), list[int]()
    for builtin in (None, source.builtin):
        draft = RecipeDraft(source.tables)
        choose_by_text(draft, LITTLE)
        if builtin is not None:
            enlarge_steps(draft, builtin)
        choose_length(draft, batches=draft.recipe.train.accumulate * 9_000, seconds=(0.3, 2.0))
        assert draft.recipe.train.steps is not None and isinstance(draft.recipe.batches.batch_tokens, int)
        tokens.append(draft.recipe.train.steps * draft.recipe.batches.batch_tokens)
    assert tokens[1] >= tokens[0]


@pytest.mark.parametrize(("device", "sizes"), [("cpu", (64, 12)), ("cuda", (512, 6))])
def test_a_run_on_a_gpu_is_resolved_with_larger_steps(device: str, sizes: tuple[int, int], tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.tsv")
    tables = override({}, [*SETTINGS, f"data.path='{corpus}'", "batches.batch_tokens=64"])
    run = RunFolder(tmp_path / "run")
    task = resolve_run(run, tables, RunOptions(device=device), builtin=BUILTIN, decide=False)
    assert (task.recipe.batches.batch_tokens, task.recipe.train.steps) == sizes


@pytest.mark.parametrize(
    ("tables", "rate"),
    [
        ({"task": "classify"}, 1e-3),
        ({"task": "tag"}, 2e-3),
        ({"task": "classify", **TUNED}, 1.3e-3),
        ({"task": "tag", **TUNED}, 1.3e-3),
        (TUNED, 5e-4),
        ({**TUNED, "tuning": {"lora": {}}}, 2e-3),
    ],
)
def test_heads_adapters_and_fine_tuning_have_rates_of_their_own(tables: dict[str, Any], rate: float) -> None:
    given = {**tables, "model": {"d_model": 256}, "train": {"optimiser": "adamw"}}
    assert with_steps(given, 1_000).recipe.train.learning_rate == rate
