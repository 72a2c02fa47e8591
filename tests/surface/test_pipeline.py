"""Sentences are translated in the form of the training text, and come back in the form that they were typed in."""

import random
from itertools import pairwise

import pytest
from small_translators import SOURCES, TARGETS, asked, stored

from dragoman.errors import ConfigError, DecodeError
from dragoman.inference.translator import Translator
from dragoman.store.description import StoredModel
from dragoman.surface.conventions import UNKNOWN_CONVENTIONS, Conventions, PairConventions
from dragoman.surface.learning import learn_conventions, learn_pair_conventions, with_copies_counted
from dragoman.surface.masking import missing, unmask
from dragoman.surface.pipeline import Surface
from dragoman.surface.placeholders import NUMBERS, PLACEHOLDERS, WORDS
from dragoman.surface.segment import Context, Segment
from dragoman.surface.terms import Terms, compiled
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

ENGLISH = [
    "Where is the station?",
    "I don't know Tom.",
    'He said "yes" - to me.',
    "Is the cat on the table?",
    "Stop!",
    "I think the station is in London.",
    "Give the cat to Tom, or to me and I know it.",
] * 5
ITALIAN = [
    "Dov'è la stazione?",
    "Non conosco Tom.",
    'Mi disse "sì" - e basta.',
    "Il gatto è sul tavolo?",
    "Fermo!",
    "Penso che la stazione sia a Londra.",
    "Dai il gatto a Tom o a me.",
] * 5
GERMAN = [
    "Er sagte „ja“.",
    "Ist das der Bahnhof?",
    "Ich kenne Tom.",
    "Halt!",
    "Das ist der Hund, und der Hund ist da.",
] * 5


class Forms:
    """The steps for the sentences of one language, and those for translations into it."""

    def __init__(
        self, conventions: Conventions, others: Conventions, languages: tuple[str, str], placeholders: str = ""
    ) -> None:
        pair = PairConventions(source=conventions, target=others)
        self.surface = Surface(pair, languages, lambda texts: [[1] for _ in texts], placeholders)

    def form(self, text: str, protect: tuple[str, ...] = (), terms: Terms | None = None) -> Segment | None:
        segment = self.surface.rewritten(Segment.from_typed(text), Context(1_000, protect=protect, terms=terms))
        return segment if segment.is_rewritten else None

    def restored(self, form: Segment, text: str, is_whole: bool = True) -> str:
        return self.surface.opposite.restore_part(form, text, is_whole=is_whole).text


FROM_ENGLISH = Forms(learn_conventions(ENGLISH), learn_conventions(ITALIAN), ("en", "it"))


def into(language: str, *sentences: str) -> Forms:
    return Forms(learn_conventions(sentences), learn_conventions(ENGLISH), (language, "en"))


TO_ITALIAN, TO_GERMAN = into("it", *ITALIAN), into("de", *GERMAN)


def through(typed: str, translation: str, forms: Forms = TO_ITALIAN) -> tuple[str, str]:
    """Return what the model reads, and the restored translation."""
    form = FROM_ENGLISH.form(typed)
    return (typed, translation) if form is None else (form.text, forms.restored(form, translation))


@pytest.mark.parametrize(
    ("typed", "plain", "translation", "restored"),
    [
        ("“Where is Tom?”", "Where is Tom?", "Dov'è Tom?", "“Dov'è Tom?”"),
        ("Stop!!!", "Stop!", "Fermo!", "Fermo!!!"),
        ("What?!", "What?", "Cosa?", "Cosa?!"),
        ("I know…", "I know.", "Lo so.", "Lo so…"),
        ("I know:", "I know.", "Lo so.", "Lo so:"),
        ("I don’t know.", "I don't know.", "C'è l'amico.", "C’è l’amico."),
        ("He said “yes” to me.", 'He said "yes" to me.', 'Disse "sì" a me.', "Disse “sì” a me."),
        ("He said « yes ».", 'He said " yes ".', 'Disse "sì".', "Disse «sì»."),
        ("‘I know,’ I said.", "'I know,' I said.", "'Lo so', dissi all'amico.", "‘Lo so’, dissi all’amico."),
        ("Is it 5 p.m.!!!", "Is it 5 p.m.!", "Sono le 5 p.m.!", "Sono le 5 p.m.!!!"),
        ("Stop — I know.", "Stop - I know.", "Fermo - lo so.", "Fermo — lo so."),
        ("I KNOW TOM.", "I know Tom.", "Conosco Tom.", "CONOSCO TOM."),
        ("Where Is The Station?", "Where is the station?", "Dov'è la stazione?", "Dov'è La Stazione?"),
        ("The Cat of the Station", "The cat of the station.", "Il gatto di stazione.", "Il Gatto di Stazione"),
        ("I Don't Know The Cat.", "I don't know the cat.", "Non so del gatto.", "Non So Del Gatto."),
        ("I Don't.", "I don't.", "Non lo so.", "Non Lo So."),
        ("i know tom.", "I know Tom.", "Conosco Tom.", "conosco tom."),
        ("the cat", "The cat.", "Il gatto.", "il gatto"),
        ("the cat of tom", "The cat of Tom.", "Il gatto di Tom.", "il gatto di Tom"),
        ("and then Tom left.", "And then Tom left.", "E poi Tom partì.", "e poi Tom partì."),
        ("- “STOP!!”", "Stop!", "Fermo!", "- “FERMO!!”"),
        ("1. Where is Tom?", "Where is Tom?", "Dov'è Tom?", "1. Dov'è Tom?"),
        ("TOM: I know.", "I know.", "Lo so.", "TOM: Lo so."),
        ("(I know.)", "I know.", "Lo so.", "(Lo so.)"),
        ("“I know”.", "I know.", "Lo so.", "“Lo so”."),
        ("I  know\u00a0Tom.", "I know Tom.", "Conosco Tom.", "Conosco Tom."),
        ("Ｉ ｋｎｏｗ．", "I know.", "Lo so.", "Lo so."),
    ],
)
def test_a_form_is_taken_off_and_put_back(typed: str, plain: str, translation: str, restored: str) -> None:
    assert through(typed, translation) == (plain, restored)


@pytest.mark.parametrize(
    "typed",
    [
        *ENGLISH[:7],
        "I know NATO.",
        "This is VERY good.",
        'He said "yes", and left.',
        "iPhone is here.",
        "Is Tom in The Hague?",
        "2 cats.",
        "The station: it is here.",
        "I.",
        "是。",
        "@tom is here.",
        "http://example.org/a is it.",
        "i.e. Tom is here.",
    ],
)
def test_a_sentence_as_the_text_has_them_is_left_alone(typed: str) -> None:
    form = FROM_ENGLISH.form(typed)
    assert form is None or (form.text, TO_ITALIAN.restored(form, typed)) == (typed, typed)


def test_where_titles_have_no_mark_none_stays_before_the_typed_ones() -> None:
    titles = into("en", *["Usage of files", "Installation of the system"] * 9)
    form = titles.form("Usage of files…")
    assert form is not None and form.text == "Usage of files"
    assert [TO_ITALIAN.restored(form, text) for text in ("Uso dei file", "Uso dei file.")] == ["Uso dei file…"] * 2


def test_the_languages_own_quotes_marks_and_capitals() -> None:
    assert through("“I know.”", "Ich weiß.", TO_GERMAN)[1] == "„Ich weiß.“"
    assert through("I KNOW.", "Ich weiß.", TO_GERMAN)[1] == "ICH WEISS."
    assert through("the cat", "Der Hund", TO_GERMAN)[1] == "der Hund"
    assert through("tom", "Tom", TO_GERMAN)[1] == "Tom"
    assert through("Stop!!", "停！", into("zh", "停！"))[1] == "停！！"
    assert through("What?!", "Τι;", into("el-GR", "Τι;"))[1] == "Τι;!"
    assert through("What?!", "Quoi ?", into("fr", "Quoi ?"))[1] == "Quoi ?!"


def test_what_the_text_knows_is_left_to_the_model() -> None:
    quoting = into("en", *["“I know.”", "Yes…", "- No.", "ALL OF IT", "all of it"] * 9)
    assert [quoting.form(typed) for typed in ("“Yes.”", "All…", "- All.")] == [None] * 3


def test_an_untouched_sentence_comes_back_as_it_was_typed() -> None:
    same, random_ = into("en", *ENGLISH), random.Random(3)
    fronts, backs = ["“", "(", "- ", "3. ", "b) ", "**", "«", "Tom: ", "…"], ["”", ")", "»", "**"]
    for _ in range(5_000):
        core = random_.choice([*ENGLISH, *map(str.upper, ENGLISH), *map(str.lower, ENGLISH)])
        marks = random_.choice(["!!!", "?!", "…", "...", ":", ";"])
        if random_.random() < 0.5:
            core = core.rstrip(".!?") + marks
        typed = "".join(random_.sample(fronts, random_.randint(0, 3))) + core
        typed += "".join(random_.sample(backs, random_.randint(0, 3)))
        form = FROM_ENGLISH.form(typed)
        assert form is None or same.restored(form, form.text) == typed, typed


def test_nothing_of_any_text_is_lost_or_doubled() -> None:
    same, random_ = into("en", *ENGLISH), random.Random(5)
    for _ in range(20_000):
        typed = "".join(random_.choices("“”\"'’()*-–—•.!?…:; 1abTü«»_#>", k=random_.randint(1, 14)))
        form = FROM_ENGLISH.form(typed)
        restored = typed if form is None else same.restored(form, form.text)
        assert _letters(restored.replace("0", "")) == _letters(typed), typed  # .1 is written 0,1


def _letters(text: str) -> str:
    return "".join(character for character in text if character.isalnum()).casefold()


def with_conventions(kind: str = "word") -> StoredModel:
    model = stored(kind)
    conventions = learn_pair_conventions(zip(SOURCES * 9, TARGETS * 9, strict=True))
    return StoredModel(model.model, model.config, model.files._replace(conventions=conventions), model.folder)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(with_conventions(), device="cpu", precision="float32")


def test_every_way_of_translating_puts_the_form_back(translator: Translator) -> None:
    plain = "the red cat sees the old dog ."
    (bare,), typed = translator.translate([plain], asked()), f"(“{plain}”)"
    expected = f"(“{bare.text}”)"
    (translation,) = translator.translate([typed], asked())
    assert translation.text == expected and translation.source == typed
    assert translation.rewritten == ((typed, plain),) and not bare.rewritten
    assert translation.log_prob == pytest.approx(bare.log_prob)
    best, *_ = translator.translate([typed], asked(n_best=2, beam_size=2))
    assert best.alternatives[0].text.startswith("(“") and best.alternatives[0].text.endswith("”)")
    pieces = list(translator.stream(typed, asked()))
    assert "".join(pieces) == expected


def test_given_translations_are_scored_without_their_form(translator: Translator) -> None:
    source, target = SOURCES[0], TARGETS[0]
    (bare,), (typed,) = translator.score([source], [target]), translator.score([f"“{source}”"], [f"«{target}»"])
    assert typed.log_prob == pytest.approx(bare.log_prob) and typed.text == f"«{target}»"


def test_raw_text_and_a_forced_prefix_are_left_alone(translator: Translator) -> None:
    typed = "“the red cat sees the old dog .”"
    model = stored()
    without = Translator(model, device="cpu", precision="float32")
    for options in (asked(raw=True), asked(prefix="il gatto")):
        (translation,), (plain,) = translator.translate([typed], options), without.translate([typed], options)
        assert translation.text == plain.text and not translation.rewritten


def test_words_are_linked_as_they_were_typed(translator: Translator) -> None:
    plain = "the red cat sees the old dog ."
    (bare,) = translator.translate([plain], asked(align=True))
    (typed,) = translator.translate([f"- “{plain.upper()}”"], asked(align=True, raw=False))
    assert typed.source_words == ("-", "“", *plain.upper().split(), "”")
    around = {(0, 0), (1, 1), (len(typed.source_words) - 1, len(typed.target_words) - 1)}
    assert set(typed.alignment) == around | {(source + 2, target + 2) for source, target in bare.alignment}
    (begun,) = translator.translate([f"- {plain.upper()}"], asked(align=True))
    assert set(begun.alignment) == {(0, 0)} | {(source + 1, target + 1) for source, target in bare.alignment}


def test_segments_of_a_line_have_forms_of_their_own(translator: Translator) -> None:
    statement, question = "the red cat sees the old dog .", "where is the station ?"
    (first,), (second,) = translator.translate([statement], asked()), translator.translate([question], asked())
    (both,) = translator.translate([f"“{statement} Where IS the station ??”"], asked())
    assert len(both.rewritten) == 2 and both.text.startswith(f"“{first.text}") and both.text.endswith("??”")
    assert second.text.rstrip(".!? ")[1:] in both.text


def test_a_translation_that_grows_is_a_beginning_of_the_whole() -> None:
    form = FROM_ENGLISH.form("“WHERE — IS THE STATION?!”")
    assert form is not None
    whole = "Dov'è - questa bella stazione di Roma?"
    words = whole.split()
    grown = [TO_ITALIAN.restored(form, " ".join(words[:n]), is_whole=False) for n in range(1, len(words))]
    grown.append(TO_ITALIAN.restored(form, whole))
    assert all(later.startswith(earlier) for earlier, later in pairwise(grown))
    assert grown[-1] == "“DOV'È — QUESTA BELLA STAZIONE DI ROMA?!”"


PROTECTING = Forms(
    learn_conventions(ENGLISH), learn_conventions(ITALIAN), ("en", "it"), placeholders="".join(PLACEHOLDERS)
)
ONE, TWO, NUMBER = WORDS[0], WORDS[1], NUMBERS[0]


def protecting(tokenizer: Tokenizer) -> Surface:
    pair = PROTECTING.surface.conventions
    return Surface(pair, ("en", "it"), tokenizer.encode_batch, "".join(PLACEHOLDERS))


@pytest.mark.parametrize(
    ("typed", "plain", "translation", "restored"),
    [
        ("Is Nakamura in London?", f"Is {ONE} in London?", f"{ONE} è a Londra?", "Nakamura è a Londra?"),
        ("Nakamura is in London.", f"{ONE} is in London.", f"{ONE} è a Londra.", "Nakamura è a Londra."),
        ("Give it to {name}!!", f"Give it to {ONE}!", f"Dallo a {ONE}!", "Dallo a {name}!!"),
        ("“{name} is Nakamura’s.”", f"{ONE} is {TWO}'s.", f"{ONE} è di {TWO}.", "“{name} è di Nakamura.”"),
        ("{a} is in %s, not {a}.", f"{ONE} is in {TWO}, not {WORDS[2]}.", f"{TWO} {WORDS[2]} {ONE}", "%s {a} {a}"),
        (
            "I paid $3.50, 20 €, or 5% to #12.",
            f"I paid {NUMBER}, {NUMBERS[1]}, or {NUMBERS[2]} to {NUMBERS[3]}.",
            f"A {NUMBERS[3]} {NUMBER}, {NUMBERS[1]}, {NUMBERS[2]}.",
            "A #12 $3,50, 20 €, 5%.",
        ),
        (
            "It is section 3.2, at 7.30.",
            f"It is section {NUMBER}, at {NUMBERS[1]}.",
            f"{NUMBER} {NUMBERS[1]}",
            "3.2 7.30",
        ),
        (
            "The A320-200 is on the cat 🐶 & table.",
            f"The {ONE} is on the cat {TWO} {WORDS[2]} table.",
            f"Il {ONE} {TWO} {WORDS[2]}.",
            "Il A320-200 🐶 &.",
        ),
        ("Windows 11 is in the London.", f"{ONE} is in the London.", f"{ONE} è a Londra.", "Windows 11 è a Londra."),
        ("It is 3.5 to 1,000!", f"It is {NUMBER} to {NUMBERS[1]}!", f"Da {NUMBER} a {NUMBERS[1]}!", "Da 3,5 a 1.000!"),
        ("WHERE IS {x}?", f"Where is {ONE}?", f"Dov'è {ONE}?", "DOV'È {x}?"),
        ("where is {x}", f"Where is {ONE}.", f"Dov'è {ONE}?", "dov'è {x}"),
        (f"Give {TWO} to me.", f"Give {ONE} to me.", f"Dai {ONE} a me.", f"Dai {TWO} a me."),
        ("Tom is in London.", "Tom is in London.", "Tom è a Londra.", "Tom è a Londra."),
    ],
)
def test_what_should_be_copied_stands_as_a_placeholder(typed, plain, translation, restored):
    form = PROTECTING.form(typed)
    if form is None:
        assert (typed, translation) == (plain, restored)
    else:
        assert (form.text, TO_ITALIAN.restored(form, translation)) == (plain, restored)


def test_forms_that_the_training_text_has_often_enough_are_left_to_the_model():
    source = [
        *ENGLISH,
        "Apply the Page Style Now",
        "Trim to Image Size Now",
        "event with spouse",
        "the other event",
    ]
    target = [
        *ITALIAN,
        "Applica lo stile «ora»",
        "Ritaglia «ora»",
        'con "coniuge"',
        '"altro" evento',
        '"sì" o "no"',
    ]
    forms = Forms(learn_conventions(source), learn_conventions(target), ("en", "it"))
    for typed in ("Increase Brush Size Now", "date of event"):
        form = forms.form(typed)
        assert form is None or form.text == typed
    form = forms.form("Where Is The Station?")  # no title
    assert form is not None and form.text == "Where is the station?"
    form = forms.form("“Where is it?”")
    assert form is not None
    assert into("it", *target).restored(form, "Dov'è?") == "«Dov'è?»"


@pytest.mark.parametrize(
    ("typed", "translation", "lost"),
    [
        ("Is it {a} or {a}?", "È {a}?", ["{a}"]),
        ("Is it {a} or {ab}?", "È {ab}?", ["{a}"]),
        ("Is it COVID-19 or %1$s?", "È COVID-19 %1$s?", []),
        ("Is it COVID-19 or %1$s?", "È COVID 19?", ["%1$s", "COVID-19"]),
        ("I know 3 cats.", "Conosco tre gatti.", []),
        ("I know 3 cats.", "Conosco 3 gatti.", []),
        ("I know 3 cats.", "Conosco i gatti.", ["3"]),
        ("I know 1 cat.", "Conosco un gatto.", []),
        ("I know 15 cats, and 17.", "Conosco quindici gatti.", ["17"]),
        ("I know 7 cats.", "Conosco 17 gatti, 7,5 cani.", ["7"]),
        ("Give $20 to Tom.", "Dai 20 dollari a Tom.", []),
        ("Give $30 to Tom.", "Dai 30 a Tom.", ["$"]),
        ("Give 5% or 25 °C to Tom.", "Dai a Tom.", ["5", "%", "25", "°"]),
        ("Give 5% or 25 °C to Tom.", "Dai il 5 per cento o 25 gradi a Tom.", []),
        ("It is 3,000 or 7:30.", "Sono 3000 o le 7.30.", []),
        ("It is 1,000.50.", "Sono 100050.", ["1.000,50"]),
        ("Is the cat 🐶 & dog * on it?", "È il gatto su?", ["🐶", "&", "*"]),
        ("Is the cat 🐶 & dog on it?", "È 🐶 il gatto e il cane?", []),
        ("Nakamura is in Nakamura.", "Nakamura è qui.", []),
        ("Is the cat / dog on it?", "È il gatto cane?", ["/"]),
        ("Is the cat > dog on it?", "È il gatto > cane?", []),
        ("It is 64 GB.", "Sono 64.", ["GB"]),
        ("It is 1.5 million.", "È 1,5.", ["million"]),
        ("It is 1.5 million.", "Sono 1,5 milioni.", []),
        ("It is 2 trillion.", "Sono 2.", ["trillion"]),
        ("He is 5 pm, or 7 am.", "Alle 5 di sera, alle 7.", ["am"]),
        ("He is 5 pm.", "Alle 5.", ["pm"]),
        ("{{#if a}}x{{else}}y{{/if}}", "{{#if a}}x{{/if}}y{{else}}", ["{{#if a}}", "{{else}}", "{{/if}}"]),
    ],
)
def test_what_is_lost_without_placeholders_is_named(typed, translation, lost):
    form = FROM_ENGLISH.form(typed)
    assert form is not None and form.text == typed
    assert missing(translation, form.kept, form.text, "it") == lost
    unknown = Forms(UNKNOWN_CONVENTIONS.source, UNKNOWN_CONVENTIONS.target, ("en", "it")).form(typed)
    if "Nakamura" not in typed:
        assert unknown is not None and missing(translation, unknown.kept, unknown.text, "it") == lost


def test_a_dash_between_words_may_be_another_mark():
    form = FROM_ENGLISH.form("The cat – the dog.")
    assert form is not None
    assert missing("Il gatto, il cane.", form.kept, form.text, "it") == []
    assert missing("Il gatto il cane.", form.kept, form.text, "it") == ["–"]


def test_what_no_placeholder_is_left_for_is_not_lost_unnoticed():
    form = PROTECTING.form("Is it " + ", ".join(f"{number} kg" for number in range(20, 40)) + " or 64 GB?")
    assert form is not None and all(placeholder in form.text for placeholder in PLACEHOLDERS)
    written = TO_ITALIAN.restored(form, form.text)
    assert missing(written, form.kept, form.text, "it") == []
    assert missing(written.replace("64 GB", "64"), form.kept, form.text, "it") == ["GB"]
    assert missing(written.replace("64 GB", "GB"), form.kept, form.text, "it") == ["64"]


def test_a_word_for_a_large_number_is_lost_whatever_stands_for_the_number():
    form = PROTECTING.form("Is it 1.5 million?")
    assert form is not None and missing(f"È {NUMBER}?", form.kept, form.text, "it") == ["1,5", "million"]


def test_a_unit_in_capitals_belongs_to_its_number():
    form = PROTECTING.form("Is it 64 GB / 65 MB?")
    assert form is not None and form.text == f"Is it {NUMBER} {ONE} {NUMBERS[1]}?"


def test_each_of_many_repeated_variables_is_counted():
    form = PROTECTING.form("Is it " + " or ".join(["%d"] * 11) + "?")
    assert form is not None
    assert not missing("È " + "%d " * 11, form.kept, form.text, "it")
    assert missing("È " + "%d " * 9, form.kept, form.text, "it") == ["%d"] * 2


def test_words_do_not_stand_for_a_placeholder_that_was_left_out():
    assert missing("Sono due.", {NUMBER: "2", ONE: "&"}, f"It is {NUMBER} {ONE}.", "it") == ["2", "&"]


def test_a_term_that_is_an_identifier_is_a_term():
    form = PROTECTING.form("Is the MP3 in it, or COVID-19?", terms=compiled((("MP3", "mp3"),)))
    assert form is not None and form.text == f"Is the MP3 in it, or {ONE}?"


def test_signs_that_the_training_text_has_are_left_to_the_model():
    knowing = Forms(learn_conventions([*ENGLISH, "The cat & Tom → London."]), learn_conventions(ITALIAN), ("en", "it"))
    assert knowing.form("Is the cat & Tom?") is None
    form = knowing.form("Is the cat & Tom → London?")
    assert form is not None and (form.text, form.kept) == ("Is the cat & Tom → London?", {"→": "→"})


@pytest.mark.parametrize(
    ("translation", "restored"),
    [
        (f"È{ONE} a Londra?{TWO}", "È {a} a Londra {b}?"),
        (f"{ONE}{TWO}", "{a} {b}"),
        (f"È {ONE}, {TWO}.", "È {a}, {b}."),
        (f"駅は{ONE}の{TWO}です", "駅は{a}の{b}です"),
    ],
)
def test_what_stood_apart_in_the_source_stands_apart_in_the_translation(translation, restored):
    form = PROTECTING.form("Is {a} in {b} London?")
    assert form is not None
    assert TO_ITALIAN.restored(form, translation).removesuffix("?") == restored.removesuffix("?")


def test_what_the_expressions_of_the_user_find_is_kept():
    form = PROTECTING.form("The AB-12 is in AB-7, and so is {a}.", (r"AB-\d+", r"\bis in"))
    assert form is not None
    assert form.text == f"The {ONE} {TWO} {WORDS[2]}, and so is {WORDS[3]}."
    assert [*form.kept.values()] == ["AB-12", "is in", "AB-7", "{a}"]


def test_an_expression_means_the_same_beside_others():
    form = PROTECTING.form("Is abab in it or yy?", (r"(?i)(qq)", r"(ab)\1", "(?x) yy  # twice"))
    assert form is not None
    assert [*form.kept.values()] == ["abab", "yy"]
    with pytest.raises(DecodeError, match=r"'\\\\b', which also matches an empty text"):
        PROTECTING.form("Is it?", (r"\b",))


def test_an_expression_that_takes_too_long_is_refused(monkeypatch):
    monkeypatch.setattr("dragoman.surface.protected._TIMEOUT", 0.05)
    with pytest.raises(DecodeError, match=r"takes longer than 0.05 seconds for 'Is aaaa.*' *; give a simpler one"):
        PROTECTING.form(f"Is {'a' * 60}b", ("(a|aa)+$",))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"protect": ("([",)}, r"no regular expression: unterminated"),
        ({"protect": ("(" * 900 + ")" * 900,)}, r"no regular expression: maximum recursion"),
        ({"protect": ("x*",)}, r"'x\*', which also matches an empty text"),
        ({"protect": ("(?R)",)}, r"'\(\?R\)', which takes longer than 2 seconds"),
        ({"protect": ("x",), "raw": True}, r"no effect with decode.raw"),
        ({"protect": ("x",), "prefix": "y"}, r"no effect with decode.raw or decode.prefix"),
    ],
)
def test_expressions_that_cannot_be_used_are_refused(settings, complaint):
    with pytest.raises(ConfigError, match=complaint):
        asked().but(**settings)


@pytest.mark.parametrize("split", ["sentence", "long", "never"])
@pytest.mark.parametrize("text", ["{name}", "%s %d.", "“https://a.org/b”", "Nakamura & Ayşe", "- {a} {b}"])
def test_names_and_code_without_other_words_are_copied(text, split):
    tokenizer = learn_tokenizer(ENGLISH, TokenizerSettings(kind="bpe", minimum_frequency=1))
    (line,) = protecting(tokenizer).read([text], Context(50, split))
    assert line.translated == [] and line.flags == ("copied",)
    (line,) = protecting(tokenizer).read([f"{text} is here"], Context(50, split))
    assert line.translated and not set(line.flags)


def test_long_lines_of_code_are_copied_too():
    tokenizer = learn_tokenizer(ENGLISH, TokenizerSettings(kind="bpe", minimum_frequency=1))
    (line,) = protecting(tokenizer).read(["{a} & {b}. Where is the station? I know Tom."], Context(10, "long"))
    assert [segment.typed for segment in line.parts if segment.is_copied] == ["{a} & {b}."]
    assert [segment.typed for segment in line.translated] == ["Where is the station?", "I know Tom."]


def test_a_kind_of_placeholder_that_the_training_text_hardly_needed_is_not_used():
    text = [("Is Tom in London?", "Tom è a Londra?")] * 60 + [("It is 17.", "Sono 17.")] * 40
    learned = with_copies_counted(learn_pair_conventions(text), text, "en").model_copy(update={"placeholders": True})
    assert learned.learned_placeholders == "".join(WORDS)
    form = Forms(learned.source, learned.target, ("en", "it"), learned.learned_placeholders).form("Is 25 Ann?")
    assert form is not None and form.text == f"Is {ONE} {TWO}?"  # a placeholder of a word may replace a number
    assert not learned.model_copy(update={"placeholders": False}).learned_placeholders


def test_more_names_than_placeholders_leave_the_rest_as_they_are():
    typed = "Is it " + ", ".join(f"{{{number}}}" for number in range(10)) + "?"
    form = PROTECTING.form(typed)
    assert form is not None
    assert all(form.text.count(placeholder) == 1 for placeholder in WORDS)
    assert TO_ITALIAN.restored(form, form.text) == typed


@pytest.mark.parametrize(
    ("read", "translation", "written"),
    [
        ("The mid-{}s were", "I {}erano", "I 7 erano"),
        ("the {}st", "il {}esimo", "il 7esimo"),
        ("a {}house", "{}haus", "7haus"),
    ],
)
def test_a_word_is_joined_to_a_number_only_as_in_the_source(read, translation, written):
    assert unmask(translation.format(NUMBER), {NUMBER: "7"}, read.format(NUMBER)) == written


@pytest.mark.parametrize(
    ("text", "lost"), [("33 euro", []), ("1330 euro", ["33"]), ("33.5", ["33"]), ("$33 o 33%", [])]
)
def test_a_number_inside_a_longer_one_does_not_count(text: str, lost: list[str]) -> None:
    assert missing(text, {NUMBERS[0]: "33"}, NUMBERS[0], "it") == lost
