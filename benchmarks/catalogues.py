"""Real text of user interfaces, from the translated catalogues and help of Debian's packages.

    python benchmarks/catalogues.py pairs FOLDER [--language ru]
    python benchmarks/catalogues.py strings FILE [--count 500]

*pairs* writes `train`, `dev` and `test`, aligned line by line, in English and a language of another script: messages of
a few programs, and the paragraphs of LibreOffice's help that have the same id. They read as sentences: at least three
words, neither placeholders nor markup, and no mark of an accelerator. No sentence of either language appears twice, so
none is in two of the files. *strings* writes English messages that hold what a translation must keep unchanged, about
equally many of each kind. Packages are downloaded once, into `--cache`; none of their text is kept here.
"""

import argparse
import hashlib
import re
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from debian import CACHE, fetch, read_page

CATALOGUES = (
    *("deja-dup", "evolution-common", "gnucash-common", "gramps", "krita-l10n"),
    *("libreoffice-l10n-{language}", "meld", "nautilus-data", "vlc-l10n"),
)
HELP = "libreoffice-help-{language}"
TEST, DEV = 2_000, 1_000

SPANS = {
    "printf": r"%(?:\d+\$)?[sdiu]|%[-+0]?\d*\.?\d*l?[dfxu]\b",
    "named printf": r"%\(\w+\)[sdif]",
    "braces": r"\{\w*(?:[:.!][^{}\s]*)?\}",
    "numbered": r"%\d+\b",
    "variable": r"\$\{\w+\}|\$\(\w+\)|%[A-Z][A-Z_]{3,}%?",
    "markup": r"</?[a-zA-Z][^<>]*>",
    "entity": r"&(?:\w+|#\d+);",
    "accelerator": r"(?<!\w)[_&~](?=[A-Z])",
    "address": r"\bhttps?://[^\s<>\"')]*[\w/]|\b[\w.]+@[\w-]+\.\w+",
}
"""Parts of a message that its translation must hold too, by the name of their kind."""
SPAN = re.compile("|".join(SPANS.values()))
WORD = re.compile(r"[^\W\d_]{2,}")
ACCELERATOR = re.compile(r"(?<!\w)_(?=\w)|&(?=\w)(?!\w+;)|~(?=\w)")


def messages(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the messages of a compiled catalogue (GNU gettext, `.mo`) and their translations, without contexts.

    A message with plural forms yields the first of both sides.
    """
    data = path.read_bytes()
    order = "<" if data.startswith(b"\xde\x12\x04\x95") else ">"
    count, *tables = struct.unpack_from(f"{order}3I", data, 8)
    for row in range(1, count):  # the first is the header
        spans = [struct.unpack_from(f"{order}2I", data, table + 8 * row) for table in tables]
        source, target = (data[start : start + length].decode(errors="replace") for length, start in spans)
        yield source.rpartition("\x04")[2].partition("\0")[0], target.partition("\0")[0]


def all_messages(cache: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yield the messages of all catalogues."""
    for package in CATALOGUES:
        for path in sorted((cache / package.format(language=language)).rglob(f"{language}/LC_MESSAGES/*.mo")):
            yield from messages(path)


def help_paragraphs(cache: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yield paragraphs of LibreOffice's help that have the same id on the same page in both languages."""
    folders = [
        next((cache / HELP.format(language=code)).glob("usr/share/libreoffice/help/*/text"))
        for code in ("en-us", language)
    ]
    for path in sorted(folders[0].rglob("*.html")):
        pages = [folder / path.relative_to(folders[0]) for folder in folders]
        if pages[1].exists():
            sources, targets = ({id: text for id, text in read_page(page) if id} for page in pages)
            yield from ((text, targets[id]) for id, text in sources.items() if id in targets)


def lot(text: str) -> str:
    """Return a key that orders texts at random, and always in the same order."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def sentence_pairs(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs that read as sentences, in random order. No text appears twice on a side."""
    seen: set[str] = set()
    kept: list[tuple[str, str]] = []
    for pair in pairs:
        source, target = (ACCELERATOR.sub("", " ".join(text.split())) for text in pair)
        foreign = sum(not letter.isascii() for letter in target if letter.isalpha())
        sides = {f"source {source.casefold()}", f"target {target.casefold()}"}
        if (
            len(WORD.findall(source)) >= 3
            and foreign > len(target) / 3
            and max(len(source), len(target)) <= min(400, 3 * min(len(source), len(target)))
            and not any(SPAN.search(text) or re.search(r"[<>{}|\\\ufffd]|\w_\w", text) for text in pair)
            and seen.isdisjoint(sides)
        ):
            seen |= sides
            kept.append((source, target))
    return sorted(kept, key=lambda pair: lot(pair[0]))


def kinds_of(text: str) -> list[str]:
    """Return the kinds of spans in a text."""
    return [kind for kind, span in SPANS.items() if re.search(span, text)]


def interface_strings(pairs: Iterable[tuple[str, str]], count: int) -> list[str]:
    """Return messages of at least three words that hold a span, the kinds interleaved."""
    texts = {
        text
        for text, _ in pairs
        if len(text) <= 200
        and text == " ".join(text.split())
        and len(WORD.findall(SPAN.sub(" ", ACCELERATOR.sub("", text)))) >= 3
    }
    return [*islice(interleaved_kinds(sorted(texts, key=lot)), count)]


def interleaved_kinds(texts: list[str]) -> Iterator[str]:
    """Yield a text of each kind in turn, no text twice."""
    kinds = {kind: iter([text for text in texts if kind in kinds_of(text)]) for kind in SPANS}
    drawn: set[str] = set()
    while kinds:
        for kind, own in [*kinds.items()]:
            text = next((text for text in own if text not in drawn), None)
            if text is None:
                del kinds[kind]
            else:
                drawn.add(text)
                yield text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pairs", "strings"])
    parser.add_argument("out", type=Path, help="the folder of the pairs, or the file of the strings")
    parser.add_argument("--language", default="ru", help="a language with a script of its own, such as ru, el or ja")
    parser.add_argument("--count", type=int, default=500, help="number of strings")
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    cache, language = options.cache, options.language
    packages = [name.format(language=language) for name in CATALOGUES]
    if options.what == "strings":
        fetch(cache, packages)
        strings = interface_strings(all_messages(cache, language), options.count)
        write_lines(options.out, strings)
        print({kind: sum(kind in kinds_of(text) for text in strings) for kind in SPANS})
        return
    fetch(cache, [*packages, *(HELP.format(language=code) for code in ("en-us", language))])
    pairs = sentence_pairs([*help_paragraphs(cache, language), *all_messages(cache, language)])
    options.out.mkdir(parents=True, exist_ok=True)
    parts = {"test": pairs[:TEST], "dev": pairs[TEST : TEST + DEV], "train": pairs[TEST + DEV :]}
    for name, rows in parts.items():
        for place, code in enumerate(("en", language)):
            write_lines(options.out / f"{name}.{code}", [row[place] for row in rows])
    print({name: len(rows) for name, rows in parts.items()})


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write texts, one a line."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
