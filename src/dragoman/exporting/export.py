"""Export of a model folder to another toolkit or a web page, after a proof that it translates equally there. Start
with `export`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from dragoman.errors import ConfigError, optional
from dragoman.evaluating.references import own_test_pairs
from dragoman.exporting import Target
from dragoman.exporting.huggingface import export_huggingface
from dragoman.exporting.proof import Proof
from dragoman.exporting.web.node import export_web
from dragoman.files import new_folder, write_file
from dragoman.run_folder import RunFolder
from dragoman.store.folder import load_model
from dragoman.store.saving import check_new_model
from dragoman.surface.conventions import UNKNOWN_CONVENTIONS
from dragoman.text.phrasebook import read_phrasebook
from dragoman.text.prepared import evenly_spaced_from_first

SENTENCES = 64
"""Number of sentences in the proof, evenly spread over the run's test set, or the phrasebook's."""


class Export(NamedTuple):
    """Exported folder with its proof and notes for the user."""

    folder: Path
    proof: Proof | None
    """None for a page, if there is no Node to run it."""
    notes: tuple[str, ...] = ()


def export(
    model: Path | str,
    target: Target,
    out: Path | str,
    texts: Sequence[str] | None = None,
    adapter: Path | str | None = None,
) -> Export:
    """Export a model to the folder `out`, for CTranslate2 or Hugging Face transformers, or as a web page.

    The export is proved first: on `texts`, else on the run's test set or the phrasebook, both toolkits give the same
    greedy translations, and the same log-probabilities up to 1e-4. Weights are written in float32; an `adapter` is
    merged with its base. A page (`web`) keeps weights as they are stored, and is proved by Node, if it is installed.

    Raises:
        ConfigError: the target does not support a part of this model, or the proof failed; the message names it.
        CheckpointError: the model folder is missing, damaged or newer.
        DataError: `out` exists already.
        MissingExtra: the target's package, needed for the proof, is not installed.
    """
    if target not in get_args(Target):
        raise ConfigError(f"a model is exported to {', '.join(get_args(Target))}, but {target!r} was given")
    out = Path(out)
    check_new_model(out)
    stored = load_model(model, adapter=adapter)
    if stored.config.family != "encoder_decoder":
        raise ConfigError(f"{model} does not translate, and only translation models can be exported")
    texts = own_texts(model) if texts is None else texts
    with new_folder(out) as aside:
        if target == "web":
            proof, notes = export_web(stored, aside, texts)
            return Export(out, proof, tuple(notes))
        # what is needed without Dragoman: a README, a script that translates, and its placeholders
        conventions, here = (stored.files.conventions or UNKNOWN_CONVENTIONS).of(*stored.languages), Path(__file__)
        write_file(aside / "placeholders.txt", conventions.learned_placeholders)
        write_file(aside / "translate.py", here.with_name("translate_script.py").read_text("utf-8"))
        guide = here.with_name("guide.md").read_text("utf-8")
        write_file(aside / "README.md", guide.format(target=target, stored=stored, source=conventions.source))
        if target == "huggingface":
            proof, notes = export_huggingface(stored, aside, texts)
            return Export(out, proof, tuple(notes))
        with optional("ctranslate2", "ctranslate2"):
            from dragoman.exporting.ctranslate2 import export_ctranslate2
        return Export(out, export_ctranslate2(stored, aside, texts))


def own_texts(model: Path | str) -> list[str]:
    """Return sentences of the run's test set, or of the phrasebook if there is none."""
    if RunFolder(model).split("test").is_file():
        sources = [source for source, _ in own_test_pairs(model)]
    else:
        sources = [sentence.source for sentence in read_phrasebook().test]
    return evenly_spaced_from_first(sources, SENTENCES)
