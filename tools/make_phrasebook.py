"""Makes the phrasebook that ships inside the package: .venv/bin/python tools/make_phrasebook.py"""

import gzip
from pathlib import Path

from phrasebook.generate import Sentence, Sentences, sentences
from phrasebook.parts_of_speech import tag_words

SHIPPED = Path(__file__).parents[1] / "src" / "dragoman" / "text" / "phrasebook.tsv.gz"


def shipped_text(made: Sentences) -> str:
    """One line a sentence, as `dragoman.text.phrasebook` reads them."""
    dealt = [(name, sentence) for name, part in made._asdict().items() for sentence in part]
    by_pattern = sorted(enumerate(dealt), key=lambda each: each[1][1].pair.origin)
    return "".join(_line(place, name, sentence) for place, (name, sentence) in by_pattern)


def _line(place: int, name: str, sentence: Sentence) -> str:
    pattern, pair = sentence.pattern, sentence.pair
    _, tags = tag_words(pattern.english, dict(zip(pattern.slots, sentence.lexemes, strict=True)))
    return "\t".join((str(place), name, pair.origin, pattern.topic, " ".join(tags), pair.source, pair.target)) + "\n"


if __name__ == "__main__":
    SHIPPED.write_bytes(gzip.compress(shipped_text(sentences()).encode(), 9, mtime=0))
