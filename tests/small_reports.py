"""Small reports for tests, whose texts are all the same one."""

from dragoman.evaluating.error_kinds import Judge
from dragoman.evaluating.evaluation import evaluate
from dragoman.evaluating.references import ReferenceSet
from dragoman.evaluating.significance import compare_systems
from dragoman.evaluating.speed import Latency, MedianRange, Speed
from dragoman.evaluating.trust_report import SetResult, TrustReport, count_errors, example_of
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.runs.report import _stored

HOSTILE = """</style><script>alert("1")</script><img src=x onerror='alert(1)'>{{ 7 * 7 }}{% raw %} & \u2028 " ' `"""


class Fixed:
    """A translator that knows the translations of one test set."""

    options, languages, device, precision = SearchOptions(), ("en", "it"), "cpu", "float32"

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def translate(self, texts: object, options: object, progress: object) -> list[Translation]:
        return [Translation("", text) for text in self.texts]


def some_report(text: str, is_document: bool = False) -> TrustReport:
    """Return a report on a bad model, or on a document, in which all foreign texts are `text`."""
    lines = [Translation(f"{text} {number} cats sleep here {number}0 times", text) for number in (7, 8, 9)]
    judge = Judge(lines, ("en", "it"))
    facts = {"version": "0", "system": text, "languages": ("en", "it"), "machine": text, "page": text}
    references = ["sette gatti dormono", "otto gatti dormono", "nove gatti dormono"]
    if is_document:
        errors = count_errors(judge, lines, [text] * 3)
        return TrustReport(**facts, files=((text, 3, ""), (text, 0, text)), errors=errors)
    test = ReferenceSet("test.jsonl", tuple(line.source for line in lines), tuple((own,) for own in references))
    own = evaluate(Fixed(["zzz", "qqq", "xxx"]), test, name=text, samples=20, progress=False)  # type: ignore[arg-type]
    rival = evaluate(
        Fixed(references),
        test,
        name="the closest training sentence",
        samples=20,
        progress=False,  # type: ignore[arg-type]
    )
    (comparison,) = compare_systems([own], [rival], metrics=["chrf"], samples=400).values()
    if comparison.better is None:  # three lines cannot show it
        comparison = type(comparison)(**{**vars(comparison), "p_value": 0.001})
    score = own.scores["chrf"]
    result = SetResult(
        evaluation=_stored(own),
        samples=tuple(example_of(line, text, [text]) for line in lines),
        known=2,
        parts=((text, 30, {"bleu": own.scores["bleu"], "chrf": score}), ("a number", 3, {})),
        errors=count_errors(judge, lines, [text] * 3, [[text]] * 3),
        calibration=None,
        rivals=(_stored(rival),),
        comparisons=(comparison,),
    )
    rate = MedianRange(1.0, 1.0, 1.0)
    return TrustReport(
        **facts,
        text=((text, text, text),),
        curves=((text, ((1, 2.0), (2, 1.0))),),
        tests=(result,),
        changes=((text, 20, comparison),),
        contrasts=((text, 8, 4),),
        speeds=(
            Speed("m", "greedy", "full", 3, 9, rate, rate, None),
            Speed("m", "greedy", "one", 3, 9, rate, rate, Latency(1.0, 2.0, 3.0)),
        ),
    )
