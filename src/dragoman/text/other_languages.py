"""Rows in another language than the rest of their column, told by the script of their letters and, in Latin script, by
the small words of each language. Only certain ones are, because a false alarm would cost a good pair.
"""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Self

from dragoman.text.languages import UNKNOWN_LANGUAGE, same_language

OTHER_LANGUAGE = "a side in another language than its column"

LEARN_ROWS = 2_000
"""The number of rows, from the first, that tell the language of a column."""
_LEAST = 50
"""Less evidence says nothing of a column."""
_RIVAL = 0.7
"""The part of its evidence that another language may have, because languages share words."""
_CLEAR = 3
"""How much more evidence a row must give for another language than for that of its column."""
_LETTERS = 7
"""So many letters of another script are as much evidence as a small word."""
_JUDGED = 200
"""The number of characters of a text, from the first, whose scripts are looked at."""
_LAST_LATIN = "\u024f"

_SMALL_WORDS = {
    "ca": "el els les de del dels i en un una amb per que és no al a la ho hi què molt seva són va aquest aquesta",
    "cs": "a je se na v že to s z do o ve by jsem ale jako za pro po ten si jsou být byl byla když aby jeho které "
    "který",
    "da": "og i er at det en til på som med for af den de ikke et har jeg der han var du fra vi hun sig blev hvad",
    "de": "der die das und ist in den ein eine einem einen einer zu mit von auf für nicht im dem sich ich es sie er "
    "wir auch an als wie aus nach werden wird sind hat bei oder zur zum was um da des am zwei vor über unter nur noch "
    "wenn mehr kann man haben ihr ihre sein seine durch so mich mir kein keine dass",
    "en": "the of and to a in is it that he was for on are with as his they at be this have from or i had by not but "
    "what all were we when your can there an she which their you her my me do if has been who how did so no don't i'm "
    "it's",
    "es": "de la que el en y a los se del las un por con no una su para es al lo como más pero sus le ya o fue este "
    "sí porque esta son entre está cuando muy sin sobre ser hay él mi ella si te tu ti me desde todo nos ni donde "
    "quien uno era ese cada dos eso sólo nada hasta otro",
    "fi": "ja on ei se että hän oli ovat mutta kuin olen joka tämä myös kun en minä mitä niin sinä hänen voi nyt ole "
    "jos",
    "fr": "de la le et les des en un une du dans est que pour qui par sur au il ne ce pas se plus avec sont vous je "
    "son sa ses mais cette elle nous aux ont été ou leur à a y lui entre d'un d'une c'est qu'il on deux leurs devant "
    "comme tout mon ma tu si fait même être bien elles sans très où",
    "hr": "i je u da se na za što su ne od sam s ali to kako bi koji koja kao iz ili smo nije bio bila jer samo može",
    "hu": "a az és hogy nem is egy van volt de meg azt ez mint csak el már én vagy ha ki mi még nagyon ezt lesz",
    "id": "yang dan di ini itu dengan untuk dari tidak ke pada adalah dalam saya akan ada dia kami mereka bisa anda",
    "it": "di e il la che in un a per è una sono mi si ho ma ha cosa le con non i lo da come se questo io più al del "
    "della nel gli dei alla anche sua suo su ci era delle dal degli ti tu ce ne qui ed lei lui noi hai mai me voi vi "
    "so sa o te sul sulla nella due tra fra ai molto quando chi tutto ogni senza hanno essere",
    "nl": "de het een en van ik te dat die in is je niet zijn op aan met als voor er was hij om maar ook dan bij zo "
    "nog uit we naar wat hebben heeft ze wordt worden door",
    "no": "og i er på det en til som med for av den de ikke et har jeg å han var fra du vi hun seg ble hva mot meg",
    "pl": "i w się na nie z do to że jest jak o co ale po tak za od jego już czy przez są dla tego być był ma który",
    "pt": "de a o que e do da em um para com não uma os no se na por mais as dos como mas ao ele das à seu sua ou são "
    "está foi ela isso você eu muito já também só pelo pela até quem nada pode quando nos tem tudo onde era me lhe "
    "dois sem seus ser meu minha",
    "ro": "de și în a la cu pe nu un o este că din pentru să se mai au ce fi sunt are dar sau după lui ale care",
    "sk": "a je sa na v že to s z do o vo by som ale ako za pre po ten si sú byť bol bola keď aby jeho ktoré ktorý",
    "sl": "in je se na v da za so ki pa ne s z o po to iz bi sem kot ali ni še tudi že od lahko bil bila samo",
    "sv": "och i att det som en på är av för med till den har de inte om ett han men var jag sig från vi så hon kan "
    "när",
    "tr": "bir ve bu da için de ne çok ile o daha gibi var ben değil mi kadar olan ama sonra olarak sen",
    "vi": "là và của có không được trong một cho người với các này tôi những đã để ở khi anh nó",
}
_SPEAKERS: dict[str, list[str]] = {}
for _language, _listed in _SMALL_WORDS.items():
    for _word in _listed.split():
        _SPEAKERS.setdefault(_word, []).append(_language)


class ColumnLanguage:
    """The language of a column by the `evidence` of its first rows; None if they disagree, or if the column is said to
    be in another language (`told`).
    """

    def __init__(self, told: str, evidence: Counter[str]) -> None:
        (name, most), (_, second) = [*evidence.most_common(2), ("", 0), ("", 0)][:2]
        is_clear = most >= _LEAST and second <= _RIVAL * most
        agrees = told == UNKNOWN_LANGUAGE or name not in _SMALL_WORDS or same_language(told, name)
        self.name = name if is_clear and agrees else None
        self._script = "LATIN" if name in _SMALL_WORDS else name
        self._telling = {word for word, languages in _SPEAKERS.items() if name not in languages}

    @classmethod
    def told(cls, language: str) -> Self:
        """The language that the column is said to be in, if its small words are known here."""
        name = language.partition("-")[0]
        return cls(language, Counter({name: _LEAST} if name in _SMALL_WORDS else ()))

    def lacks(self, text: str, words: Sequence[str]) -> bool:
        """Whether a text is certainly in another language."""
        if self.name is None or (
            _script(text[0]) == self._script
            and (self._telling.isdisjoint(words) or len(self._telling.intersection(words)) < _CLEAR)
        ):
            return False
        found = evidence(text, words)
        most, own = max(found.values(), default=0), found[self.name]
        return most - own >= _CLEAR and most >= 2 * own


def evidence(text: str, words: Sequence[str]) -> Counter[str]:
    """How many small words of each language a text has, and how much in scripts other than Latin, by their names.

    >>> evidence("Er ist in Rom.", ["er", "ist", "in", "rom"]).most_common(1), evidence("Я не знаю.", [])
    ([('de', 3)], Counter({'CYRILLIC': 1}))
    """
    found = Counter(chain.from_iterable(_SPEAKERS[word] for word in _SPEAKERS.keys() & set(words)))
    if not text.isascii():
        letters = Counter(_script(letter) for letter in text[:_JUDGED] if letter > _LAST_LATIN and letter.isalpha())
        found.update({script: count // _LETTERS for script, count in letters.items()})
    return found


@cache
def _script(character: str) -> str:
    """The script of a letter, as Unicode names it; that of kana is the one of Chinese characters."""
    script = "LATIN" if character <= _LAST_LATIN else unicodedata.name(character, "?").partition(" ")[0]
    return "CJK" if script in ("HIRAGANA", "KATAKANA") else script
