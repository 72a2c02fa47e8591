"""Faults that are planted to see whether flags find them."""

import flags
import pytest

from dragoman.cli.train import FINISHED
from dragoman.inference.translator import Translator


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(FINISHED, "cpu", "float32", progress=False)


def test_a_translation_that_is_forced_is_flagged_as_if_the_model_had_chosen_it(translator: Translator):
    chosen = translator.translate(["Where is the station?", "I have 2 books.", "The zyx is a qwz."], progress=False)
    forced = flags.forced(translator, [(one.source, one.text) for one in chosen])
    assert [(one.text, one.flags) for one in forced] == [(one.text, one.flags) for one in chosen]
    assert [one.log_prob for one in forced] == pytest.approx([one.log_prob for one in chosen], abs=1e-3)


def test_planted_faults_are_flagged_and_lines_of_several_sentences_left_out(translator: Translator):
    pairs = [("I have 2 books.", "Ho 3 libri."), ("Good morning. Thank you.", "Buongiorno. Grazie.")]
    (lost,) = flags.forced(translator, pairs)
    assert lost.lost == ("2",) and "lost" in lost.flags


def test_the_area_is_the_share_of_pairs_in_order():
    assert flags.area([-3.0, -1.0, -1.0, 0.0], [True, True, False, False]) == (2 + 1.5) / 4
    assert flags.shuffled("One two three four.") != "One two three four."
    assert sorted(flags.shuffled("One two three.")) == sorted("One two three.")
