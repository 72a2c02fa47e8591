"""Codes of languages: BCP 47 tags such as `en`, `pt-BR` or `zh-Hant`, and `und` for an unknown language."""

import re
from typing import Annotated

import pydantic


def _tag(given: str) -> str:
    """The tag with hyphens, as BCP 47 has it, because many files say `pt_BR`."""
    tag = given.replace("_", "-")
    if len(tag) > 60 or not re.fullmatch(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*", tag):
        raise ValueError(
            f"a language is given by its BCP 47 tag (letters and digits between hyphens, as in en, pt-BR or zh-Hant; "
            f"und where it is unknown), but this is {given[:60]!r}"
        )
    return tag


LanguageTag = Annotated[str, pydantic.AfterValidator(_tag)]
"""The language of a text in a setting or a file."""
