"""What one request may ask for, and how many may be under way. All of it is checked before any work."""

import pydantic

from dragoman.config import Settings
from dragoman.errors import Error


class Refused(Error):
    """A request that the server does not answer, with the status that says so in HTTP."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        """`retry_after` is the number of seconds after which the same request may succeed."""
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


class Limits(Settings):
    """The limits of a server."""

    texts: int = pydantic.Field(default=50, ge=1, le=100_000)
    """Most texts of one request."""
    characters: int = pydantic.Field(default=5_000, ge=1, le=10_000_000)
    """Most characters of one text."""
    alternatives: int = pydantic.Field(default=5, ge=0, le=255)
    """Most further translations of one text."""
    beam_size: int = pydantic.Field(default=8, ge=1, le=256)
    """Widest beam."""
    work: int = pydantic.Field(default=600_000, ge=1, le=10**10)
    """Most characters of one request times its beam, which bounds the hypotheses that are written for it."""
    body_bytes: int = pydantic.Field(default=128 * 1024, ge=1, le=2**40)
    """Most bytes of a request's body."""
    document_bytes: int = pydantic.Field(default=10 * 2**20, ge=1, le=2**40)
    """Most bytes of a document."""
    document_memory: int = pydantic.Field(default=2**29, ge=2**20, le=2**50)
    """Most bytes of memory that reading and writing a document may take."""
    document_texts: int = pydantic.Field(default=100_000, ge=1, le=10**10)
    """Most texts of a document."""
    requests: int = pydantic.Field(default=128, ge=1, le=10_000)
    """Most requests under way, those that wait included; further ones are answered 503 at once."""
    documents: int = pydantic.Field(default=4, ge=1, le=1_000)
    """Most documents under way."""
    seconds: float = pydantic.Field(default=30.0, gt=0.0, le=86_400.0)
    """Most seconds that a request takes; a document gets `SECONDS_A_TEXT` more for each of its texts."""
    requests_a_minute: int = pydantic.Field(default=0, ge=0, le=10**9)
    """Most requests of one key, or of one address without a key, in a minute; 0: any number."""

    def check(self, texts: list[str], alternatives: int, beam_size: int) -> None:
        """Refuses a request that asks for too much.

        Raises:
            Refused: which limit it exceeds (413 if its text is too long, else 400).
        """
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
            raise Refused(
                413, f"the characters times the width of the beam are at most {self.work:,}, but here {work:,}"
            )


SECONDS_A_TEXT = 0.5
"""The seconds that a document gets for each of its texts."""
