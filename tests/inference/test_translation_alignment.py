"""Alignments of finished translations: the links that explaining draws, counted over whole lines."""

import json
from pathlib import Path

import pytest
from small_translators import SOURCES, asked, lines, make, make_plain, stored

from dragoman.cli.main import main
from dragoman.inference.alignment import AlignmentChoice, align_words, split_words, words_written
from dragoman.inference.teacher_forcing import ForcedText, Seen, cross_weights, plain_attention, teacher_force
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.model.attention import Attention
from dragoman.store.saving import save_model
from dragoman.surface.words import places_in_line
from dragoman.tokenizing.words import words_in_tokens, words_of

TWO = "Where is the cat ? The dog is old ."
COPIED = "x" * 101


@pytest.fixture(scope="module", params=["bpe", "word"])
def translator(request: pytest.FixtureRequest) -> Translator:
    return make(request.param)


def align(translator: Translator, text: str, **options: object) -> Translation:
    return translator.translate([text], asked(**{"beam_size": 2, "align": True, **options}))[0]


def moved(translation: Translation, source: int, target: int) -> set[tuple[int, int]]:
    return {(one + source, other + target) for one, other in translation.alignment}


def test_the_links_are_those_of_the_last_layer_but_one() -> None:
    translator = make("bpe", decoder_layers=3)
    for text in SOURCES:
        (drawn,) = translator.translate([text], asked(beam_size=2))
        tokens = {translator.tokenizers.target.tokens([i])[0]: i for i in range(translator.tokenizers.target.size)}
        labels = [tokens[each] for each in drawn.tokens]
        source = translator.framing.source(translator.tokenizers.source.encode(text))
        given, seen = ForcedText(source, translator.framing.target(labels[:-1]), labels), Seen()
        teacher_force(translator.model, [given], seen)
        weights = [seen[f"decoder.{layer}.cross_attention.weights"][0].detach().numpy() for layer in range(3)]
        words = words_of(translator.tokenizers.source, source), words_of(translator.tokenizers.target, labels)
        found = align(translator, text)
        assert set(found.alignment) == align_words(weights, *words, AlignmentChoice(1, None)).links
        assert (found.source_words, found.target_words) == tuple(tuple(word.text for word in each) for each in words)


def test_the_links_are_those_of_the_head_that_was_trained_to_align() -> None:
    """Where it reads a word, head 1 of layer 0 looks at the source's words in turn; no other head says so."""
    translator = make("word", decoder_layers=3, alignment_head=(0, 1))
    choice = AlignmentChoice.of(translator.model.config)
    assert (choice.layer, choice.head, choice.shifted) == (0, 1, True) and "trained to align" in choice.measured(
        0.1, 9
    ).how
    plain = make("word", decoder_layers=3)
    assert any(align(translator, text).alignment != align(plain, text).alignment for text in SOURCES)
    (text, *_) = SOURCES
    (drawn,) = translator.translate([text], asked(beam_size=2))
    tokens = {translator.tokenizers.target.tokens([i])[0]: i for i in range(translator.tokenizers.target.size)}
    labels = [tokens[each] for each in drawn.tokens]
    source = translator.framing.source(translator.tokenizers.source.encode(text))
    weights = cross_weights(translator.model, [ForcedText(source, translator.framing.target(labels[:-1]), labels)])[0]
    words = words_of(translator.tokenizers.source, source), words_of(translator.tokenizers.target, labels)
    assert set(align(translator, text).alignment) == align_words(list(weights), *words, choice).links


def test_an_alignment_changes_nothing_else(translator: Translator) -> None:
    for plain, aligned in zip(
        translator.translate(lines(5), asked(n_best=2)),
        translator.translate(lines(5), asked(n_best=2, align=True)),
        strict=True,
    ):
        for one, other in zip((plain, *plain.alternatives), (aligned, *aligned.alternatives), strict=True):
            assert (one.text, one.score, one.tokens) == (other.text, other.score, other.tokens)
            assert not (one.alignment or one.source_words or one.target_words)
            assert list(other.alignment) == sorted(set(other.alignment))
            assert other.target_words == tuple(split_words(other.text))
            targets = [target for _, target in other.alignment]
            assert len(set(targets)) == len(targets), "each word of the target has one source word at most"
            assert all(s < len(other.source_words) and t < len(other.target_words) for s, t in other.alignment)


def test_segments_are_aligned_by_themselves_and_counted_over_the_line(translator: Translator) -> None:
    one, two = align(translator, "Where is the cat ?"), align(translator, "The dog is old .")
    both = align(translator, TWO)
    assert set(both.alignment) == set(one.alignment) | moved(two, len(one.source_words), len(one.target_words))
    assert both.source_words == one.source_words + two.source_words


def test_a_copied_word_is_linked_to_itself(translator: Translator) -> None:
    found = align(translator, f"the cat {COPIED} the dog")
    (source,), (target,) = (
        [n for n, word in enumerate(each) if word == COPIED] for each in (found.source_words, found.target_words)
    )
    assert [link for link in found.alignment if source in link[:1] or target in link[1:]] == [(source, target)]
    assert align(translator, COPIED).alignment == ((0, 0),)
    prefixed = align(translator, COPIED, prefix="il gatto")
    assert prefixed.target_words == ("il", "gatto", COPIED) and prefixed.alignment == ((0, 2),)


@pytest.mark.parametrize("text", ["", "  \t", "\n"])
def test_a_blank_line_has_no_links(translator: Translator, text: str) -> None:
    found = align(translator, text)
    assert (found.alignment, found.source_words, found.target_words) == ((), (), ())


def test_a_line_that_is_broken_inside_a_word_is_linked_by_whole_words(translator: Translator) -> None:
    found = align(translator, "cat" * 30, max_source_tokens=8, split="long")
    assert found.source_words == ("cat" * 30,)
    assert {source for source, _ in found.alignment} == {0}


def test_texts_are_aligned_alone_as_in_company(translator: Translator) -> None:
    texts, options = [*lines(6), TWO, ""], asked(beam_size=2, align=True, batch_tokens=50)
    together = translator.translate(texts, options)
    assert [translator.translate([text], options)[0].alignment for text in texts] == [t.alignment for t in together]


def test_streams_samples_and_pytorch_align_too() -> None:
    translator, options = make_plain("bpe"), asked(align=True, risk_samples=4, batch_invariant=True)
    (found,) = translator.translate([TWO], options)
    assert found.alignment

    def whole():
        returned.append((yield from translator.stream(TWO, options)))

    returned: list[Translation] = []
    assert "".join(whole()) == found.text
    assert returned == [found]


def test_words_of_a_text_find_their_tokens_where_the_tokenizer_has_other_words() -> None:
    target = make("word").tokenizers.target
    ids = target.encode("dov'è la stazione ?")
    assert target.decode(ids) == "dov'è la stazione?"
    found = words_written(target, ids, target.decode(ids))
    assert [each.text for each in found] == ["dov'è", "la", "stazione", "?"]
    assert [each.first for each in found] == [0, *(each.last for each in found[:-1])]
    assert found[-1].last == len(ids)


def test_attention_is_computed_as_before_after_a_failed_pass() -> None:
    model = make("word").model
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    before = [attention.backend for attention in attentions]

    def fail() -> None:
        with plain_attention(model):
            assert {attention.backend for attention in attentions} == {"equation"} != {*before}
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [attention.backend for attention in attentions] == before


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character", "byte_bpe"])
def test_a_token_of_spaces_alone_belongs_to_the_word_after_it(kind: str) -> None:
    source = make(kind).tokenizers.source
    found = words_in_tokens(source, "the xyz", ["the", "xyz"])
    assert found == words_of(source, source.encode("the xyz"))
    assert source.tokens(source.encode("the xyz"))[found[1].first] == "▁" and found[0].last == found[1].first


def test_words_of_parts_are_numbered_over_the_line() -> None:
    assert places_in_line("你好。 it's", ["", "你好。", "it's"]) == [[], [0, 1, 2], [3]]
    assert places_in_line("abcd ef", ["ab", "cd ef"]) == [[0], [0, 1]]


def test_the_command_writes_pharaohs_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = stored("bpe")
    save_model(tmp_path / "m", model.model, model.files)
    expected = align(Translator.load(tmp_path / "m", "cpu"), TWO, beam_size=3, n_best=2)
    pharaoh = [" ".join(f"{a}-{b}" for a, b in each.alignment) for each in (expected, *expected.alternatives)]
    command = ["translate", str(tmp_path / "m"), TWO, "--align", "--quiet", "--device", "cpu"]
    assert main(command) == 0
    assert capsys.readouterr().out == f"{expected.text}\t{pharaoh[0]}\n"
    assert main([*command, "--n-best", "2"]) == 0
    assert [line.split("\t")[4] for line in capsys.readouterr().out.splitlines()] == pharaoh
    assert main([*command, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["alignment"] == [list(link) for link in expected.alignment]
    assert told["target_words"] == list(expected.target_words)
