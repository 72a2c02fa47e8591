"""A beginning in, a text out: what a language model writes, and the `Generator`.

Start with `generator`. `growing` says which part of an unfinished text no longer changes.
"""

from typing import TYPE_CHECKING

from dragoman import lazy_names

if TYPE_CHECKING:
    from dragoman.generating.generator import Generation as Generation
    from dragoman.generating.generator import Generator as Generator
    from dragoman.generating.generator import generate as generate
    from dragoman.generating.options import GenerateOptions as GenerateOptions
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "generator": ["Generation", "Generator", "generate"],
            "options": ["GenerateOptions"],
        },
    )
