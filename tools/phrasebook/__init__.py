"""The grammar that writes the phrasebook, an English-Italian corpus; `dragoman.text.phrasebook` reads what it wrote.

A lexicon (`lexicon`, ``lexicon/*.txt``) fills sentence patterns (`patterns`, ``patterns/*.txt``); two small grammars
(`english`, `italian`) inflect; `rendering` puts a sentence together, `generate` deals the sentences out to training and
tests. Start reading with `patterns`.

The English alone determines the Italian. Plain *you* is formal (Lei); a first name or "my friend" makes it familiar
(tu); "you all" and "you both" are voi. *I*, *you*, *we* and *they* are men unless the sentence says otherwise, and so
is a friend, a colleague or a guest; a title (*teacher*) takes the gender of the person who bears it, else the
masculine. *He* and *she* are said in Italian; the other pronouns go without saying.
"""
