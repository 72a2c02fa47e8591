"""What a model keeps of the text of its run: how it is written, and how likely its translations are."""

import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.files import new_folder
from dragoman.inference.translation import doubtful_below
from dragoman.inference.translator import translate
from dragoman.run_folder import RunFolder
from dragoman.serialization import read_object, write_json
from dragoman.store.description import GENERATION, read_adapter, read_config, read_conventions, verify_model
from dragoman.store.manifest import write_manifest
from dragoman.text.conventions import PairConventions
from dragoman.text.prepared import evenly_spaced, read_split
from dragoman.text.report import read_report

SAMPLE = 300_000
"""Training pairs that tell how a text is written, spread over all of them."""
TRANSLATED = 400
"""Dev sentences that each validation translates, evenly spread over the dev set."""


def learn_conventions(data: Path) -> PairConventions:
    """Those of the training text in a folder of prepared data."""
    report = read_report(data)

    def pairs() -> Iterator[tuple[str, str]]:
        return evenly_spaced(read_split(data, "train"), report.splits["train"].pairs, SAMPLE)

    return PairConventions.learn(pairs()).counted(pairs(), report.source_language)


def complete(run: RunFolder) -> None:
    """Gives the models of a finished translation run what an earlier version did not: the conventions of its text, and
    to the best one, how likely its translations of the dev set are.
    """
    for folder in (run.best, run.final):
        if not folder.is_dir() or read_config(folder).languages is None or read_adapter(folder) is not None:
            continue
        if read_conventions(folder) is None and run.split("train").is_file():
            with _changed(folder) as aside:
                learn_conventions(run.data).save(aside)
        if (
            folder == run.best
            and "doubtful_below" not in read_object(folder / GENERATION)
            and run.split("dev").is_file()
        ):
            pairs = read_report(run.data).splits["dev"].pairs
            sources = [source for source, _ in evenly_spaced(read_split(run.data, "dev"), pairs, TRANSLATED)]
            least = doubtful_below(translate(folder, sources, progress=False, beam_size=1))
            if least is not None:
                with _changed(folder) as aside:
                    write_json(aside / GENERATION, {**read_object(folder / GENERATION), "doubtful_below": least})


@contextmanager
def _changed(folder: Path) -> Generator[Path]:
    """A copy of a model folder, to be changed, which then takes its place."""
    verify_model(folder)
    with new_folder(folder, replace=True) as aside:
        shutil.copytree(folder, aside, dirs_exist_ok=True)
        yield aside
        write_manifest(aside)
