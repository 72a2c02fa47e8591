"""A model with several directions, with the symbol of the target language before the source, or before the target."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from small_translators import GERMAN, SOURCES, TARGETS, asked, make_several, save_several, several

import dragoman
from dragoman.cli.main import main
from dragoman.directions import Directions
from dragoman.errors import DecodeError
from dragoman.explaining.recording import Recorder
from dragoman.inference.options import SearchOptions
from dragoman.inference.translator import Translator
from dragoman.serving.rewriting import other_words

SOURCE = "the red cat sees the old dog . where is the station ?"
ITALIAN: dict[str, Any]
ENGLISH: dict[str, Any]
ITALIAN, ENGLISH = (
    {"source_language": "en", "target_language": "it"},
    {"source_language": "it", "target_language": "en"},
)


@pytest.fixture(scope="module", params=[False, True], ids=["source", "target"])
def translator(request: pytest.FixtureRequest) -> Translator:
    return make_several(request.param)


def options(**changes: Any) -> SearchOptions:
    return asked(**{"beam_size": 2, **ITALIAN, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"raw": True},
        {"align": True, "n_best": 2},
        {"terms": (("cat", "gatto"),)},
        {"risk_samples": 3, "beam_size": 1},
        {"prefix": "il cane"},
        {"banned_words": ("il", "good")},
        {"split": "never", "minimum_length": 3, "no_repeat_ngram": 2},
        {"pivot": "none", "source_language": "it", "target_language": "de"},
    ],
)
def test_the_symbol_of_a_language_is_no_text(translator: Translator, changes: dict[str, Any]) -> None:
    (result,) = translator.translate([SOURCE], options(**changes), progress=False)
    for translation in (result, *result.alternatives):
        assert translation.text and "<<" not in translation.text
        assert not any("<<" in word for word in (*translation.source_words, *translation.target_words))
        assert all(
            source < len(translation.source_words) and target < len(translation.target_words)
            for source, target in translation.alignment
        )
        assert not translation.unknown_words
        assert not any(token.startswith(">>") for token in translation.tokens)
        assert len(translation.tokens) == len(translation.token_log_probs)
        assert sum(translation.token_log_probs) == pytest.approx(translation.log_prob, abs=1e-4)


def test_tags_pivots_and_options_reach_the_same_translation(translator: Translator) -> None:
    by_option = translator.translate(SOURCES, options(), progress=False)
    directed = translator.directed(options())
    assert directed.languages == ("en", "it") and translator.languages == ("mul", "mul")
    assert directed.translate(SOURCES, progress=False, beam_size=2) == directed.translate(
        SOURCES, directed.options.but(beam_size=2), progress=False
    )
    tagged = [f">>it<< {text}" for text in SOURCES]
    result = translator.translate(["", *tagged, " "], options(target_language=None), progress=False)
    assert [item.tokens for item in result[1:-1]] == [item.tokens for item in by_option]
    assert not result[0].text and not result[-1].text
    mixed = translator.translate([tagged[0], f">>de<<{SOURCES[0]}"], options(target_language=None), progress=False)
    german = translator.translate(SOURCES[:1], options(target_language="de"), progress=False)
    assert [item.log_prob for item in mixed] == [by_option[0].log_prob, german[0].log_prob]
    assert directed.directed(options(target_language="deu")).languages == ("en", "de")
    assert directed.directed(options(), ">>de<< a").languages == ("en", "de")


def test_a_pivot_is_two_translations_and_changes_no_shared_translator(translator: Translator) -> None:
    through = options(source_language="it", target_language="de", pivot="en")
    pivoted = translator.directed(through)
    (result,) = pivoted.translate(TARGETS[:1], progress=False)
    (middle,) = translator.translate(TARGETS[:1], pivoted.options.but(target_language="en", pivot=None), progress=False)
    (last,) = translator.translate([middle.text], pivoted.options.but(source_language="en", pivot=None), progress=False)
    assert result.text == last.text and pivoted.languages == ("it", "de")
    direct = pivoted.directed(through.but(pivot="none"))
    assert direct.translate(TARGETS[:1], progress=False)[0].log_prob != result.log_prob
    assert pivoted.translate(TARGETS[:1], progress=False)[0] == result, "it still goes through the pivot"
    with pytest.raises(DecodeError, match="nothing is scored; --pivot none scores directly"):
        pivoted.score(TARGETS[:1], GERMAN[:1])


def test_both_legs_of_a_pivot_use_a_shared_search(translator: Translator) -> None:
    through = options(source_language="it", target_language="de", pivot="en")
    shared: Any = object()
    for order in (translator.sharing(shared).directed(through), translator.directed(through).sharing(shared)):
        assert order._legs is not None
        assert all(leg.search.shared is shared for leg in (order, *order._legs))
    assert translator.search.shared is None


def test_a_direction_that_cannot_be_chosen_is_refused(translator: Translator) -> None:
    def refused(match: str, **changes: Any) -> None:
        with pytest.raises(DecodeError, match=match):
            translator.translate(SOURCES, options(**changes), progress=False)

    refused("give --source-language and --target-language: en-it", source_language=None, target_language=None)
    refused("give --target-language: en-it, en-de", target_language=None)
    refused("no source language 'fr'; it has en, it, de", source_language="fr")
    refused(
        "not trained to translate it to de; --pivot en translates through it", **{**ENGLISH, "target_language": "de"}
    )
    refused("no pivot language 'fr'", source_language="it", target_language="de", pivot="fr")


def test_scores_are_those_of_the_search_in_any_mixture_of_directions(translator: Translator) -> None:
    directions = [(*pair, text) for pair, text in ((("en", "it"), SOURCES[0]), (("en", "de"), SOURCES[1]))]
    texts = [f">>{target}<< {text}" for _, target, text in directions]
    result = translator.translate(texts, options(target_language=None), progress=False)
    scored = translator.score(texts, [item.text for item in result], options(target_language=None))
    for first, second in zip(result, scored, strict=True):
        assert second.log_prob == pytest.approx(first.log_prob, abs=1e-4) and second.tokens[:1] == first.tokens[:1]
        assert not second.tokens[0].startswith(">>") and len(second.tokens) == len(second.token_log_probs)


def test_streams_and_other_words_go_on_behind_the_symbol(translator: Translator) -> None:
    directed = translator.directed(options())
    (whole,) = directed.translate([SOURCES[0]], options(), progress=False)
    assert "".join(translator.stream(SOURCES[0], options())) == whole.text
    words = whole.text.split()
    alternatives = other_words(directed, SOURCES[0], whole.text, len(words) - 1, options())
    before = " ".join(words[:-1])
    base = directed.score([SOURCES[0]], [before])[0].token_log_probs[:-1] if before else ()
    for alternative in alternatives:
        scored = directed.score([SOURCES[0]], [alternative.prefix])[0].token_log_probs[:-1]
        assert sum(scored) - sum(base) == pytest.approx(math.log(alternative.probability), abs=1e-3), alternative


@pytest.mark.parametrize("target_prefix", [False, True])
def test_an_explanation_shows_the_symbol_as_a_token(tmp_path: Path, target_prefix: bool) -> None:
    folder = save_several(tmp_path / "model", target_prefix)
    record = dragoman.record(folder, SOURCES[1], **ITALIAN)
    loaded = Translator.load(folder, "cpu", "float32")
    (result,) = loaded.translate([SOURCES[1]], progress=False, **ITALIAN)
    (part,) = record.parts
    encoder, decoder = ([token.text for token in stack.tokens] for stack in part.stacks)
    assert record.target == result.text and record.languages == ("en", "it")
    assert encoder[1] == (">>en<<" if target_prefix else ">>it<<") and (decoder[1] == ">>it<<") == target_prefix
    assert part.log_prob == pytest.approx(result.log_prob, abs=1e-4)
    read = dragoman.record(folder, f">>it<< {SOURCES[1]}", result.text, source_language="en")
    assert read.parts[0].log_prob == pytest.approx(result.log_prob, abs=1e-4)
    recorder = Recorder(several(target_prefix))
    english, german = recorder.directed(**ITALIAN), recorder.directed(source_language="en", target_language="de")
    assert english._alignment and english._alignment.pairs and german._alignment and not german._alignment.pairs
    assert recorder.translator is not None and recorder.translator.languages == ("mul", "mul")
    space = dragoman.load_embeddings(folder)
    pieces = [piece for piece in space.tokenizer.vocabulary.pieces if piece.isascii()]
    assert {space.shown[entry] for entry in space.entries} >= {*pieces} and ">>it<<" not in space.entries


@pytest.mark.parametrize("target_prefix", [False, True])
def test_commands_take_languages_tags_and_documents(
    tmp_path: Path, target_prefix: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save_several(tmp_path / "model", target_prefix)
    loaded = Translator.load(folder, "cpu", "float32")
    lines, output, page = (tmp_path / name for name in ("lines.txt", "out.txt", "page.html"))
    lines.write_text(f">>it<< {SOURCES[1]}\n\n>>de<< {SOURCES[1]}\n")
    shared = ["translate", str(folder), "--precision", "float32", "--source-language", "en"]
    assert main([*shared, "--input", str(lines), "--output", str(output)]) == 0
    result = loaded.translate(
        [f">>{name}<<{SOURCES[1]}" for name in ("it", "de")], source_language="en", progress=False
    )
    wanted = [translation.text for translation in result]
    assert output.read_text().splitlines() == [wanted[0], "", wanted[1]]
    assert main([*shared, "--target-language", "ita", SOURCES[1]]) == 0
    shown = capsys.readouterr()
    assert shown.out.strip() == wanted[0] and "en → it, cpu" in shown.err
    page.write_text(f"<html lang='en'><p>{SOURCES[1]}</p></html>")
    assert main([*shared, "--input", str(page), "--output", str(tmp_path / "no.html")]) == 2
    assert "give --target-language: en-it, en-de" in capsys.readouterr().err and not (tmp_path / "no.html").exists()
    assert main([*shared, "--target-language", "de", "--input", str(page), "--output", str(tmp_path / "de.html")]) == 0
    assert 'lang="de"' in (tmp_path / "de.html").read_text().replace("'", '"')
    assert main([*shared, "--target-language", "fr", SOURCES[1]]) == 2
    assert "no target language 'fr'; it has it, en, de" in capsys.readouterr().err
    assert main(["export", str(folder), "ctranslate2", "--out", str(tmp_path / "exported")]) == 2
    assert "symbols of languages (en, it, de) come after the pieces" in capsys.readouterr().err
    assert not (tmp_path / "exported").exists()


def test_ensembles_translate_in_a_direction(translator: Translator) -> None:
    model = several(translator.framing.target_prefix)
    pair = Translator(model, "cpu", "float32", ensemble=[model])
    (alone,), (together,) = (item.translate(SOURCES[:1], options(), progress=False) for item in (translator, pair))
    assert together.text == alone.text and together.log_prob == pytest.approx(alone.log_prob, abs=1e-4)
    second = several(translator.framing.target_prefix, directions=Directions.of([("en", "it"), ("en", "de")]))
    with pytest.raises(dragoman.Error, match="can't join the ensemble"):
        Translator(model, "cpu", "float32", ensemble=[second])


@pytest.mark.parametrize("target_prefix", [False, True])
def test_a_symbol_that_the_model_prefers_is_not_written_in_a_translation(target_prefix: bool) -> None:
    stored = several(target_prefix)
    symbols = [*stored.tokenizers.target.languages.values()]
    with torch.no_grad():
        stored.model.get_parameter("output")[symbols] *= 50
    translator = Translator(stored, "cpu", "float32").directed(options())
    requests = translator.requests.of(translator.read([SOURCE], options()), options())[0]
    for hypotheses in translator.search.hypotheses(requests, options()):
        assert [token for token in hypotheses[0].tokens if token in symbols] == symbols[1:2] * target_prefix
