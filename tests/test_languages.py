"""Languages are BCP 47 tags, wherever a setting or a file names them."""

import pytest

from dragoman.config import check
from dragoman.errors import ConfigError
from dragoman.text.settings import DataSettings


@pytest.mark.parametrize(
    ("given", "tag"),
    [
        ("en", "en"),
        ("und", "und"),
        ("pt-BR", "pt-BR"),
        ("zh-Hant-TW", "zh-Hant-TW"),
        ("es-419", "es-419"),
        ("x-klingon", "x-klingon"),
        ("pt_BR", "pt-BR"),
        ("ita_Latn", "ita-Latn"),
    ],
)
def test_tags_are_taken_and_written_with_hyphens(given: str, tag: str) -> None:
    assert check({"source_language": given}, "here", DataSettings).source_language == tag


@pytest.mark.parametrize(
    "given", ["", " en", "en\n", "\x1b[31m", "en-", "-en", "français", "../en", "a b", "e" * 9, "4"]
)
def test_other_text_is_refused_in_words_without_control_characters(given: str) -> None:
    with pytest.raises(ConfigError, match="here: target_language: a language is given by its BCP 47 tag") as caught:
        check({"target_language": given}, "here", DataSettings)
    assert str(caught.value).isprintable()
