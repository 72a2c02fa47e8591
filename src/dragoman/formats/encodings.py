"""The encoding of a text that is not UTF-8, judged by the letters that its bytes give in each encoding."""

import io
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import chain, combinations, islice
from typing import IO

from dragoman.formats.cancelling import check_cancelled

_WESTERN = "àèéìòùî àâçèéêëîïôùûüœ äöüß ñáéíóúü ãõáéíóúâêôàç æøåé äöåé éèëïöüá áéíóúýþæöð àéèíïóòúüç"
_CENTRAL = "áčďéěíňóřšťúůýž ąćęłńóśźż áéíóöőúüű áäčďéíĺľňóôŕšťúýž ăâîşţ čćđšž"
_CYRILLIC = "абвгдежзийклмнопрстуфхцчшщъыьэюяёіїєґўђјљњћџѓќѕ"
_KANA = "".join(map(chr, range(0x3041, 0x30FF)))
_SIMPLIFIED = "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下之年过后"
_TRADITIONAL = "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下之年過後"
_KOREAN = "이다는에을가고의를은로한지서도기어사하시나리자있해수주세"
_ARABIC = "ابتثجحخدذرزسشصضطظعغفقكلمنهويىةءآأؤإئپچژگ"
_LETTERS = {
    "WINDOWS-1252": _WESTERN,
    "WINDOWS-1250": _CENTRAL,
    "ISO-8859-2": _CENTRAL,
    "WINDOWS-1254": "çğıöşüâîİ",
    "WINDOWS-1257": "ąčęėįšųūž āčēģīķļņšūž äõöüšž",
    "CP932": _KANA,
    "GB18030": _SIMPLIFIED,
    "BIG5": _TRADITIONAL,
    "CP949": _KOREAN,
    "WINDOWS-1255": "אבגדהוזחטיכלמנסעפצקרשתךםןףץ",
    "WINDOWS-1251": _CYRILLIC,
    "KOI8-R": _CYRILLIC,
    "WINDOWS-1253": "αβγδεζηθικλμνξοπρστυφχψωςάέήίόύώϊϋΐΰ",
    "WINDOWS-1256": _ARABIC,
}
"""Encodings as iconv and Python call them, and the small letters of each language written in them; of East Asian
languages, common characters. The first of two that fit equally well is taken."""
_LEAST_COMMON = {_KANA: 0.3, _SIMPLIFIED: 0.2, _TRADITIONAL: 0.2, _KOREAN: 0.2}
"""The share of common characters in a text, at least."""
_NO_LETTERS = frozenset(" \xa0\u3000“”„‘’‚–—…«»·€°§¿¡、。「」『』・，！？：；（）")
_LAST_LATIN = "\u024f"
_AMONG_LATIN = re.compile(r"[a-zA-Z](?=[^\x00-\x7f])")
_LINES_JUDGED = 2000
_LEAST_FIT = 0.8
_BLOCK = 1 << 20


def advice(open_file: Callable[[], IO[bytes]]) -> str:
    """Return in words how many more lines of a file are not UTF-8, and how to fix it; names an encoding only if it can
    read the whole file.
    """
    with open_file() as file:
        beyond_ascii = (line for line in iter(partial(file.readline, _BLOCK), b"") if not line.isascii())
        odd = list(islice(beyond_ascii, _LINES_JUDGED))
        are_valid = Counter(map(_is_utf8, chain(odd, beyond_ascii)))
    valid, more = are_valid[True], are_valid[False] - 1
    others = f"nor {'is 1 more line' if more == 1 else f'are {more:,} more lines'}; " if more else ""
    if valid > more:
        return f"{others}{valid:,} other lines with such characters are UTF-8, so fix {'these' if more else 'this one'}"
    spoiled = f", but that would spoil those that are UTF-8 already: {valid:,}" if valid else ""
    broken = [line for line in odd if not _is_utf8(line)]
    fits = {name: _fit(odd, name) for name in _LETTERS}
    for name in sorted(fits, key=lambda name: -fits[name]):
        if fits[name] < _LEAST_FIT:
            break
        with suppress(UnicodeDecodeError), io.TextIOWrapper(open_file(), name) as file:
            while file.read(_BLOCK):  # to its end
                pass
            shown = " and ".join(repr(line.decode(name).strip()[:60]) for line in broken[:2])
            advised = f"as {name} it reads {shown}; if that is right, convert it (iconv -f {name} -t UTF-8)"
            return f"{others}{advised}{spoiled}"
    return f"{others}no encoding that is known here fits; save it as UTF-8 with the program that wrote it"


def _is_utf8(line: bytes) -> bool:
    with suppress(UnicodeDecodeError):
        return bool(line.decode())
    return False


def _fit(lines: list[bytes], name: str) -> float:
    """Return the share of the characters beyond ASCII that are letters of a language written in an encoding."""
    check_cancelled()
    try:
        text = "".join(line.decode(name) for line in lines)
    except UnicodeDecodeError:
        return 0.0
    counts = Counter(char for char in text if char > "\x7f" and char not in _NO_LETTERS)
    total = counts.total() or 1

    def share(letters: str) -> float:
        capitals = {letter.upper() for letter in letters}.difference(letters)
        # a wrong encoding gives many capitals
        return (sum(counts[letter] for letter in {*letters}) + sum(counts[letter] for letter in capitals) / 2) / total

    letters = _LETTERS[name]
    if letters in _LEAST_COMMON:
        return min(1.0, share(letters) / _LEAST_COMMON[letters])
    if letters[0] > _LAST_LATIN and len(_AMONG_LATIN.findall(text)) > total / 5:
        return 0.0  # half of a word is Latin
    languages = letters.split()
    two = (share("".join(pair)) - 0.05 for pair in combinations(languages, 2))
    return max(*map(share, languages), *two, 0.0)
