"""Errors of sentence splitters: sentences that are cut, and sentences that stay together.

    python benchmarks/segments.py [--marks FILE] [--sentencex FOLDER] [--show de] [--out results.json]

The text is real: paragraphs in ten languages from Debian's manual pages, installation guide and fortunes. `apt-get
download` fetches them into `--cache`; they are not kept here. `segments.tsv` marks forty places in each language where
a full stop and white space appear, and says if a sentence ends there. A reader of each paragraph judged that before any
splitter was run. A place is stored as the hash of its paragraph and an offset in it, so it is also found in another
version of a package, as long as the paragraph is the same. `segments_second.tsv` marks 393 more in other paragraphs,
none of them easy, read before today's rules were tried on them. At commit 725cb1dd, this script also drew the places.

A *false* cut is made where no sentence ends. A *missed* cut is not made where a sentence ends. `--sentencex` takes the
folder of `pip install --target FOLDER sentencex`, which is given each text's language. `--show` prints the mistakes of
each splitter in a language.
"""

import csv
import gzip
import hashlib
import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path

from command_line import markdown, new_parser, write_figures
from debian import CACHE, fetch, read_page

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
ERRORS = ("false", "missed")

# The macros and escapes of man.
INLINE = re.compile(r"\.\s*(?:[BI]|SM|SB|BR|RB|IR|RI|BI|IB)\s")
ALTERNATING = re.compile(r"\.\s*(?:BR|RB|IR|RI|BI|IB)\s")
UNFILLED = {".nf": ".fi", ".EX": ".EE", ".TS": ".TE", ".de": "..", ".ig": ".."}
ESCAPES = {"aq": "'", "dq": '"', "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "Fo": "«", "Fc": "»", "Bq": "„"} | {
    "em": "—", "en": "–", "co": "©", "bu": "•", "ha": "^", "ti": "~", "rs": "\\", "bq": "‚", "fo": "‹", "fc": "›"
}  # fmt: skip


def marked_texts(cache: Path, language: str, marks: Container[str]) -> dict[str, str]:
    """Return the paragraphs of a language that have marks, keyed by their hash."""
    marked: dict[str, str] = {}
    for package in PACKAGES[language]:
        for text in texts(cache / package / "usr/share", package, language):
            key = hashlib.blake2b(f"{language} {text}".encode(), digest_size=8).hexdigest()
            if key in marks:
                marked[key] = text
    return marked


def texts(share: Path, package: str, language: str) -> Iterator[str]:
    """Yield the paragraphs of a package."""
    if package.startswith("manpages"):
        folder = share / "man" if language == "en" else share / "man" / language
        for path in sorted(folder.glob("man?/*.gz")):
            yield from manual_page(gzip.decompress(path.read_bytes()).decode(errors="replace"))
    elif package == GUIDE:
        for path in sorted((share / "doc" / GUIDE / language).glob("*.html")):
            yield from (paragraph for _, paragraph in read_page(path))
    else:
        for path in sorted((share / "games/fortunes").rglob("*")):
            if path.is_file() and not path.is_symlink() and path.suffix not in (".dat", ".u8"):
                yield from fortunes(path.read_text(errors="replace"))


def manual_page(page: str) -> Iterator[str]:
    """Yield the filled paragraphs of a page in man's macros."""
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
    """Replace man's escapes."""
    line = re.sub(r"\\f(?:\[\w*\]|\(..|.)|\\s[-+]?\d|\\[&/,|^%c:]|\\\".*", "", line)
    line = re.sub(r"\\\[(\w\w)\]|\\\((..)", lambda match: ESCAPES.get(match[1] or match[2], "\\"), line)
    return line.replace("\\-", "-").replace("\\ ", " ").replace("\\~", "\u00a0").replace("\\'", "'")


def fortunes(file: str) -> Iterator[str]:
    """Yield paragraphs whose lines are as long as in running prose, without dialogues, verses and signatures."""
    for paragraph in re.split(r"\n%\n|\n\s*\n|\n\s*--", file):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        if lines and all(len(line) > 50 for line in lines[:-1]) and not re.search(r"^[#>\d\[<]|<@?\w+>", lines[0]):
            yield re.sub(r"[ \t]+", " ", " ".join(lines))


def read_marks(path: Path) -> dict[str, dict[int, bool]]:
    """Return, for each paragraph's hash, the offsets of places, with True where a sentence ends."""
    marks: dict[str, dict[int, bool]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            marks.setdefault(row["paragraph"], {})[int(row["offset"])] = row["end"] == "1"
    return marks


def cuts(text: str, pieces: Iterable[str]) -> set[int]:
    """Return the offsets of the pieces after the first, without the white space before them."""
    ends = list(itertools.accumulate(map(len, pieces)))
    if ends and ends[-1] != len(text):
        raise ValueError("a splitter lost text")
    return {len(text) - len(text[end:].lstrip()) for end in ends} - {len(text)}


def splitters(folder: Path | None) -> dict[str, Callable[[str, str], list[str]]]:
    """Return functions that split a text of a language, by name."""
    functions: dict[str, Callable[[str, str], list[str]]] = {"Dragoman": lambda language, text: split_sentences(text)}
    if folder:
        sys.path.append(str(folder))
        import sentencex  # pyright: ignore[reportMissingImports]

        functions["sentencex"] = sentencex.segment
    return functions


def excerpt(text: str, offset: int) -> str:
    """Return the text around a place."""
    return f"{text[max(0, offset - 110) : offset]}⟦⟧{text[offset : offset + 70]}"


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--marks", type=Path, default=Path(__file__).with_name("segments.tsv"))
    parser.add_argument("--sentencex", type=Path, metavar="FOLDER", help="the folder where that library is installed")
    parser.add_argument("--show", choices=PACKAGES, help="print the places where a splitter errs")
    options = parser.parse_args()
    fetch(options.cache, (package for packages in PACKAGES.values() for package in packages))
    marks, functions = read_marks(options.marks), splitters(options.sentencex)
    figures = {name: {language: Counter(dict.fromkeys(ERRORS, 0)) for language in PACKAGES} for name in functions}
    ends: list[bool] = []
    for language in PACKAGES:
        for key, text in marked_texts(options.cache, language, marks).items():
            ends += marks[key].values()
            for name, split in functions.items():
                places = cuts(text, split(language, text))
                for offset, is_end in marks[key].items():
                    if (offset in places) != is_end:
                        error = "missed" if is_end else "false"
                        figures[name][language][error] += 1
                        if options.show == language:
                            print(f"{name}, {error}: {excerpt(text, offset)}")
    print(f"{len(ends)} of {sum(map(len, marks.values()))} places found; {sum(ends)} of them end a sentence\n")
    for counts in figures.values():
        counts["all"] = Counter({error: sum(own[error] for own in counts.values()) for error in ERRORS})
    rows = [
        [name, *(", ".join(str(own[error]) for error in ERRORS) for own in counts.values())]
        for name, counts in figures.items()
    ]
    print(markdown([", ".join(ERRORS), *PACKAGES, "all"], rows))
    write_figures(options.out, places=len(ends), ends=sum(ends), splitters=figures)


if __name__ == "__main__":
    main()
