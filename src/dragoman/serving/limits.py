"""Limits of requests and of their concurrency. All limits are checked before any work."""

import pydantic

from dragoman.config import Settings
from dragoman.errors import Error
from dragoman.formats.reading import DocumentSettings
from dragoman.surface.terms import Terms

DEEPL = ("/v2/", "/v3/")
"""Prefixes of the paths of DeepL's API."""


class Refused(Error):
    """Refusal of a request, with its HTTP status."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        """Refuse a request; after `retry_after` seconds, the same request may succeed."""
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


class Limits(Settings):
    """Limits of a server."""

    texts: int = pydantic.Field(default=50, ge=1, le=100_000)
    """Maximum number of texts per request."""
    characters: int = pydantic.Field(default=5_000, ge=1, le=10_000_000)
    """Maximum number of characters per text."""
    alternatives: int = pydantic.Field(default=5, ge=0, le=255)
    """Maximum number of additional translations per text."""
    beam_size: int = pydantic.Field(default=8, ge=1, le=256)
    """Maximum beam size."""
    work: int = pydantic.Field(default=600_000, ge=1, le=10**10)
    """Maximum characters of a request times its beam size, plus `FORM_WORK` for each form of a term wherever a text has
    the term: they bound the number of hypotheses."""
    body_bytes: int = pydantic.Field(default=128 * 1024, ge=1, le=2**40)
    """Maximum size of a request's body in bytes."""
    document_bytes: int = pydantic.Field(default=10 * 2**20, ge=1, le=2**40)
    """Maximum size of a document in bytes."""
    document_memory: int = pydantic.Field(default=2**29, ge=2**20, le=2**50)
    """Maximum memory in bytes for reading and writing all concurrent documents, of which each has an equal share."""
    document_texts: int = pydantic.Field(default=100_000, ge=1, le=10**10)
    """Maximum number of texts in a document."""
    requests: int = pydantic.Field(default=128, ge=1, le=10_000)
    """Maximum number of active requests. Further ones wait for their turn, as in `Places`."""
    documents: int = pydantic.Field(default=4, ge=1, le=1_000)
    """Maximum number of concurrent documents."""
    seconds: float = pydantic.Field(default=30.0, gt=0.0, le=86_400.0)
    """Maximum seconds per request; a document gets `SECONDS_A_TEXT` more for each of its texts."""
    document_seconds: float = pydantic.Field(default=3_600.0, gt=0.0, le=30 * 86_400.0)
    """Maximum seconds that a document gets for its texts."""
    requests_a_minute: int = pydantic.Field(default=0, ge=0, le=10**9)
    """Maximum requests per minute of one key, or of one address without a key; 0: no limit."""

    @property
    def for_long_texts(self) -> "Limits":
        """These limits for an API whose texts may be as long as its body."""
        most = max(self.characters, self.body_bytes)
        return self.but(characters=most, work=max(self.work, most * self.beam_size))

    @property
    def document_settings(self) -> DocumentSettings:
        """The limits of one document."""
        return DocumentSettings(memory=max(2**20, self.document_memory // self.documents), texts=self.document_texts)

    def check(self, texts: list[str], alternatives: int, beam_size: int, terms: Terms | None = None) -> None:
        """Refuse a request that exceeds a limit, which the message names (413 for a text too long, else 400)."""
        if not 0 <= alternatives <= self.alternatives:
            raise Refused(400, f"alternatives must be from 0 to {self.alternatives}, but is {alternatives}")
        if not 1 <= beam_size <= self.beam_size:
            raise Refused(400, f"beam_size must be from 1 to {self.beam_size}, but is {beam_size}")
        if len(texts) > self.texts:
            raise Refused(413, f"a request has at most {self.texts:,} texts, but this one has {len(texts):,}")
        longest = max(map(len, texts), default=0)
        if longest > self.characters:
            raise Refused(413, f"a text has at most {self.characters:,} characters, but one has {longest:,}")
        width = max(beam_size, alternatives + 1)
        work = sum(map(len, texts)) * width
        if terms and terms.sources and work <= self.work:
            work += FORM_WORK * sum(len(terms.forms[number]) for text in texts for _, number in terms.found(text))
        if work > self.work:
            name = f"the characters times the beam size, plus {FORM_WORK} for each form of a term wherever it occurs,"
            raise Refused(413, f"{name} must be at most {self.work:,} (the limit work), but are {work:,}")


FORM_WORK = 150
"""Work of trying one form of a term at an occurrence: several short searches."""
SECONDS_A_TEXT = 0.5
"""Seconds that a document gets for each of its texts."""
