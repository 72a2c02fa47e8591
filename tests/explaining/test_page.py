"""The explaining page as a file: its data come back, its text can't become program, and it needs nothing else."""

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays
from small_records import store_language_model, store_translator
from unpacking import unpack

from dragoman.errors import ConfigError
from dragoman.explaining.page import page
from dragoman.explaining.page.page import ORDER, pack, render_page
from dragoman.explaining.record import Record
from dragoman.explaining.recording import record

PARTS = Path(page.__file__).parent / "parts"
SENTENCE = "the red cat sees the old station ."
HOSTILE = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(1)> ]]> & \u2028\u2029 {{script}} \\u003c \\"


class Reader(HTMLParser):
    """What a browser finds in a page: the tags, and the text of each script and style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[dict[str, str | None], str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style") and data.strip():
            self.raw.append((self.tags[-1][1], data))

    @property
    def program(self) -> str:
        (text,) = [data for attributes, data in self.raw if not attributes and "page.start(" in data]
        return text

    @property
    def facts(self) -> Any:
        (text,) = [data for attributes, data in self.raw if attributes.get("id") == "record"]
        return json.loads(text)


@pytest.fixture(scope="module")
def translation(tmp_path_factory: pytest.TempPathFactory) -> Record:
    return record(store_translator(tmp_path_factory.mktemp("model") / "model", "bpe", preset="modern"), SENTENCE)


# ---- packing ----


@given(
    arrays.arrays(np.float32, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0), elements=some.floats(width=32))
)
def test_packed_floats_come_back_with_four_digits(array: np.ndarray[Any, Any]) -> None:
    packed = json.loads(json.dumps(pack(array), allow_nan=False))
    back = unpack(packed)
    assert (back.shape, back.dtype) == (array.shape, np.float32)
    largest = np.abs(array) > np.finfo(np.float32).max * (1 - 2**-17)  # they round to infinity
    ordinary = np.isfinite(array) & ~largest
    smallest = np.finfo(np.float32).smallest_subnormal
    np.testing.assert_array_equal(back[~ordinary & ~largest], array[~ordinary & ~largest])
    error = np.abs(back[ordinary].astype(float) - array[ordinary].astype(float))
    assert (error <= np.maximum(2.0**-16 * np.abs(array[ordinary].astype(float)), 128 * smallest)).all()
    assert (np.signbit(back) == np.signbit(array))[~np.isnan(array)].all()


@given(arrays.arrays(np.int64, arrays.array_shapes(max_dims=3), elements=some.integers(-(2**50), 2**50)))
def test_packed_integers_come_back_as_they_were(array: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(unpack(json.loads(json.dumps(pack(array)))), array)


def test_an_array_that_is_a_view_is_packed_as_it_reads() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(unpack(pack(array)), array)


# ---- the page ----


def plain(packed: Any) -> Any:
    """Facts with arrays as lists, numbers with nine digits."""
    if isinstance(packed, dict):
        if "shape" in packed:
            return unpack(packed).tolist()
        return {key: plain(value) for key, value in packed.items()}
    if isinstance(packed, list):
        return [plain(value) for value in packed]
    return packed


def assert_close(one: Any, other: Any) -> None:
    """The same values, floats but for rounding."""
    if isinstance(one, float) or isinstance(other, float):
        assert one == pytest.approx(other, rel=2**-15, abs=1e-30)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert_close(value, other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for each, its in zip(one, other, strict=True):
            assert_close(each, its)
    else:
        assert one == other


def test_the_page_holds_the_whole_record(translation: Record) -> None:
    read = Reader(render_page(translation.facts(pack))).facts
    assert_close(plain(read), json.loads(json.dumps(translation.facts())))


@given(some.text() | some.text("<>/!-scriptSCRIPT&;\u2028\u2029\\\"'{}") | some.just(HOSTILE))
def test_no_text_ends_the_script_that_holds_it(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    read = Reader(render_page({"source": text, text: [text]}))
    assert read.facts == {"source": text, text: [text]}
    plainest = Reader(render_page({}))
    assert [tag for tag, _ in read.tags] == [tag for tag, _ in plainest.tags]
    assert read.program == plainest.program


def test_only_the_pages_own_program_may_run(translation: Record) -> None:
    read = Reader(render_page(translation.facts(pack)))
    (policy,) = [each["content"] for tag, each in read.tags if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    digest = base64.b64encode(hashlib.sha256(read.program.encode()).digest()).decode()
    assert rules == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest}'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on")]


def test_nothing_is_loaded_from_anywhere(translation: Record) -> None:
    text = render_page(translation.facts(pack))
    read = Reader(text)
    addresses = [value for _, each in read.tags for name, value in each.items() if name in ("href", "src", "action")]
    assert set(addresses) == {"#sections", "data:,"}
    written = text.replace("http://www.w3.org/2000/svg", "")  # the name of a kind of element, not an address
    assert not re.search(r"https?://|@import|url\(|\bimport\(|fetch\(|XMLHttpRequest|WebSocket|sendBeacon", written)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", read.program)


def test_every_part_of_the_page_is_there_and_in_use() -> None:
    sections = {
        name for path in PARTS.glob("*.js") for name in re.findall(r'^ +id: "(\w+)",$', path.read_text("utf-8"), re.M)
    }
    assert sections == set(ORDER)
    text = render_page({})
    for path in PARTS.iterdir():
        source = path.read_text("utf-8").strip()
        assert path.name == "shell.html" or source in text, f"{path.name} is not on the page"


def test_a_page_is_not_much_larger_than_its_numbers(translation: Record) -> None:
    """Four characters of base64 hold a number, and the words around them take less than the numbers themselves."""

    def numbers(packed: Any) -> int:
        if isinstance(packed, dict):
            return math.prod(packed["shape"]) if "f24" in packed else sum(map(numbers, packed.values()))
        return sum(map(numbers, packed)) if isinstance(packed, list) else 0

    facts = translation.facts(pack)
    bare, whole = len(render_page({})), len(render_page(facts))
    assert bare < 200_000
    assert whole - bare < 4 * numbers(facts) + 250_000


def test_numbers_that_are_not_finite_are_told_in_words_of_javascript() -> None:
    facts = {"log_prob": math.nan, "logits": [math.inf, -math.inf, 0.1], "packed": pack(np.array([np.nan], np.float32))}
    read = Reader(render_page(facts)).facts
    assert read["log_prob"] == {"number": "NaN"}
    assert read["logits"] == [{"number": "Infinity"}, {"number": "-Infinity"}, 0.1]
    assert np.isnan(unpack(read["packed"])).all()


@pytest.mark.parametrize("kind", ["bpe", "word", "unigram", "byte_bpe"])
def test_a_language_model_has_a_page(kind: str, tmp_path: Path) -> None:
    read = record(store_language_model(tmp_path / "model", kind), SENTENCE)
    assert Reader(render_page(read.facts(pack))).facts["parts"][0]["source"] is None


def test_a_notebook_shows_the_page_in_a_frame(translation: Record) -> None:
    (tag, attributes), script = Reader(translation._repr_html_()).tags
    assert script == ("script", {})
    assert (tag, attributes["sandbox"], attributes["title"]) == ("iframe", "allow-scripts", "Inside a translation")
    assert attributes["srcdoc"] == render_page(translation.facts(pack))


# ---- looks ----


def colours(style: str) -> list[dict[str, str]]:
    """The variables of the light and of the dark style."""
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    return [dict(re.findall(r"--(\w[\w-]*): (#[0-9a-f]{3,6});", block)) for block in blocks]


def light(colour: str) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.2)."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    shares = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted([light(one), light(other)])
    return (high + 0.05) / (low + 0.05)


def test_text_is_readable_on_every_ground_in_light_dark_and_print() -> None:
    day, night, paper = colours((PARTS / "style.css").read_text("utf-8"))
    for scheme in (day, night, paper):
        for text in ("ink", "muted", "accent", "good", "bad"):
            for ground in ("paper", "soft"):
                assert contrast(scheme[text], scheme[ground]) >= 4.5, (text, ground)
        for ground in ("heat", "heat-negative"):
            assert contrast(scheme["ink"], scheme[ground]) >= 4.5, ground
            assert contrast(scheme[ground], scheme["paper"]) >= 1.6, ground


def test_a_notebook_can_show_some_sections(translation: Record) -> None:
    def programs(frame: Any) -> str:
        return Reader(Reader(frame._repr_html_()).tags[0][1]["srcdoc"] or "").program

    some, whole = programs(translation.show("search", "attention")), programs(translation.show())
    assert [name for name in ORDER if f'id: "{name}"' in some] == ["attention", "search"]
    assert [name for name in ORDER if f'id: "{name}"' in whole] == list(ORDER)
    assert some.endswith("page.start(true);") and whole.endswith("page.start(false);")
    with pytest.raises(ConfigError, match="serch: no such section; there are overview, pieces"):
        translation.show("serch")
