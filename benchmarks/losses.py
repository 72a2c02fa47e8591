"""Does the flag `lost` say what a translation lacks of its source?

    python benchmarks/losses.py CONVENTIONS LANGUAGES --clean SOURCES REFERENCES … [--out FILE]

Needs no model, only its `conventions.json` and two languages such as `en-it`. *Clean*: the reference of each distinct
pair serves as the translation; a flag there is a false alarm, or the pair itself differs. *Planted*: a thing of each
kind is put into a carrier sentence, and the same sentence in capitals serves as its translation: once with the thing,
which must not be flagged; and without it, with one other character, and with one of two such things, which must be.
All is checked as for a model without placeholders, because with placeholders nothing of this is lost.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from command_line import command_line, figures_file, markdown
from dragoman.surface.forms import Forms

from dragoman.surface.conventions import PairConventions
from dragoman.surface.placeholders import PLACEHOLDERS
from dragoman.surface.protection import missing
from dragoman.system import machine

CARRIERS = ("the men saw {} in the old house", "we asked for {} and went home", "is {} here or not")
PLANTED = {
    "placeholder": (
        ":name { $x } { -brand } $t(a.key) @:a.key %name <%=x%> [b] [X6X] [[Name]] <<name>> ${$x} #{count} %{total}"
        " <:smile:1> <@123456> <#987> :tada: :+1: %d %1$@ %2$#@cats@ __name__ {{x}} $HOME \\\\server\\share"
    )
    .replace("{ ", "{·")
    .replace(" }", "·}")
    .split(),
    "identifier": "ISO-9001 A320-200 S00120126FR-3 P2C.WA COVID-19 a1b2c3d B2B MP3 H2O v2.3.1".split(),
    "number": "17 43 250 1,000 7:30 3.5 1/2 2024 21:19 192.168.0.1".split(),
    "small number": "3 4 7 8 12 15".split(),
    "with a sign": "$20 €30 20€ 5% £7 25°C #1234 $3.50".split(),
    "sign": "& # * + @ =".split(),
    "emoji": "🐶 ☕ 👩‍👩‍👧 🇮🇹 ❤️ 👍🏽 1️⃣".split(),
    "name": "Nakamura Çağlar Jean-Luc LibreOffice·7.3".split(),
}
WORDS_OF_CARRIERS = {word for carrier in CARRIERS for word in re.findall(r"\w+", carrier)}


class Case(NamedTuple):
    kind: str
    source: str
    translation: str
    is_lost: bool


def cases() -> Iterator[Case]:
    for kind, things in PLANTED.items():
        for number, thing in enumerate(one.replace("·", " ") for one in things):
            carrier = CARRIERS[number % len(CARRIERS)].capitalize()
            source = f"{carrier.format(thing)}."
            yield Case(kind, source, f"{carrier.upper().replace('{}', thing)}.", False)
            yield Case(kind, source, f"{carrier.upper().replace('{}', '')}.", True)
            yield Case(kind, source, f"{carrier.upper().replace('{}', altered(thing))}.", True)
            if kind in ("name", "identifier"):
                continue  # a pronoun may replace the second one
            twice = f"{carrier.format(thing)} with {thing} in it."
            yield Case(kind, twice, f"{carrier.upper().replace('{}', thing)} WITH IT.", True)


def altered(thing: str) -> str:
    """A thing with one other character: the first letter or digit, or else the first character."""
    place = next((place for place, one in enumerate(thing) if one.isalnum()), 0)
    other = {"q": "z"}.get(thing[place], "q") if not thing[place].isdigit() else str((int(thing[place]) + 4) % 10)
    return thing[:place] + other + thing[place + 1 :]


class Checker:
    def __init__(self, conventions: PairConventions, languages: tuple[str, str], placeholders: bool) -> None:
        kept = "".join(PLACEHOLDERS) if placeholders else ""
        self.forms, self.target = Forms(conventions.source, conventions.target, languages, kept), languages[1]

    def lost(self, source: str, translation: str) -> list[str]:
        form = self.forms.form(source)
        return missing(translation, form.kept, form.plain, self.target) if form else []


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("conventions", type=Path, help="a folder with conventions.json")
    parser.add_argument("languages")
    parser.add_argument("--clean", nargs="+", type=Path, default=[], help="files of sources and of references in turn")
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args(arguments)
    conventions = PairConventions.load(options.conventions)
    assert conventions is not None, f"{options.conventions} holds no conventions.json"
    source, target = options.languages.split("-")
    checker = Checker(conventions, (source, target), placeholders=False)
    figures: dict[str, dict[str, object]] = {}
    for sources, references in zip(options.clean[::2], options.clean[1::2], strict=True):
        both = (path.read_text(encoding="utf-8").splitlines() for path in (sources, references))
        pairs = [*dict.fromkeys(zip(*both, strict=True))]
        alarms = [(one, other, lost) for one, other in pairs if (lost := checker.lost(one, other))]
        figures[str(sources)] = {"pairs": len(pairs), "flagged": len(alarms), "examples": alarms[:50]}
    rows = []
    plants = Checker(conventions, (source, source), placeholders=False)
    for kind in PLANTED:
        of_kind = [case for case in cases() if case.kind == kind]
        judged = [(case, bool(plants.lost(case.source, case.translation))) for case in of_kind]
        wrong = [case[1:] for case, is_flagged in judged if is_flagged != case.is_lost]
        planted = [is_flagged for case, is_flagged in judged if case.is_lost]
        clean = [is_flagged for case, is_flagged in judged if not case.is_lost]
        figures[kind] = {"planted": len(planted), "flagged": sum(planted), "false": sum(clean), "wrong": wrong}
        rows.append([kind, f"{sum(planted)} of {len(planted)}", f"{sum(clean)} of {len(clean)}"])
    print(markdown(["kind", "planted losses flagged", "flagged where all is there"], rows))
    for name, found in figures.items():
        if "pairs" in found:
            print(f"{name}: {found['flagged']} of {found['pairs']} pairs flagged")
    if options.out:
        facts = {"command": command_line(), "machine": machine(), "figures": figures}
        options.out.write_text(json.dumps(facts, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
