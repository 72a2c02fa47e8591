"""Terms are found as a pattern of all of them would find them, and their time grows with their number."""

import re
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.surface import terms as module
from dragoman.surface.terms import Terms, folded

WORDS = ["it", "IT", "Cat", "cats", "files", "don't", "don’t", "C++", "(a)", "a", "é", "É", "ß", "ẞ", "ſ", "S", "ist"]
phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join)
texts = st.lists(st.tuples(st.sampled_from([*WORDS, "İst"]), st.sampled_from([" ", "", ", ", "-"])), max_size=8)


def places(sources: list[str], text: str) -> list[tuple[int, int, str]]:
    """Find source terms by one pattern, the longest first."""
    ordered, groups = sorted(sources, key=lambda source: -len(source)), list[str]()
    for source in ordered:
        begin, end = (r"(?<!\w)" if source[0].isalpha() else ""), (r"(?!\w)" if source[-1].isalpha() else "")
        ending = r"[^\W\d_]{0,2}" if end and len(re.split(r"\W", source)[-1]) > 3 else ""
        written = re.sub("['’]", "['’]", re.escape(source))
        groups.append(f"({begin}(?{'' if source.isupper() else 'i'}:{written}){ending}{end})")
    return [(*match.span(), ordered[(match.lastindex or 1) - 1]) for match in re.finditer("|".join(groups), text)]


@settings(max_examples=150, deadline=None)
@given(sources=st.lists(phrases, min_size=1, max_size=6, unique=True), parts=texts)
def test_terms_are_found_as_by_one_pattern_of_all(sources: list[str], parts: list[tuple[str, str]]) -> None:
    text, terms = "".join(map("".join, parts)), Terms([(source, "x") for source in sources])
    spans = [(span.begin, span.end, terms.sources[number]) for span, number in terms.found(text)]
    assert spans == places(sources, text)
    assert len(folded(text)) == len(text)


def test_each_form_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    terms, calls = Terms([("station", *(f"fermata{number}" for number in range(1_000)))]), list[str]()
    monkeypatch.setattr(module, "folded", lambda text: calls.append(text) or folded(text))
    assert terms.missing("The station.", "la Fermata999 è") == [] and terms.missing("The station.", "è") == ["station"]
    assert not terms.begins_with_form(0, "la fermata7") and terms.begins_with_form(0, "Fermata7 e")
    assert len(calls) < 10  # texts, but no form


def test_a_dotless_i_is_another_letter() -> None:
    assert not Terms([("sik", "x")]).found("sık") and Terms([("sik", "x")]).found("SIK")


def test_overlapping_terms_take_no_memory_for_their_occurrences() -> None:
    terms, text = Terms([(" ".join(["a"] * count), "x") for count in range(1, 300)]), "a " * 3_000
    tracemalloc.start()
    spans = terms.found(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(spans) == 11 and peak < 5_000_000, "3,000 words: ten times the longest term, and the rest"
