"""Real text of user interfaces, from the translated catalogues and help of Debian's packages.

    python benchmarks/catalogues.py pairs FOLDER [--language ru]
    python benchmarks/catalogues.py strings FILE [--count 500]

*pairs* writes `train`, `dev` and `test`, aligned line by line, in English and a language of another script: messages of
a few programs, and the paragraphs of LibreOffice's help that have the same id. They read as sentences: at least three
words, neither placeholders nor markup, and no mark of an accelerator. No sentence of either language stands twice, so
none is in two of the files. *strings* writes English messages that hold what must come out of a translation as it went
in, of each kind about as many. Packages are downloaded once, into `--cache`; no text of theirs is kept here.
"""

import argparse
import hashlib
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from debian import CACHE, Page, fetch

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
"""What a message holds that its translation must hold too, by the name of the kind."""
SPAN = re.compile("|".join(SPANS.values()))
WORD = re.compile(r"[^\W\d_]{2,}")
ACCELERATOR = re.compile(r"(?<!\w)_(?=\w)|&(?=\w)(?!\w+;)|~(?=\w)")


def messages(path: Path) -> Iterator[tuple[str, str]]:
    """The messages of a compiled catalogue (GNU gettext, `.mo`) and their translations, without contexts.

    Of a message with plural forms, the first of each side.
    """
    data = path.read_bytes()
    order = "<" if data.startswith(b"\xde\x12\x04\x95") else ">"
    count, *tables = struct.unpack_from(f"{order}3I", data, 8)
    for row in range(1, count):  # the first is the header
        spans = [struct.unpack_from(f"{order}2I", data, table + 8 * row) for table in tables]
        source, target = (data[start : start + length].decode(errors="replace") for length, start in spans)
        yield source.rpartition("\x04")[2].partition("\0")[0], target.partition("\0")[0]


def all_messages(cache: Path, language: str) -> Iterator[tuple[str, str]]:
    for package in CATALOGUES:
        for path in sorted((cache / package.format(language=language)).rglob(f"{language}/LC_MESSAGES/*.mo")):
            yield from messages(path)


def help_paragraphs(cache: Path, language: str) -> Iterator[tuple[str, str]]:
    """Paragraphs of LibreOffice's help that have the same id on the same page in both languages."""
    folders = [
        next((cache / HELP.format(language=one)).glob("usr/share/libreoffice/help/*/text"))
        for one in ("en-us", language)
    ]
    for path in sorted(folders[0].rglob("*.html")):
        pages = [folder / path.relative_to(folders[0]) for folder in folders]
        if pages[1].exists():
            sources, targets = ({id: text for id, text in paragraphs(page) if id} for page in pages)
            yield from ((text, targets[id]) for id, text in sources.items() if id in targets)


def paragraphs(path: Path) -> list[tuple[str | None, str]]:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page.paragraphs


def lot(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def sentence_pairs(found: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs that read as sentences, in an order by lot. No text stands twice on a side."""
    seen: set[str] = set()
    kept: list[tuple[str, str]] = []
    for pair in found:
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


def words_beside_spans(text: str) -> int:
    return len(WORD.findall(SPAN.sub(" ", ACCELERATOR.sub("", text))))


def kinds_of(text: str) -> list[str]:
    return [kind for kind, span in SPANS.items() if re.search(span, text)]


def interface_strings(found: Iterable[tuple[str, str]], count: int) -> list[str]:
    """Messages of at least three words that hold a span, the kinds in turn."""
    lots = sorted(
        {
            text
            for text, _ in found
            if len(text) <= 200 and text == " ".join(text.split()) and words_beside_spans(text) >= 3
        },
        key=lot,
    )
    kinds = {kind: iter([text for text in lots if kind in kinds_of(text)]) for kind in SPANS}
    drawn: dict[str, None] = {}
    while kinds and len(drawn) < count:
        for kind, texts in [*kinds.items()]:
            text = next((text for text in texts if text not in drawn), None)
            if text is None:
                del kinds[kind]
            elif len(drawn) < count:
                drawn[text] = None
    return [*drawn]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pairs", "strings"])
    parser.add_argument("out", type=Path, help="the folder of the pairs, or the file of the strings")
    parser.add_argument("--language", default="ru", help="one with a script of its own, as ru, el or ja")
    parser.add_argument("--count", type=int, default=500, help="how many strings")
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    cache, language = options.cache, options.language
    packages = [name.format(language=language) for name in CATALOGUES]
    if options.what == "strings":
        fetch(cache, packages)
        drawn = interface_strings(all_messages(cache, language), options.count)
        write_lines(options.out, drawn)
        print(f"{len(drawn)} strings:", dict(Counter(kind for text in drawn for kind in kinds_of(text))))
        return

    fetch(cache, [*packages, *(HELP.format(language=one) for one in ("en-us", language))])
    pairs = sentence_pairs([*help_paragraphs(cache, language), *all_messages(cache, language)])
    options.out.mkdir(parents=True, exist_ok=True)
    parts = {"test": pairs[:TEST], "dev": pairs[TEST : TEST + DEV], "train": pairs[TEST + DEV :]}
    for part, of_part in parts.items():
        for side, lines in zip(("en", language), zip(*of_part, strict=True), strict=True):
            write_lines(options.out / f"{part}.{side}", lines)
    print(", ".join(f"{part} {len(of_part):,} pairs" for part, of_part in parts.items()))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
