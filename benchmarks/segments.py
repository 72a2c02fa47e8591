"""Where does a splitter cut a sentence in two, and where does it leave two together?

    python benchmarks/segments.py [--marks FILE] [--sentencex FOLDER] [--show de] [--out results.json]

The text is real: paragraphs in ten languages from Debian's manual pages, installation guide and fortunes. `apt-get
download` fetches them into `--cache`; they are not kept here. `segments.tsv` holds forty places in each language, where
a stop and white space stand, and says whether a sentence ends there. A reader of each paragraph judged that before any
splitter was asked. 30 % of the places are easy: a long word, one stop, a capital. The others are of kinds where a
splitter may err. A place is kept as the hash of its paragraph and an offset in it, so it is also found in another
version of a package, as long as the paragraph is the same. `segments_second.tsv` marks 393 more in other paragraphs,
none of them easy (seed 2), read before today's rules were tried on them.

A *false* cut is made where no sentence ends. A *missed* one is not made where one ends. *Elsewhere* counts cuts in the
same paragraphs at no such place. `--sentencex` takes the folder of `pip install --target FOLDER sentencex`. It
runs twice: with each text's language, and with English for all. *Learnt* joins what we cut behind words that seldom
stand without a stop in the other paragraphs of the language. `--show` prints the places of a language with each
splitter's mistakes, or all places that would be drawn, unmarked, for `--show draw`.
"""

import argparse
import csv
import gzip
import hashlib
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from command_line import figures_file, markdown
from debian import CACHE, Page, fetch

from dragoman.surface.sentences import split_sentences

GUIDE = "installation-guide-amd64"
PACKAGES = {
    "cs": ("manpages-cs", GUIDE, "fortunes-cs"),
    "de": ("manpages-de", GUIDE, "fortunes-de"),
    "en": ("manpages", "manpages-dev", GUIDE, "fortunes"),
    "es": ("manpages-es", GUIDE, "fortunes-es"),
    "fr": ("manpages-fr", GUIDE),
    "hu": ("manpages-hu",),
    "it": ("manpages-it", GUIDE, "fortunes-it"),
    "nl": ("manpages-nl", GUIDE),
    "pl": ("manpages-pl", "fortunes-pl"),
    "ru": ("manpages-ru", GUIDE, "fortunes-ru"),
}
ERRORS = ("false", "missed", "elsewhere")
SEED = "1"
SHARES = {"easy": 12, "other": 6, "abbreviation": 12, "initial": 3, "number": 4, "lower": 3}
"""How many places of each kind are drawn in each language; `kind` says what they are."""

STOP = re.compile(r"""(?P<mark>[.!?…]+)(?P<closing>(?:[ \u00a0\u202f]?[»›]|["'”’“)\]])*)\s+(?=\S)""")
COMMON = {
    "cs": "je a se na v že pro nebo není být jako to", "de": "der die das und ist nicht wird ein eine zu mit",
    "en": "the of is are and this that with a to it", "es": "de la el que los se un una es por no",
    "fr": "de la le les un une des est et que pour", "hu": "a az és egy hogy nem vagy meg ez",
    "it": "di il la un una che è per non si le", "nl": "de het een van en is dat niet te voor",
    "pl": "w i nie się na jest z do to lub że", "ru": "в и не на что с для или это как",
}  # fmt: skip
"""Words that tell a language: Debian leaves paragraphs untranslated, and some fortunes are scrambled."""

# How man's macros and escapes become text.
INLINE = re.compile(r"\.\s*(?:[BI]|SM|SB|BR|RB|IR|RI|BI|IB)\s")
ALTERNATING = re.compile(r"\.\s*(?:BR|RB|IR|RI|BI|IB)\s")
UNFILLED = {".nf": ".fi", ".EX": ".EE", ".TS": ".TE", ".de": "..", ".ig": ".."}
ESCAPES = {"aq": "'", "dq": '"', "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "Fo": "«", "Fc": "»", "Bq": "„"} | {
    "em": "—", "en": "–", "co": "©", "bu": "•", "ha": "^", "ti": "~", "rs": "\\", "bq": "‚", "fo": "‹", "fc": "›"
}  # fmt: skip


class Paragraph(NamedTuple):
    language: str
    package: str
    text: str

    @property
    def key(self) -> str:
        return hashlib.blake2b(f"{self.language} {self.text}".encode(), digest_size=8).hexdigest()


class Place(NamedTuple):
    """The offset is that of the first character of what may be the next sentence."""

    paragraph: Paragraph
    offset: int
    kind: str
    token: str

    @property
    def lot(self) -> str:
        return hashlib.blake2b(f"{SEED} {self.paragraph.key} {self.offset}".encode()).hexdigest()


def paragraphs(cache: Path, language: str) -> list[Paragraph]:
    """Those of a language that are written in it, each once, in a fixed order."""
    found: dict[str, Paragraph] = {}
    for package in PACKAGES[language]:
        for text in texts(cache / package / "usr/share", package, language):
            one = Paragraph(language, package, text)
            if 40 <= len(text) <= 1500 and "\\" not in text and written_in(language, text):
                found.setdefault(one.key, one)
    return list(found.values())


def written_in(language: str, text: str) -> bool:
    words = Counter(re.findall(r"\w+", text.casefold()))
    own, english = (sum(words[word] for word in COMMON[each].split()) for each in (language, "en"))
    return own > 0 and own >= english


def texts(share: Path, package: str, language: str) -> Iterator[str]:
    if package.startswith("manpages"):
        folder = share / "man" if language == "en" else share / "man" / language
        for path in sorted(folder.glob("man?/*.gz")):
            yield from manual_page(gzip.decompress(path.read_bytes()).decode(errors="replace"))
    elif package == GUIDE:
        for path in sorted((share / "doc" / GUIDE / language).glob("*.html")):
            page = Page()
            page.feed(path.read_text(errors="replace"))
            yield from (paragraph for _, paragraph in page.paragraphs)
    else:
        for path in sorted((share / "games/fortunes").rglob("*")):
            if path.is_file() and not path.is_symlink() and path.suffix not in (".dat", ".u8"):
                yield from fortunes(path.read_text(errors="replace"))


def manual_page(page: str) -> Iterator[str]:
    """The filled paragraphs of a page in man's macros."""
    lines: list[str] = []
    closing = ""
    tag_follows = False
    for line in [*page.splitlines(), ".PP"]:
        macro = line[:3].rstrip()
        if closing:
            closing = "" if macro == closing else closing
        elif INLINE.match(line):
            words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', unescaped(line))[1:]]
            lines.append(("" if ALTERNATING.match(line) else " ").join(words))
        elif line.startswith((".UE", ".ME")):
            lines[-1:] = ["".join(lines[-1:]) + line[3:].strip()]
        elif not line.startswith((".", "'")):
            lines.append(unescaped(line))
        elif not line.startswith(('.\\"', "'\\\"")):
            yield " ".join(" ".join(lines).split(" ")).strip()
            lines = []
            closing = UNFILLED.get(macro, "")
            tag_follows = macro == ".TP"
            continue
        if tag_follows:
            lines, tag_follows = [], False


def unescaped(line: str) -> str:
    line = re.sub(r"\\f(?:\[\w*\]|\(..|.)|\\s[-+]?\d|\\[&/,|^%c:]|\\\".*", "", line)
    line = re.sub(r"\\\[(\w\w)\]|\\\((..)", lambda match: ESCAPES.get(match[1] or match[2], "\\"), line)
    return line.replace("\\-", "-").replace("\\ ", " ").replace("\\~", "\u00a0").replace("\\'", "'")


def fortunes(file: str) -> Iterator[str]:
    """Paragraphs whose lines are as long as running prose's, without dialogues, verses and signatures."""
    for paragraph in re.split(r"\n%\n|\n\s*\n|\n\s*--", file):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        if lines and all(len(line) > 50 for line in lines[:-1]) and not re.search(r"^[#>\d\[<]|<@?\w+>", lines[0]):
            yield re.sub(r"[ \t]+", " ", " ".join(lines))


def places(paragraph: Paragraph, abbreviations: frozenset[str] = frozenset(), first: int = 8) -> Iterator[Place]:
    """Those behind the first characters, which may number an item of a list."""
    text = paragraph.text
    for match in STOP.finditer(text, first):
        token = token_before(text, match)
        yield Place(paragraph, match.end(), kind(token, match, text[match.end() :], abbreviations), token.casefold())


def token_before(text: str, match: re.Match[str]) -> str:
    before = text[max(0, match.start() - 60) : match.start()].split()
    return re.split(r"[(\[{\"'„“”«‘‚›‹»*–—/-]", before[-1])[-1] if before else ""


def likely_abbreviations(found: Iterable[Paragraph]) -> frozenset[str]:
    """Short tokens whose stop often stands before a small letter or a number."""
    stops: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for paragraph in found:
        for match in STOP.finditer(paragraph.text):
            token = token_before(paragraph.text, match).casefold()
            if match["mark"] == "." and not match["closing"] and len(token) < 8 and token.replace(".", "").isalpha():
                following = paragraph.text[match.end()]
                stops[token] += 1
                inside[token] += following.islower() or following.isdigit()
    return frozenset(token for token, count in inside.items() if count > 1 and count > stops[token] / 5)


def kind(token: str, match: re.Match[str], rest: str, abbreviations: frozenset[str]) -> str:
    """Easy: a word of over four letters, one stop, a capital. Lower: a small letter follows. Initial: one letter.

    Number: digits or a Roman number. Abbreviation: inner stops, or one of the likely ones. Other: what is left, as
    short words, question marks, dots in a row, brackets and quotes.
    """
    following = rest.lstrip("([{\"'„“”«‘‚›‹»*-–—¿¡ \u00a0")[:1]
    if following.islower():
        return "lower"
    if match["mark"] != "." or match["closing"]:
        return "other"
    if re.fullmatch(r"\d{1,2}|[IVX]{2,}|[VX]", token):
        return "number"
    if len(token) == 1 and token.isalpha():
        return "initial"
    if token.casefold() in abbreviations or re.fullmatch(r"(?:[^\W\d]{1,3}\.)+[^\W\d]{1,3}", token):
        return "abbreviation"
    return "easy" if token.isalpha() and len(token) > 4 and following.isupper() else "other"


def draw(found: Sequence[Paragraph]) -> list[Place]:
    """The same places each time, one of a paragraph: tokens in turn, packages in turn, then by lot."""
    abbreviations = likely_abbreviations(found)
    lots = sorted((place for one in found for place in places(one, abbreviations)), key=lambda place: place.lot)
    drawn: list[Place] = []
    aim = 0
    for wanted, share in SHARES.items():
        of_kind = [place for place in lots if place.kind == wanted]
        aim += share  # what one kind lacks, the next makes up for
        while len(drawn) < aim:
            packages = Counter(place.paragraph.package for place in drawn if place.kind == wanted)
            tokens = Counter(place.token for place in drawn)
            used = {place.paragraph for place in drawn}
            free = [place for place in of_kind if place.paragraph not in used]
            if not free:
                break
            drawn.append(min(free, key=lambda one: (tokens[one.token], packages[one.paragraph.package], one.lot)))
    return drawn


def read_marks(path: Path) -> dict[str, dict[int, bool]]:
    """By the keys of paragraphs: the offsets of places, and whether a sentence ends there."""
    marks: dict[str, dict[int, bool]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            marks.setdefault(row["paragraph"], {})[int(row["offset"])] = row["end"] == "1"
    return marks


def cuts(text: str, pieces: Iterable[str]) -> set[int]:
    """Where pieces begin that are not the first, behind white space whichever piece holds that."""
    ends = list(itertools.accumulate(map(len, pieces)))
    if ends and ends[-1] != len(text):
        raise ValueError("a splitter lost text")
    return {len(text) - len(text[end:].lstrip()) for end in ends} - {len(text)}


def learnt_abbreviations(found: Iterable[Paragraph]) -> frozenset[str]:
    """Words that seldom stand without a stop, or at the end of a row."""
    bare, inside, last = Counter[str](), Counter[str](), Counter[str]()
    for paragraph in found:
        words = paragraph.text.split()
        for word in words:
            stem = word.lstrip("([{\"'„“”«‘").casefold()
            (inside if stem.endswith(".") else bare)[stem.rstrip(".,;:)")] += 1
        if words[-1].endswith("."):
            last[words[-1].casefold().rstrip(".")] += 1
    return frozenset(
        word for word, count in inside.items() if count > 4 and bare[word] < count / 2 and last[word] < count / 5
    )


def join_after(pieces: Iterable[str], abbreviations: frozenset[str]) -> list[str]:
    joined: list[str] = []
    for piece in pieces:
        before = joined[-1].rstrip() if joined else ""
        last = before.split()[-1].lstrip("([{\"'„“”«‘").casefold() if before else ""
        if last.endswith(".") and last.rstrip(".") in abbreviations:
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


def splitters(folder: Path | None, learnt: dict[str, frozenset[str]]) -> dict[str, Callable[[str, str], list[str]]]:
    """By name, what cuts a text of a language."""
    found: dict[str, Callable[[str, str], list[str]]] = {
        "Dragoman": lambda language, text: split_sentences(text),
        "Dragoman + learnt": lambda language, text: join_after(split_sentences(text), learnt[language]),
    }
    if folder:
        sys.path.append(str(folder))
        import sentencex  # pyright: ignore[reportMissingImports]

        found["sentencex"] = sentencex.segment
        found["sentencex as English"] = lambda language, text: sentencex.segment("en", text)
    return found


def excerpt(text: str, offset: int) -> str:
    return f"{text[max(0, offset - 110) : offset]}⟦⟧{text[offset : offset + 70]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--marks", type=Path, default=Path(__file__).with_name("segments.tsv"))
    parser.add_argument("--sentencex", type=Path, metavar="FOLDER", help="where that library is installed")
    parser.add_argument("--show", choices=[*PACKAGES, "draw"], help="print the places where a splitter errs")
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    fetch(options.cache, (package for packages in PACKAGES.values() for package in packages))
    found = {language: paragraphs(options.cache, language) for language in PACKAGES}
    if options.show == "draw":
        for language, of_language in found.items():
            for number, place in enumerate(draw(of_language)):
                print(f"{language}{number:02} {place.kind}", excerpt(place.paragraph.text, place.offset))
        return

    marks = read_marks(options.marks)
    judged = {language: [one for one in ones if one.key in marks] for language, ones in found.items()}
    learnt = {language: learnt_abbreviations(set(ones) - set(judged[language])) for language, ones in found.items()}
    names = splitters(options.sentencex, learnt)
    figures: dict[str, dict[str, Counter[str]]] = {name: {} for name in names}
    for language, ones in judged.items():
        for name, split in names.items():
            counts = figures[name][language] = Counter(dict.fromkeys(ERRORS, 0))
            for one in ones:
                cut = cuts(one.text, split(language, one.text))
                counts["elsewhere"] += len(cut - {place.offset for place in places(one, first=0)})
                for offset, is_end in marks[one.key].items():
                    error = "" if (offset in cut) == is_end else "missed" if is_end else "false"
                    if error:
                        counts[error] += 1
                        if options.show == language:
                            print(f"{name}, {error}: {excerpt(one.text, offset)}")
    every = [end for ones in judged.values() for one in ones for end in marks[one.key].values()]
    print(f"{len(every)} of {sum(map(len, marks.values()))} places found; {sum(every)} of them end a sentence\n")
    columns = [", ".join(ERRORS), *PACKAGES, "all"]
    rows = []
    for name, of_name in figures.items():
        of_name["all"] = Counter({error: sum(each[error] for each in of_name.values()) for error in ERRORS})
        rows.append([name, *(", ".join(str(counts[error]) for error in ERRORS) for counts in of_name.values())])
    print(markdown(columns, rows))
    if options.out:
        facts = {"places": len(every), "ends": sum(every), "splitters": figures}
        options.out.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
