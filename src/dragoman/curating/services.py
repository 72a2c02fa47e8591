"""Translation services as teachers: LibreTranslate, DeepL, and chat models with the API of OpenAI.

A service is asked for several texts at once. Requests are repeated, after growing pauses, while it is busy, fails or
is away. Its key comes from the environment, and is neither stored nor logged.
"""

import json
import os
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from threading import Event
from typing import Any, Literal
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from dragoman.errors import ConfigError, DataError
from dragoman.languages import base_language, english_name
from dragoman.serialization import parse_json

Api = Literal["libretranslate", "deepl", "chat"]
KEY = "DRAGOMAN_TEACHER_KEY"
"""The environment variable that holds the key of a service."""
TRIES, LONGEST_PAUSE, TIMEOUT = 8, 60.0, 120.0
"""Tries of a request, the longest pause between two, and the time to wait for an answer, both in seconds."""
_PASSING = {408, 425, 429, 500, 502, 503, 504, 529}
"""Statuses after which a request is repeated."""
_CHARACTERS_PER_TOKEN = 3
"""A low guess for chat models, so that estimates are rather too high."""
_NUMBERED = re.compile(r"\s*(\d+)\s*[.):]\s*(.*\S)\s*")


class TeacherService(ABC):
    """A service that translates from one language into another.

    Attributes:
        at_once: texts of a request.
        unit: what it is paid for: `characters` or `tokens`.
    """

    at_once, unit = 20, "characters"

    def __init__(self, url: str, source: str, target: str) -> None:
        self.url, self.source, self.target = url.rstrip("/"), source, target
        self._key = os.environ.get(KEY)
        self._stopped = Event()

    @property
    def identity(self) -> dict[str, str]:
        """All that decides the answers."""
        return {"url": self.url, "source": self.source, "target": self.target}

    def units(self, texts: Sequence[str]) -> int:
        """Estimate the units that the translation of texts costs."""
        return sum(map(len, texts))

    @abstractmethod
    def ask(self, texts: Sequence[str]) -> list[str | None]:
        """Return the translations of texts; None for one without an answer.

        Raises:
            DataError: the service refuses, or still fails after `TRIES`.
        """

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Stop requests that wait to be repeated if the block raises."""
        try:
            yield
        except BaseException:
            self._stopped.set()
            raise

    def _post(self, path: str, content: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
        return post(f"{self.url}{path}", content, headers or {}, self._stopped.wait)


class LibreTranslate(TeacherService):
    """A LibreTranslate server, such as `dragoman serve`."""

    def ask(self, texts: Sequence[str]) -> list[str | None]:
        content = {"q": list(texts), "source": self.source, "target": self.target, "format": "text"}
        answer = self._post("/translate", content | ({"api_key": self._key} if self._key else {}))
        return _texts(answer.get("translatedText") if isinstance(answer, dict) else None, len(texts))


class DeepL(TeacherService):
    """DeepL, or a server with its API."""

    at_once = 50

    def ask(self, texts: Sequence[str]) -> list[str | None]:
        languages = {"source_lang": base_language(self.source).upper(), "target_lang": self.target.upper()}
        headers = {"Authorization": f"DeepL-Auth-Key {self._key}"} if self._key else {}
        answer = self._post("/v2/translate", {"text": list(texts), **languages}, headers)
        made = answer.get("translations") if isinstance(answer, dict) else None
        if isinstance(made, list):
            made = [part.get("text") if isinstance(part, dict) else None for part in made]
        return _texts(made, len(texts))


class Chat(TeacherService):
    """A chat model. It gets numbered lines; an answer without its number, or of several lines, does not count."""

    unit = "tokens"

    def __init__(self, url: str, source: str, target: str, model: str, prompt: Path | None) -> None:
        super().__init__(url, source, target)
        self.model = model
        written = (prompt or Path(__file__).with_name("prompt.txt")).read_text("utf-8")
        names = {"{source}": english_name(source), "{target}": english_name(target)}
        self.prompt = re.sub("|".join(map(re.escape, names)), lambda match: names[match[0]], written)

    @property
    def identity(self) -> dict[str, str]:
        """All that decides the answers."""
        return {**super().identity, "model": self.model, "prompt": self.prompt}

    def units(self, texts: Sequence[str]) -> int:
        """Estimate the tokens that are read and written."""
        return (2 * sum(map(len, texts)) + len(self.prompt)) // _CHARACTERS_PER_TOKEN + 8 * len(texts)

    def ask(self, texts: Sequence[str]) -> list[str | None]:
        lines = "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))
        messages = [{"role": "system", "content": self.prompt}, {"role": "user", "content": lines}]
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        content = {"model": self.model, "messages": messages, "temperature": 0}
        answer = self._post("/chat/completions", content, headers)
        try:
            written = answer["choices"][0]["message"]["content"].strip()
        except (TypeError, KeyError, IndexError, AttributeError):
            raise DataError(f"{self.url} gives answers that are none of a chat model") from None
        return numbered(written, len(texts))


def numbered(written: str, count: int) -> list[str | None]:
    """Return the texts of numbered lines, from 1. A number that comes twice, or is followed by a line without a number,
    has no answer: it cannot be said where it ends.

    >>> numbered("1. Ciao.\\n3. Addio.", 3), numbered("Sure!\\n1) Ciao.\\nThis is informal.", 1)
    (['Ciao.', None, 'Addio.'], [None])
    >>> numbered("1. Ciao.\\n1. Salve.\\n2. Addio.", 2)
    [None, 'Addio.']
    """
    by_number: dict[int, str | None] = {}
    latest = None
    for line in filter(str.strip, written.split("\n")):
        match = _NUMBERED.fullmatch(line)
        if match and 1 <= int(match[1]) <= count:
            latest = int(match[1])
            by_number[latest] = None if latest in by_number else match[2]
        elif latest is not None:
            by_number[latest] = None
    return [by_number.get(number) for number in range(1, count + 1)]


def service_at(
    url: str, api: Api | None, source: str, target: str, model: str | None = None, prompt: Path | None = None
) -> TeacherService:
    """Return the service at an address; without an `api`, it follows from the address.

    Raises:
        ConfigError: the address is none of the web, a chat model has no name, or another service has one.
    """
    if not re.match("https?://", url):
        raise ConfigError(f"the address of a service begins with https:// or http://, not {url[:100]}")
    chosen = api or ("chat" if url.rstrip("/").endswith("/v1") else "deepl" if "deepl.com" in url else "libretranslate")
    if chosen == "chat":
        if model is None:
            raise ConfigError("a chat model is named by --model, as in --model NAME")
        if prompt is not None and not prompt.is_file():
            raise ConfigError(f"{prompt} is no file; it is to hold the prompt")
        return Chat(url, source, target, model, prompt)
    if model is not None or prompt is not None:
        raise ConfigError("--model and --prompt are for chat models, whose address ends in /v1, or with --api chat")
    return DeepL(url, source, target) if chosen == "deepl" else LibreTranslate(url, source, target)


def post(url: str, content: Mapping[str, Any], headers: Mapping[str, str], wait: Callable[[float], bool]) -> Any:
    """Send JSON, and return the JSON that comes back. A request that a busy or failing server does not answer is
    repeated after some seconds, for which `wait` waits; it returns True to give up.

    Raises:
        DataError: the server refuses the request, or does not answer `TRIES` times.
    """
    request = Request(url, json.dumps(content).encode(), {"Content-Type": "application/json", **headers})
    failure = ""
    for number in range(TRIES):
        pause = min(LONGEST_PAUSE, 2.0**number) * random.uniform(0.5, 1)
        try:
            with urlopen(request, timeout=TIMEOUT) as answer:
                return parse_json(answer.read())
        except HTTPError as error:
            with error:
                said = error.read(500).decode(errors="replace")
            failure = f"status {error.code}: {' '.join(said.split())[:200]}"
            if error.code not in _PASSING:
                raise DataError(f"{url} refuses the request with {failure}") from None
            asked = error.headers.get("Retry-After", "")
            pause = min(LONGEST_PAUSE, float(asked)) if asked.isdecimal() else pause
        except (URLError, HTTPException, OSError, ValueError) as error:  # ValueError: no JSON
            failure = str(getattr(error, "reason", error)) or type(error).__name__
        if number + 1 < TRIES and wait(pause):
            break
    raise DataError(f"{url} gave no answer {TRIES} times; the last failure: {failure}")


def _texts(answers: Any, count: int) -> list[str | None]:
    """Return the answers to some texts; none if their number is wrong, because nobody knows which is which."""
    if not isinstance(answers, list) or len(answers) != count:
        return [None] * count
    return [answer.strip() if isinstance(answer, str) and answer.strip() else None for answer in answers]
