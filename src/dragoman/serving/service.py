"""The models behind a server, in terms of text. It knows nothing of HTTP.

    service = Service(["runs/en-it", "runs/it-en"])
    service.load()
    with service.job() as job:
        service.translate(["Where is the station?"], "en", "it", job)[0].translation.text

Models load one after another. Calls come from any number of threads; all requests to one model share its search.
"""

import logging
import re
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from threading import Condition
from typing import Any, NamedTuple

from dragoman.errors import Error
from dragoman.explaining.recording import Recorder
from dragoman.formats.document import Document, cancellable, lines_in, with_lines
from dragoman.formats.foreign import refuse_document
from dragoman.formats.html import Html
from dragoman.formats.reading import DocumentLimits, decoded, format_of, read_document
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.languages import base_language, english_name, language_of
from dragoman.serving.limits import SECONDS_A_TEXT, Limits, Refused
from dragoman.serving.shared_search import SHARE_OF_DOCUMENT, Job, JobSearch, SharedSearch, stopping
from dragoman.store.folder import load_model
from dragoman.text.detection import Guess, LanguageDetector

log = logging.getLogger(__name__)

TEXTS_AT_ONCE = 64
"""Texts of a document that are read and wait at a time."""
IN_ORDER = ("tokens", "token_log_probs", "source_words", "target_words", "word_log_probs")
ONCE = ("flags", "unknown_words", "rewritten", "lost", "unused_terms")
"""What a translation says of its parts: one after another, or each thing once."""
_TAG = re.compile(r"<[^<>]{1,1000}>")


class Answer(NamedTuple):
    """One text as a client gets it back."""

    translation: Translation
    source: str
    """The language that it was translated from."""
    target: str
    detected: Guess | None
    """What the language was detected as, if the client did not name it."""
    translated: bool = True
    """False of a text in another language than the models read, which is left as it was."""


class OtherLanguage(Refused):
    """A text is in a language that no model translates into the target."""

    detected: Guess


@dataclass(eq=False)
class Model:
    """One model of the server. Until it is loaded, and if it cannot be, it has no translator and no search."""

    path: str
    translator: Translator | None = None
    search: SharedSearch | None = None
    failed: str = ""
    """Why it cannot be loaded."""

    @cached_property
    def recorder(self) -> Recorder:
        """What explains its translations, with a copy of the model that is loaded when first asked for."""
        return Recorder(load_model(self.path))

    @property
    def name(self) -> str:
        """The last part of its path."""
        return Path(self.path).name or self.path

    @property
    def source(self) -> str:
        """The language that it reads; empty until it is loaded."""
        return "" if self.translator is None else self.translator.languages.source

    @property
    def targets(self) -> dict[str, str | None]:
        """The languages that it writes, each with the name that the model has for it if it has several."""
        if self.translator is None:
            return {}
        named = self.translator.target_languages.ids
        return {language_of(name) or name: name for name in named} or {self.translator.languages.target: None}


class Service:
    """Several models, each with one search that all clients share.

    Attributes:
        models: in the order given; of two with the same direction the first answers.
        limits: what one request may ask for.
        terms: those of every request that has none of its own.
    """

    def __init__(
        self,
        models: Iterable[Path | str],
        limits: Limits | None = None,
        device: str = "auto",
        precision: str = "auto",
        threads: int | None = None,
        terms: Sequence[tuple[str, ...]] = (),
    ) -> None:
        self.models = [Model(str(path)) for path in models]
        self.limits = limits or Limits()
        self._how = device, precision, threads
        self.terms = tuple(terms)
        self._jobs: set[Job] = set()
        self._changed = Condition()
        self.is_stopping = False

    def load(self) -> None:
        """Loads all models. One that cannot be loaded is logged, and keeps the server from being ready."""
        device, precision, threads = self._how
        for model in self.models:
            began = time.monotonic()
            try:
                translator = Translator.load(model.path, device, precision, progress=False, threads=threads)
                translator.options = translator.options.but(terms=self.terms)
                options = translator.options
                target = next(iter(translator.target_languages.ids), None)
                translator.translate(["Hello, world."], options, progress=False, align=True, target_language=target)
                model.search = _shared(translator)
                model.translator = translator
            except Error as error:
                model.failed = str(error)
                log.error("%s cannot be served: %s", model.path, error)
            else:
                log.info("%s is ready after %.1f s", model.path, time.monotonic() - began)

    @property
    def is_ready(self) -> bool:
        """Whether all models are loaded, and the server is not about to stop."""
        return not self.is_stopping and all(model.translator is not None for model in self.models)

    def check_ready(self) -> None:
        """Raises:
        Refused: the models are loading, or the server stops (503).
        """
        if self.is_stopping:
            raise stopping()
        if not self.is_ready:
            raise Refused(503, "the models are loading; try again in a moment", 5)

    @property
    def directions(self) -> dict[tuple[str, str], Model]:
        """The model of each source and target language."""
        found: dict[tuple[str, str], Model] = {}
        for model in self.models:
            for target in model.targets:
                found.setdefault((model.source, target), model)
        return found

    def pairs(self) -> list[tuple[str, str]]:
        """The source and target languages of all models.

        Raises:
            Refused: they are loading, or the server stops (503).
        """
        self.check_ready()
        return list(self.directions)

    @property
    def under_way(self) -> int:
        """Requests that are not answered yet."""
        return len(self._jobs)

    @contextmanager
    def job(self) -> Generator[Job]:
        """A place for one request, which ends with the block.

        Raises:
            Refused: the models are loading, the server stops, or as many requests as it takes are under way (503).
        """
        self.check_ready()
        job = Job(self.limits.seconds)
        with self._changed:
            if len(self._jobs) >= self.limits.requests:
                raise Refused(503, f"{self.limits.requests} requests are under way already; try again in a moment", 1)
            self._jobs.add(job)
        try:
            yield job
        finally:
            with self._changed:
                self._jobs.discard(job)
                self._changed.notify_all()

    def stop(self, seconds: float = 0.0) -> None:
        """Takes no more requests, and waits so long for those under way; what is left then is refused."""
        self.is_stopping = True
        with self._changed:
            self._changed.wait_for(lambda: not self._jobs, seconds)
            for job in self._jobs:
                job.cancel(stopping())
        for model in self.models:
            if model.search is not None:
                model.search.stop()

    def model(self, source: str, target: str | None) -> tuple[Model, str]:
        """The model for a direction, and its target language; without a target, the first that this source has.

        Languages are named by any of their codes: a model of `pt` answers for `pt-BR` and `POR` too.

        Raises:
            Refused: there is none (400).
        """
        directions = self.directions
        near = [pair for pair in directions if _alike(pair[0], source) and (target is None or _alike(pair[1], target))]
        wanted = source.lower(), target and target.lower()
        for pair in sorted(near, key=lambda pair: (pair[0].lower() != wanted[0], pair[1].lower() != wanted[1])):
            return directions[pair], pair[1]
        known = ", ".join(f"{one} to {other}" for one, other in directions)
        asked = f"{source} to {target}" if target else source
        raise Refused(400, f"no model here translates {asked[:100]}; there is {known}")

    def translator(self, model: Model, job: Job) -> Translator:
        """The translator of a model whose search is shared with others, for one job."""
        assert model.translator is not None and model.search is not None, "jobs begin when all models are loaded"
        return model.translator.sharing(JobSearch(model.search, job))

    def translate(
        self,
        texts: Sequence[str],
        source: str,
        target: str | None,
        job: Job,
        *,
        alternatives: int = 0,
        beam_size: int | None = None,
        is_html: bool = False,
        kept_tags: Collection[str] | None = None,
        **settings: Any,
    ) -> list[Answer]:
        """Return one answer for each text, in order; a text of several lines keeps its lines. `source` may be `auto`:
        a text that is in the target language, or in one that no model reads, is left as it is then.
        `kept_tags` makes HTML XML, and names the tags in which nothing is translated. `settings` are those of
        `SearchOptions`.

        Raises:
            Refused: too much is asked for (400, 413), no model has this direction or reads any of the texts (400), or
                as in `SharedSearch`.
        """
        self.limits.check(list(texts), alternatives, beam_size or 1)
        answers: dict[int, Answer] = {}
        routes: dict[int, tuple[Model, str, Guess | None]] = {}
        for number, text in enumerate(texts):
            try:
                routes[number] = self.route(_TAG.sub(" ", text) if is_html else text, source, target)
            except OtherLanguage as error:
                left, guess = Translation(text, text, flags=("language",)), error.detected
                answers[number] = Answer(left, guess.language, target or "", guess, translated=False)
                if len(answers) == len(texts) and not any(_alike(one.source, one.target) for one in answers.values()):
                    raise
        for model, goal in dict.fromkeys(route[:2] for route in routes.values()):
            numbers = [number for number, route in routes.items() if route[:2] == (model, goal)]
            translator = self.translator(model, job)
            options = self.options(model, goal, alternatives, beam_size, **settings)
            self.limits.check(list(texts), alternatives, options.beam_size)
            with refusing():
                written = _translated([texts[number] for number in numbers], translator, options, is_html, kept_tags)
            for number, translation in zip(numbers, written, strict=True):
                answers[number] = Answer(translation, model.source, goal, routes[number][2])
        return [answers[number] for number in range(len(texts))]

    def options(
        self, model: Model, target: str, alternatives: int = 0, beam_size: int | None = None, **settings: Any
    ) -> SearchOptions:
        """How a model searches for a request: as it does by itself, with these settings.

        Raises:
            Refused: a setting is wrong (400).
        """
        assert model.translator is not None
        usual = model.translator.options
        if name := model.targets[target]:
            settings["target_language"] = name
        if alternatives:
            settings["n_best"] = alternatives + 1
        if beam_size or alternatives:
            settings["beam_size"] = max(beam_size or usual.beam_size, alternatives + 1)
        with refusing():
            return usual.but(**settings)

    def document(self, path: Path, source: str, target: str | None, job: Job) -> bytes:
        """A document with its texts translated.

        Raises:
            Refused: it cannot be read (400), no model has this direction (400), or as in `SharedSearch`.
        """
        with refusing():
            kind = format_of(path) or "text"
            if kind == "text":
                refuse_document(path, decoded(path.read_bytes(), path)[0].splitlines())
            limits = DocumentLimits(memory=self.limits.document_memory, texts=self.limits.document_texts)
            read = partial(read_document, path, document_format=kind, limits=limits)
            if source == "auto":
                with cancellable(job.check):
                    beginning = read(("und", target or "und"))
                source = self.route("\n".join(beginning.texts[:TEXTS_AT_ONCE])[:10_000], source, target)[0].source
            model, goal = self.model(source, target)
            with cancellable(job.check):
                document: Document = read((model.source, goal))
            texts = document.texts
            job.deadline += SECONDS_A_TEXT * len(texts)
            job.share = SHARE_OF_DOCUMENT
            translator, options = self.translator(model, job), self.options(model, goal)
            written: list[str] = []
            for first in range(0, len(texts), TEXTS_AT_ONCE):
                some = texts[first : first + TEXTS_AT_ONCE]
                written += [each.text for each in translator.translate(some, options, progress=False)]
            return document.translated(written)

    def detect(self, text: str) -> list[Guess]:
        """The languages of the models that a text may be in, the most probable first; none if it is in another one, or
        has no letters.
        """
        detector = self._detector(None)
        return [] if detector.other(text) else detector.guesses(text)

    def route(self, text: str, source: str, target: str | None) -> tuple[Model, str, Guess | None]:
        """The model for a text, its target language, and what was detected if its source is `auto`.

        Raises:
            Refused: no model has this direction, or reads the language of the text (400).
        """
        if source != "auto":
            return *self.model(source, target), None
        detector = self._detector(target)
        if other := detector.other(text):
            name = english_name(other)
            known = ", ".join(detector.languages)
            error = OtherLanguage(
                400,
                f"the text seems to be in {name} ({other}), but only {known} can be translated; "
                f"name its source if that is wrong",
            )
            error.detected = LanguageDetector([*detector.languages, other]).guesses(text)[0]
            raise error
        guesses = detector.guesses(text) or [Guess(language, 0.0) for language in detector.languages]
        if not guesses:
            return *self.model(source, target), None  # refused, because no model has this target
        return *self.model(guesses[0].language, target), guesses[0]

    def _detector(self, target: str | None) -> LanguageDetector:
        """A detector of the languages that can be translated into this one, or into any."""
        pairs = self.directions
        return LanguageDetector(dict.fromkeys(one for one, other in pairs if target is None or _alike(other, target)))


def _shared(translator: Translator) -> SharedSearch:
    options = translator.options
    # One engine on all threads: two served 64 clients more slowly, because they waited for Python's lock.
    return SharedSearch(lambda inbox: translator.engine(options, inbox=inbox))


@contextmanager
def refusing() -> Iterator[None]:
    """Within the block, what is wrong with a request is refused (400)."""
    try:
        yield
    except Refused:
        raise
    except Error as error:
        raise Refused(400, str(error)) from error


def _alike(one: str, other: str) -> bool:
    return base_language(one) == base_language(other)


def _translated(
    texts: Sequence[str], translator: Translator, options: SearchOptions, is_html: bool, kept: Collection[str] | None
) -> list[Translation]:
    """The translations of texts of several lines, or of pieces of HTML: all lines at once, then put together again."""
    if is_html:
        pages = [Html(text, "utf-8", translator.languages, kept) for text in texts]
        parts = [list(page.texts) for page in pages]
        joins = [lambda new, page=page: page.translated(new).decode() for page in pages]
    else:
        parts = [lines_in(text) for text in texts]
        joins = [partial(with_lines, text) for text in texts]
    lines = iter(translator.translate([line for some in parts for line in some], options, progress=False))
    return [
        joined(text, [next(lines) for _ in some], join) for text, some, join in zip(texts, parts, joins, strict=True)
    ]


def joined(source: str, parts: Sequence[Translation], join: Callable[[list[str]], str]) -> Translation:
    """Translations of the parts of a text as that of the whole, with the words of all parts counted on."""
    in_order: dict[str, list[Any]] = {name: [] for name in IN_ORDER}
    alignment: list[tuple[int, int]] = []
    for part in parts:
        before, written = len(in_order["source_words"]), len(in_order["target_words"])
        alignment += [(one + before, other + written) for one, other in part.alignment]
        for name, values in in_order.items():
            values += getattr(part, name)
    ways = max((len(part.alternatives) for part in parts), default=0)
    return Translation(
        source=source,
        text=join([part.text for part in parts]),
        log_prob=sum(part.log_prob for part in parts),
        score=sum(part.score for part in parts),
        alignment=tuple(alignment),
        alternatives=tuple(joined(source, [_way(part, number) for part in parts], join) for number in range(ways)),
        **{name: tuple(values) for name, values in in_order.items()},
        **{name: tuple(dict.fromkeys(one for part in parts for one in getattr(part, name))) for name in ONCE},
    )


def _way(part: Translation, number: int) -> Translation:
    """The alternative of this number, or the last that there is."""
    return replace((part, *part.alternatives)[min(number + 1, len(part.alternatives))], alternatives=())
