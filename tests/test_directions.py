"""The directions of a model: languages found by any of their codes, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import check
from dragoman.directions import Directions, find, listed
from dragoman.errors import ConfigError, DecodeError
from dragoman.languages import language_of
from dragoman.store import m2m100, mbart
from dragoman.store.multilingual import tags_of

LANGUAGES = ("en", "it", "pt-BR", "zh-Hans", "zh-Hant")
STAR = Directions.of([("en", "it"), ("it", "en"), ("en", "pt-BR"), ("zh-Hans", "en")])
ALL = Directions(source=LANGUAGES, target=LANGUAGES)


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        *(("en", "en"), ("EN", "en"), ("eng", "en"), ("pt", "pt-BR"), ("por", "pt-BR"), ("pt_br", "pt-BR")),
        *(("zh-Hant", "zh-Hant"), ("zh_hans", "zh-Hans"), ("it-IT", "it")),
    ],
)
def test_a_language_is_found_by_any_of_its_codes(wanted: str, name: str) -> None:
    assert find(wanted, LANGUAGES) == name


def test_a_language_that_is_unknown_or_means_several_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"no pivot language 'de'; it has en, it, pt-BR, zh-Hans, zh-Hant"):
        find("de", LANGUAGES, "pivot")
    with pytest.raises(DecodeError, match="several target languages 'zh': zh-Hans, zh-Hant"):
        find("zh", LANGUAGES)
    assert listed([str(number) for number in range(45)]).endswith("38, 39 and 5 others")


@given(st.lists(st.tuples(*[st.sampled_from(LANGUAGES)] * 2), min_size=1, max_size=9))
def test_directions_hold_what_they_were_trained_in(trained: list[tuple[str, str]]) -> None:
    directions = Directions.of(trained)
    assert list(directions.pairs()) == list(dict.fromkeys(trained))
    assert all(directions.has(*pair) for pair in trained)
    assert {*directions.source} == {source for source, _ in trained}
    assert {*directions.target} == {target for _, target in trained}
    assert check(directions.model_dump(mode="json"), "a file", Directions) == directions


def test_directions_of_all_languages_are_those_between_two() -> None:
    assert len(list(ALL.pairs())) == 20 and ALL.has("it", "en") and not ALL.has("en", "en")


def test_a_direction_is_chosen_by_what_is_given() -> None:
    assert STAR.choose("ita", "ENG") == ("it", "en")
    assert STAR.choose("it", None) == ("it", "en") and STAR.choose(None, "it") == ("en", "it")
    assert STAR.choose("it", "pt") == ("it", "pt-BR"), "a direction that nobody trained is found too"
    assert Directions.of([("en", "it")]).choose(None, None) == ("en", "it")


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        ((None, None), "give --source-language and --target-language: en-it, it-en, en-pt-BR, zh-Hans-en"),
        (("en", None), "give --target-language: en-it, en-pt-BR"),
        ((None, "en"), "give --source-language: it-en, zh-Hans-en"),
        (("de", "en"), "no source language 'de'"),
        (("en", "zh-Hans"), "no target language 'zh-Hans'"),
        (("it", "ita"), "source and target are both it"),
    ],
)
def test_an_unclear_direction_is_refused(languages: tuple[str | None, str | None], message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        STAR.choose(*languages)


@pytest.mark.parametrize(
    "content",
    [
        {"source": [], "target": ["en"]},
        {"source": ["en"], "target": ["it"], "trained": [["it", "en"]]},
        {"source": ["e n"], "target": ["it"]},
    ],
)
def test_directions_that_contradict_themselves_are_refused(content: dict[str, list]) -> None:
    with pytest.raises(ConfigError, match="a file"):
        check(content, "a file", Directions)


def test_every_language_of_a_family_is_found_by_its_own_name() -> None:
    """By the names of FLORES too: Arabic, Dari and Persian, and languages in two scripts."""
    for codes in (m2m100._NLLB_200, m2m100._M2M_100, mbart._CODES):
        tags = tags_of(codes)
        assert len({language_of(tag) or tag for tag in tags}) == len(tags), "a server distinguishes all of them"
        for code, tag in zip(codes.split(), tags, strict=True):
            assert find(code, tags) == find(tag, tags) == tag
    assert find("ar", tags_of(m2m100._NLLB_200)) == "ar" and language_of("ace-Arab") == "ace-Arab"
