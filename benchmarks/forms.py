"""How well are sentences translated that are typed otherwise than the training text is written?

    python benchmarks/forms.py MODEL SOURCES REFERENCES [--lines 2000] [--forms NAME …] [--out results.json]

Each form is applied to sources and references alike: quotes as each language has them, and what is invisible to the
sources alone. Translations are greedy, and scored by chrF and BLEU: once as the model reads each text by default, and
once raw, as it is typed. A form is marked that loses more than two chrF beside clean text. At the end all lines of the
file are translated both ways as they are: those are listed that come out otherwise.
"""

import argparse
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from command_line import command_line, figures_file

import dragoman
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.system import machine

Form = Callable[[str, str], str]
"""A text and its language, and the text in this form."""


OWN_QUOTES = {"de": "„“", "ru": "«»"}
"""The quotes of a reference, whatever the source has around it, in a language whose training text has its own."""
SOURCES_ONLY = ("a soft hyphen", "full-width letters", "a no-break space")


def around(before: str, behind: str) -> Form:
    def put(text: str, language: str) -> str:
        if own := OWN_QUOTES.get(language):
            return re.sub('[“"«]', own[0], before) + text + re.sub('[”"»]', own[1], behind)
        return before + text + behind

    return put


def ending(end: str) -> Form:
    return lambda text, _: text.rstrip(".!?。！？ ") + end


def titled(text: str, _: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in text.split(" "))


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
    "Title Case": titled,
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


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("sources", type=Path)
    parser.add_argument("references", type=Path)
    parser.add_argument("--lines", type=int, default=2_000, help="how many are put in each form")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=[*FORMS])
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args(arguments)
    sources, references = (
        path.read_text(encoding="utf-8").splitlines() for path in (options.sources, options.references)
    )
    translator = dragoman.Translator.load(options.model, "cpu", progress=False)
    first = sources[: options.lines], references[: options.lines]
    clean = measured(translator, "clean", *first)
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for name in options.forms:
        figures[name] = scores = clean if name == "clean" else measured(translator, name, *first)
        lost = clean["default"]["chrf"] - scores["default"]["chrf"]
        shown = "   ".join(
            f"{way}: chrF {of_way['chrf']:5.1f}  BLEU {of_way['bleu']:5.1f}" for way, of_way in scores.items()
        )
        print(f"{name:22} {shown}{f'   {lost:.1f} chrF below clean' if lost > 2 else ''}", flush=True)

    default, raw = (translated(translator, sources, raw) for raw in (False, True))
    lines = [line for line, *both in zip(sources, default, raw, strict=True) if both[0] != both[1]]
    print(f"{len(lines):,} of {len(sources):,} lines as they are come out otherwise than raw:", *lines, sep="\n  ")
    if options.out:
        facts = {"command": command_line(), "machine": machine(), "lines": len(first[0]), "forms": figures}
        of_all = {"lines": len(sources), "otherwise_than_raw": lines}
        options.out.write_text(json.dumps({**facts, "as_they_are": of_all}, ensure_ascii=False, indent=1) + "\n")


def measured(
    translator: dragoman.Translator, name: str, sources: Sequence[str], references: Sequence[str]
) -> dict[str, dict[str, float]]:
    form, (source, target) = FORMS[name], translator.languages
    typed = [form(text, source) for text in sources]
    if name not in SOURCES_ONLY:
        references = [form(text, target) for text in references]
    return {
        way: bleu_and_chrf(translated(translator, typed, raw), [[text] for text in references], target)
        for way, raw in (("raw", True), ("default", False))
    }


def translated(translator: dragoman.Translator, texts: Sequence[str], raw: bool) -> list[str]:
    return [one.text for one in translator.translate(texts, progress=False, raw=raw, beam_size=1)]


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
