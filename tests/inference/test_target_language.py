"""The target language of a model that has several, however the text comes in."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_marian import ENGLISH, write_marian

import dragoman
from dragoman.cli.main import main
from dragoman.data.corpus import EncodedCorpus
from dragoman.errors import ConfigError, DecodeError
from dragoman.inference import teacher_forcing
from dragoman.inference.options import SearchOptions
from dragoman.inference.teacher_forcing import ForcedText
from dragoman.inference.translator import Translator
from dragoman.model.transformer import EncoderDecoder
from dragoman.store.folder import load_model
from dragoman.surface.language_tags import LanguageTags
from dragoman.text.readers import Pair

pytestmark = pytest.mark.filterwarnings("ignore:Recommended")
TAGS = (">>ita<<", ">>fra<<", ">>pt_br<<")
FIRST, SECOND = ENGLISH[:2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("several")
    write_marian(path / "marian", tags=TAGS)
    dragoman.convert(path / "marian", path / "model")
    write_marian(path / "one")
    dragoman.convert(path / "one", path / "alone")
    return path / "model"


@pytest.fixture
def translator(folder: Path) -> Translator:
    return Translator.load(folder, "cpu", "float32")


def asked(translator: Translator, **changes: Any) -> SearchOptions:
    return translator.options.but(beam_size=2, **changes)


def texts(translator: Translator, given: list[str], **changes: Any) -> list[str]:
    return [each.text for each in translator.translate(given, asked(translator, **changes))]


def scores(translator: Translator, given: list[str], **changes: Any) -> list[float]:
    """Log-probabilities, because a random model writes much the same into all languages."""
    return [round(each.log_prob, 4) for each in translator.translate(given, asked(translator, **changes))]


@pytest.mark.parametrize("split", ["sentence", "long"])
def test_every_piece_of_a_line_is_translated_into_its_language(translator: Translator, split: str) -> None:
    """Also where a line is cut because it is too long, and where a sentence is."""
    for line, pieces in ((f"{FIRST} {SECOND}", [FIRST, SECOND]), ("the old cat " * 8, None)):
        options = {"split": split, "max_source_tokens": 24}
        (found,) = translator.translate([f">>fra<< {line}"], asked(translator, **options))
        (other,) = translator.translate([line], asked(translator, target_language="fra", **options))
        (italian,) = translator.translate([line], asked(translator, target_language="ita", **options))
        assert found.text == other.text and "split" in found.flags
        assert found.log_prob == other.log_prob != italian.log_prob
        assert found.tokens == other.tokens and found.source == f">>fra<< {line}" and other.source == line
        if pieces:
            alone = scores(translator, [f">>fra<<{piece}" for piece in pieces], **options)
            assert found.log_prob == pytest.approx(sum(alone), abs=1e-3) and len(pieces) == 2


def test_every_request_begins_with_the_tag_and_keeps_its_length(translator: Translator) -> None:
    line = f">>pt_br<< {FIRST} {'x' * 150} {SECOND}"
    (segments,) = translator.read([line], asked(translator, max_source_tokens=12, split="long"))
    tag = translator.tokenizers.source.languages["pt_br"]
    assert len(segments.translated) > 2 and any(segment.is_copied for segment in segments.parts)
    assert all(segment.ids[0] == tag and tag not in segment.ids[1:] for segment in segments.translated)
    assert max(len(segment.ids) for segment in segments.translated) <= 12


def test_a_text_may_name_another_language_than_the_one_for_all(translator: Translator) -> None:
    mixed = scores(translator, [FIRST, f">>ita<< {FIRST}"], target_language="fra")
    alone = scores(translator, [f">>fra<< {FIRST}", f">>ita<<{FIRST}"])
    assert mixed == alone and alone[0] != alone[1]
    (inside,) = scores(translator, [f">>fra<< {FIRST} >>ita<< {SECOND}"], split="sentence")
    assert inside == pytest.approx(sum(scores(translator, [f">>fra<< {FIRST}", f">>ita<< {SECOND}"])), abs=1e-3)


@pytest.mark.parametrize("name", ["fra", "fr", "FRA", "fr-fr", "pt-BR", "pt_br", "por-br", "PT_BR", "pt"])
def test_a_language_is_found_by_any_of_its_codes(translator: Translator, name: str) -> None:
    wanted = "fra" if name.lower().startswith("f") else "pt_br"
    assert translator.tags.find(name) == wanted
    assert scores(translator, [f">>{name}<< {FIRST}"]) == scores(translator, [FIRST], target_language=wanted)


def test_alignment_and_streaming_and_blank_lines_go_on_as_before(translator: Translator) -> None:
    with_tag, without = f">>fra<< {FIRST} {SECOND}", f"{FIRST} {SECOND}"
    options = asked(translator, align=True)
    (tagged,) = translator.translate([with_tag], options)
    (plain,) = translator.translate([without], options.but(target_language="fra"))
    assert tagged.alignment == plain.alignment and tagged.source_words == plain.source_words
    assert "<<" not in "".join(tagged.source_words)
    streamed = translator.stream(with_tag, asked(translator))
    assert "".join(streamed) == texts(translator, [with_tag])[0]
    assert "".join(texts(translator, ["", "  ", ">>fra<<", ">>fra<<  "])).strip() == ""


def test_words_are_linked_to_the_tokens_behind_the_tag(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_at_the_last_token(model: EncoderDecoder, forced: Sequence[ForcedText]) -> list[np.ndarray]:
        shapes = [(model.config.decoder_layers, 1, len(text.target), len(text.source or ())) for text in forced]
        weights = [np.zeros(shape) for shape in shapes]
        for each in weights:
            each[..., -2] = 1.0  # the end symbol follows it
        return weights

    monkeypatch.setattr(teacher_forcing, "cross_weights", look_at_the_last_token)
    (found,) = translator.translate([f">>fra<< {FIRST}"], asked(translator, align=True))
    assert {source for source, _ in found.alignment} == {len(found.source_words) - 1}


def test_an_unknown_tag_is_refused_and_a_forgotten_one_is_told_once(
    folder: Path, translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DecodeError, match="no target language 'deu'; it has ita, fra, pt_br"):
        texts(translator, [FIRST], target_language="deu")
    with pytest.raises(DecodeError, match=r"'>>deu<< Where.*begins with a tag, but .* 'deu'; it has ita, fra, pt_br"):
        texts(translator, [FIRST, f">>deu<< {FIRST}"])
    with caplog.at_level(logging.WARNING):
        texts(translator, [FIRST, f">>fra<< {FIRST}", ""])
        texts(translator, [FIRST])
    (told,) = caplog.messages
    assert told.startswith("1 of 3 texts do not say into which language") and told.endswith("has ita, fra, pt_br")
    alone = Translator.load(folder.parent / "alone", "cpu", "float32")
    with pytest.raises(DecodeError, match="the model has no target language 'fra'; it has it"):
        texts(alone, [FIRST], target_language="fra")
    caplog.clear()
    assert texts(alone, [f">>fra<< {FIRST}"]) and not caplog.messages, "where there are no tags, it is text"
    assert texts(translator, [f">> {FIRST} <<", f">>a/b<< {FIRST}"], target_language="fra"), "no tags, but text"


def test_a_source_language_alone_does_not_choose_a_target(translator: Translator) -> None:
    with pytest.raises(DecodeError, match="give --target-language: en-ita, en-fra, en-pt_br"):
        translator.translate([FIRST], asked(translator, source_language="en"))


def test_of_languages_with_one_code_the_one_that_is_named_is_found() -> None:
    languages = LanguageTags({"fra": 5, "fr": 6, "ita": 7})
    assert [languages.find(name) for name in ("fra", "fr", "it")] == ["fra", "fr", "ita"]
    with pytest.raises(DecodeError, match="several target languages 'FR': fra, fr"):
        languages.find("FR")


def test_many_languages_are_not_all_listed() -> None:
    several = LanguageTags({f"x{number:02}": number for number in range(60)})
    assert str(several).endswith("x38, x39 and 20 others")


def test_files_commands_and_scores_take_the_language(
    folder: Path, translator: Translator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{line}\n" for line in ENGLISH))
    wanted = texts(translator, ENGLISH, target_language="fra")
    shared = [str(folder), "--beam-size", "2", "--precision", "float32", "--target-language", "fra", "-q"]
    assert main(["translate", *shared, "--input", str(lines), "--output", str(tmp_path / "out.txt")]) == 0
    assert (tmp_path / "out.txt").read_text().splitlines() == wanted
    assert main(["translate", *shared[:-3], "--set", "decode.target_language=fra", "-q", FIRST]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == wanted[0]
    assert main(["translate", str(folder), "--target-language", "deu", FIRST]) == 2
    assert "it has ita, fra, pt_br" in capsys.readouterr().err
    pairs = tmp_path / "pairs.en-it.tsv"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in zip(ENGLISH, wanted, strict=True)))
    assert main(["evaluate", *shared, str(pairs), "--output", str(tmp_path / "found.txt")]) == 0
    assert (tmp_path / "found.txt").read_text().splitlines() == wanted
    blank = next(iter(dragoman.score(folder, [Pair(" ", "x", "line 1")], ["decode.target_language=fra"])))
    assert blank.problem == "the source is blank"
    options = asked(translator)
    given = [f">>fra<< {line}" for line in ENGLISH]
    by_tag = [each.log_prob for each in translator.score(given, wanted, options)]
    assert by_tag == [each.log_prob for each in translator.score(ENGLISH, wanted, options.but(target_language="fra"))]
    found = [
        each.log_prob
        for each in dragoman.score(folder, str(pairs), ["decode.target_language=fra"], precision="float32")
    ]
    assert found == pytest.approx(by_tag)


def test_explaining_takes_the_language(folder: Path) -> None:
    by_tag = dragoman.record(folder, f">>fra<<{FIRST}")
    by_name = dragoman.record(folder, FIRST, target_language="fra")
    assert by_tag.target == by_name.target
    assert by_tag.parts[0].log_prob != dragoman.record(folder, FIRST, target_language="ita").parts[0].log_prob
    assert [part.log_prob for part in by_tag.parts] == [part.log_prob for part in by_name.parts]
    given = [
        dragoman.record(folder, text, "Dove sta", target_language=name).parts[0].log_prob
        for text, name in ((f">>fra<< {FIRST}", None), (FIRST, "fra"), (FIRST, "ita"))
    ]
    assert given[0] == given[1] != given[2]


def test_a_fine_tuned_model_has_learnt_with_tags_and_keeps_its_language(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "mine.en-fr.tsv"
    data.write_text("".join(f"{number} {line}\tle {number}\n" for number in range(20) for line in ENGLISH))
    overrides = ["decode.target_language=fr", "train.steps=2", "data.source_language=en", "data.target_language=fr"]
    run = dragoman.fine_tune(folder, str(data), overrides=overrides, runs=tmp_path / "runs").folder
    tag = load_model(folder).tokenizers.source.languages["fra"]
    corpus = EncodedCorpus.open(run / "corpus" / "train")
    assert corpus.source is not None
    assert all(int(corpus.source.row(number)[0]) == tag for number in range(len(corpus)))
    assert Translator.load(run).options.target_language == "fr"
    with pytest.raises((ConfigError, DecodeError), match="it has ita, fra, pt_br"):
        dragoman.fine_tune(
            folder, str(data), overrides=[*overrides, "decode.target_language=deu"], runs=tmp_path / "runs", name="no"
        )


def test_a_converted_model_lists_its_languages(folder: Path, tmp_path: Path) -> None:
    found = dragoman.convert(folder.parent / "marian", tmp_path / "again")
    assert any(
        "it translates into ita, fra, pt_br; begin each text with a tag such as >>ita<<" in note for note in found.notes
    )
    assert "ita, fra, pt_br" in (tmp_path / "again" / "README.md").read_text()
