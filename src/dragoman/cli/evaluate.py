"""`dragoman evaluate`: scores of a model, or of a file of translations, with signatures and intervals."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

import dragoman
from dragoman.cli import console
from dragoman.cli.options import Format, Place, Quiet, Scoring, Search, grouped, parted, test_set
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.evaluating.evaluation import Evaluation
    from dragoman.evaluating.significance import Comparison
    from dragoman.text.reading.columns import Naming

Test = Annotated[
    str | None,
    typer.Argument(
        help="Test pairs, a .multiref.tsv, prepared data, or source sentences.", show_default="the run's own test set"
    ),
]
References = Annotated[
    list[Path] | None, typer.Argument(help="References of source sentences, a file each.", show_default=False)
]


class System(NamedTuple):
    """What is evaluated under one name: a model, a file of translations, or the runs of several seeds."""

    name: str
    members: list[Path]

    @classmethod
    def find(cls, path: Path) -> "System":
        from dragoman.commands.seeds import seed_runs

        return cls(str(path), [path] if path.exists() else seed_runs(path) or [path])


class Results(NamedTuple):
    """What was found: the evaluations of each system, one a seed, and how two systems compare."""

    systems: list[System]
    evaluations: "list[list[Evaluation]]"
    comparisons: "list[Comparison]"

    @classmethod
    def of(cls, systems: list[System], evaluations: "list[list[Evaluation]]") -> "Results":
        from dragoman.evaluating.evaluation import compare, compare_seeds

        if len(systems) < 2:
            return cls(systems, evaluations, [])
        first, second = evaluations
        if len(first) == len(second) == 1:
            found = compare(first[0], second[0])
        else:
            found = compare_seeds(first, second, (systems[0].name, systems[1].name))
        return cls(systems, evaluations, list(found.values()))

    @property
    def together(self) -> "list[Evaluation]":
        return [evaluation for group in self.evaluations for evaluation in group]

    def write(self, output: Path | None, scores: Path | None) -> None:
        """The translations of the first, and everything about the scores, to the files asked for."""
        from dragoman.evaluating.evaluation import write_scores
        from dragoman.files import write_file

        if output:
            write_file(output, "".join(f"{line}\n" for line in self.together[0].hypotheses))
        if scores:
            write_scores(scores, self.together, self.comparisons)

    def show(self, screen: console.Screen) -> None:
        from dragoman.evaluating.spread import Spread

        show(screen, self.together)
        for comparison in self.comparisons:
            console.write(str(comparison))
        for system, group in zip(self.systems, self.evaluations, strict=True):
            for metric in group[0].scores if len(group) > 1 else ():
                console.write(f"{system.name}: {Spread(group[0].test.name, [each.scores[metric] for each in group])}")


@grouped
def evaluate(
    system: Annotated[
        Path,
        typer.Argument(
            help="A model, a run, a file of translations, or the name that runs of several seeds share.",
            show_default=False,
        ),
    ],
    place: Place,
    search: Search,
    scoring: Scoring,
    test: Test = None,
    references: References = None,
    against: Annotated[Path | None, typer.Option(help="A second system: is the difference more than chance?")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the translations to this file, one a line.")] = None,
    scores: Annotated[Path | None, typer.Option(help="Write everything about the scores to this JSON file.")] = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Score translations with BLEU, chrF and TER, each with its signature and 95 % interval."""
    from dragoman.evaluating.references import read_references

    screen = console.Screen(quiet)
    systems = [System.find(path) for path in (system, against) if path is not None]
    check_paths(systems, output, scores)
    reading, others = parted(search.overrides)
    search = replace(search, overrides=others)
    naming = find_naming(systems, reading.naming, scoring.language)
    reference_set = read_references(
        test or test_set(systems[0].members[0]), references or (), naming, reading.format, reading.encoding_errors
    )

    def score(each: Path) -> "Evaluation":
        translator = place.load(each) if each.is_dir() else None
        return dragoman.evaluate(
            translator or each,
            reference_set,
            options=search.options(translator and translator.options),
            name=str(each),
            samples=scoring.samples,
            progress=screen.progress,
            **scoring.measures(),
        )

    results = Results.of(systems, [[score(path) for path in each.members] for each in systems])
    results.write(output, scores)
    if output_format == "json":
        console.write_json([evaluation.facts() for evaluation in results.together])
    else:
        results.show(screen)


def find_naming(systems: Sequence[System], given: "Naming", language: str) -> "Naming":
    """What is known of a test set's columns: from the options, and from the first system that is a model."""
    from dragoman.evaluating.direction import naming_for

    models = [path for system in systems for path in system.members if path.is_dir()]
    if models:
        return naming_for(models[0], given)
    return given._replace(target_language=given.target_language or (None if language == "und" else language))


def show(screen: console.Screen, evaluations: "Sequence[Evaluation]") -> None:
    """Scores as a table, and below it how they came about."""
    from dragoman.evaluating.evaluation import HEADINGS

    rows = [(each.system, *row) for each in evaluations for row in each.rows()]
    screen.show(console.table(["system", *HEADINGS], rows))
    for each in evaluations:
        counts = ", ".join(f"{count:,} {name}" for name, count in each.counts.items())
        console.write(f"{each.system}: {each.test}; {each.search}; {counts}")


def check_paths(systems: Sequence[System], output: Path | None, scores: Path | None) -> None:
    """Refuses, before any work is done, what is neither a model nor a file of translations, or cannot be written."""
    from dragoman.evaluating.groups import check_seeds
    from dragoman.files import check_output
    from dragoman.store import find_model

    seeds = [len(each.members) for each in systems]
    if len(systems) == 2 and max(seeds) > 1:
        check_seeds((seeds[0], seeds[1]), (systems[0].name, systems[1].name))
    if output is not None and len(systems[0].members) > 1:
        raise ConfigError(
            f"--output takes the translations of one run, not of {len(systems[0].members)}; name one of them"
        )
    for path in filter(None, (output, scores)):
        check_output(path)
    for path in (path for system in systems for path in system.members if not path.is_file()):
        find_model(path)
