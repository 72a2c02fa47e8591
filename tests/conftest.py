"""What every test stands on: one thread, fixed seeds, and the way to the real data."""

import logging
import os
from collections.abc import Iterator

# Before torch is imported, and for the processes that tests start: many small tensors gain nothing from threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from pathlib import Path

import hypothesis
import jaxtyping
import pytest
from families import Trained, trained_in

if os.environ.get("CHECK_SHAPES"):
    # `make test-all`: every annotated shape in these rooms is checked at every call, which doubles the time.
    _CHECKED = ["dragoman.model", "dragoman.decoding", "dragoman.inference.predictor"]
    jaxtyping.install_import_hook(_CHECKED, "beartype.beartype")

hypothesis.settings.register_profile("dragoman", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("dragoman")

ROOT = Path(__file__).parent.parent
ANIMALS = "gatt can top lup ors cavall asin mul polp corv".split()


@pytest.fixture(scope="session", autouse=True)
def prepared_kernels() -> None:
    """Tests compute as users do: with compiled kernels where there is a compiler."""
    from dragoman.compiled import kernels

    kernels.prepare()


@pytest.fixture(autouse=True)
def seeds() -> None:
    """Every test starts from the same random numbers, whichever tests ran before it."""
    import random

    import numpy
    import torch

    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def loudness() -> Iterator[None]:
    """A command that one test runs silences no other's log."""
    yield
    logging.getLogger("dragoman").setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the repository."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real data is absent: no folder ../shared/data beside the repository")
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Finished runs, one a family, of which a test takes a copy: `trained("translation", folder)`."""
    return trained_in(tmp_path_factory)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as training leaves it, in small: data, and a model whose weights know nothing."""
    from dragoman.model.config import ModelConfig
    from dragoman.model.transformer import build_model
    from dragoman.store.description import Languages, ModelFiles
    from dragoman.store.saving import save_model
    from dragoman.text.prepare import prepare_data
    from dragoman.text.settings import DataSettings
    from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

    folder = tmp_path_factory.mktemp("runs") / "small"
    pairs = [(f"the {one} sees the {other}", f"il {one}o vede il {other}o") for one in ANIMALS for other in ANIMALS]
    text = folder.parent / "pairs.tsv"
    text.write_text("en\tit\n" + "".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    prepare_data(DataSettings(path=str(text), dev_size=6, test_size=6), folder / "data")
    settings = TokenizerSettings.model_validate({"kind": "word", "minimum_frequency": 1})
    tokenizers = learn_tokenizers(lambda: iter(pairs), settings)
    sizes = {"size": "tiny", "d_model": 16, "heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}
    vocabularies = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    config = ModelConfig.model_validate({**sizes, **vocabularies})
    save_model(folder / "best", build_model(config, seed=3), ModelFiles(tokenizers, Languages("en", "it")))
    return folder


@pytest.fixture(scope="session")
def reverse_folder(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a model of the other direction, whose weights know nothing either."""
    from dragoman.store.description import Languages
    from dragoman.store.folder import load_model
    from dragoman.store.saving import save_model
    from dragoman.tokenizing.tokenizers import Tokenizers

    stored, folder = load_model(run_folder), tmp_path_factory.mktemp("reverse") / "it-en"
    turned = Tokenizers(stored.tokenizers.target, stored.tokenizers.source)
    save_model(folder, stored.model, stored.files._replace(tokenizers=turned, languages=Languages("it", "en")))
    return folder


@pytest.fixture(scope="session")
def models(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of every kind, whose weights know nothing, and some that are damaged."""
    from dragoman.model.adapters import adapt
    from dragoman.model.config import LoraSettings, ModelConfig
    from dragoman.model.transformer import build_model
    from dragoman.store.description import ModelFiles
    from dragoman.store.folder import describe_adapter, load_model
    from dragoman.store.saving import save_model
    from dragoman.tokenizing.labels import Labels
    from dragoman.tokenizing.tokenizers import Tokenizers

    folder = tmp_path_factory.mktemp("models")
    translator = load_model(run_folder)
    tokenizer = translator.tokenizers.source
    one = Tokenizers(tokenizer, tokenizer)

    def save(name: str, labels: Labels | None = None, family: str = "encoder", **settings: object) -> None:
        side = "target_vocabulary" if family == "language_model" else "source_vocabulary"
        sizes = {"d_model": 16, "heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1, side: tokenizer.size}
        known = {} if labels is None else {"labels": labels.size}
        config = ModelConfig.model_validate({"family": family, **sizes, **known, **settings})
        save_model(folder / name, build_model(config, seed=1), ModelFiles(one, labels=labels))

    save("classifier", Labels(task="classify", names=("bad", "good")), pooling="mean")
    save("others", Labels(task="classify", names=("no", "yes")), pooling="mean")
    save("exchanged", Labels(task="tag", names=("bad", "good")), pooling="mean")
    save("tagger", Labels(task="tag", names=("NOUN", "VERB")))
    save("filler")
    save("lm", family="language_model")
    save("cut", Labels(task="classify", names=("bad", "good")), pooling="mean")
    (folder / "cut" / "labels.json").write_text('{"format"')
    settings = LoraSettings(rank=2)
    adapt(translator.model, settings, seed=1)
    adapter = describe_adapter(run_folder, settings)
    save_model(folder / "adapter", translator.model, ModelFiles(adapter=adapter))
    save_model(folder / "moved", translator.model, ModelFiles(adapter=adapter.but(base="/nowhere/base")))
    (folder / "bert").mkdir()
    (folder / "bert" / "config.json").write_text('{"model_type": "bert"}')
    return folder
