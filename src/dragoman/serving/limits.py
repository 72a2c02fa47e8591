"""Limits of requests and of their concurrency. All limits are checked before any work."""

import pydantic

from dragoman.config import Settings
from dragoman.errors import Error


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
    """Maximum characters of a request times its beam size, which bounds the number of hypotheses."""
    body_bytes: int = pydantic.Field(default=128 * 1024, ge=1, le=2**40)
    """Maximum size of a request's body in bytes."""
    document_bytes: int = pydantic.Field(default=10 * 2**20, ge=1, le=2**40)
    """Maximum size of a document in bytes."""
    document_memory: int = pydantic.Field(default=2**29, ge=2**20, le=2**50)
    """Maximum memory in bytes for reading and writing a document."""
    document_texts: int = pydantic.Field(default=100_000, ge=1, le=10**10)
    """Maximum number of texts in a document."""
    requests: int = pydantic.Field(default=128, ge=1, le=10_000)
    """Maximum number of concurrent requests, waiting ones included; further ones are answered 503 immediately."""
    documents: int = pydantic.Field(default=4, ge=1, le=1_000)
    """Maximum number of concurrent documents."""
    seconds: float = pydantic.Field(default=30.0, gt=0.0, le=86_400.0)
    """Maximum seconds per request; a document gets `SECONDS_A_TEXT` more for each of its texts."""
    requests_a_minute: int = pydantic.Field(default=0, ge=0, le=10**9)
    """Maximum requests per minute of one key, or of one address without a key; 0: no limit."""

    def check(self, texts: list[str], alternatives: int, beam_size: int) -> None:
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
        if (work := sum(map(len, texts)) * width) > self.work:
            raise Refused(413, f"the characters times the beam size must be at most {self.work:,}, but are {work:,}")


SECONDS_A_TEXT = 0.5
"""Seconds that a document gets for each of its texts."""
