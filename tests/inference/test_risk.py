"""Minimum Bayes risk: the sample that is most like all samples, by sacreBLEU's chrF."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF
from small_translators import asked, lines, make

from dragoman.config import check
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.errors import ConfigError
from dragoman.evaluating.evaluation import describe
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation, chrf, least_risk
from dragoman.inference.translator import Translator

TEXTS = [
    "",
    "a",
    "la casa",
    "la casa rossa .",
    "casa casa casa",
    "il gatto è qui",
    "你好。再见",
    "  la  casa ",
    "aaaaaaaaa",
]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return make()


def by_sacrebleu(texts: list[str]) -> list[list[float]]:
    metric = CHRF()
    return [[metric.sentence_score(text, [reference]).score for reference in texts] for text in texts]


def test_every_pair_has_the_chrf_of_sacrebleu() -> None:
    np.testing.assert_allclose(chrf(TEXTS), by_sacrebleu(TEXTS), rtol=1e-12)


@given(st.lists(st.text("ab è", max_size=12), min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_any_texts_have_the_chrf_of_sacrebleu(texts: list[str]) -> None:
    np.testing.assert_allclose(chrf(texts), by_sacrebleu(texts), rtol=1e-12)


def test_the_least_risk_is_the_highest_mean_over_all_samples_each_text_once() -> None:
    texts = ["la casa", "un cane", "la cosa", "la casa", "la cassa"]
    samples = [Hypothesis((number,), (-1.0,), total) for number, total in enumerate([-3.0, -1.0, -2.0, -1.5, -4.0])]
    rated = least_risk(samples, lambda tokens: texts[tokens[0]])
    mean = {text: np.mean([CHRF().sentence_score(text, [each]).score for each in texts]) for text in texts}
    assert [texts[each.hypothesis.tokens[0]] for each in rated] == sorted(mean, key=lambda text: -mean[text])
    assert [each.value for each in rated] == pytest.approx(sorted(mean.values(), reverse=True))
    assert rated[0].hypothesis is samples[3], "of two samples with one text the likelier stands for it"


def test_of_texts_without_a_letter_in_common_the_likeliest_comes_first() -> None:
    samples = [Hypothesis((number,), (total,), total) for number, total in enumerate([-3.0, -1.0, -2.0])]
    rated = least_risk(samples, lambda tokens: "xyz"[tokens[0]])
    assert [each.hypothesis.total for each in rated] == [-1.0, -2.0, -3.0]


def options(**changes: object) -> SearchOptions:
    return asked(**{"risk_samples": 8, "split": "never", **changes})


def all_of(translation: Translation) -> list[Translation]:
    return [translation, *translation.alternatives]


def test_a_translation_is_the_least_risk_of_the_samples_that_are_drawn(translator: Translator) -> None:
    for text in lines(4):
        (drawn,) = translator.translate([text], options(risk_samples=None, temperature=1.0, n_best=8))
        times = Counter(each.text for each in all_of(drawn))
        values = chrf([*times]) @ [*times.values()]
        (found,) = translator.translate([text], options(n_best=8))
        assert [each.text for each in all_of(found)] == [
            [*times][place] for place in np.argsort(-values, kind="stable")
        ]
        model_says = {each.text: each.score for each in sorted(all_of(drawn), key=lambda each: each.log_prob)}
        assert {each.text: each.score for each in all_of(found)} == model_says


def test_temperature_and_nucleus_shape_what_is_drawn(translator: Translator) -> None:
    (text,) = lines(1)
    (greedy,) = translator.translate([text], asked(beam_size=1, split="never"))
    (found,) = translator.translate([text], options(top_k=1, n_best=8))
    assert (found.text, found.alternatives) == (greedy.text, ())
    (cold,) = translator.translate([text], options(temperature=0.01))
    assert cold.text == greedy.text


def test_a_text_has_the_same_least_risk_alone_and_in_company(translator: Translator) -> None:
    texts = lines(6)
    together = translator.translate(texts, options(n_best=2, batch_tokens=60))
    assert [translator.translate([text], options(n_best=2))[0] for text in texts] == together
    assert translator.translate(texts, options(n_best=2, seed=2)) != together


def test_each_segment_has_a_risk_of_its_own_and_the_best_are_combined(translator: Translator) -> None:
    one, two = "Where is the cat ?", "The dog is old ."
    (joined,) = translator.translate([f"{one} {two}"], options(split="sentence", n_best=8))
    first, second = (all_of(each) for each in translator.translate([one, two], options(n_best=8)))
    assert joined.text == f"{first[0].text} {second[0].text}".strip()
    assert joined.log_prob == pytest.approx(first[0].log_prob + second[0].log_prob)
    texts = {f"{a.text} {b.text}".strip() for a in first for b in second}
    assert {each.text for each in all_of(joined)} <= texts
    assert len(joined.alternatives) == min(8, len(first) * len(second)) - 1


def test_a_stream_gives_the_least_risk(translator: Translator) -> None:
    for text in ["", SOURCE, f"{SOURCE} The dog is old ."]:
        (found,) = translator.translate([text], options(split="sentence"))
        assert "".join(translator.stream(text, options(split="sentence"))) == found.text


SOURCE = "Where is the cat ?"


def test_what_contradicts_the_samples_is_refused() -> None:
    with pytest.raises(ConfigError, match="decode.n_best must be at most decode.risk_samples, but is 9 of 8 samples"):
        check({"risk_samples": 8, "n_best": 9}, "decode", SearchOptions)
    with pytest.raises(ConfigError, match="risk_samples should be greater than or equal to 2, but is 1"):
        check({"risk_samples": 1}, "decode", SearchOptions)
    assert SearchOptions(risk_samples=8, n_best=8).searching(n_best=1).sampling is None


@pytest.mark.parametrize("draws", [{"temperature": 2.0}, {"top_k": 3}, {"top_p": 0.5}, {"risk_samples": 2}])
def test_each_setting_that_draws_draws_by_itself(draws: dict[str, Any]) -> None:
    drawing = SearchOptions(**draws)
    assert drawing.sampling is not None and drawing.searching().sampling is None


def test_a_score_says_that_it_is_of_least_risk() -> None:
    assert describe(SearchOptions(risk_samples=32, top_p=0.9)) == (
        "minimum Bayes risk (chrF), 32 samples, sampled at temperature 1, top p 0.9, seed 1"
    )
