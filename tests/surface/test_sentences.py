"""Splitting text: nothing is lost, and known hard cases fall as a reader would have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.surface.segment import Context, Restored, Segment
from dragoman.surface.sentences import (
    LONGEST_WORD,
    Sentences,
    has_words,
    join,
    part_copies,
    part_long_words,
    separator,
    split_sentences,
    split_to_fit,
    without_controls,
)
from dragoman.surface.words import spaceless

Texts = st.text(st.sampled_from("ab A1.,;!?…\"'“”«»() \t\n\u00a0\u2028。！，你は\u0301Dr") | st.characters())


@given(text=Texts)
def test_sentences_joined_are_the_text(text: str) -> None:
    assert "".join(split_sentences(text)) == text


DIRECTIONS = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u202c\u2069"


@given(text=st.text(st.sampled_from("ab \0\x07\t\u200f\u05d0" + DIRECTIONS)))
def test_controls_become_spaces_and_marks_of_direction_stay_in_pairs_around_all(text: str) -> None:
    cleaned = without_controls(text)
    assert not {"\0", "\x07"} & {*cleaned}
    inner = cleaned.strip(DIRECTIONS)
    count = len(cleaned) - len(inner)
    assert not {*DIRECTIONS} & {*inner} and (count == 0 or not inner or cleaned[: count // 2] + inner in cleaned)
    plain = str.maketrans("\0\x07", "  ", DIRECTIONS)
    assert cleaned.translate(plain) == text.translate(plain) and without_controls(cleaned) == cleaned
    opening, closing = cleaned[: count // 2], cleaned[len(cleaned) - count // 2 :]
    assert not inner or [mark in "\u2066\u2067\u2068" for mark in opening] == [
        mark == "\u2069" for mark in closing[::-1]
    ]


@given(st.lists(st.sampled_from(["One two.", "Three", "", " a "]), max_size=5))
def test_cells_between_tabs_are_parts_of_their_own(cells: list[str]) -> None:
    line = Segment.from_typed("\t".join(cells))
    parts = Sentences().apply(line, Context(longest=100))
    assert [part.typed for part in parts] == [cell.strip() for cell in cells if cell.strip()]
    line = line._replace(parts=tuple(parts))
    assert Sentences().restore(line, [Restored(part.typed) for part in parts]).text.strip() == line.typed.strip()


@given(text=Texts)
def test_words_joined_are_the_text(text: str) -> None:
    long = text * 30
    pieces = part_long_words(long)
    assert "".join(piece for piece, _ in pieces) == long
    assert all(len(piece) > LONGEST_WORD and not any(map(str.isspace, piece)) for piece, word in pieces if word)


@given(text=st.text(st.sampled_from("aD :;)-_xX^?!. 1\u200d\ufe0f😀❤1️⃣\n") | st.characters()))
def test_copies_and_sentences_joined_are_the_text(text: str) -> None:
    pieces = part_copies(text)
    assert "".join(piece for piece, _ in pieces) == text
    assert not any(has_words(piece) for piece, copied in pieces if copied and len(piece.strip()) <= LONGEST_WORD)
    assert has_words(text) or all(copied for _, copied in pieces)


@pytest.mark.parametrize("word", ["x" * 101, "https://example.com/" + "a1/" * 40, "Z" * 10_000, "=" * 200, "é" * 150])
def test_a_run_longer_than_any_word_is_found_in_its_place(word: str) -> None:
    assert part_long_words(f"See {word} there") == [("See ", False), (word, True), (" there", False)]
    assert part_long_words(f"これは{word}です") == [("これは", False), (word, True), ("です", False)]
    assert part_long_words(word) == [(word, True)]


@pytest.mark.parametrize(
    "text", ["x" * 100, "我今天去学校" * 50, "これはながいぶんです" * 30, "ฉันไปโรงเรียน" * 30, "ང་" * 200]
)
def test_words_and_scripts_without_spaces_are_left_to_the_model(text: str) -> None:
    assert part_long_words(text) == [(text, False)]


class Counted(str):
    """A text that counts the characters taken out of it."""

    taken = 0

    def __getitem__(self, key: object) -> str:
        part = super().__getitem__(key)  # pyright: ignore[reportArgumentType, reportCallIssue]
        Counted.taken += len(part)
        return part


@pytest.mark.parametrize(
    "text",
    [
        *("It is late. ", "so 12. Januar ", 'Is it? "Yes." ', "p.m. No. 5 ", "one, two ", "a\n", "你好。", "12. Mai. "),
        *("z. B. ", "! *** ", "- ! ", "? :)x ", "***\n", "(! ", "(a. ", "am 1. FC "),
    ],
)
def test_the_work_of_splitting_grows_with_the_text(text: str) -> None:
    def taken(count: int) -> int:
        Counted.taken = 0
        split_sentences(Counted(text * count))
        split_to_fit(Counted(text * count), lambda piece: len(piece) <= 40, at_most=160)
        return Counted.taken

    assert taken(8_000) <= 9 * taken(1_000), "eight times the text is more than eight times the work"


def test_a_text_that_is_far_too_long_is_cut_before_it_is_tried() -> None:
    asked: list[int] = []

    def fits(piece: str) -> bool:
        asked.append(len(piece))
        return len(piece) <= 10

    pieces = split_to_fit("one two three " * 1000, fits, at_most=50)
    assert max(asked) <= 50 and max(map(len, pieces)) <= 10
    assert "".join(pieces) == "one two three " * 1000


@given(text=Texts, longest=st.integers(1, 10))
def test_fitting_pieces_joined_are_the_text_and_fit(text: str, longest: int) -> None:
    pieces = split_to_fit(text, lambda piece: len(piece) <= longest)
    assert "".join(pieces) == text
    assert all(pieces) or not text
    assert all(len(piece) <= longest for piece in pieces)


@pytest.mark.parametrize(
    "sentences",
    [
        ["Good morning.", "Where is the station?", "Thank you!"],
        ["Dr. Rossi paid 3.50 euros at 9.30 to Mrs. Jones of St. Ives."],
        ["J. R. R. Tolkien wrote it.", "It is long."],
        ["We met, e.g. Anna, at 5 p.m. in the U.S. Army."],
        ["See p. 12 and No. 7.", "I said no.", "Come on.", "Let's go."],
        ["Wait... what?", "Wait…", "What?!"],
        ["“Why?”", "No one asked.", "(It was late.)", "He left."],
        ['"Stop!" he said.', '"Go."', "She went."],
        ["Il sig. Bianchi e la dott.ssa Verdi sono qui.", "Sono le 10.", "Andiamo!"],
        ["Am 3. Oktober kam Hr. Müller, d.h. z.B. heute.", "Dann ging er."],
        ["« Oui. »", "M. Dupont est parti.", "¿Qué?", "¡Sí!", "Vale."],
        ["1. Introduction", "and more"],
        ["a. Open the door.", "“II. Close it.”", "- 3. Go.", "IV. The war began.", "It ended."],
        ["See Vol. II and Fig. 3.", "I said no.", "I left."],
        ["Ἦλθεν.", "Он ушёл.", "Да."],
        ["وصل.", "هل رأيته؟", "نعم."],
    ],
)
def test_a_reader_would_split_here(sentences: list[str]) -> None:
    glue = "\n" if "and more" in sentences else " "
    assert [piece.strip() for piece in split_sentences(glue.join(sentences))] == sentences


@pytest.mark.parametrize(
    "sentence",
    [
        "Der 1. FC Köln gewann.",
        "Er wohnt im Haus des 2. Stocks.",
        "Ich komme z. B. am Montag, d. h. morgen.",
        "Ich mag Obst, z. B. Äpfel.",
        "Es kann u. U. Jahre dauern.",
        "Dr. med. Müller und Prof. Dr. h. c. mult. Maier kamen.",
        "Er starb 12 v. Chr. Geb. in Rom.",
        "On Jan. 5 we left.",
        "Lt. Col. Smith met Sgt. Maj. Jones.",
        "Martin Luther King Jr. Day is a holiday.",
        "See Smith, pp. 12-14, and Doe, ppg. 8-9.",
        "It was Roe v. Wade, said Mr. J. Smith and Brig. Gen. A. B. Jones.",
        "Fa. Meier zahlte am 5. Jan. 2020 und 7. Dez. 2021 rund 3 Mio. Euro an Dipl.-Ing. Huber.",
        "Voir p. ex. Internet, ou par ex. Debian.",
        "Parla per es. Roma, ad es. Milano.",
        "Elige uno (p. ej. RAID1) o p.ej. Linux.",
        "EE. UU. y la Sra. Pérez, Ud. y D. Juan.",
        "Mówi np. Jan, tj. Kowalski, ok. 200 osób o godz. 16.",
        "Řekl např. Karel, tj. Čapek (str. 439).",
        "Ez pl. Budapest, ld. Térkép.",
        "Kies bijv. Debian (i.p.v. Windows) of dhr. Jansen.",
        "Подробнее см. Раздел 5, т. е. Установка, в г. Москва.",
        "Det är t.ex. Stockholm och bl.a. Malmö.",
        "Open the file, e.g. /etc/hosts or ./run.",
        "She laughed (he said so. I heard it.) and left.",
    ],
)
def test_an_abbreviation_an_ordinal_and_brackets_end_no_sentence(sentence: str) -> None:
    assert split_sentences(f"{sentence} Yes.") == [f"{sentence} ", "Yes."]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Er kam 1990.", "Dann ging er.", "Ich habe 3.", "Du hast 4."],
        ["Er kam 1990.", "Januar war ein kalter Monat."],
        ["Han kom i maj.", "Sedan gick han."],
        ["Quiero ir.", "Pero no.", "She is ill.", "I saw Phil.", "It is red."],
        ["Das ist es.", "Ich weiß, was ich per Post tue.", "Ja."],
        ["Яблоки, груши и т. д.", "Потом сливы и т.п.", "Это было в 1990 г.", "Он ушёл."],
        ["Äpfel, Birnen usw.", "Danach kam nichts, etc.", "Gut."],
        ["The variable is x.", "It holds 2.", "XP Home is old.", "I like XO."],
        ["(It was late.)", "(He left.)", "[Music]", "She sang."],
    ],
)
def test_a_word_that_looks_like_an_abbreviation_ends_a_sentence(sentences: list[str]) -> None:
    glued = " ".join(sentences).replace("[Music] She", "[Music]. She")
    assert [piece.strip() for piece in split_sentences(glued)] == [s.replace("[Music]", "[Music].") for s in sentences]


@pytest.mark.parametrize(
    "symbols", [":)", ":-(", ";-)", ":D", ":'(", "<3", "^_^", "😀", "👍🏽", "❤️ ❤️", "?", "***", "...", "♥", "\u00a0:)"]
)
def test_symbols_stay_with_the_sentence_before_them(symbols: str) -> None:
    assert split_sentences(f"My sister is tired. {symbols}") == [f"My sister is tired. {symbols}"]
    assert split_sentences(f"She is tired! {symbols}  She sleeps.") == [f"She is tired! {symbols}  ", "She sleeps."]
    assert split_sentences(f"{symbols} She is tired. Yes.") == [f"{symbols} She is tired. ", "Yes."]


def test_a_dash_or_an_opening_quote_begins_the_next_sentence() -> None:
    assert split_sentences("Wer? – Ich. « Moi ? » * Nous.") == ["Wer? ", "– Ich. ", "« Moi ? » ", "* Nous."]


def test_abbreviations_of_ones_own_end_no_sentence() -> None:
    text = "Die Abt. Einkauf und die Fa. Meier, Kl. Anf. Nr. Sieben."
    assert len(split_sentences(text)) > 1
    assert split_sentences(text, ["Abt.", "fa", "Kl. Anf.", "Nr."]) == [text]


def test_scripts_without_spaces_split_at_full_width_marks() -> None:
    assert split_sentences("你好。他说：「走！」再见？好") == ["你好。", "他说：「走！」", "再见？", "好"]


def test_a_line_break_of_any_kind_ends_a_sentence() -> None:
    assert split_sentences("one\ntwo\u2028three\r\nfour") == ["one\n", "two\u2028", "three\r\n", "four"]


def test_a_sentence_that_is_too_long_is_cut_at_clauses_then_spaces_then_anywhere() -> None:
    def pieces(text: str, longest: int) -> list[str]:
        return split_to_fit(text, lambda piece: len(piece) <= longest)

    assert pieces("when it rains, we stay; then we go", 16) == ["when it rains, ", "we stay; ", "then we go"]
    assert pieces("one two three", 6) == ["one ", "two ", "three"]
    assert pieces("abcdefgh", 4) == ["abcd", "efgh"]


def test_no_accent_is_parted_from_its_letter_unless_nothing_else_fits() -> None:
    assert split_to_fit("aae\u0301e", lambda piece: len(piece) <= 3) == ["aa", "e\u0301e"]


def test_no_emoji_is_parted_where_its_parts_are_joined() -> None:
    family = "\U0001f469\u200d\U0001f467"
    assert split_to_fit(f"a{family}bb", lambda piece: len(piece) <= 5) == ["a", f"{family}bb"]


@pytest.mark.parametrize("text", [" ", ".", "a", ". ", '."', "a, ", " - ", "。", "\u0301", "\n"])
def test_long_runs_of_anything_are_split_in_reasonable_time(text: str) -> None:
    long = text * 30_000  # quadratic work on this would take minutes
    assert "".join(split_sentences(long)) == long
    assert "".join(split_to_fit(long, lambda piece: len(piece) <= 500)) == long


def test_pieces_are_joined_as_their_script_demands() -> None:
    assert join(["", "Ciao.", "", "Addio.", "你好。", "再见。", ""]) == "Ciao. Addio.你好。再见。"
    assert join([]) == ""
    assert separator("Ciao.", "Addio.") == " "
    assert separator("你好。", "再见。") == ""
    assert separator("", "Ciao.") == ""
    assert all(map(spaceless, "你はカ。ท！"))
    assert not any(map(spaceless, "aé.한Жא "))
