"""Several engines over one model, each in a thread of its own: a file is translated by all cores."""

from collections.abc import Callable, Generator, Iterator, Sequence
from queue import SimpleQueue
from threading import Event, Thread

from dragoman.decoding.engine import Engine, Found
from dragoman.decoding.queue import Queue
from dragoman.decoding.request import Request


class Crew:
    """Searches for many requests by `workers` engines, which share what waits. What a request finds depends neither on
    the others nor on the engine that takes it, so a crew finds what one engine finds.

    Threads are enough where a stepper computes outside of Python: only bookkeeping waits for its turn.
    """

    def __init__(self, workers: int, engine: Callable[[Queue], Engine]) -> None:
        """`engine` makes an engine that takes from this queue."""
        queue = Queue(workers)
        self._engines = [engine(queue) for _ in range(workers)]

    def run(self, requests: Sequence[Request]) -> Generator[Found]:
        """How each request ended, as they end; a ticket is the request's place in `requests`.

        Who stops asking stops the engines. What goes wrong outside of their steps is raised here, once they have
        stopped.
        """
        first = self._engines[0]
        tickets = [first.admit(request) for request in requests]
        assert tickets == list(range(len(requests))), "a crew runs once"
        if len(self._engines) == 1:
            yield from first.run()
            return
        yield from self._side_by_side()

    def _side_by_side(self) -> Iterator[Found]:
        ends: SimpleQueue[Found | Exception | None] = SimpleQueue()
        stop = Event()

        def work(engine: Engine) -> None:
            try:
                while engine.busy and not stop.is_set():
                    for found in engine.step():
                        ends.put(found)
            except Exception as error:
                ends.put(error)
            finally:
                ends.put(None)

        threads = [Thread(target=work, args=(engine,), daemon=True) for engine in self._engines]
        for thread in threads:
            thread.start()
        try:
            left = len(threads)
            while left:
                end = ends.get()
                if isinstance(end, Exception):
                    raise end
                if end is None:
                    left -= 1
                else:
                    yield end
        finally:
            stop.set()
            for thread in threads:
                thread.join()
