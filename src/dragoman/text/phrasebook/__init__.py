"""The phrasebook: an English-Italian corpus that this project writes itself, and the data that need no network.

A lexicon (`lexicon`, ``lexicon/*.txt``) fills sentence patterns (`patterns`, ``patterns/*.txt``); two small grammars
(`english`, `italian`) inflect; `rendering` puts a sentence together, `generate` deals the sentences out to training and
tests. Start reading with `patterns`.

The English alone determines the Italian. Plain *you* is formal (Lei); a first name or "my friend" makes it familiar
(tu); "you all" and "you both" are voi. *I*, *you*, *we* and *they* are men unless the sentence says otherwise, and so
is a friend, a colleague or a guest; a title (*teacher*) takes the gender of the person who bears it, else the
masculine. *He* and *she* are said in Italian; the other pronouns go without saying.
"""

from dragoman.text.phrasebook.generate import Phrasebook, make_phrasebook, words, write_phrasebook

__all__ = ["Phrasebook", "make_phrasebook", "words", "write_phrasebook"]
