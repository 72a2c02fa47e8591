"""The page of a model (`render_page`): its weights, its tokenizer, and a translator in JavaScript in one HTML file."""

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import safetensors.numpy

from dragoman.config import check
from dragoman.directions import listed
from dragoman.errors import ConfigError
from dragoman.explaining.page.page import as_json
from dragoman.exporting.translate_script import PIECE
from dragoman.inference.options import DRAWS, SearchOptions
from dragoman.inference.requests import RequestBuilder
from dragoman.inference.translator import Translator
from dragoman.languages import english_name
from dragoman.progress import silent
from dragoman.store.description import StoredModel
from dragoman.surface.conventions import UNKNOWN_CONVENTIONS
from dragoman.surface.sentences import is_blank
from dragoman.tokenizing.tokenizer import Tokenizer, content_of

MOST_BYTES = 48_000_000
"""Most bytes of weights in a page: a browser reads them at each visit, and holds them in float32."""
CHECKS = 16
"""Number of sentences whose translations a page holds, so that a browser can check its own."""

_PARTS = Path(__file__).parent / "parts"
_ENGINE = ("tokenizer", "weights", "attention", "encoder", "decoder", "beam", "translator")
_KINDS = ("bpe", "unigram", "byte_bpe", "character")
_UNSUPPORTED = ("minimum_length", "no_repeat_ngram", "banned_words", "terms", "prefix", "protect", *DRAWS)
"""Search options that the page does not have."""
_USUAL = 0.9
"""Share of the training sentences from which the page calls a form usual."""
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def obstacles(stored: StoredModel) -> Iterator[str]:
    """Yield the parts of a model that the page does not support, by the names of the settings."""
    if languages := stored.tokenizers.source.vocabulary.languages:
        yield f"it translates several languages ({listed(languages)}), and the page one direction"
    kinds = {tokenizer.kind if type(tokenizer) is Tokenizer else "SentencePiece" for tokenizer in stored.tokenizers}
    if others := sorted(kinds.difference(_KINDS)):
        yield f"its tokenizer is of kind {' and '.join(others)}, and the page reads {', '.join(_KINDS)}"
    options = search_options(stored)
    for name in _UNSUPPORTED:
        if getattr(options, name):
            yield f"its generation_config.json sets {name}, which the page does not have"
    size = sum(weight.nbytes for weight in stored.tensors.values())
    if size > MOST_BYTES:
        yield (
            f"it has {size / 1e6:,.0f} MB of weights, and the page takes {MOST_BYTES / 1e6:.0f} MB; dragoman quantize "
            "makes them a quarter of the size"
        )


def render_page(stored: StoredModel, texts: Sequence[str] = ()) -> str:
    """Return the HTML of the page. It holds the translations of some of `texts`, which a browser can compare.

    Raises:
        ConfigError: the page does not support a part of this model; the message names it.
    """
    if reasons := list(obstacles(stored)):
        raise ConfigError(f"{stored.folder} cannot be exported to a page: {'; '.join(reasons)}")
    engine = "\n".join(['"use strict";', *(_read(f"{name}.js") for name in _ENGINE)])
    page = f'"use strict";\n{_read("page.js")}'
    filled = {
        "title": escape(" to ".join(map(english_name, stored.languages))),
        "style": _read("style.css"),
        "engine": engine,
        "page": page,
        "hashes": " ".join(f"'sha256-{_hash(script)}'" for script in (engine, page)),
        "facts": as_json(page_facts(stored, texts)),
        "weights": base64.b64encode(safetensors.numpy.save(dict(stored.tensors))).decode(),
    }
    return _PLACE.sub(lambda place: filled[place[1]], _read("shell.html"))


def page_facts(stored: StoredModel, texts: Sequence[str]) -> dict[str, Any]:
    """Return what the page must know besides the weights."""
    options, framing, (source, target) = search_options(stored), stored.files.framing, stored.tokenizers
    conventions = (stored.files.conventions or UNKNOWN_CONVENTIONS).of(*stored.languages)
    unknown = set() if options.allow_unknown else {target.unknown}
    spellings = [target.spelling(id_).decode(errors="replace") for id_ in range(target.size)]
    usual = _USUAL * conventions.source.sentences
    return {
        "languages": list(stored.languages),
        "model": stored.config.model_dump(mode="json", exclude_none=True),
        "weights": sum(weight.size for name, weight in stored.tensors.items() if not name.endswith(".scale")),
        "framing": {
            "before": framing.source_before,
            "after": framing.source_after,
            "start": framing.target_start,
            "end": framing.target_end,
        },
        "options": options.model_dump(mode="json"),
        "longest": RequestBuilder(stored.tokenizers, framing, stored.config.max_positions).longest_source(options),
        "source": content_of(source.vocabulary),
        "target": None if stored.tokenizers.joint else content_of(target.vocabulary),
        "banned": sorted({*framing.suppressed_ids, *unknown}),
        "blank": [id_ for id_, spelled in enumerate(spellings) if not target.is_special(id_) and is_blank(spelled)],
        "placeholders": [*target.placeholders],
        "learned": "" if options.raw else "".join(filter(target.placeholders.get, conventions.learned_placeholders)),
        "protected": PIECE.pattern,
        "capitals": 0 < usual < conventions.source.capitals,
        "ends": [*conventions.source.ends] if 0 < usual < sum(conventions.source.ends.values()) else [],
        "checks": _translations(stored, [text for text in texts if not PIECE.search(text)][:CHECKS]),
    }


def search_options(stored: StoredModel) -> SearchOptions:
    """Return the search options of a model folder."""
    return check(stored.files.generation, str(stored.folder), SearchOptions)


def _translations(stored: StoredModel, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return texts with their translations, in float32 and of the text as it is."""
    translator = Translator(stored, device="cpu", precision="float32", progress=silent)
    results = translator.translate(texts, raw=True, split="never") if texts else []
    return [(text, result.text) for text, result in zip(texts, results, strict=True)]


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _read(name: str) -> str:
    return (_PARTS / name).read_text(encoding="utf-8")
