"""Text in, text out: segments that a model can take, translations, and the `Translator`.

Start with `translator`. `segments` and `requests` lead from text to ids, `writing` leads back.
"""

from typing import TYPE_CHECKING

from dragoman import lazy_names

if TYPE_CHECKING:
    from dragoman.translating.options import SearchOptions as SearchOptions
    from dragoman.translating.translation import Flag as Flag
    from dragoman.translating.translation import Translation as Translation
    from dragoman.translating.translator import Translator as Translator
    from dragoman.translating.translator import translate as translate
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "options": ["SearchOptions"],
            "translation": ["Flag", "Translation"],
            "translator": ["Translator", "translate"],
        },
    )
