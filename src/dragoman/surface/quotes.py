"""Quotes, brackets and marks of emphasis in a text, and the partner of each."""

import re
from collections import defaultdict
from collections.abc import Sequence

QUOTES = '"“”„‟«»‹›「」『』〝〞＂'
SINGLE_QUOTES = "'’‘‚"
OPENING, CLOSING = "([{（【〈《", ")]}）】〉》"
PAIR = rf"""(?P<quotes>``|''|(?<![^\s(]),,(?=\w)|[{QUOTES}{SINGLE_QUOTES}])
      | (?P<brackets>[{re.escape(OPENING + CLOSING)}])
      | (?P<emphasis>\*++|_++|~++|`)"""
"""Regular expression (verbose) for a mark that has a partner."""
PAIRED = re.compile(PAIR, re.VERBOSE)
_RUN = re.compile(rf"(?:[{QUOTES}{SINGLE_QUOTES}{re.escape(OPENING + CLOSING)}*_~`]|(?<![^\s(]),,(?=\w))++")
_FAMILY = {
    **dict.fromkeys([*QUOTES, "``", "''", ",,"], '"'),
    **dict.fromkeys(SINGLE_QUOTES, "'"),
    **dict(zip(CLOSING, OPENING, strict=True)),
}


def partners(text: str) -> dict[int, int]:
    """Map the position of each quote, bracket and mark of emphasis to that of its partner: the length of the text if
    it is not closed, -1 if it was not opened, its own position for an apostrophe, inches and quotes around nothing.

    >>> partners("“It's (he”) 5'")
    {3: 3, 0: 9, 9: 0, 6: 10, 10: 6, 13: 13}
    """
    partner: dict[int, int] = {}
    opened: defaultdict[str, list[int]] = defaultdict(list)
    for run in _RUN.finditer(text):
        before, after = text[run.start() - 1 : run.start()], text[run.end() : run.end() + 1]
        is_first, is_last = before.isspace() or before in "¿¡—–-…", after.isspace() or after in ".,!?;:…"
        opens = not before or (after != "" and (is_first if is_first != is_last else not opened['"']))
        is_empty = run[0] in ('""', "“”") and not before.strip() and (not after or is_last)
        is_apostrophe = run[0] in {*SINGLE_QUOTES} and before.isalnum() and after.isalnum()
        for match in PAIRED.finditer(text, run.start(), run.end()):
            mark, place = match[0], match.start()
            unclosed = opened[_FAMILY.get(mark, mark)]
            if is_empty or is_apostrophe:
                partner[place] = place
            elif mark in OPENING or (opens and mark not in CLOSING):
                unclosed.append(place)
            elif unclosed:
                opening = unclosed.pop()
                partner[opening], partner[place] = place, opening
            else:
                partner[place] = place if mark in SINGLE_QUOTES or (mark == '"' and before.isdigit()) else -1
    for mark, places in opened.items():
        partner.update((place, place if mark == "'" else len(text)) for place in places)
    return partner


def requoted(text: str, quotes: Sequence[str], typed: str = QUOTES) -> str:
    """Return the text with this pair in place of all double quotes, or of those in `typed`.

    >>> requoted('He said "yes" („ja“, « oui »).', "“”")
    'He said “yes” (“ja”, “ oui ”).'
    """
    partner_of = partners(text)

    def quote(match: re.Match[str]) -> str:
        partner = partner_of.get(match.start(), -1)
        return match[0] if partner == match.start() else quotes[partner < match.start()]

    return re.sub(f"[{typed}]", quote, text)
