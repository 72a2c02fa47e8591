"""One search for many clients: what each finds, who enters when, and what is left of those who have gone."""

import gc
import operator
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from threading import Event, Thread
from typing import Any

import pytest
from compiler import needs_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from small_translators import asked, lines, make

from dragoman import Translator
from dragoman.decoding.engine import Engine, Inbox, Result, StablePrefix
from dragoman.decoding.request import Request
from dragoman.inference.translation import Translation
from dragoman.serving import shared_search
from dragoman.serving.limits import Refused
from dragoman.serving.shared_search import SHARE, SHARE_BESIDE_OTHERS, FairInbox, Job, JobSearch, SharedSearch

TEXTS = lines(60)
LONG = [" ".join(TEXTS[first : first + 4]) for first in range(0, 60, 4)]
ROOM = 400
"""The tokens that an engine of these tests has room for: a few sentences."""


@pytest.fixture(scope="module")
def translator() -> Translator:
    translator = make("bpe")
    translator.options = asked(beam_size=3, batch_tokens=ROOM)
    return translator


@contextmanager
def shared(translator: Translator, change: Callable[[Engine], object] = lambda engine: None) -> Iterator[SharedSearch]:
    """A shared search, each of whose engines is changed before it is used."""

    def make_engine(inbox: Inbox) -> Engine:
        engine = translator.search.engine(translator.options, inbox=inbox)
        change(engine)
        return engine

    search = SharedSearch(make_engine)
    try:
        yield search
    finally:
        search.stop()


def found(translator: Translator, search: SharedSearch, texts: Sequence[str], **settings: Any) -> list[Translation]:
    """What the shared search finds for a job of these texts."""
    job = Job(seconds=60)
    return translator.sharing(JobSearch(search, job)).translate(texts, progress=False, **settings)


def alone(translator: Translator, texts: Sequence[str], **settings: Any) -> list[Translation]:
    return translator.translate(texts, progress=False, **settings)


def requests(translator: Translator, texts: Sequence[str]) -> list[Request]:
    read = translator.read(texts, translator.options)
    return [request for line in translator.requests.of(read, translator.options) for request in line]


Wish = tuple[list[str], dict[str, Any], bool]
"""The texts of a client, how it searches, and whether it goes away after its first result."""
WISHES = st.lists(
    st.tuples(
        st.lists(st.sampled_from([*TEXTS, *LONG, ""]), min_size=1, max_size=6),
        st.sampled_from([{}, {"beam_size": 1}, {"beam_size": 5, "n_best": 3}, {"risk_samples": 4}, {"align": True}]),
        st.booleans(),
    ),
    min_size=2,
    max_size=8,
)


@needs_compiler
@settings(max_examples=20)
@given(wishes=WISHES)
def test_a_client_gets_the_same_bits_whatever_others_do(translator: Translator, wishes: list[Wish]):
    with shared(translator) as search, ThreadPoolExecutor(len(wishes)) as threads:

        def client(wish: Wish) -> list[Translation] | None:
            texts, options, goes = wish
            if not goes:
                return found(translator, search, texts, **options)
            with closing(search.events(requests(translator, texts), Job(seconds=60), watched=False)) as events:
                next(events, None)
            return None

        for (texts, options, goes), translations in zip(wishes, threads.map(client, wishes), strict=True):
            assert goes or translations == alone(translator, texts, **options)
        assert search.waiting == 0


@needs_compiler
@settings(max_examples=20)
@given(text=st.sampled_from([*TEXTS, *LONG]), others=st.lists(st.sampled_from(TEXTS), max_size=12))
def test_a_stream_is_the_same_whatever_others_do(translator: Translator, text: str, others: list[str]):
    def streamed(translator: Translator) -> tuple[str, Translation]:
        pieces, stream = [], translator.stream(text)
        while True:
            try:
                pieces.append(next(stream))
            except StopIteration as end:
                return "".join(pieces), end.value

    with shared(translator) as search, ThreadPoolExecutor(1) as threads:
        beside = threads.submit(found, translator, search, others)
        joined, whole = streamed(translator.sharing(JobSearch(search, Job(seconds=60))))
        assert (joined, whole) == streamed(translator)
        assert joined == whole.text
        assert beside.result() == alone(translator, others)


def test_requests_of_a_client_that_went_away_are_searched_no_further(translator: Translator):
    steps: list[set[int]] = []

    def record(engine: Engine) -> None:
        step = engine.step

        def recorded(ahead: bool = False) -> list[Result]:
            results = step(ahead)
            steps.append({*engine.active})
            return results

        engine.step = recorded

    with shared(translator, record) as search:
        events = search.events(requests(translator, LONG), Job(seconds=60), watched=True)
        next(events)  # some are being searched, others wait
        events.close()
        seen = len(steps) + 1  # a step may be running
        found(translator, search, TEXTS[:3])
        assert steps[seen:] and all(ticket >= len(LONG) for step in steps[seen:] for ticket in step)


def test_a_short_request_overtakes_a_document(translator: Translator):
    inbox, document, guest = FairInbox(), Job(60), Job(60)
    engine = translator.search.engine(translator.options, inbox=inbox)
    waiting = {inbox.add(request, document) for request in requests(translator, LONG)}
    engine.step()
    under_way = len(engine.active)
    assert 0 < under_way < len(waiting)
    (short,) = requests(translator, TEXTS[:1])
    ticket = inbox.add(short, guest)
    ended = []
    while ticket not in ended:
        ended += [result.ticket for result in engine.step()]
    assert len(ended) - 1 <= 2 * under_way, "it waited for no more than what held rows, and what came in their place"
    assert len(waiting) - len(ended) > 3


def test_requests_of_several_clients_share_their_processors(translator: Translator) -> None:
    first, second = (requests(translator, TEXTS[:1])[0].processors for _ in range(2))
    assert len(first) == len(second) and all(map(operator.is_, first, second)), "a step calls each only once"


def test_a_request_enters_at_once_beside_a_document(translator: Translator):
    inbox, document = FairInbox(), Job(60)
    engine = translator.search.engine(translator.options, inbox=inbox)
    for request in requests(translator, LONG):
        inbox.add(request, document)
    for _ in range(5):
        engine.step()
    guests = [inbox.add(request, Job(60)) for request in requests(translator, TEXTS[:2])]
    engine.step()
    assert {*guests} <= {*engine.active}


def test_the_job_that_holds_the_least_room_enters_next(translator: Translator) -> None:
    inbox, early, late = FairInbox(), Job(60), Job(60)
    first, second, third = requests(translator, TEXTS[:1] * 3)
    room_for_one = 19 * first.beam_size, first.row_tokens, 20 * first.beam_size * first.row_tokens
    inbox.add(first, early), inbox.add(second, early)
    assert len(inbox.take(*room_for_one)) == 1
    ticket = inbox.add(third, late)
    assert [waiting.ticket for waiting in inbox.take(*room_for_one)] == [ticket]


def test_a_document_holds_little_beside_others_and_its_share_without(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox, document, guest = FairInbox(), Job(60), Job(60)
    document.is_document = True
    small = Request([4] * 9, limit=9, beam_size=1)
    room = 1_000 * small.row_tokens

    def taken_by_the_document() -> int:
        tickets = {inbox.add(small, document) for _ in range(500)}
        entered = [waiting.ticket for waiting in inbox.take(0, 0, room) if waiting.ticket in tickets]
        inbox.withdraw(document)
        inbox.close(entered)
        return len(entered)

    assert taken_by_the_document() == SHARE * 1_000
    ticket = inbox.add(small, guest)
    assert taken_by_the_document() == SHARE_BESIDE_OTHERS * 1_000
    inbox.close([ticket])
    assert taken_by_the_document() == SHARE_BESIDE_OTHERS * 1_000, "the guest may ask again"
    monkeypatch.setattr(shared_search, "OTHERS_SECONDS", 0.0)
    assert taken_by_the_document() == SHARE * 1_000


Move = tuple[int, int, int]
"""A job, the width of its next request, and the tokens of its source."""


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 8), st.integers(1, 60)), max_size=40), st.randoms())
def test_no_job_holds_more_than_its_share(moves: list[Move], random: Any):
    inbox, jobs = FairInbox(), [Job(60) for _ in range(4)]
    jobs[0].is_document = True
    held: dict[int, tuple[Job, Request]] = {}
    owner: dict[int, Job] = {}
    taken: list[int] = []

    def take() -> None:
        rows = sum(request.beam_size for _, request in held.values())
        longest = max((request.row_tokens for _, request in held.values()), default=0)
        entering = inbox.take(rows, longest, ROOM)
        for ticket, request in entering:
            held[ticket] = owner[ticket], request
            taken.append(ticket)
        rows = sum(request.beam_size for _, request in held.values())
        longest = max((request.row_tokens for _, request in held.values()), default=0)
        assert len(held) <= 1 or rows * longest <= ROOM
        for job in jobs:
            own = [request.beam_size * request.row_tokens for mine, request in held.values() if mine is job]
            assert len(own) <= 1 or sum(own) <= SHARE * ROOM

    for number, width, tokens in moves:
        ticket = inbox.add(Request([4] * tokens, limit=9, beam_size=width), jobs[number])
        owner[ticket] = jobs[number]
        if random.random() < 0.5:
            take()
        if held and random.random() < 0.4:
            done = random.choice([*held])
            inbox.close([done])
            del held[done]
    while inbox or held:
        take()
        assert held, "what waits enters as soon as there is room"
        inbox.close([*held])
        held.clear()
    assert sorted(taken) == sorted(owner)
    for number in range(4):
        own = [ticket for ticket in taken if owner[ticket] is jobs[number]]
        assert own == sorted(own), "the requests of one job enter in order"


def test_who_has_gone_leaves_nothing_behind(translator: Translator):
    with shared(translator) as search:
        gone: list[weakref.ref[Job]] = []
        for texts in (TEXTS, LONG, TEXTS[:1]):
            job = Job(seconds=60)
            gone.append(weakref.ref(job))
            with closing(search.events(requests(translator, texts), job, watched=True)) as events:
                next(events)
            del job, events
        late = Job(seconds=0)
        gone.append(weakref.ref(late))
        with pytest.raises(Refused, match="longer than a request may take") as caught:
            list(search.events(requests(translator, TEXTS), late, watched=False))
        assert caught.value.status == 503
        del late, caught
        for _ in range(2):  # the engine has dropped the rows of the others before it ends
            found(translator, search, TEXTS[:2])
        gc.collect()
        assert search.waiting == 0
        assert [job() for job in gone] == [None] * 4


@pytest.fixture
def standing(translator: Translator) -> Iterator[tuple[SharedSearch, Event]]:
    """A search whose engine stands still as soon as it has something to do; and the event of that."""
    stands, goes_on = Event(), Event()

    def stand_still(engine: Any) -> None:
        step = engine.step

        def step_when_told(ahead: bool = False) -> list[Result]:
            if engine.busy:
                stands.set()
                goes_on.wait()
            return step(ahead)

        engine.step = step_when_told

    with shared(translator, stand_still) as search:
        yield search, stands
        goes_on.set()


def test_a_job_that_is_cancelled_ends_at_once(translator: Translator, standing: tuple[SharedSearch, Event]):
    search, stands = standing
    with ThreadPoolExecutor(1) as threads:
        job = Job(seconds=60)
        waits = threads.submit(lambda: list(search.events(requests(translator, TEXTS), job, watched=False)))
        stands.wait()
        job.cancel()
        with pytest.raises(Refused, match="client closed"):
            waits.result()
        assert search.waiting == 0


def test_who_waits_when_the_search_stops_is_refused(translator: Translator, standing: tuple[SharedSearch, Event]):
    search, stands = standing
    with ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(found, translator, search, TEXTS) for _ in range(3)]
        stands.wait()
        Thread(target=search.stop).start()
        for each in waiting:
            with pytest.raises(Refused, match="stopping") as caught:
                each.result()
            assert caught.value.status == 503 and caught.value.retry_after
    with pytest.raises(Refused, match="stopping"):
        found(translator, search, TEXTS[:1])


def test_a_job_that_runs_again_meets_nothing_of_the_run_before(translator: Translator):
    with shared(translator) as search:
        job = Job(seconds=60)
        job.events.put([StablePrefix((1, 2, 3))])
        assert all(isinstance(each, Result) for each in search.events(requests(translator, TEXTS[:2]), job, False))


def test_an_engine_that_breaks_under_a_client_that_has_gone_hurts_nobody(translator: Translator):
    with shared(translator) as search:
        broken = Result(10**6, RuntimeError("the machine tripped"))
        assert search._retry(broken) is broken


class Breaking:
    """A stepper that breaks at an advance, or a selection, when `breaks` says so."""

    def __init__(self, stepper: Any, breaks: Callable[[str], bool]) -> None:
        self._stepper, self._breaks = stepper, breaks

    def __getattr__(self, name: str) -> Any:
        if name in ("advance", "write_ahead", "select") and self._breaks(name.replace("write_ahead", "advance")):
            raise RuntimeError("the machine tripped")
        return getattr(self._stepper, name)


@needs_compiler
@pytest.mark.parametrize(("step", "steps"), [("advance", 4), ("select", 0), ("select", 9)])
def test_an_engine_that_breaks_is_replaced(translator: Translator, step: str, steps: int):
    left = iter([False] * steps + [True])

    def breaks_once(engine: Any) -> None:
        engine.stepper = Breaking(engine.stepper, lambda name: name == step and next(left, False))

    with shared(translator, breaks_once) as search:
        assert found(translator, search, TEXTS) == alone(translator, TEXTS)
        assert search.replaced == 1 and search.waiting == 0


@needs_compiler
def test_only_the_request_that_breaks_engines_fails(translator: Translator):
    poison = requests(translator, ["the the the the the"])[0].source

    def breaks_of_poison(engine: Any) -> None:
        swallowed: list[bool] = []
        admit = engine.stepper.admit
        stepper: Any = Breaking(engine.stepper, lambda name: name == "advance" and any(swallowed))

        def admit_all(sources: list[list[int]]) -> None:
            swallowed.append(list(poison) in [list(source) for source in sources])
            admit(sources)

        stepper.admit = admit_all
        engine.stepper = stepper

    with shared(translator, breaks_of_poison) as search, ThreadPoolExecutor(4) as threads:
        good = [threads.submit(found, translator, search, TEXTS[number::3]) for number in range(3)]
        bad = threads.submit(found, translator, search, ["the the the the the"])
        with pytest.raises(RuntimeError, match="tripped"):
            bad.result()
        for number, each in enumerate(good):
            assert each.result() == alone(translator, TEXTS[number::3])
        assert search.replaced == 1 and search.waiting == 0


@needs_compiler
def test_a_request_that_cannot_be_admitted_fails_alone(translator: Translator):
    poison = requests(translator, ["the the the the the"])[0].source

    def refuses_poison(engine: Any) -> None:
        admit = engine.stepper.admit

        def admit_all(sources: list[list[int]]) -> None:
            if list(poison) in [list(source) for source in sources]:
                raise ValueError("not this one")
            admit(sources)

        stepper: Any = Breaking(engine.stepper, lambda _: False)
        stepper.admit = admit_all
        engine.stepper = stepper

    with shared(translator, refuses_poison) as search:
        job = Job(60)
        texts = [*TEXTS[:20], "the the the the the", *TEXTS[20:]]
        results: Any = search.events(requests(translator, texts), job, watched=False)
        outcomes = dict(results)
        assert isinstance(outcomes.pop(20), ValueError)
        assert not any(isinstance(outcome, Exception) for outcome in outcomes.values())
        assert search.replaced == 0
        assert found(translator, search, TEXTS[:3]) == alone(translator, TEXTS[:3])
