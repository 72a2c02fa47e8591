"""The symbols around a pair are one value: another one goes through batches, training, translating and scoring."""

import ast
from pathlib import Path

import numpy as np
import pytest
from small import fresh_state, objective, train_settings

import dragoman
from dragoman.data.batching import Batches
from dragoman.data.corpus import EncodedCorpus, encode_corpus
from dragoman.model import EncoderDecoder, ModelConfig, build_model
from dragoman.store import Languages, ModelFiles, StoredModel
from dragoman.tokenizing.framing import DEFAULT_FRAMING, Framing
from dragoman.tokenizing.specials import END, PADDING, START
from dragoman.tokenizing.tokenizer import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers
from dragoman.training import run_steps
from dragoman.translating import SearchOptions, Translator

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
    assert batches.tokens == batch.tokens == batches.size_of(np.arange(len(PAIRS))).tokens


def test_the_symbols_do_not_count_towards_the_longest_sentence(corpus: EncodedCorpus) -> None:
    for framing in (DEFAULT_FRAMING, MARIAN):
        assert Batches(corpus, sentence_tokens=8, framing=framing).left_out == 0
        assert Batches(corpus, sentence_tokens=7, framing=framing).left_out == 2


def test_a_model_in_marians_framing_learns_translates_and_scores(corpus: EncodedCorpus, tokenizers: Tokenizers) -> None:
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

    stored = StoredModel(model.eval(), config, ModelFiles(tokenizers, Languages("en", "it")), Path("marian"))
    sources, targets = zip(*PAIRS, strict=True)
    translator = Translator(stored, "cpu", "float32", framing=MARIAN)
    for options in (SearchOptions(beam_size=1), SearchOptions(beam_size=3)):
        found = translator.translate(sources, options)
        assert [each.text for each in found] == list(targets)
        for each, scored in zip(found, translator.score(sources, targets, options), strict=True):
            assert scored.tokens == each.tokens
            assert scored.log_prob == pytest.approx(each.log_prob, abs=1e-4)
    in_another = Translator(stored, "cpu", "float32").score(sources, targets)
    assert all(wrong.log_prob < right.log_prob for wrong, right in zip(in_another, found, strict=True))


def test_positions_bound_what_is_left_beside_the_symbols(tokenizers: Tokenizers) -> None:
    vocabularies = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    config = ModelConfig.model_validate({"size": "tiny", "positions": "learned", "max_positions": 9, **vocabularies})
    stored = StoredModel(
        build_model(config, seed=1).eval(), config, ModelFiles(tokenizers, Languages("en", "it")), Path("m")
    )
    options = SearchOptions(beam_size=1, split="never")
    (source, _), *_ = PAIRS  # of eight tokens
    Translator(stored, "cpu", "float32", framing=MARIAN).translate([source], options)
    with pytest.raises(dragoman.Error, match="text 1 has 8 tokens, but the model is given at most 7"):
        Translator(stored, "cpu", "float32").translate([source], options)


def test_no_other_file_puts_symbols_around_a_sentence() -> None:
    package = Path(dragoman.__file__).parent
    users = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "dragoman.tokenizing.specials"
        for alias in node.names
        if alias.name in ("START", "END", "PADDING")
    }
    assert users == {"tokenizing/framing.py"}
