"""Each check finds its planted error and nothing else, and its figures are those of the benchmark."""

import json
from pathlib import Path

import pytest

from dragoman.evaluating.error_kinds import KINDS, Judge
from dragoman.evaluating.trust_report import count_errors
from dragoman.inference.translation import Translation

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "results" / "planted.json"
CLEAN = [
    Translation("Tom paid 35 euros for the old red bicycle.", "Tom ha pagato 35 euro per la vecchia bicicletta rossa."),
    Translation("She wrote to Anna Nakamura in the evening.", "Ha scritto ad Anna Nakamura di sera."),
    Translation("Open {file} and wait for the green light.", "Apri {file} e aspetta la luce verde."),
    Translation("The cat sleeps on the chair in the kitchen.", "Il gatto dorme sulla sedia in cucina."),
    Translation("In June we went to the sea with Tom.", "In giugno siamo andati al mare con Tom."),
    Translation("My sister is very, very tired today.", "Mia sorella è molto, molto stanca oggi."),
    Translation("He was born on Monday, and it rained.", "È nato di lunedì, e pioveva."),
    Translation("We met them on Monday at the station.", "Li abbiamo visti lunedì alla stazione."),
] * 3
TERMS = (("bicycle", "bicicletta"),)


def judge(lines: list[Translation] | None = None) -> Judge:
    return Judge(lines or CLEAN, ("en", "it"), TERMS)


def test_clean_translations_have_no_error() -> None:
    assert [judge().findings(line) for line in CLEAN] == [{}] * len(CLEAN)


@pytest.mark.parametrize(
    ("number", "text", "kinds", "words"),
    [
        (
            3,
            "Il gatto nero dorme sempre tranquillo e contento on the chair in poltrona.",
            {"copied"},
            "on the chair in",
        ),
        (3, "Il gatto.", {"omitted"}, "about"),
        (3, "  ", {"omitted"}, "the whole text"),
        (3, "Il gatto dorme dorme dorme sulla sedia in cucina.", {"repeated"}, "3 times in a row"),
        (3, "Il gatto dorme sulla sedia sulla sedia in cucina.", {"repeated"}, "several words twice"),
        (3, "Die Katze schläft auf dem Stuhl in der Küche.", {"language"}, "Die Katze"),
        (0, "Tom ha pagato 53 euro per la vecchia bicicletta rossa.", {"numbers"}, "35, 53 (not in the source)"),
        (0, "Tom ha pagato trentacinque euro per la vecchia bicicletta rossa.", {"numbers"}, "35"),
        (0, "Tom ha pagato 35 euro per la vecchia bici rossa.", {"terms"}, "bicycle"),
        (1, "Ha scritto ad Anna Mifune di sera.", {"names"}, "Anna Nakamura"),
        (2, "Apri {Datei} e aspetta la luce verde.", {"placeholders"}, "{file}"),
    ],
)
def test_a_planted_error_is_found_and_shown(number: int, text: str, kinds: set[str], words: str) -> None:
    shown = judge().findings(Translation(CLEAN[number].source, text))
    assert shown.keys() == kinds and words in " ".join(shown.values())


def test_a_copy_of_the_whole_text_is_found_twice() -> None:
    source = CLEAN[3].source
    assert judge().findings(Translation(source, source)).keys() == {"copied", "language"}


def test_a_reference_decides_what_is_copied_and_omitted() -> None:
    film = Translation("We saw some like it hot with our friends", "Abbiamo visto some like it hot con gli amici")
    assert "copied" in judge().findings(film)
    assert judge().findings(film, ["Ieri abbiamo visto some like it hot con gli amici"]) == {}
    short = Translation("We should settle things once and for all.", "Tagliamo la testa.")
    assert "omitted" in judge().findings(short) and judge().findings(short, ["Tagliamo la testa al toro."]) == {}
    word = Translation("hello", "hello")
    assert judge().findings(word) == {} and "copied" in judge().findings(word, ["ciao"])


@pytest.mark.parametrize(
    ("source", "text", "kept", "translated", "kind"),
    [
        ("Hello, Mrs Clark!", "Salve, signora!", "Salve, Mrs Clark!", "Ciao, signora!", "names"),
        ("It starts at 7 sharp.", "Inizia in orario.", "Inizia alle 7 in punto.", "Inizia in punto.", "numbers"),
        ("Send it with {name} now.", "Invialo ora.", "Invialo ora con {name}.", "Mandalo ora.", "placeholders"),
    ],
)
def test_what_no_reference_keeps_is_not_lost(source: str, text: str, kept: str, translated: str, kind: str) -> None:
    line = Translation(source, text)
    assert kind in judge().findings(line) and kind in judge().findings(line, [translated, kept])
    assert kind not in judge().findings(line, [translated])
    assert judge().findings(line, [kept, text]) == {}, "it equals a reference"


def test_a_name_that_the_text_usually_translates_is_not_expected() -> None:
    assert judge().translated_names == {"Monday", "June"}
    once = [*CLEAN[:6], CLEAN[6]]
    assert "names" in judge(once).findings(CLEAN[6]), "a single sentence shows no habit"


def test_words_that_the_model_finds_improbable_are_invented() -> None:
    words, log_probs = ("il", "gatto", "di", "carta", "."), (-0.1, -0.2, -2.5, -3.0, -0.1)
    line = Translation("the cat", "il gatto di carta.", target_words=words, word_log_probs=log_probs)
    assert judge([line]).findings(line)["invented"] == "di carta"
    apart = Translation("the cat", "", target_words=words, word_log_probs=(-3.0, -0.2, -2.5, -0.3, -9.0))
    assert "invented" not in judge([line]).findings(apart)
    assert "invented" in judge().untested, "texts without probabilities are not judged"


def test_what_cannot_be_judged_is_said() -> None:
    unknown = Judge(CLEAN, ("und", "und"))
    assert unknown.untested.keys() == {"language", "terms", "invented"}
    assert "names" in Judge(CLEAN, ("de", "it")).untested
    assert unknown.findings(Translation(CLEAN[3].source, "Die Katze schläft auf dem Stuhl in der Küche.")) == {}
    assert judge().findings(Translation(" ", "qualcosa 35")) == {}


def test_counts_add_up() -> None:
    lines = [*CLEAN, Translation("It costs 20 euros, said Mr. Nakamura.", "Costa 30 euro, ha detto lui.")]
    errors = count_errors(judge(lines), lines, [f"line {number}" for number in range(len(lines))])
    counts = {count.kind: count.lines for count in errors.kinds}
    assert (errors.wrong, errors.lost, counts["numbers"], counts["names"], sum(counts.values())) == (1, 1, 1, 1, 2)
    assert errors.kinds[0].examples[0].place == f"line {len(CLEAN)}"
    assert errors.figures["lost"] == errors.figures["errors"] == (1, len(lines))


def test_precision_and_recall_are_those_of_the_benchmark() -> None:
    measured = json.loads(BENCHMARK.read_text("utf-8"))["together"]
    assert {kind: (about.precision, about.recall) for kind, about in KINDS.items()} == {
        kind: (round(figures["precision"], 2), round(figures["recall"], 2)) for kind, figures in measured.items()
    }
