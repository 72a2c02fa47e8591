"""Lines that nobody would write and some file holds: each has its translation, the same alone and in company."""

import json
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from compiler import needs_compiler

import dragoman
from dragoman.cli.main import main
from dragoman.inference.options import SearchOptions
from dragoman.inference.translator import Translator
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import build_model
from dragoman.store.description import Languages, ModelFiles
from dragoman.store.saving import save_model
from dragoman.text.readers import Pair
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

COUNT = 500
LEARNT = ["the cat sees the red dog .", "where is the station ?", "good morning , Anna !", "il gatto è rosso ."]
BRIEF = {"length_ratio": 0.3, "length_extra": 6, "max_source_tokens": 60}

FAMILY, FLAG, SKIN = "👨\u200d👩\u200d👧\u200d👦", "🇮🇹", "👍🏽"
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u034f\U000e0041"
DIRECTIONS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
CONTROL = "".join(map(chr, [*range(10), *range(11, 32), 127, *range(128, 160)]))
SEPARATORS = "\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e\u00a0\u3000\u1680"
STRANGE = "\ufffd\ufffe\uffff\U0001fffe\ue000\U0010ffff\ud7ff\ufdd0"
MARKS = "\u0301\u0308\u0327\u20dd\u0489\u0e49\u3099"
SCRIPTS = [
    "cat",
    "кошка",
    "γάτα",
    "猫",
    "ねこ",
    "고양이",
    "قطة",
    "חתול",
    "बिल्ली",
    "แมว",
    "𝔠𝔞𝔱",
    "ℂ𝕒𝕥",
    "ﬁn",
    "ǆ",
    "İi",
    "ß",
]
SPELLINGS = [
    *("[SOS]", "[EOS]", "[PAD]", "[UNK]", "[MASK]", "<unk>", "<s>", "</s>", "<pad>", "<0x0A>", "<0xFF>", "▁", "▁▁the"),
    *(
        "##ing",
        "@@ ",
        "Ġthe",
        "</w>",
        "<|endoftext|>",
        "<2it>",
        ">>ita<<",
        "__en__",
        "⁇",
        "\\n",
        "\\u0000",
        "%s",
        "{0}",
    ),
]
MARKUP = [
    *(
        "<b>the <i>cat</b></i>",
        "<br/>",
        "&amp;&#x0;&lt;",
        "<script>alert(1)</script>",
        "<!-- the",
        "]]>",
        "$(rm -rf /)",
    ),
    *("https://example.com/?q=a%20b&c=[d]#e", "a@b.c", "C:\\dir\\file.txt", "'; DROP TABLE t; --", "```py\tx```"),
    *("\x1b[31mred\x1b[0m", '{"a": "b"}', 'a,b,,"c"', "=1+1", "<a href='x'>the</a>", "ftp://[::1]:80/"),
]


def hostile_lines(count: int = COUNT, seed: int = 1) -> list[str]:
    """So many lines without `\\n`, each of one of the kinds below in turn."""
    draw = random.Random(seed)

    def some(of: str | list[str], most: int, between: str = "") -> str:
        return between.join(draw.choices(of, k=draw.randint(1, most)))

    def words(most: int) -> str:
        return some(" ".join(LEARNT).split(), most, " ")

    def any_character() -> str:
        while (found := chr(draw.randrange(0x110000))) == "\n" or "\ud800" <= found <= "\udfff":
            pass
        return found

    kinds: list[Callable[[], str]] = [
        lambda: "",
        lambda: some(" \t\u00a0\u3000", 20),
        lambda: some(CONTROL, 30),
        lambda: f"{words(3)}\0{words(3)}\0",
        lambda: f"{words(2)}{some(CONTROL + SEPARATORS, 5)}{words(2)}",
        lambda: some(INVISIBLE, 12),
        lambda: some(INVISIBLE, 3).join(words(3)),
        lambda: f"{some(DIRECTIONS, 4)}{some(SCRIPTS, 4, ' ')}{some(DIRECTIONS, 4)}",
        lambda: some([FAMILY, FLAG, SKIN, "🏴\U000e0067\U000e0062\U000e007f", "\u200d", "\ufe0f", "☃"], 12),
        lambda: f"{words(2)} {FAMILY * draw.randint(1, 60)}",
        lambda: some(MARKS, 40),
        lambda: "".join(letter + some(MARKS, 9) for letter in words(4)),
        lambda: words(1) * draw.randint(20, 400),
        lambda: draw.choice("aA1.!?-…。猫 \u0301") * draw.randint(50, 1500),
        lambda: some(SCRIPTS, 12),
        lambda: some(SCRIPTS, 12, " "),
        lambda: some(MARKUP, 4, " "),
        lambda: some(SPELLINGS, 6, draw.choice(["", " ", " the "])),
        lambda: f"{draw.choice(['', words(2)])}\ufeff{words(2)}\ufeff",
        lambda: some(STRANGE, 6) + words(1) + some(STRANGE, 2),
        lambda: some("0123456789.,-+eE%°²½٣४", 40),
        lambda: some(".,;:!?¡¿…\"'“”«»()[]{}-–—/\\|*_~#@^`", 30),
        lambda: some(["\r", "\r\r", "a\r", "\rthe"], 5),
        lambda: f"  \t{words(3)}  ",
        lambda: words(60),
        lambda: some([". ", "! ", "? ", "the. ", "A. B. ", "Mr. "], 40),
        lambda: "".join(any_character() for _ in range(draw.randint(1, 60))),
        lambda: unicodedata.normalize(draw.choice(["NFD", "NFKD", "NFKC"]), some(SCRIPTS, 6, " ") + "è ñ ü 각"),
        lambda: (words(5) + draw.choice([" ", ". ", ""])) * 2000,
    ]
    lines = [kinds[number % len(kinds)]() for number in range(count)]
    giants = [number for number, line in enumerate(lines) if len(line) > 10_000]
    for number in giants:
        lines[number] = lines[number][: 10_000 if number in giants[:5] else 1_000]
    draw.shuffle(lines)
    return lines


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return hostile_lines()


@pytest.fixture(scope="module", params=["unigram", "byte_bpe"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights that has seen four sentences."""
    settings = TokenizerSettings.model_validate({"kind": request.param, "minimum_frequency": 1})
    tokenizer = learn_tokenizer(LEARNT * 2, settings)
    sizes = {"d_model": 16, "heads": 2, "d_ff": 24, "encoder_layers": 1, "decoder_layers": 1}
    vocabularies = {"source_vocabulary": tokenizer.size, "target_vocabulary": tokenizer.size}
    model = build_model(ModelConfig.model_validate({**sizes, **vocabularies}), seed=5)
    folder = tmp_path_factory.mktemp("hostile") / "model"
    save_model(folder, model, ModelFiles(Tokenizers(tokenizer, tokenizer), Languages("en", "it"), dict(BRIEF)))
    return folder


def test_the_lines_are_of_many_kinds_and_the_same_every_time(lines: list[str]) -> None:
    assert len(lines) == COUNT and lines == hostile_lines() and not any("\n" in line for line in lines)
    assert sum(len(line) == 10_000 for line in lines) >= 5
    assert {"", "\0", "\r", "\ufeff", "▁"} <= {*"".join(lines), ""}
    assert any("[SOS]" in line for line in lines) and any(FAMILY in line for line in lines)
    "".join(lines).encode()


@needs_compiler
@pytest.mark.parametrize("width", [1, 3])
def test_every_line_is_translated_alone_as_in_company(width: int, folder: Path, lines: list[str]) -> None:
    translator = Translator.load(folder, "cpu", "float32")
    options = SearchOptions(**BRIEF, beam_size=width)  # pyright: ignore[reportArgumentType]
    together = translator.translate(lines, options)
    for line, found in zip(lines, together, strict=True):
        (alone,) = translator.translate([line], options)
        assert alone == found, ascii(line[:100])
        assert found.source == line
        assert not set(found.text) & set("\0\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
        if any(map(str.isalnum, line)) and "untranslatable" not in found.flags:
            assert found.text, ascii(line[:100])
        if not line.strip():
            assert not found.text


def test_a_file_of_them_has_as_many_lines_when_translated(folder: Path, lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes("".join(f"{line}\n" for line in lines).encode())
    for name, more in (("text", ()), ("json", ("--format", "json"))):
        command = ["translate", str(folder), "--input", str(tmp_path / "in"), "--output", str(tmp_path / name)]
        assert main([*command, "--beam-size", "1", "--threads", "1", "--quiet", *more]) == 0
    text = (tmp_path / "text").read_bytes().decode()
    facts = [json.loads(line) for line in (tmp_path / "json").read_text("utf-8").split("\n")[:-1]]
    assert text.count("\n") == len(facts) == COUNT
    assert text.split("\n")[:-1] == [each["text"] for each in facts]


def test_they_are_scored_or_have_a_reason(folder: Path, lines: list[str]) -> None:
    pairs = [Pair(line, other, "") for line, other in zip(lines, lines[1:] + lines[:1], strict=True)]
    found = list(dragoman.score(folder, pairs, device="cpu"))
    assert len(found) == COUNT and all((each.score is None) == bool(each.problem) for each in found)
