"""The models behind a server, in terms of text."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.cli.train import FINISHED
from dragoman.serving.limits import SECONDS_A_TEXT, Limits, Refused
from dragoman.serving.service import ServedModel, Service
from dragoman.surface.sentences import has_words
from dragoman.surface.words import split_words

LINES = [
    "Where is the station?",
    "  - My name is Nakamura. I would like two coffees.",
    "12:30",
    "",
    "“Thanks!”",
    "WHERE IS IT",
    "😀 :D",
]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    service = Service([FINISHED], precision="float32")
    service.load()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(FINISHED, precision="float32")


def translated(service: Service, *texts: str, **settings: object):
    with service.job() as job:
        return [each.translation for each in service.translate(texts, "en", None, job, **settings)]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("line", [*filter(has_words, LINES)])
def test_one_line_is_translated_as_the_translator_does(service: Service, translator: Translator, line: str):
    (one,) = translated(service, line, align=True, alternatives=2)
    (other,) = translator.translate([line.strip()], align=True, n_best=3, progress=False)
    assert replace(one, text=one.text.strip(), source="", alternatives=()) == replace(other, source="", alternatives=())
    assert [each.text.strip() for each in one.alternatives] == [each.text for each in other.alternatives]


@settings(max_examples=8)
@given(lines=st.lists(st.sampled_from(LINES), max_size=6), end=st.sampled_from(["\n", "\r\n", "\r", "\n\n"]))
def test_the_words_of_several_lines_are_counted_on(service: Service, lines: list[str], end: str):
    text = end.join(lines)
    (whole,) = translated(service, text, align=True, alternatives=1)
    parts = [translated(service, line, align=True, alternatives=1)[0] for line in lines]
    assert whole.source == text and whole.text == end.join(part.text for part in parts)
    assert whole.source_words == tuple(word for part in parts for word in part.source_words)
    assert whole.target_words == tuple(word for part in parts for word in part.target_words)
    assert whole.word_log_probs == tuple(log_prob for part in parts for log_prob in part.word_log_probs)
    assert len(whole.word_log_probs) == len(whole.target_words)
    pairs = [(part.source_words[one], part.target_words[other]) for part in parts for one, other in part.alignment]
    assert [(whole.source_words[one], whole.target_words[other]) for one, other in whole.alignment] == pairs
    assert {*whole.target_words} <= {*split_words(whole.text)}
    assert whole.log_prob == pytest.approx(sum(part.log_prob for part in parts))
    assert whole.flags == tuple(dict.fromkeys(flag for part in parts for flag in part.flags))
    for other in whole.alternatives:
        assert other.text.count("\n") == text.count("\n") and other.score <= whole.score


def test_alternatives_differ_and_keep_the_lines(service: Service):
    (whole,) = translated(service, "Where is the station?\n12:30\nThanks!", alternatives=3)
    texts = [whole.text, *(other.text for other in whole.alternatives)]
    assert len({*texts}) == 4 and all(text.split("\n")[1] == "12:30" for text in texts)


def test_more_alternatives_than_the_beam_is_wide_are_found(service: Service):
    (found,) = translated(service, "Where is the station?", alternatives=5)
    assert len(found.alternatives) == 5


def test_html_is_translated_between_its_tags(service: Service):
    page = '<p>Where is the <b>station</b>?</p><code>if (x)</code><p title="Thanks!">12:30 &amp;</p>'
    (found,) = translated(service, page, is_html=True)
    assert found.text == '<p>Dov\'è la <b>stazione</b>?</p><code>if (x)</code><p title="Grazie!">12:30 &amp;</p>'


def test_of_models_with_one_direction_the_first_answers(tmp_path: Path):
    service = Service([FINISHED, tmp_path / "missing", FINISHED], Limits(texts=3))
    service.load()
    assert not service.is_ready
    assert "missing" in service.models[1].failed and not service.models[1].directions
    assert service.directions == {("en", "it"): service.models[0]}
    with pytest.raises(Refused, match="loading") as caught, service.job():
        pass
    assert caught.value.status == 503 and caught.value.retry_after
    service.stop()


def test_languages_go_by_any_of_their_codes(service: Service):
    for source, target in [("en", "it"), ("EN", "IT"), ("eng", "ita"), ("en-GB", "it-IT"), ("en", None)]:
        assert service.model(source, target) == (service.models[0], "en", "it", None)
    for source, target in [("it", "en"), ("en", "ja"), ("xx", None)]:
        with pytest.raises(Refused, match="no model here translates .* there is en to it"):
            service.model(source, target)


def test_of_models_of_one_language_the_one_of_its_region_answers() -> None:
    models = {
        (source, target): ServedModel(f"{source}-{target}") for source in ("en", "en-GB") for target in ("pt", "pt-BR")
    }
    service = Service([])
    service.directions.update(models)
    for pair, model in models.items():
        assert service.model(*pair) == (model, *pair, None)
    assert service.model("en-US", "PT-br") == (models["en", "pt-BR"], "en", "pt-BR", None)


def test_terms_of_the_server_hold_unless_a_request_has_its_own():
    service = Service([FINISHED], terms=[("station", "fermata")])
    service.load()
    (usual,), (own,) = (translated(service, "Where is the station?", **more) for more in ({}, {"terms": ()}))
    assert (usual.text, own.text) == ("Dov'è la fermata?", "Dov'è la stazione?")
    service.stop()


def test_limits_are_checked_before_any_work(service: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Translator, "translate", lambda *_, **__: pytest.fail("this is work"))
    for texts, more, status in [
        (["a"] * 51, {}, 413),
        (["a" * 5_001], {}, 413),
        (["a" * 5_000] * 50, {"beam_size": 8}, 413),
        (["a"], {"alternatives": 6}, 400),
        (["a"], {"alternatives": -1}, 400),
        (["a"], {"beam_size": 9}, 400),
        (["a"], {"terms": (("",),)}, 400),
    ]:
        with pytest.raises(Refused) as caught:
            translated(service, *texts, **more)
        assert caught.value.status == status


def test_exactly_as_much_as_is_allowed_may_be_asked_for():
    limits = Limits(texts=2, characters=3, alternatives=1, beam_size=2, work=12)
    limits.check(["abc", "abc"], 1, 2)
    for texts, alternatives, beam_size in ((["a"] * 3, 1, 2), (["abcd"], 1, 2), (["a"], 2, 1), (["a"], 1, 3)):
        with pytest.raises(Refused):
            limits.check(texts, alternatives, beam_size)
    with pytest.raises(Refused, match="characters times the beam size"):
        limits.but(work=11).check(["abc", "abc"], 1, 1)


def test_a_document_has_more_time_for_each_of_its_texts(service: Service, tmp_path: Path):
    (tmp_path / "a.txt").write_text("Thanks!\nThanks!\nThanks!\n")
    with service.job() as job:
        before = job.deadline
        assert service.document(tmp_path / "a.txt", "en", "it", job).decode() == "Grazie!\n" * 3
        assert job.deadline == pytest.approx(before + 3 * SECONDS_A_TEXT)


def test_a_refused_direction_is_followed_by_at_most_ten_others() -> None:
    service = Service([])
    for count, end in ((10, "en to x10"), (13, "en to x10 and 3 more")):
        service.directions.update({("en", f"x{number}"): ServedModel("a") for number in range(1, count + 1)})
        with pytest.raises(Refused) as caught:
            service.model("xx", None)
        assert str(caught.value).endswith(end) and str(caught.value).count(" to ") == 10


def test_a_document_gets_no_more_than_its_own_limit_of_time(tmp_path: Path):
    service = Service([FINISHED], Limits(document_seconds=0.75))
    service.load()
    (tmp_path / "a.txt").write_text("Thanks!\nThanks!\nThanks!\n")
    with service.job() as job:
        before = job.deadline
        service.document(tmp_path / "a.txt", "en", "it", job)
        assert job.deadline == before + 0.75
    service.stop()


@pytest.mark.parametrize(
    ("limits", "message"),
    [({"document_memory": 8 * 2**20, "documents": 4}, "document_memory"), ({"document_texts": 50}, "document_texts")],
)
def test_a_document_over_a_limit_is_refused_by_its_name(tmp_path: Path, limits: dict[str, int], message: str):
    path, service = tmp_path / "a.html", Service([FINISHED], Limits(**limits))
    path.write_text("<p>Thanks!</p>" * 1_000)
    service.load()
    with service.job() as job, pytest.raises(Refused, match=f"--set {message}=") as caught:
        service.document(path, "en", "it", job)
    assert caught.value.status == 413
    service.stop()


def test_all_concurrent_documents_share_the_memory(tmp_path: Path):
    limits = Limits()
    assert limits.documents * limits.document_settings.memory <= limits.document_memory
    assert limits.but(documents=1).document_settings.memory == limits.document_memory


def test_forms_of_terms_count_as_work_where_their_term_occurs(service: Service):
    forms = [f"fermata{number}" for number in range(5_000)]
    for text, terms in [
        ("Where is the station?", (("station", *forms),)),
        ("The station. " * 200, (("station", *forms[:30]),)),
    ]:
        with pytest.raises(Refused, match="each form of a term") as caught:
            translated(service, text, terms=terms)
        assert caught.value.status == 413
    (thanks,) = translated(service, "Thanks!", terms=(("station", *forms),))  # it has no such term
    assert thanks.text == "Grazie!"


def test_the_page_of_a_client_that_has_gone_is_read_no_further(service: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Translator, "translate", lambda *_, **__: pytest.fail("this is work"))
    with service.job() as job:
        job.cancel()
        with pytest.raises(Refused, match="closed the connection"):
            service.translate(["<p>Thanks!</p>"], "en", "it", job, is_html=True)


def test_who_is_under_way_may_finish_when_it_stops():
    service = Service([FINISHED])
    service.load()
    begun, entered = Event(), Barrier(2)

    def client() -> str:
        with service.job() as job:
            begun.set()
            entered.wait()
            return service.translate(["Thanks!"], "en", "it", job)[0].translation.text

    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(client)
        begun.wait()
        stopping = Thread(target=service.stop, args=(60.0,))
        stopping.start()
        while not service.is_stopping:
            pass
        assert not service.is_ready
        with pytest.raises(Refused, match="stopping"), service.job():
            pass
        entered.wait()
        assert found.result() == "Grazie!"
        stopping.join()
    assert service.active_requests == 0


def test_a_service_stops_as_soon_as_the_last_request_ends():
    service = Service([])
    with service.job():
        stopping = Thread(target=service.stop, args=(600.0,), daemon=True)
        stopping.start()
        while not service.is_stopping:
            pass
        stopping.join(0.3)
        assert stopping.is_alive()
    stopping.join(60)
    assert not stopping.is_alive()


def test_who_is_left_when_it_stops_is_refused():
    service = Service([FINISHED])
    service.load()
    with service.job() as job:
        service.stop()
        with pytest.raises(Refused, match="stopping"):
            service.translate(["Thanks!"], "en", "it", job)


def test_a_request_has_a_deadline():
    service = Service([FINISHED], Limits(seconds=1e-9))
    service.load()
    with pytest.raises(Refused, match="longer than a request may take") as caught:
        translated(service, "Thanks!")
    assert caught.value.status == 503
    service.stop()


def test_many_clients_get_what_one_gets(service: Service, translator: Translator):
    texts = [f"I would like {number} coffees. Where is the station?" for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        found = [*threads.map(lambda text: translated(service, text)[0], texts)]
    assert [each.text for each in found] == [each.text for each in translator.translate(texts, progress=False)]
    assert service.active_requests == 0
