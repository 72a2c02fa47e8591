"""Runs that also learn from pairs whose sources a model wrote: how many, how they are marked, and what is left out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_directions import Pair, sentences, write_directions
from small_runs import SETTINGS, AtSteps, terminate, weights

from dragoman.curating.translating import back_translate
from dragoman.data.batching import Batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.data.variation import VariedBatches
from dragoman.errors import ConfigError, DataError, Interrupted
from dragoman.run_folder import RunFolder
from dragoman.runs.fine_tune import fine_tune
from dragoman.runs.recipe import read_recipe
from dragoman.runs.train import train
from dragoman.runs.translation import TranslationTask
from dragoman.store.folder import load_model
from dragoman.text.prepared import read_split
from dragoman.tokenizing.special_tokens import START

PIECES = (*(setting for setting in SETTINGS if not setting.startswith("tokenizer.")), "task=translation",
          "tokenizer.kind=bpe", "tokenizer.vocabulary_size=420")  # fmt: skip
PAIRS = sentences("en", "it", 300)
REAL, SYNTHETIC = PAIRS[:120], PAIRS[120:]


def write(path: Path, pairs: Sequence[Pair], languages: Pair = ("en", "it")) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in (languages, *pairs)), encoding="utf-8")
    return path


def train_in(folder: Path, *overrides: str, synthetic: Sequence[Pair] = SYNTHETIC, **options: Any) -> Path:
    text, more = write(folder / "text.tsv", REAL), write(folder / "more.tsv", synthetic)
    settings = {"overrides": [*PIECES, *overrides], "synthetic": str(more), **options}
    return train(str(text), runs=folder / "runs", name="run", device="cpu", **settings).folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_in(tmp_path_factory.mktemp("synthetic"))


def sources(run: Path) -> list[list[int]]:
    corpus = EncodedCorpus.open(run / "corpus/train")
    assert corpus.source is not None
    return [corpus.source.row(row).tolist() for row in range(len(corpus))]


def test_synthetic_sources_are_marked_and_are_half_of_an_epoch(run: Path) -> None:
    corpus, rows = EncodedCorpus.open(run / "corpus/train"), sources(run)
    first = 104  # 120 pairs without those of the dev and test sets
    assert len(rows) == first + 180 and all((START in row) == (number >= first) for number, row in enumerate(rows))
    assert all(row.count(START) == 1 and row[0] == START for row in rows[first:])
    epochs = [np.concatenate(list(Batches(corpus, 200, seed=1).epoch(number))) for number in range(2)]
    for epoch in epochs:
        assert [int((epoch < first).sum()), int((epoch >= first).sum())] == [104, 104]
    assert {*epochs[0].tolist()} != {*epochs[1].tolist()}, "other synthetic pairs in each epoch"
    tokenizer = load_model(run).tokenizers.source
    assert tokenizer.decode(rows[first]) == SYNTHETIC[0][0]


def test_the_share_decides_how_many_are_drawn(tmp_path: Path) -> None:
    corpus = EncodedCorpus.open(train_in(tmp_path, "synthetic.share=0.25") / "corpus/train")
    assert [pool.drawn for pool in corpus.facts.pools.values()] == [35]  # of 104 real pairs


def test_sentences_of_dev_and_test_sets_are_left_out_of_synthetic_text(tmp_path: Path) -> None:
    run = train_in(tmp_path, synthetic=[*SYNTHETIC, *((f"Oh {source}", target) for source, target in REAL)])
    rows, held_out = sources(run), [pair for name in ("dev", "test") for pair in read_split(run / "data", name)]
    tokenizer = load_model(run).tokenizers.source
    synthetic = {tokenizer.decode(row) for row in rows if row[0] == START}
    assert len(synthetic) == 180 + 104 and len(held_out) == 16
    assert synthetic.isdisjoint(f"Oh {source}" for source, _ in held_out)
    assert "pairs whose sources a model wrote" in (run / "best/README.md").read_text("utf-8")


@pytest.mark.parametrize("several", [False, True])
def test_variation_keeps_the_mark_and_joins_pairs_of_one_kind(run: Path, several: bool, tmp_path: Path) -> None:
    if several:
        data = write_directions(tmp_path / "several", {("en", "it"): 120, ("en", "de"): 120})
        more = write(tmp_path / "more.tsv", SYNTHETIC)
        settings: dict[str, Any] = {"overrides": PIECES, "synthetic": str(more), "runs": tmp_path / "runs"}
        run = train(str(data), device="cpu", **settings).folder
    recipe = read_recipe(run / "recipe.toml").but(
        variation={"joined": 0.6, "rough": 0.3, "protected": 0.3}, train={"alignment_weight": 0.0}
    )
    task = TranslationTask(RunFolder(run), recipe).encode()
    batches, tokenizer, kinds = task.batches, task.corpora.tokenizers.source, set[tuple[int, ...]]()
    assert isinstance(batches, VariedBatches)
    symbols, joined = {START, *tokenizer.languages.values()}, 0
    for item in batches.epoch(0):
        batch = batches.batch(item)
        assert batch.source is not None and batch.source_lengths is not None
        for row in batch.source.split(batch.source_lengths.tolist()):
            marks = [place for place, id_ in enumerate(row.tolist()) if id_ in symbols]
            assert marks == [*range(len(marks))], "only at the beginning"
            kinds.add(tuple(row.tolist()[1 : len(marks)]))
            joined += len(tokenizer.decode(row.tolist()).split()) > 7
    assert joined > 10
    languages = tokenizer.languages
    tags = [(languages["it"],), (languages["de"],)] if several else [()]
    assert kinds == {*tags, (START, *tags[0])}


def test_files_in_several_directions_belong_each_to_its_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = write(tmp_path / "text.tsv", REAL)
    back = write(tmp_path / "back.tsv", [(b, a) for a, b in SYNTHETIC[:9]], ("it", "en"))
    more = write(tmp_path / "more.tsv", [*SYNTHETIC, ("unlike", REAL[0][1]), *((a, REAL[5][1]) for a, _ in REAL[:1])])
    with caplog.at_level("INFO", "dragoman"):
        run = train(
            str(text), overrides=[*PIECES, "data.both_directions=true", f'synthetic.path=["{more}", "{back}"]'],
            runs=tmp_path / "runs", device="cpu",
        ).folder  # fmt: skip
    rows, tokenizer = [row for row in sources(run) if row[0] == START], load_model(run).tokenizers.source
    tags = [tokenizer.tokens(row[1:2])[0] for row in rows]
    assert tags.count(">>en<<") == 9 and tags.count(">>it<<") >= 180
    corpus = EncodedCorpus.open(run / "corpus/train")
    pools = [*corpus.facts.pools.values()]
    assert all(pool.drawn <= pool.rows for pool in pools), "none is drawn twice in an epoch"


def test_a_stopped_run_ends_in_the_same_bytes(run: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train_in(tmp_path, progress=AtSteps({6: terminate}))
    assert weights(train_in(tmp_path)) == weights(run)


def test_other_synthetic_text_is_refused_by_a_run(run: Path, tmp_path: Path) -> None:
    data = write_directions(tmp_path / "several", {("en", "it"): 60, ("it", "en"): 60})
    more = write(tmp_path / "more.tsv", sentences("en", "de", 60), ("en", "de"))
    with pytest.raises(ConfigError, match="the synthetic text goes from en to de"):
        train(str(data), overrides=[*PIECES], synthetic=str(more), runs=tmp_path / "runs", device="cpu")
    turned = write(tmp_path / "turned.tsv", [(b, a) for a, b in SYNTHETIC], ("it", "en"))
    place: dict[str, Any] = {"overrides": PIECES, "runs": tmp_path / "runs", "device": "cpu"}
    with pytest.raises(ConfigError, match="goes from it to en.* the other text is en-it; .* exchange both"):
        train(str(write(tmp_path / "text.tsv", REAL)), synthetic=str(turned), name="turned", **place)
    with pytest.raises(ConfigError, match=r"synthetic\.path"):
        train_in(run.parents[1], "synthetic.path=other.tsv")
    plain = train(str(tmp_path / "text.tsv"), name="plain", **place).folder
    with pytest.raises(ConfigError, match=r"synthetic\.path was not given"):
        train(str(tmp_path / "text.tsv"), name="plain", synthetic=str(turned), **place)
    assert not (plain / "synthetic").exists()
    with pytest.raises(ConfigError, match=r"synthetic\.path names sentence pairs"):
        train(
            str(run.parents[1] / "text.tsv"), task="language_model", synthetic="more.tsv", runs=tmp_path, device="cpu"
        )
    with pytest.raises(DataError, match=r"missing\.tsv does not exist"):
        train(str(run.parents[1] / "text.tsv"), synthetic="missing.tsv", runs=tmp_path, device="cpu")


def test_a_model_is_tuned_on_text_that_it_helped_to_make(run: Path, tmp_path: Path) -> None:
    reverse = train(
        str(write(tmp_path / "back.tsv", [(target, source) for source, target in REAL], ("it", "en"))),
        overrides=PIECES, runs=tmp_path / "runs", device="cpu",
    ).folder  # fmt: skip
    (tmp_path / "mono.it").write_text("".join(f"{target}\n" for _, target in SYNTHETIC), "utf-8")
    report = back_translate(reverse, tmp_path / "mono.it", tmp_path / "made", temperature=1.0, progress=False)
    assert report.languages == ("en", "it") and report.rows == 180
    text = write(tmp_path / "new.tsv", SYNTHETIC[:60])
    tuned = fine_tune(
        run, str(text), overrides=["train.steps=2", "data.dev_size=6", "data.test_size=6", "batches.batch_tokens=200"],
        synthetic=str(tmp_path / "made/kept.jsonl"), runs=tmp_path / "runs", device="cpu",
    )  # fmt: skip
    marked = [row for row in sources(tuned.folder) if row[0] == START]
    assert 0 < len(marked) <= report.kept
    assert load_model(tuned.folder).tokenizers.source.identity == load_model(run).tokenizers.source.identity
