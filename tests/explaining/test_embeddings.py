"""The embedding space: small ones whose geometry is known, and what must be true whatever the vectors are."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.main import main
from dragoman.errors import ConfigError, DataError
from dragoman.explaining.embeddings import (
    EmbeddingSpace,
    Question,
    answer,
    load_embeddings,
    read_question,
)
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import EncoderDecoder, build_model
from dragoman.store.description import Languages, ModelFiles
from dragoman.store.folder import load_model
from dragoman.store.saving import save_model
from dragoman.tokenizing.special_tokens import PADDING, Framing
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

TEXTS = ["the cat sees the cats", "the dog sees the dogs", "a house , a station and the houses - bus-stop", "è l'acqua"]


def tokenizer_of(kind: str, texts: Sequence[str] = TEXTS, **settings: Any) -> Tokenizer:
    return learn_tokenizer(
        [text for text in texts for _ in range(3)],
        TokenizerSettings.model_validate({"kind": kind, "minimum_frequency": 1, **settings}),
    )


def random_space(kind: str = "word", width: int = 12, **settings: Any) -> EmbeddingSpace:
    tokenizer = tokenizer_of(kind, **settings)
    return EmbeddingSpace(torch.randn(tokenizer.size, width, generator=torch.Generator().manual_seed(3)), tokenizer)


def space_of(vectors: dict[str, Sequence[float]]) -> EmbeddingSpace:
    """A space of whole words in which each lies where it is put."""
    tokenizer = tokenizer_of("word", [" ".join(vectors)])
    table = torch.zeros(tokenizer.size, len(next(iter(vectors.values()))))
    for word, vector in vectors.items():
        table[tokenizer.encode(word)[0]] = torch.tensor(vector)
    return EmbeddingSpace(table, tokenizer)


ROYAL = {
    "king": [1, 1, 0, 0.1],
    "queen": [1, 0, 1, 0.1],
    "man": [0, 1, 0, 0],
    "woman": [0, 0, 1, 0],
    "prince": [1, 0.9, 0, 0.4],
    "apple": [0, 0, 0, 1],
}


# Neighbours


@pytest.mark.parametrize("kind", ["word", "bpe", "byte_bpe", "unigram"])
def test_neighbours_are_those_of_a_plain_loop(kind: str) -> None:
    space = random_space(kind, **({"vocabulary_size": 320} if kind == "unigram" else {}))
    term = space.find("cat")
    vector = numpy.mean([space.table[id_].numpy() for id_ in term.ids], axis=0)
    cosines = []
    for id_ in range(space.tokenizer.size - len(space.tokenizer.vocabulary.pieces), space.tokenizer.size):
        spelled, row = space.tokenizer.spelling(id_), space.table[id_].numpy()
        stands_for_text = (
            "\ufffd" not in spelled.decode(errors="replace") and id_ not in space.tokenizer.placeholders.values()
        )
        if stands_for_text and id_ not in term.ids:
            cosine = row @ vector / numpy.linalg.norm(row) / numpy.linalg.norm(vector)
            cosines.append((float(cosine), space.shown[id_]))
    found = space.nearest(space.vector(term), 5, term.ids)
    assert [each.entry for each in found] == [entry for _, entry in sorted(cosines, reverse=True)[:5]]
    assert [each.similarity for each in found] == pytest.approx([cosine for cosine, _ in sorted(cosines)[:-6:-1]])


def test_symbols_and_bytes_are_no_neighbours() -> None:
    space = random_space("bpe")
    everything = space.nearest(space.vector(space.find("cat")), 10_000)
    assert len(everything) == len(space.tokenizer.vocabulary.pieces) - len(space.tokenizer.placeholders)
    assert not {each.entry for each in everything} & {"[PAD]", "[EOS]", "<0x0A>", "<0xFF>", "[word 1]"}
    parts = random_space("byte_bpe")
    assert not [each for each in parts.entries if "\ufffd" in parts.tokenizer.spelling(each).decode(errors="replace")]


def test_the_length_of_rows_changes_no_neighbour() -> None:
    space = random_space()
    longer = EmbeddingSpace(space.table * torch.rand(len(space.table), 1).add(0.1), space.tokenizer)
    for word in ("cat", "house"):
        one, other = (each.nearest(each.vector(each.find(word)), 5) for each in (space, longer))
        assert [each.entry for each in one] == [each.entry for each in other]


# Names


@pytest.mark.parametrize("kind", ["bpe", "byte_bpe"])
def test_a_word_is_looked_up_as_it_stands_inside_a_text(kind: str) -> None:
    space = random_space(kind)
    assert space.find("cats").pieces == ("▁cats",) == space.find("▁cats").pieces
    inside = space.tokenizer.encode("the cats")[-1]
    assert space.find("cats").ids == (inside,)


def test_a_word_of_several_pieces_has_the_mean_of_their_rows() -> None:
    space = random_space("bpe")
    term = space.find("catstation")
    assert len(term.pieces) > 1 and "".join(term.pieces) == "▁catstation"
    mean = torch.stack([space.table[id_] for id_ in term.ids]).mean(0)
    torch.testing.assert_close(space.vector(term), mean / mean.norm())


def test_a_piece_inside_words_is_named_with_two_hashes() -> None:
    space = random_space("bpe")
    assert "at" in space.shown
    assert space.find("##at").pieces == ("at",)
    assert space.find("at").pieces != ("at",)
    assert "".join(space.find("##zz").pieces).startswith("▁")  # no such piece: it is text


def test_a_name_that_the_vocabulary_does_not_hold_is_refused_with_names_near_it() -> None:
    with pytest.raises(DataError, match=r"no word 'hause'; near it: house, houses"):
        random_space("word").find("hause")
    with pytest.raises(DataError, match=r"no piece '▁hause'; near it: .*▁house"):
        random_space("bpe").find("▁hause")
    for blank in ("", "  "):
        with pytest.raises(DataError, match="blank"):
            random_space("bpe").find(blank)


def test_entries_that_lie_with_the_padding_symbol_are_unused() -> None:
    whole = random_space("bpe", width=128)
    table = whole.table.clone()
    (house,) = whole.find("house").ids
    table[house] = table[1] * 3 + 0.1 * torch.randn(128)
    space = EmbeddingSpace(table, whole.tokenizer)
    assert (whole.unused, space.unused) == (frozenset(), {house})
    assert house in space.entries


def test_chance_is_what_random_pairs_have() -> None:
    space = random_space("bpe")
    cosine = (space.unit[space.entries] @ space.unit[space.entries].T).fill_diagonal_(torch.nan).flatten()
    assert space.chance.mean == pytest.approx(cosine.nanmean().item(), abs=0.01)
    assert space.chance.most == pytest.approx(cosine.nanquantile(0.95).item(), abs=0.02)
    assert space.chance == EmbeddingSpace(space.table, space.tokenizer).chance


# Questions


def test_an_analogy_is_answered_by_the_sum_of_vectors() -> None:
    space = space_of(ROYAL)
    found = answer(space, read_question(["king", "-", "man", "+", "woman"]), 2)
    assert found.neighbours[0].entry == "queen"
    assert [each.entry for each in found.alone] == ["prince", "queen", "apple"]
    unit = {word: numpy.array(vector) / numpy.linalg.norm(vector) for word, vector in ROYAL.items()}
    asked = unit["king"] - unit["man"] + unit["woman"]
    assert found.neighbours[0].similarity == pytest.approx(float(unit["queen"] @ asked / numpy.linalg.norm(asked)))


def test_the_words_of_a_question_are_no_answers() -> None:
    space = random_space("bpe")
    for question in (["cat"], ["cat", "-", "dog"], ["cat", "+", "dog", "-", "stationcat"]):
        found = answer(space, read_question(question), 10_000)
        asked = {piece for term in found.terms for piece in term.pieces}
        assert not asked & {each.entry for each in found.neighbours + found.alone}


def test_a_single_word_asks_for_its_neighbours() -> None:
    space = random_space()
    found = answer(space, read_question(["cat"]), 4)
    assert found.neighbours == space.nearest(space.unit[space.find("cat").ids[0]], 4, space.find("cat").ids)
    assert not found.alone


@given(st.lists(st.tuples(st.sampled_from("+-"), st.sampled_from(["cat", "▁hou", "-x", "l'acqua"])), min_size=1))
def test_a_question_is_read_as_it_is_written(parts: list[tuple[str, str]]) -> None:
    arguments = [each for part in parts for each in part][1:]
    question = read_question(arguments)
    assert str(question) == " ".join(arguments)
    assert read_question(str(question).split(" ")) == question


@pytest.mark.parametrize("sign", ["-", "+"])
def test_a_lone_sign_is_a_word(sign: str) -> None:
    assert read_question([sign]) == Question((sign,), (1,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["king", "-"], "'king -' ends with a sign"),
        (["-", "king"], "a word is missing before argument 1, '-'"),
        (["king", "-", "+", "man"], r"a word is missing before argument 3, '\+'"),
        (["king", "man"], "is missing between 'king' and 'man'"),
        (["king - man + woman"], "is one argument"),
        (["-", "-"], "a word is missing"),
    ],
)
def test_a_question_that_lacks_a_word_or_a_sign_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_question(arguments)


def test_words_that_cancel_out_are_refused() -> None:
    with pytest.raises(ConfigError, match="cancel out"):
        answer(space_of(ROYAL), read_question(["king", "-", "king"]))


# Models and the command


def write_model(folder: Path, **settings: object) -> Path:
    tokenizers = Tokenizers(tokenizer_of("word"), tokenizer_of("word", ["il gatto vede i gatti , ecco"]))
    sizes = {"d_model": 16, "heads": 2, "d_ff": 24, "encoder_layers": 1, "decoder_layers": 1, "tied": "none"}
    vocabularies = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    if settings.get("family") == "language_model":
        tokenizers = Tokenizers(tokenizers.target, tokenizers.target)
        del vocabularies["source_vocabulary"]
    if settings.get("tied") == "all":
        tokenizers = Tokenizers(tokenizers.source, tokenizers.source)
        vocabularies["target_vocabulary"] = tokenizers.source.size
    config = ModelConfig.model_validate({"preset": "modern", "size": "tiny", **sizes, **vocabularies, **settings})
    translates = config.family == "encoder_decoder"
    save_model(folder, build_model(config), ModelFiles(tokenizers, Languages("en", "it") if translates else None))
    return folder


def test_each_side_of_a_model_has_its_table(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    source, default, target = (load_embeddings(folder, side) for side in ("source", None, "target"))
    assert (source.title, target.title) == ("source, en", "target, it")
    assert torch.equal(source.table, default.table) and source.table.shape != target.table.shape
    assert target.find("gatti").pieces == ("gatti",)
    with pytest.raises(DataError, match="no word 'gatti'"):
        source.find("gatti")


def test_no_entry_is_called_unused_if_the_model_reads_the_padding_symbol(tmp_path: Path) -> None:
    """As models of Marian do before every target."""
    stored = load_model(write_model(tmp_path / "model", tied="all", d_model=128))
    assert isinstance(stored.model, EncoderDecoder)
    table = stored.model.target_embedding.weight
    table.data[-1] = table.data[PADDING] = 1.0
    save_model(tmp_path / "usual", stored.model, stored.files)
    framing = Framing(source_before=(), target_start=PADDING)
    save_model(tmp_path / "marian", stored.model, stored.files._replace(framing=framing))
    assert load_embeddings(tmp_path / "usual").unused == {len(table) - 1}
    assert load_embeddings(tmp_path / "marian").unused == frozenset()


def test_a_shared_table_serves_both_sides(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", tied="all")
    source, target = load_embeddings(folder, "source"), load_embeddings(folder, "target")
    assert source.title == target.title == "source and target, en and it"
    assert torch.equal(source.table, target.table)


def test_a_language_model_has_one_table(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", family="language_model", tied="target")
    assert load_embeddings(folder).title == "text"
    assert torch.equal(load_embeddings(folder).table, load_embeddings(folder, "target").table)
    with pytest.raises(ConfigError, match="has no source; leave out --side"):
        load_embeddings(folder, "source")


def test_an_encoder_alone_has_one_table(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", family="encoder", target_vocabulary=None)
    assert load_embeddings(folder).title == "text"
    assert torch.equal(load_embeddings(folder).table, load_embeddings(folder, "source").table)
    with pytest.raises(ConfigError, match="has no target; leave out --side"):
        load_embeddings(folder, "target")


def test_the_command_lists_neighbours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(write_model(tmp_path / "model"))
    assert main(["embeddings", folder, "cat", "--count", "3"]) == 0
    out, err = capsys.readouterr()
    expected = load_embeddings(folder)
    names = [each.entry for each in answer(expected, read_question(["cat"]), 3).neighbours]
    assert [line.split()[0] for line in out.splitlines()[2:]] == names
    assert "table: source, en" in err and "two random entries" in err


@pytest.mark.parametrize("words", [["cat", "-", "dog", "+", "dogs"], ["--", "cat", "-", "dog", "+", "dogs"]])
def test_the_command_takes_signs_as_arguments(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(write_model(tmp_path / "model"))
    assert main(["embeddings", folder, "--format", "json", "--side", "source", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["question"] == "cat - dog + dogs"
    assert [term["pieces"] for term in found["terms"]] == [["cat"], ["dog"], ["dogs"]]
    assert len(found["neighbours"]) == 10 and {"entry", "similarity"} == set(found["neighbours"][0])
    assert len(found["nearest_to_first_word_alone"]) == 3


@pytest.mark.parametrize("words", [["-"], ["--", "-"]])
def test_the_command_takes_a_lone_hyphen_as_a_word(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(write_model(tmp_path / "model"))
    assert main(["embeddings", folder, "--format", "json", *words]) == 0
    assert json.loads(capsys.readouterr().out)["terms"] == [{"text": "-", "pieces": ["-"]}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument"),
        (["cat", "-"], "ends with a sign"),
        (["cat", "--count", "0"], "--count"),
    ],
)
def test_mistakes_are_told_before_a_model_is_loaded(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["embeddings", "no-such-model", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_word_that_training_hardly_used_is_warned_of_even_if_quiet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = load_model(write_model(tmp_path / "model", d_model=128))
    assert isinstance(stored.model, EncoderDecoder) and stored.files.tokenizers is not None
    table, (house,) = stored.model.source_embedding.weight, stored.files.tokenizers.source.encode("house")
    table.data[house] = table.data[PADDING] = 1.0
    save_model(tmp_path / "unused", stored.model, stored.files)
    assert main(["embeddings", str(tmp_path / "unused"), "house", "--quiet"]) == 0
    assert "hardly used in training, so their vectors mean nothing: house" in capsys.readouterr().err
    assert main(["embeddings", str(tmp_path / "unused"), "cat", "--quiet"]) == 0
    assert "hardly used" not in capsys.readouterr().err
