import os
import statistics
import subprocess
import sys
import time
from collections import Counter

import pytest

from dragoman.data.phrasebook import Phrasebook, phrasebook, words, write_phrasebook
from dragoman.data.phrasebook import english, italian
from dragoman.data.phrasebook.generate import Sentences, deal, expand, sentences, walk
from dragoman.data.phrasebook.lexicon import lexicon, read, tagged
from dragoman.data.phrasebook.patterns import Pattern, pattern, patterns
from dragoman.data.phrasebook.rendering import PERSONS, render_english, render_italian
from dragoman.data.phrasebook.source import Entry
from dragoman.data.phrasebook.words import Lexeme, Noun
from dragoman.errors import DataError


@pytest.fixture(scope="module")
def sets() -> Sentences:
    return sentences()


@pytest.fixture(scope="module")
def book(sets: Sentences) -> Phrasebook:
    return Phrasebook(*([sentence.pair for sentence in part] for part in sets))
