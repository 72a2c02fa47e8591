"""Text for a student from a service (`distil_service`).

Its answers are kept in `answers.sqlite`, by its address and the text, so that none is paid for twice.
"""

import hashlib
import json
import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.curating.judgements import JUDGED, CurationReport, Judgement, choose, finish, judging
from dragoman.curating.rules import MadePairs, plain_text
from dragoman.curating.services import Api, TeacherService, service_at
from dragoman.errors import ConfigError, DataError
from dragoman.files import sha256
from dragoman.formats.lines import read_lines
from dragoman.inference.documents import chunks
from dragoman.inference.resumable import resumable_file
from dragoman.progress import Progress, as_progress

log = logging.getLogger(__name__)

ANSWERS = "answers.sqlite"
NO_ANSWER = "the service gave no answer that fits its text"


class Estimate(NamedTuple):
    """The work that a service is still to do: requests, units that it is paid for, and their price, if it is known."""

    requests: int
    units: int
    unit: str
    price: float | None

    def __str__(self) -> str:
        price = "" if self.price is None else f", for about {self.price:,.2f}"
        requests = "1 request" if self.requests == 1 else f"{self.requests:,} requests"
        return f"about {requests} with {self.units:,} {self.unit}{price}"


def distil_service(
    teacher: str,
    text: Path | str,
    folder: Path | str,
    source_language: str,
    target_language: str,
    *,
    api: Api | None = None,
    model: str | None = None,
    prompt: Path | None = None,
    concurrency: int = 4,
    most: int | None = None,
    price: float | None = None,
    dry_run: bool = False,
    fresh: bool = False,
    progress: Progress | bool = True,
) -> CurationReport | None:
    """Write pairs of a line of `text` and its translation by a service into a folder, as `distil` does.

    The service is at the address `teacher`: a LibreTranslate server, DeepL, or a chat `model` with
    the API of OpenAI, which gets the `prompt` in this file. Its key is in the environment variable
    DRAGOMAN_TEACHER_KEY. The work is estimated and logged before anything is sent, with its cost if the `price` of a
    million units is given; a `dry_run` ends there and returns None. `most` is the limit of what is paid for in all. An
    answer that breaks a rule is asked for again, alone. With `fresh`, all pairs are judged again, but answers are kept.

    Raises:
        ConfigError: a setting is wrong.
        DataError: the text cannot be read, the service refuses or does not answer, or the budget is spent; the same
            call goes on.
    """
    text, folder, progress = plain_text(text), Path(folder), as_progress(progress)
    service = service_at(teacher, api, source_language, target_language, model, prompt)
    if concurrency < 1:
        raise ConfigError("concurrency is a number of requests, at least 1")
    rules, asked = MadePairs(source_language, target_language), {"text": sha256(text), "service": service.identity}
    with (
        judging(folder, asked, fresh, text) as is_open,
        closing(_Answers(folder / ANSWERS, service, most)) as answers,
    ):
        log.info("%s: %s", teacher, answers.estimate(read_lines(text), price))
        if dry_run:
            return None
        if is_open:
            _ask_all(answers, text, folder / JUDGED, asked, rules, concurrency, fresh, progress)
            finish(folder, asked, (source_language, target_language))
        return choose(folder, None, None)


def _ask_all(
    answers: "_Answers",
    text: Path,
    path: Path,
    asked: Mapping[str, Any],
    rules: MadePairs,
    concurrency: int,
    fresh: bool,
    progress: Progress,
) -> None:
    """Write the judgement of each line and its answer, in order."""
    total, at_once = sum(1 for _ in read_lines(text)), answers.service.at_once * concurrency
    with (
        resumable_file(path, asked, fresh) as file,
        progress.track("ask", total, "lines") as advance,
        ThreadPoolExecutor(concurrency) as pool,
        answers.service.stopping(),
    ):
        advance(file.record.lines)
        for chunk in chunks(file.rest(read_lines(text), str(text)), len, at_once):
            made, rows = answers.to(chunk, rules, pool), list[str]()
            for number, line in enumerate(map(str.strip, chunk), file.record.lines + 1):
                target = made.get(line, "")
                reason = rules.broken(line, target) if target or not line else NO_ANSWER
                judged = Judgement(source=line, target=target, origin=f"{text.name}:{number}", reason=reason)
                rows.append(f"{judged.model_dump_json()}\n")
            file.add(chunk, "".join(rows))
            advance(len(chunk))


class _Answers:
    """The answers of a service on the disk, and the units that were paid for."""

    def __init__(self, path: Path, service: TeacherService, most: int | None) -> None:
        self.service, self._most = service, most
        self._whose = hashlib.sha256(json.dumps(service.identity, sort_keys=True).encode()).hexdigest()
        self._base = sqlite3.connect(path)
        with self._base:
            self._base.execute("create table if not exists answers (whose, text, answer, primary key (whose, text))")
            self._base.execute("create table if not exists paid (whose primary key, units integer)")

    def close(self) -> None:
        self._base.close()

    def known(self, text: str) -> str | None:
        """Return the answer to a text; None if it was never asked for, empty if there was none that fits."""
        row = self._base.execute(
            "select answer from answers where whose = ? and text = ?", (self._whose, text)
        ).fetchone()
        return None if row is None else row[0]

    @property
    def paid(self) -> int:
        """The number of units that were sent so far."""
        row = self._base.execute("select units from paid where whose = ?", (self._whose,)).fetchone()
        return 0 if row is None else row[0]

    def estimate(self, lines: Iterator[str], price: float | None) -> Estimate:
        """Estimate the work on lines that have no answer yet."""
        open_lines = [line for line in dict.fromkeys(map(str.strip, lines)) if line and self.known(line) is None]
        batches = _batches(open_lines, self.service.at_once)
        units = sum(map(self.service.units, batches))
        return Estimate(len(batches), units, self.service.unit, None if price is None else units * price / 1_000_000)

    def to(self, lines: Sequence[str], rules: MadePairs, pool: ThreadPoolExecutor) -> dict[str, str]:
        """Return the answers to lines. Those that are not known are asked for, together, and what does not keep the
        rules again, alone.
        """
        texts = [*dict.fromkeys(text for line in lines if (text := line.strip()))]
        self._ask(_batches([text for text in texts if self.known(text) is None], self.service.at_once), rules, pool)
        self._ask([[text] for text in texts if self.known(text) is None], None, pool)
        return {text: self.known(text) or "" for text in texts}

    def _ask(self, batches: Sequence[list[str]], rules: MadePairs | None, pool: ThreadPoolExecutor) -> None:
        """Ask for texts, and keep the answers that fit; without `rules`, keep all. What was sent is waited for, also
        when the budget is spent or the service refuses.
        """
        futures, failure = dict[Future[list[str | None]], list[str]](), None
        for batch in batches:
            if failure := self._refusal(batch):
                break
            futures[pool.submit(self.service.ask, batch)] = batch
        for future in as_completed(futures):
            if future.cancelled():
                continue
            try:
                pairs = zip(futures[future], future.result(), strict=True)
            except DataError as error:
                failure = failure or error
                for waiting in futures:
                    waiting.cancel()
                continue
            kept = [
                (self._whose, text, answer or "")
                for text, answer in pairs
                if rules is None or (answer is not None and not rules.broken(text, answer))
            ]
            with self._base:
                self._base.executemany("insert or replace into answers values (?, ?, ?)", kept)
        if failure:
            raise failure

    def _refusal(self, batch: Sequence[str]) -> DataError | None:
        """Return why a batch is too expensive, or count it as paid for."""
        most, paid = self._most, self.paid + self.service.units(batch)
        if most is not None and paid > most:
            return DataError(
                f"the budget of {most:,} {self.service.unit} is spent ({self.paid:,}); a larger one goes on from here"
            )
        with self._base:
            self._base.execute("insert or replace into paid values (?, ?)", (self._whose, paid))
        return None


def _batches(texts: Sequence[str], size: int) -> list[list[str]]:
    return [list(texts[first : first + size]) for first in range(0, len(texts), size)]
