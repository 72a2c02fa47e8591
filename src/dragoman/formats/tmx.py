"""Translation memories (TMX): their units as records of a text for each language."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.formats.column_names import language_column
from dragoman.formats.lines import EncodingErrors
from dragoman.formats.rows import UNTRANSLATED, Texts
from dragoman.formats.xml import segment_text, stream_texts

OTHER_REGIONS = "texts in another region's form of a language read with it"
FURTHER = "further texts in the same language left out"
NO_SEGMENT = "entries whose <tuv> lack the <seg> that holds a text left out"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def rows(path: Path, _encoding_errors: EncodingErrors, repairs: Counter[str]) -> Iterator[tuple[int, Texts]]:
    """Yield the units of a translation memory; the language that it was translated from comes first.

    The forms of a language in several regions (en-US, en-GB) are one column, named for the first, unless one unit has
    two of them. Chinese is written in two ways, so its regions stay apart.

    Raises:
        DataError, MissingExtra: as in `stream_texts`.
    """
    names: dict[str, str] = {}  # of the column of each language without its region
    columns = set[str]()

    def texts_of(unit: Any) -> Iterator[Texts]:
        srclang = unit.get("srclang") or unit.getroottree().xpath("string(/*/*[local-name()='header']/@srclang)")
        original = language_column(srclang)
        texts: Texts = {}
        for variant in unit.iterfind("{*}tuv"):
            segment = variant.find("{*}seg")
            if segment is None or not (tag := language_column(variant.get(_LANGUAGE) or variant.get("lang") or "")):
                continue
            language = tag.partition("-")[0]
            if not (text := segment_text(segment, path)):
                continue
            name = names.setdefault(tag if language == "zh" else language, tag)
            if tag in columns or name in texts:
                name = tag
            repairs[OTHER_REGIONS] += name != tag
            repairs[FURTHER] += name in texts
            columns.add(name)
            texts.setdefault(name, text)
        first = [name for name in texts if name == original] or [
            name for name in texts if name.partition("-")[0] == original.partition("-")[0]
        ]
        if not texts:
            repairs[NO_SEGMENT if unit.find("{*}tuv/{*}seg") is None else UNTRANSLATED] += 1
        else:
            yield {name: texts[name] for name in (*first[:1], *texts)}

    return stream_texts(path, ("{*}tu",), texts_of, repairs)
