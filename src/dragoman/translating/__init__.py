"""Text in, text out: segments that a model can take, translations, and the `Translator`.

Start with `translator`. `segments` and `requests` lead from text to ids, `writing` leads back.
"""

from typing import TYPE_CHECKING

from dragoman import names_from

if TYPE_CHECKING:
    from dragoman.translating.options import SearchOptions as SearchOptions
    from dragoman.translating.translation import Flag as Flag
    from dragoman.translating.translation import Translation as Translation
    from dragoman.translating.translator import Translator as Translator
    from dragoman.translating.translator import translate as translate

_HOMES = {
    "Flag": "translation",
    "SearchOptions": "options",
    "Translation": "translation",
    "Translator": "translator",
    "translate": "translator",
}

if not TYPE_CHECKING:  # so that a type checker finds wrong names
    __getattr__ = names_from(__name__, _HOMES)

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]
