"""Quality of translations of sentences that are typed in another form than the training text.

    python benchmarks/forms.py MODEL SOURCES REFERENCES [--lines 2000] [--out results.json]

Each form is applied to sources and references equally: quotes as each language has them, and invisible changes to the
sources alone. Translations are greedy, and scored by chrF and BLEU: once as the model reads each text by default, and
once raw, as it is typed. At the end all lines of the file are translated both ways as they are, and lines that differ
are listed.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from command_line import markdown, new_parser, read_sides, write_figures

import dragoman
from dragoman.evaluating.metrics import bleu_and_chrf

Form = Callable[[str, str], str]
"""Puts a text of a language into a form."""
OWN_QUOTES = {"de": "„“", "ru": "«»"}
"""The quotes of a reference, whatever quotes the source has, in a language whose training text has its own."""
SOURCES_ONLY = ("a soft hyphen", "full-width letters", "a no-break space")


def around(before: str, after: str) -> Form:
    """Return a form with characters before and after the text."""

    def put(text: str, language: str) -> str:
        if own := OWN_QUOTES.get(language):
            return re.sub('[“"«]', own[0], before) + text + re.sub('[”"»]', own[1], after)
        return before + text + after

    return put


def ending(end: str) -> Form:
    """Return a form with another end."""
    return lambda text, _: text.rstrip(".!?。！？ ") + end


FORMS: dict[str, Form] = {
    "clean": around("", ""),
    "’ for '": lambda text, _: text.replace("'", "’"),
    "“…” around": around("“", "”"),
    '"…" around': around('"', '"'),
    "«…» around": around("«", "»"),
    "(…) around": around("(", ")"),
    "(“…”) around": around("(“", "”)"),
    "**…** around": around("**", "**"),
    "!!! at the end": ending("!!!"),
    "?! at the end": ending("?!"),
    "… at the end": ending("…"),
    "... at the end": ending("..."),
    ": at the end": ending(":"),
    "; at the end": ending(";"),
    "no mark at the end": ending(""),
    "all capitals": lambda text, _: text.upper(),
    "Title Case": lambda text, _: " ".join(word[:1].upper() + word[1:] for word in text.split(" ")),
    "all lower case": lambda text, _: text.lower(),
    "- in front": around("- ", ""),
    "— in front": around("— ", ""),
    "• “…” in front": around("• “", "”"),
    "1. in front": around("1. ", ""),
    "a) in front": around("a) ", ""),
    "Anna: in front": around("Anna: ", ""),
    "an emoji at the end": around("", " 😀"),
    "a smiley at the end": around("", " :)"),
    "a no-break space": lambda text, _: text.replace(" ", "\u00a0", 1),
    "two spaces for one": lambda text, _: text.replace(" ", "  "),
    "a soft hyphen": lambda text, _: re.sub(r"(\w{3})(\w{3})", "\\1\u00ad\\2", text, count=1),
    "full-width letters": lambda text, _: "".join(
        chr(ord(character) + 0xFEE0) if "!" <= character <= "~" else character for character in text
    ),
}


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("sources", type=Path)
    parser.add_argument("references", type=Path)
    parser.add_argument("--lines", type=int, default=2_000, help="number of lines that are put into each form")
    options = parser.parse_args()
    pairs = [*read_sides([options.sources, options.references])]
    translator = dragoman.Translator.load(options.model, "cpu", progress=False)
    first = pairs[: options.lines]
    figures = {name: measure(translator, name, first) for name in FORMS}
    rows = [
        [name, *(f"{scores[way][metric]:.1f}" for way in ("raw", "default") for metric in ("chrf", "bleu"))]
        for name, scores in figures.items()
    ]
    print(markdown(["form", "raw: chrF", "BLEU", "default: chrF", "BLEU"], rows))

    sources = [source for source, _ in pairs]
    default, raw = (translate(translator, sources, raw) for raw in (False, True))
    changed = [line for line, *texts in zip(sources, default, raw, strict=True) if texts[0] != texts[1]]
    print(f"{len(changed):,} of {len(sources):,} lines as they are differ from raw:", *changed, sep="\n  ")
    as_they_are = {"lines": len(sources), "otherwise_than_raw": changed}
    write_figures(options.out, lines=len(first), forms=figures, as_they_are=as_they_are)


def measure(
    translator: dragoman.Translator, name: str, pairs: Sequence[tuple[str, ...]]
) -> dict[str, dict[str, float]]:
    """Return the scores of a form, raw and by default."""
    form, (source_language, target_language) = FORMS[name], translator.languages
    typed = [form(source, source_language) for source, _ in pairs]
    references = [[target if name in SOURCES_ONLY else form(target, target_language)] for _, target in pairs]
    return {
        way: bleu_and_chrf(translate(translator, typed, raw), references, target_language)
        for way, raw in (("raw", True), ("default", False))
    }


def translate(translator: dragoman.Translator, texts: Sequence[str], raw: bool) -> list[str]:
    """Return greedy translations."""
    return [line.text for line in translator.translate(texts, progress=False, raw=raw, beam_size=1)]


if __name__ == "__main__":
    main()
