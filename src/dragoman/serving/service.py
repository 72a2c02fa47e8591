"""Translation service of a server: several models, with text in and out and without HTTP.

    service = Service(["runs/en-it", "runs/it-en"])
    service.load()
    with service.job() as job:
        service.translate(["Where is the station?"], "en", "it", job)[0].translation.text

Models load one after another. Any number of threads may call a service; all requests to one model share its search.
"""

import logging
import re
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from threading import Condition
from typing import Any, NamedTuple

from dragoman.errors import Error
from dragoman.explaining.recording import Recorder
from dragoman.formats.document import cancellable
from dragoman.formats.foreign import refuse_document
from dragoman.formats.reading import DocumentSettings, decoded, format_of, read_document
from dragoman.inference.documents import translate_lines
from dragoman.inference.options import SearchOptions
from dragoman.inference.texts import translate_texts
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.languages import base_language, english_name, language_of
from dragoman.serving.limits import SECONDS_A_TEXT, Limits, Refused
from dragoman.serving.shared_search import SHARE_OF_DOCUMENT, Job, JobSearch, SharedSearch, stopping
from dragoman.store.folder import load_model
from dragoman.text.detection import Guess, LanguageDetector

log = logging.getLogger(__name__)

TEXTS_AT_ONCE = 64
"""Number of texts of a document in one batch."""
_TAG = re.compile(r"<[^<>]{1,1000}>")


class TextAnswer(NamedTuple):
    """Answer for one text."""

    translation: Translation
    source: str
    """Language of the text."""
    target: str
    detected: Guess | None
    """Detected language, if the client did not name it."""
    translated: bool = True
    """False if the text is in a language that no model reads, so that it is left as it was."""


class OtherLanguage(Refused):
    """Refusal of a text in a language that no model translates into the target."""

    detected: Guess


@dataclass(eq=False)
class ServedModel:
    """Model of a server. Until it is loaded, and if loading fails, it has no translator and no search."""

    path: str
    translator: Translator | None = None
    search: SharedSearch | None = None
    failed: str = ""
    """Error message if it cannot be loaded."""

    @cached_property
    def recorder(self) -> Recorder:
        """The recorder for explanations, with a copy of the model that is loaded on first use."""
        return Recorder(load_model(self.path))

    @property
    def name(self) -> str:
        """The last part of its path."""
        return Path(self.path).name or self.path

    @property
    def source(self) -> str:
        """The source language; empty until it is loaded."""
        return "" if self.translator is None else self.translator.languages.source

    @property
    def targets(self) -> dict[str, str | None]:
        """The target languages, each with its name in the model's tags, or None if the model has no tags."""
        if self.translator is None:
            return {}
        names = self.translator.target_languages.ids
        return {language_of(name) or name: name for name in names} or {self.translator.languages.target: None}


class Service:
    """Several models, each with one search shared by all clients.

    Attributes:
        models: in order of priority, if several have the same direction.
        limits: limits of a request.
        terms: default terms of a request.
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
        self.models = [ServedModel(str(path)) for path in models]
        self.limits = limits or Limits()
        self._runtime = device, precision, threads
        self.terms = tuple(terms)
        self._jobs: set[Job] = set()
        self._changed = Condition()
        self.is_stopping = False

    def load(self) -> None:
        """Load all models. A model that cannot be loaded is logged, and the server does not become ready."""
        device, precision, threads = self._runtime
        for model in self.models:
            began = time.monotonic()
            try:
                translator = Translator.load(model.path, device, precision, progress=False, threads=threads)
                translator = translator.with_options(terms=self.terms)
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
        """True if all models are loaded and the server is not stopping."""
        return not self.is_stopping and all(model.translator is not None for model in self.models)

    def check_ready(self) -> None:
        """Raise `Refused` (503) if the models are loading or the server is stopping."""
        if self.is_stopping:
            raise stopping()
        if not self.is_ready:
            raise Refused(503, "the models are loading; try again in a moment", 5)

    @property
    def directions(self) -> dict[tuple[str, str], ServedModel]:
        """The model of each source and target language."""
        directions: dict[tuple[str, str], ServedModel] = {}
        for model in self.models:
            for target in model.targets:
                directions.setdefault((model.source, target), model)
        return directions

    def pairs(self) -> list[tuple[str, str]]:
        """Return the source and target languages of all models; refuse while they load or the server stops (503)."""
        self.check_ready()
        return list(self.directions)

    @property
    def active_requests(self) -> int:
        """The number of requests that are not answered yet."""
        return len(self._jobs)

    @contextmanager
    def job(self) -> Generator[Job]:
        """Register a job within the block; refuse it if the server is not ready or has too many requests (503)."""
        self.check_ready()
        job = Job(self.limits.seconds)
        with self._changed:
            if len(self._jobs) >= self.limits.requests:
                raise Refused(503, f"{self.limits.requests} requests are active already; try again in a moment", 1)
            self._jobs.add(job)
        try:
            yield job
        finally:
            with self._changed:
                self._jobs.discard(job)
                self._changed.notify_all()

    def stop(self, seconds: float = 0.0) -> None:
        """Refuse new requests, wait up to `seconds` for active ones, then cancel the rest."""
        self.is_stopping = True
        with self._changed:
            self._changed.wait_for(lambda: not self._jobs, seconds)
            for job in self._jobs:
                job.cancel(stopping())
        for model in self.models:
            if model.search is not None:
                model.search.stop()

    def model(self, source: str, target: str | None) -> tuple[ServedModel, str]:
        """Return the model for a direction, or refuse it (400), and its target language, by default the first one.

        Languages may be named by any of their codes: a model of `pt` answers for `pt-BR` and `POR` too.
        """
        directions = self.directions
        matching = [
            (known_source, known_target)
            for known_source, known_target in directions
            if _same_language(known_source, source) and (target is None or _same_language(known_target, target))
        ]
        exact = source.lower(), target and target.lower()
        for pair in sorted(matching, key=lambda pair: (pair[0].lower() != exact[0], pair[1].lower() != exact[1])):
            return directions[pair], pair[1]
        known = ", ".join(f"{source} to {target}" for source, target in directions)
        requested = f"{source} to {target}" if target else source
        raise Refused(400, f"no model here translates {requested[:100]}; there is {known}")

    def translator(self, model: ServedModel, job: Job) -> Translator:
        """Return a translator for one job that uses the model's shared search."""
        assert model.translator is not None and model.search is not None, "jobs start when all models are loaded"
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
    ) -> list[TextAnswer]:
        """Return one answer for each text, in order; a text of several lines keeps its lines.

        If `source` is `auto`, a text in the target language, or in a language that no model reads, is left as it is.
        With `kept_tags`, the text is XML instead of HTML, and the content of these tags is not translated. `settings`
        are those of `SearchOptions`.

        Raises:
            Refused: a limit is exceeded (400, 413), no model has this direction or reads any of the texts (400), or as
                in `SharedSearch`.
        """
        self.limits.check(list(texts), alternatives, beam_size or 1)
        answers: dict[int, TextAnswer] = {}
        routes: dict[int, tuple[ServedModel, str, Guess | None]] = {}
        for number, text in enumerate(texts):
            try:
                routes[number] = self.route(_TAG.sub(" ", text) if is_html else text, source, target)
            except OtherLanguage as error:
                unchanged, guess = Translation(text, text, flags=("language",)), error.detected
                answers[number] = TextAnswer(unchanged, guess.language, target or "", guess, translated=False)
                if len(answers) == len(texts) and not any(
                    _same_language(answer.source, answer.target) for answer in answers.values()
                ):
                    raise
        for model, model_target in dict.fromkeys(route[:2] for route in routes.values()):
            numbers = [number for number, route in routes.items() if route[:2] == (model, model_target)]
            translator = self.translator(model, job)
            options = self.options(model, model_target, alternatives, beam_size, **settings)
            self.limits.check(list(texts), alternatives, options.beam_size)
            with refusing():
                chosen = [texts[number] for number in numbers]
                written = translate_texts(translator, chosen, options, is_html, kept_tags)
            for number, translation in zip(numbers, written, strict=True):
                answers[number] = TextAnswer(translation, model.source, model_target, routes[number][2])
        return [answers[number] for number in range(len(texts))]

    def options(
        self, model: ServedModel, target: str, alternatives: int = 0, beam_size: int | None = None, **settings: Any
    ) -> SearchOptions:
        """Return the model's search options, changed for a request; refuse an invalid setting (400)."""
        assert model.translator is not None
        default = model.translator.options
        if name := model.targets[target]:
            settings["target_language"] = name
        if alternatives:
            settings["n_best"] = alternatives + 1
        if beam_size or alternatives:
            settings["beam_size"] = max(beam_size or default.beam_size, alternatives + 1)
        with refusing():
            return default.but(**settings)

    def document(self, path: Path, source: str, target: str | None, job: Job) -> bytes:
        """Return a document with its texts translated; refuse an unreadable one or an unknown direction (400)."""
        with refusing():
            kind = format_of(path) or "text"
            if kind == "text":
                refuse_document(path, decoded(path.read_bytes(), path)[0].splitlines())
            settings = DocumentSettings(memory=self.limits.document_memory, texts=self.limits.document_texts)
            read = partial(read_document, path, document_format=kind, settings=settings)
            if source == "auto":
                with cancellable(job.check):
                    beginning = read(("und", target or "und"))
                source = self.route("\n".join(beginning.texts[:TEXTS_AT_ONCE])[:10_000], source, target)[0].source
            model, model_target = self.model(source, target)
            with cancellable(job.check):
                document = read((model.source, model_target))
            job.deadline += SECONDS_A_TEXT * len(document.texts)
            job.share = SHARE_OF_DOCUMENT
            translator, options = self.translator(model, job), self.options(model, model_target)
            batches = translate_lines(translator, document.texts, options, False, at_once=TEXTS_AT_ONCE)
            return document.translated([translation.text for batch in batches for translation in batch])

    def detect(self, text: str) -> list[Guess]:
        """Return the models' languages that a text may be in, the most probable first.

        The list is empty if the text is in another language or has no letters.
        """
        detector = self._detector(None)
        return [] if detector.other(text) else detector.guesses(text)

    def route(self, text: str, source: str, target: str | None) -> tuple[ServedModel, str, Guess | None]:
        """Return model and target of a text, and the language detected for `auto`; refuse a lacking direction (400)."""
        if source != "auto":
            return *self.model(source, target), None
        detector = self._detector(target)
        if unknown := detector.other(text):
            name = english_name(unknown)
            known = ", ".join(detector.languages)
            error = OtherLanguage(
                400,
                f"the text seems to be in {name} ({unknown}), but only {known} can be translated; "
                f"name its source if that is wrong",
            )
            error.detected = LanguageDetector([*detector.languages, unknown]).guesses(text)[0]
            raise error
        guesses = detector.guesses(text) or [Guess(language, 0.0) for language in detector.languages]
        if not guesses:
            return *self.model(source, target), None  # refused, because no model has this target
        return *self.model(guesses[0].language, target), guesses[0]

    def _detector(self, target: str | None) -> LanguageDetector:
        """Return a detector of the source languages that can be translated into this target, or into any."""
        sources = (
            known_source
            for known_source, known_target in self.directions
            if target is None or _same_language(known_target, target)
        )
        return LanguageDetector(dict.fromkeys(sources))


def _shared(translator: Translator) -> SharedSearch:
    options = translator.options
    # One engine on all threads: two were slower with 64 clients, because they waited for Python's lock.
    return SharedSearch(lambda inbox: translator.search.engine(options, inbox=inbox))


@contextmanager
def refusing() -> Iterator[None]:
    """Convert an `Error` in the block to `Refused` (400)."""
    try:
        yield
    except Refused:
        raise
    except Error as error:
        raise Refused(400, str(error)) from error


def _same_language(first: str, second: str) -> bool:
    return base_language(first) == base_language(second)
