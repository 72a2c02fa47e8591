"""Settings of the text that is prepared, how it is read, and what is held out of it: `[data]` of a recipe."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from dragoman.config import Settings, flatten
from dragoman.directions import Direction, direction_in
from dragoman.formats.addresses import HUB, Addresses
from dragoman.formats.lines import EncodingErrors
from dragoman.formats.registry import DATA_FORMATS, DATA_SUFFIXES, Format, listed
from dragoman.languages import LanguageTag
from dragoman.text.checks import CheckSettings
from dragoman.text.columns import Naming

PHRASEBOOK = "phrasebook"


def _named(column: Any) -> Any:
    return str(column) if isinstance(column, int) and not isinstance(column, bool) else column


Column = Annotated[str, Field(min_length=1), BeforeValidator(_named)]
"""A column: its name, its key (translation.en for a nested one) or its number from 1."""


class ReadingSettings(Settings):
    """Settings by which parallel text is read."""

    header: bool | None = None
    """If true, the first row of a TSV or CSV file names the columns; left out, it is judged by its words."""
    quoted: bool | None = None
    """If true, quotes around a cell of a TSV or CSV file belong to the format, as pandas writes them, and not to the
    text; left out, they do in CSV, and in TSV it is judged by their places."""
    source_language: LanguageTag | None = None
    """Language code of the source, as in en; left out, it comes from column or file names."""
    target_language: LanguageTag | None = None
    """Language code of the target, as in it; left out, it comes from column or file names."""
    source_column: Column | None = None
    """Column of the source: its name, its key (translation.en for a nested one) or its number from 1; left out, it is
    guessed."""
    target_column: Column | None = None
    """Column of the target, named likewise."""
    format: Format | None = Field(
        default=None,
        description=f"Format of the text: {listed(DATA_FORMATS)}; left out, it follows from the name.",
    )
    encoding_errors: EncodingErrors = "strict"
    """Text that is not valid UTF-8: strict stops and names the place; replace puts U+FFFD, and counts."""

    @property
    def naming(self) -> Naming:
        languages = self.source_language, self.target_language
        return Naming(self.source_column, self.target_column, *languages, self.header, self.quoted)


def reading_overrides(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split overrides `dotted.key=value` into those about reading text, which begin with `data.`, and the others."""
    reading = [text for text in overrides if text.strip().startswith("data.")]
    return reading, [text for text in overrides if text not in reading]


class DataSettings(ReadingSettings):
    """Settings of the text, how it is read, and what is held out of it."""

    path: Addresses = Field(
        default=PHRASEBOOK,
        description=f"The training text: a file ({DATA_SUFFIXES}, also .gz); two aligned files, as in "
        '["a.en", "a.it"], or what their names begin with; a pattern for many files, as in "parts/*.tsv" or '
        '["parts/*.en", "parts/*.it"]; a folder with train.* in it, or of prepared data; hub:NAME:CONFIG; '
        'phrasebook, which is built in; or a list of several texts, as in [["a.en", "a.it"], "en-de.tmx"].',
    )
    directions: str | None = None
    """Directions to take of the text, as in en-it,en-de; left out, all that it names."""
    both_directions: bool = False
    """If true, each text is read in its other direction too."""
    folder: str | None = None
    """Folder of the files of path, dev_path and test_path; left out, their names are used as they are."""
    origin: str | None = None
    """Source of the text, for those who do not have it."""
    dev_path: Addresses | None = None
    """A separate set for validation, given like path; left out, one is split off."""
    test_path: Addresses | None = None
    """A separate test set, given like path; left out, one is split off."""
    dev_size: int | None = Field(default=None, ge=0)
    """Pairs or labelled texts split off for validation; left out, 5 % of the pairs or 10 % of the texts, 2,000 at
    most."""
    test_size: int | None = Field(default=None, ge=0)
    """Pairs or labelled texts split off for the test, likewise."""
    seed: int = Field(default=1, ge=0)
    """Decides which pairs or texts are split off."""
    exchanged: Literal["keep", "drop", "swap"] | None = None
    """Training rows whose sides look exchanged: keep counts them, drop leaves them out, swap exchanges their sides;
    left out, they are kept."""
    checks: CheckSettings = CheckSettings()
    """Rules by which pairs are dropped."""
    temperature: float = Field(default=5.0, ge=1)
    """Draw from several directions in an epoch by the roots of this degree of their amounts, so that a direction with
    little text is learned too; 1 takes all pairs as they are (Arivazhagan et al. 2019, who choose 5)."""
    text_column: Column | None = None
    """Column of the text that has a label, or of the words that have one each: its name, its key or its number from 1;
    left out, it is guessed. Several, as in question+answer, are joined by ` ||| `."""
    label_column: Column | None = None
    """Column of the label, named likewise; in CoNLL-U form, lemma, upos, xpos or deprel."""
    label_depth: int | None = Field(default=None, ge=1)
    """Parts of a label such as NUM:dist that count, from the left; left out, all."""

    @property
    def joined_columns(self) -> list[str]:
        """The columns whose texts are joined, as in question+answer; none if there is one."""
        names = (self.text_column or "").split("+")
        return names if len(names) > 1 and all(names) else []

    @property
    def label_naming(self) -> Naming:
        """Facts about the columns of labelled text."""
        text = next(iter(self.joined_columns), self.text_column)
        return Naming(text, self.label_column, header=self.header, quoted=self.quoted, roles=("text", "label"))

    @field_validator("path", "dev_path", "test_path", mode="before")
    @classmethod
    def _one_is_no_pair(cls, address: Any) -> Any:
        if not isinstance(address, list | tuple):
            return address
        parts = tuple(tuple(part) if isinstance(part, list) else part for part in address)
        if not parts:
            raise ValueError("the list names no text")
        return parts[0] if len(parts) == 1 else parts

    @model_validator(mode="after")
    def _held_out_one_way(self) -> "DataSettings":
        for name in ("dev", "test"):
            if getattr(self, f"{name}_path") is not None and getattr(self, f"{name}_size") is not None:
                raise ValueError(f"{name}_path gives a set and {name}_size splits one off; keep one of the two")
        return self

    @field_validator("directions", mode="before")
    @classmethod
    def _are_directions(cls, directions: Any) -> Any:
        if not isinstance(directions, str | list):
            return directions
        names = directions.split(",") if isinstance(directions, str) else list(map(str, directions))
        for name in names:
            if direction_in(name) is None:
                raise ValueError(f"{name!r} names no two languages by their codes, as en-it does")
        return ",".join(names) or None

    @property
    def wanted(self) -> list[Direction]:
        """The directions to take; none if all."""
        named = map(direction_in, (self.directions or "").split(","))
        return list(dict.fromkeys(filter(None, named)))

    def inside(self, address: Any) -> Any:
        """Return an address inside `folder`, unless it is of the hub or absolute."""
        if self.folder is None or address == PHRASEBOOK:
            return address
        if isinstance(address, str):
            return address if address.startswith(HUB) else str(Path(self.folder) / address)
        return tuple(map(self.inside, address))


class SyntheticSettings(Settings):
    """The `[synthetic]` table: more pairs, whose sources a model wrote, as `back-translate` makes them."""

    path: str | tuple[str, ...]
    """The pairs: a file of any format of parallel text; several, as in ["one.jsonl", "two.jsonl"], also in several
    directions, which their columns name."""
    share: float = Field(default=0.5, gt=0, lt=1)
    """Share of these pairs in an epoch, if there are enough. Their sources begin with a symbol that marks them (Caswell
    et al. 2019)."""


PLACES = {"folder", "origin", "path", "dev_path", "test_path", "directions", "both_directions"}
"""Settings that say which text is read; the text itself decides the result."""


def lasting(settings: DataSettings) -> dict[str, Any]:
    """Return the settings that decide the result: all except the places of the text and the share of a direction."""
    return flatten(settings.model_dump(mode="json", exclude={*PLACES, "temperature"}))


def name_on_card(settings: DataSettings, name: str) -> str:
    """Return the name of the text on a model card, which travels with the model: its files without their folders."""
    if settings.path == PHRASEBOOK:
        return "the built-in phrasebook"
    return name if name.startswith(HUB) else Path(name).name
