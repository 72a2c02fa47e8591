"""The symbols around a pair are one value: another one goes through batches, training, translating and scoring."""

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import fresh_state, objective, run_steps, train_settings
from small_runs import write_corpus

import dragoman
from dragoman.data.batching import Batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_corpus
from dragoman.errors import CheckpointError
from dragoman.inference.options import SearchOptions
from dragoman.inference.translator import Translator
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import EncoderDecoder, build_model
from dragoman.run_folder import RunFolder
from dragoman.runs.recipe import Recipe, StartSettings
from dragoman.runs.translation import TranslationTask
from dragoman.store.description import Languages, ModelFiles, StoredModel, read_config
from dragoman.store.folder import load_model
from dragoman.store.saving import save_model
from dragoman.store.tensors import named_weights
from dragoman.text.prepare import prepare_data
from dragoman.text.settings import DataSettings
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, END, PADDING, START, Framing
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

MARIAN = Framing(source_before=(), target_start=PADDING)
PAIRS = [
    ("the red cat sees the old black dog", "il gatto rosso vede il vecchio cane nero"),
    ("where is the station", "dove sta la stazione"),
    ("I drink water and you eat white bread", "io bevo acqua e tu mangi pane bianco"),
    ("good morning Anna", "buongiorno Anna"),
]


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    return learn_tokenizers(lambda: PAIRS, TokenizerSettings(kind="word", minimum_frequency=1))


@pytest.fixture(scope="module")
def corpus(tokenizers: Tokenizers, tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    return encode_corpus(PAIRS, tokenizers, tmp_path_factory.mktemp("framing") / "corpus")


@pytest.mark.parametrize("framing", [DEFAULT_FRAMING, MARIAN, Framing((7, START), (END, 8), END, END)])
def test_a_batch_holds_the_pairs_in_their_framing(corpus: EncodedCorpus, framing: Framing) -> None:
    batches = Batches(corpus, framing=framing)
    batch = batches.batch(np.arange(len(PAIRS)))
    pairs = [(source.tolist(), target.tolist()) for source, target in map(corpus.pair, range(len(PAIRS)))]
    assert batch.source is not None and batch.source_lengths is not None
    assert batch.source.tolist() == [token for source, _ in pairs for token in framing.source(source)]
    assert batch.source_lengths.tolist() == [len(source) + framing.source_symbols for source, _ in pairs]
    assert batch.target.tolist() == [token for _, target in pairs for token in framing.target(target)]
    assert batch.labels.tolist() == [token for _, target in pairs for token in framing.labels(target)]
    assert batch.target_lengths.tolist() == [len(target) + framing.target_symbols for _, target in pairs]
    assert batches.tokens == batch.size.tokens == batches.size_of(np.arange(len(PAIRS))).tokens


def test_the_symbols_do_not_count_towards_the_longest_sentence(corpus: EncodedCorpus) -> None:
    for framing in (DEFAULT_FRAMING, MARIAN):
        assert Batches(corpus, sentence_tokens=8, framing=framing).left_out == 0
        assert Batches(corpus, sentence_tokens=7, framing=framing).left_out == 2


@pytest.fixture(scope="module")
def marian(corpus: EncodedCorpus, tokenizers: Tokenizers) -> StoredModel:
    """A model that has learnt the pairs in Marian's framing."""
    sizes = {"d_model": 32, "heads": 4, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    vocabularies = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    config = ModelConfig.model_validate(
        {"preset": "modern", "positions": "learned", "max_positions": 12, **sizes, **vocabularies}
    )
    model = build_model(config, seed=1)
    assert isinstance(model, EncoderDecoder)
    settings = train_settings(steps=80, label_smoothing=0.0)
    run_steps(
        model, objective(Batches(corpus, seed=1, framing=MARIAN), settings), settings, fresh_state(model, settings)
    )

    files = ModelFiles(tokenizers, Languages("en", "it"), framing=MARIAN)
    return StoredModel(model.eval(), config, files, Path("marian"))


@pytest.fixture(scope="module")
def folder(marian: StoredModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of that model."""
    folder = tmp_path_factory.mktemp("marian") / "model"
    save_model(folder, marian.model, marian.files)
    return folder


def in_framing(stored: StoredModel, framing: Framing) -> StoredModel:
    return StoredModel(stored.model, stored.config, stored.files._replace(framing=framing), stored.folder)


def test_a_model_in_marians_framing_learns_translates_and_scores(marian: StoredModel) -> None:
    sources, targets = zip(*PAIRS, strict=True)
    translator = Translator(marian, "cpu", "float32")
    for options in (SearchOptions(beam_size=1), SearchOptions(beam_size=3)):
        found = translator.translate(sources, options)
        assert [each.text for each in found] == list(targets)
        for each, scored in zip(found, translator.score(sources, targets, options), strict=True):
            assert scored.tokens == each.tokens
            assert scored.log_prob == pytest.approx(each.log_prob, abs=1e-4)
    in_another = Translator(in_framing(marian, DEFAULT_FRAMING), "cpu", "float32").score(sources, targets)
    assert all(wrong.log_prob < right.log_prob for wrong, right in zip(in_another, found, strict=True))


def test_a_folder_keeps_the_framing_of_its_model(marian: StoredModel, folder: Path) -> None:
    sources, targets = zip(*PAIRS, strict=True)
    by_hand, loaded = Translator(marian, "cpu", "float32"), Translator.load(folder, "cpu", "float32")
    assert loaded.framing == MARIAN
    assert loaded.translate(sources) == by_hand.translate(sources)
    assert loaded.score(sources, targets) == by_hand.score(sources, targets)


def test_the_usual_framing_is_not_written(marian: StoredModel, tmp_path: Path) -> None:
    save_model(tmp_path / "model", marian.model, in_framing(marian, DEFAULT_FRAMING).files)
    assert json.loads((tmp_path / "model" / "config.json").read_text()).keys() == {"format", "languages", "model"}
    assert read_config(tmp_path / "model").framing == DEFAULT_FRAMING


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target_start": 10_000}, r"framing names token 10000 of the target vocabulary, which has \d+ tokens"),
        ({"source_after": [3, -1]}, "framing names token -1 of the source vocabulary"),
        ({"target_end": "3"}, "framing.target_end should be a valid integer"),
        ({"target_begin": 3}, "unknown setting framing.target_begin"),
    ],
)
def test_an_impossible_framing_in_a_folder_is_refused(
    change: dict[str, Any], message: str, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "framing": {**facts["framing"], **change}}))
    with pytest.raises(CheckpointError, match=rf"config.json is damaged: {message}"):
        read_config(tmp_path / "model")


def test_fine_tuning_keeps_the_framing_of_the_model(folder: Path, tmp_path: Path) -> None:
    start = StartSettings(model=str(folder))
    run = RunFolder(tmp_path / "run")
    write_corpus(tmp_path / "corpus.tsv", PAIRS * 5)
    data = DataSettings(path=str(tmp_path / "corpus.tsv"), dev_size=1, test_size=1)
    recipe = Recipe(start=start, data=data)
    prepare_data(recipe.data, run.data)
    encoded = TranslationTask(run, recipe).encode()
    recipe = recipe.but(model=load_model(folder).config.model_dump(), batches={"sentence_tokens": 9})
    task = encoded.with_recipe(recipe)
    batch = task.batches.batch(task.batches.epoch(0)[0])
    assert batch.source is not None and batch.source_lengths is not None
    assert batch.target[0] == PADDING and batch.source[0] != START
    assert task.files(1, 1, 1, None).framing == MARIAN
    found = task.validate(named_weights(load_model(folder).model))
    assert found is not None and found.facts["dev_chrf"] == pytest.approx(100) and found.facts["dev_loss"] < 0.1
    shutil.move(folder, tmp_path / "moved")
    assert encoded.with_recipe(recipe).identity != task.identity, "a resumed run is refused"
    shutil.move(tmp_path / "moved", folder)


def test_positions_bound_what_is_left_beside_the_symbols(tokenizers: Tokenizers) -> None:
    vocabularies = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    config = ModelConfig.model_validate({"size": "tiny", "positions": "learned", "max_positions": 9, **vocabularies})
    stored = StoredModel(
        build_model(config, seed=1).eval(), config, ModelFiles(tokenizers, Languages("en", "it")), Path("m")
    )
    options = SearchOptions(beam_size=1, split="never")
    (source, _), *_ = PAIRS  # of eight tokens
    Translator(in_framing(stored, MARIAN), "cpu", "float32").translate([source], options)
    with pytest.raises(dragoman.Error, match="text 1 has 8 tokens, but the model is given at most 7"):
        Translator(stored, "cpu", "float32").translate([source], options)


def test_padding_is_never_seen_unless_it_frames_a_text() -> None:
    assert Framing().unused_id == PADDING
    assert Framing(source_before=(), target_start=PADDING).unused_id is None


def test_no_other_file_puts_symbols_around_a_sentence() -> None:
    package = Path(dragoman.__file__).parent
    users = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "dragoman.tokenizing.special_tokens"
        for alias in node.names
        if alias.name in ("START", "END", "PADDING")
    }
    assert not users
