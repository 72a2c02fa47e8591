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
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.directions import Directions, named
from dragoman.errors import ConfigError, Error
from dragoman.formats.cancelling import cancellable
from dragoman.formats.foreign import refuse_document
from dragoman.formats.lines import open_bytes
from dragoman.formats.reading import DocumentTooLarge, format_of, read_document
from dragoman.inference.documents import translate_lines
from dragoman.inference.options import SearchOptions
from dragoman.inference.texts import translate_texts
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.languages import base_language, english_name, language_of
from dragoman.serving.limits import SECONDS_A_TEXT, Limits, Refused
from dragoman.serving.shared_search import Job, JobSearch, SharedSearch, stopping
from dragoman.store.description import Languages, read_config
from dragoman.store.folder import find_model, load_model
from dragoman.surface.terms import compiled
from dragoman.text.detection import Guess, LanguageDetector

if TYPE_CHECKING:
    from dragoman.explaining.recording import Recorder

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
    directions: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict[tuple[str, str], dict[str, str]])
    """The languages of each direction that is offered, with the settings of the search for it."""
    failed: str = ""
    """Error message if it cannot be loaded."""

    @cached_property
    def recorder(self) -> "Recorder":
        """The recorder for explanations, with a copy of the model that is loaded on first use."""
        from dragoman.explaining.recording import Recorder

        recorder = Recorder(load_model(self.path))
        if recorder.translator is not None:
            recorder.translator.is_fixed = True
        return recorder

    @property
    def name(self) -> str:
        """The last part of its path."""
        return Path(self.path).name or self.path


class Route(NamedTuple):
    """Model and languages for a text, and the language that was detected, if the client did not name it."""

    model: ServedModel
    source: str
    target: str
    detected: Guess | None = None


class Service:
    """Several models, each with one search shared by all clients.

    Attributes:
        models: in order of priority, if several have the same direction.
        directions: the model of each source and target language.
        languages: the source languages and the target languages, without regions.
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
        directions: Collection[str] = (),
    ) -> None:
        """Offer all directions of the models or some, as in `en-it`; raise `ConfigError` for one that no model has."""
        self.models = [ServedModel(str(path)) for path in models]
        self.limits = limits or Limits()
        self._runtime = device, precision, threads
        self.terms = tuple(terms)
        self._offered = _known(directions, self.models) if directions else None
        self.directions: dict[tuple[str, str], ServedModel] = {}
        self.languages: tuple[set[str], set[str]] = set(), set()
        self.model = lru_cache(maxsize=4_096)(self._model)
        self._detector = lru_cache(maxsize=4_096)(self._build_detector)
        self._jobs: set[Job] = set()
        self._changed = Condition()
        self.is_stopping = self._aligns = False

    def load(self) -> None:
        """Load all models. A model that cannot be loaded is logged, and the server does not become ready."""
        device, precision, threads = self._runtime
        for model in self.models:
            began = time.monotonic()
            try:
                translator = Translator.load(model.path, device, precision, progress=False, threads=threads)
                translator = translator.with_options(terms=self.terms)
                directions = _directions(translator.languages, translator.directions, translator.tags.ids)
                for pair, settings in directions.items():
                    if self._offered is None or pair in self._offered:
                        model.directions[pair] = settings
                        self.directions.setdefault(pair, model)
                        self.languages[0].add(base_language(pair[0]))
                        self.languages[1].add(base_language(pair[1]))
                direction = translator.options.but(**next(iter(directions.values())))
                translator.translate(["Hello, world."], direction, progress=False)
                model.search = _shared(translator)
                model.translator = translator
            except Error as error:
                model.failed = str(error)
                log.error("%s cannot be served: %s", model.path, error)
            else:
                log.info("%s is ready after %.1f s", model.path, time.monotonic() - began)

    def prepare_alignments(self) -> None:
        """Load in the background, once, what alignments need: PyTorch, and the models in it."""
        if self.is_ready and not self._aligns:
            self._aligns = True
            Thread(target=self._align_once, name="alignments", daemon=True).start()

    def _align_once(self) -> None:
        for model in self.models:
            for pair in [*model.directions][:1]:
                with suppress(Error), self.job() as job:
                    self.translator(Route(model, *pair), job).translate(["Hello."], progress=False, align=True)

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
        """Register a job within the block; refuse it if the server is not ready (503)."""
        self.check_ready()
        job = Job(self.limits.seconds)
        with self._changed:
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

    def _model(self, source: str, target: str | None) -> Route:
        """Return the model for a direction, or refuse it (400); the target is by default the first one.

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
            return Route(directions[pair], *pair)
        known = ", ".join(f"{source} to {target}" for source, target in list(directions)[:10])
        known += f" and {len(directions) - 10} more" * (len(directions) > 10)
        requested = f"{source} to {target}" if target else source
        raise Refused(400, f"no model here translates {requested[:100]}; there is {known}")

    def translator(self, route: Route, job: Job) -> Translator:
        """Return a translator for one job that uses the model's shared search, in one direction."""
        model = route.model
        assert model.translator is not None and model.search is not None, "jobs start when all models are loaded"
        translator = model.translator.sharing(JobSearch(model.search, job))
        translator.is_fixed = True  # texts are a client's, whose tags may name a direction that is not offered
        settings = model.directions[route.source, route.target]
        return translator.directed(translator.options.model_copy(update=settings))

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
        limits: Limits | None = None,
        **settings: Any,
    ) -> list[TextAnswer]:
        """Return one answer for each text, in order; a text of several lines keeps its lines.

        If `source` is `auto`, a text in the target language, or in a language that no model reads, is left as it is.
        With `kept_tags`, the text is XML instead of HTML, and the content of these tags is not translated. `limits`
        replace those of the service. `settings` are those of `SearchOptions`.

        Raises:
            Refused: a limit is exceeded (400, 413), no model has this direction or reads any of the texts (400), or as
                in `SharedSearch`.
        """
        limits = limits or self.limits
        limits.check(list(texts), alternatives, beam_size or 1)
        answers: dict[int, TextAnswer] = {}
        routes: dict[int, Route] = {}
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
        for way in dict.fromkeys(route[:3] for route in routes.values()):
            numbers, route = [number for number, route in routes.items() if route[:3] == way], Route(*way)
            translator = self.translator(route, job)
            options = self.options(route, alternatives, beam_size, **settings)
            limits.check(list(texts), alternatives, options.beam_size, compiled(options.terms))
            with refusing(), cancellable(job.check):
                chosen = [texts[number] for number in numbers]
                job.charge(sum(map(len, chosen)))
                written = translate_texts(translator, chosen, options, is_html, kept_tags)
            for number, translation in zip(numbers, written, strict=True):
                answers[number] = TextAnswer(translation, *routes[number][1:])
        return [answers[number] for number in range(len(texts))]

    def options(
        self, route: Route, alternatives: int = 0, beam_size: int | None = None, **settings: Any
    ) -> SearchOptions:
        """Return the model's search options, changed for a request; refuse an invalid setting (400)."""
        assert route.model.translator is not None
        default = route.model.translator.options
        settings |= route.model.directions[route.source, route.target]
        if alternatives:
            settings["n_best"] = alternatives + 1
        if beam_size or alternatives:
            settings["beam_size"] = max(beam_size or default.beam_size, alternatives + 1)
        with refusing():
            return default.but(**settings)

    def document(
        self,
        path: Path,
        source: str,
        target: str | None,
        job: Job,
        settings_for: Callable[[Sequence[str]], dict[str, Any]] = lambda texts: {},
    ) -> bytes:
        """Return a translated document; refuse one too large (413) or unreadable, or an unknown direction (400).

        `settings_for` returns settings of `SearchOptions` for the document's texts.
        """
        with refusing(), cancellable(job.check):
            kind = format_of(path) or "text"
            if kind == "text":
                with open_bytes(path) as file:
                    beginning = file.read(1 << 18)
                encoding = "utf-16" if beginning.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
                refuse_document(path, beginning.decode(encoding, "ignore").splitlines())
            read = partial(read_document, path, document_format=kind, settings=self.limits.document_settings)
            if source == "auto":
                beginning = "\n".join(read(("und", target or "und")).texts[:TEXTS_AT_ONCE])[:10_000]
                source = self.route(beginning, source, target).source
            route = self.model(source, target)
            document = read((route.source, route.target))
            translator = self.translator(route, job)
            options = self.options(route, **settings_for(document.texts))
            job.charge(sum(map(len, document.texts)))
            job.deadline += min(SECONDS_A_TEXT * len(document.texts), self.limits.document_seconds)
            job.is_document = True
            batches = translate_lines(translator, document.texts, options, False, at_once=TEXTS_AT_ONCE)
            return document.translated([translation.text for batch in batches for translation in batch])

    def detect(self, text: str) -> list[Guess]:
        """Return the models' languages that a text may be in, the most probable first.

        The list is empty if the text is in another language or has no letters.
        """
        detector = self._detector(None)
        return [] if detector.other(text) else detector.guesses(text)

    def route(self, text: str, source: str, target: str | None) -> Route:
        """Return the model and the languages of a text; refuse a lacking direction (400)."""
        if source != "auto":
            return self.model(source, target)
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
            return self.model(source, target)  # refused, because no model has this target
        return self.model(guesses[0].language, target)._replace(detected=guesses[0])

    def _build_detector(self, target: str | None) -> LanguageDetector:
        """Return a detector of the source languages that can be translated into this target, or into any."""
        sources = (
            known_source
            for known_source, known_target in self.directions
            if target is None or _same_language(known_target, target)
        )
        return LanguageDetector(dict.fromkeys(sources))


def _directions(
    languages: Languages, several: Directions | None, tags: Iterable[str]
) -> dict[tuple[str, str], dict[str, str]]:
    """Return the languages of each direction, by their codes, with the settings of the search for it."""
    pairs = several.pairs() if several else ((languages.source, name) for name in tags)
    directions = {_codes(pair): {"source_language": pair[0], "target_language": pair[1]} for pair in pairs}
    return directions or {languages: {}}


def _codes(pair: tuple[str, str]) -> tuple[str, str]:
    return language_of(pair[0]) or pair[0], language_of(pair[1]) or pair[1]


def _known(names: Collection[str], models: Sequence[ServedModel]) -> set[tuple[str, str]]:
    """Return the directions with these names; raise `ConfigError` for one that no model has."""
    pairs: list[tuple[str, str]] = []
    for model in models:
        languages, _, _, _, several = read_config(find_model(model.path))
        tags = () if several else load_model(model.path).tokenizers.source.languages  # of Marian's models
        pairs += _directions(languages or Languages(), several, tags)
    known = {"-".join(pair): pair for pair in pairs}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"no model has the direction {unknown[0]!r}; there are {named(pairs)}")
    return {known[name] for name in names}


def _shared(translator: Translator) -> SharedSearch:
    options = translator.options
    # One engine on all threads: two were slower with 64 clients, because they waited for Python's lock.
    return SharedSearch(lambda inbox: translator.search.engine(options, inbox=inbox))


@contextmanager
def refusing() -> Iterator[None]:
    """Convert an `Error` in the block to `Refused`: 413 for a document that is too large, else 400."""
    try:
        yield
    except Refused:
        raise
    except DocumentTooLarge as error:
        advice = f"divide it, or start the server with --set document_{error.limit}=N"
        raise Refused(413, f"{error.problem}; {advice}") from error
    except Error as error:
        raise Refused(400, str(error)) from error


def _same_language(first: str, second: str) -> bool:
    return base_language(first) == base_language(second)
