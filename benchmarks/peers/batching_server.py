"""A plain server around CTranslate2 that batches waiting requests, in LibreTranslate's format.

    python benchmarks/peers/batching_server.py FOLDER PORT PRECISION BEAM_SIZE WORKERS THREADS

FOLDER is an export for CTranslate2. A worker takes all waiting texts, at most `MOST`, in one call.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import ctranslate2
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

MOST = 64
BATCH_TOKENS = 4096
"""Most tokens of the batches of similar length that CTranslate2 makes of a call."""


class Query(BaseModel):
    """A request of a client of LibreTranslate."""

    q: str | list[str]


def build(folder: Path, precision: str, beam_size: int, workers: int, threads: int) -> FastAPI:
    """Build the application."""
    sys.path.insert(0, str(folder))
    from translate import text_rules  # pyright: ignore[reportMissingImports]

    model = ctranslate2.Translator(
        str(folder), device="cpu", compute_type=precision, inter_threads=workers, intra_threads=threads
    )
    cut, join = text_rules(folder)
    waiting: asyncio.Queue[tuple[str, asyncio.Future[str]]] = asyncio.Queue()

    def translate(texts: Sequence[str]) -> list[str]:
        rows = [cut(text) for text in texts]
        results = model.translate_batch(
            rows,
            beam_size=beam_size,
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            max_decoding_length=2 * max(map(len, rows)) + 20,
        )
        return [join(result.hypotheses[0]) for result in results]

    async def work() -> None:
        while True:
            batch = [await waiting.get()]
            while len(batch) < MOST and not waiting.empty():
                batch.append(waiting.get_nowait())
            written = await asyncio.to_thread(translate, [text for text, _ in batch])
            for (_, answer), text in zip(batch, written, strict=True):
                if not answer.done():
                    answer.set_result(text)

    @asynccontextmanager
    async def working(_app: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(work()) for _ in range(workers)]
        yield
        for task in tasks:
            task.cancel()

    app = FastAPI(lifespan=working)

    @app.post("/translate")
    async def answer(query: Query) -> dict[str, Any]:
        answers: list[asyncio.Future[str]] = []
        for text in [query.q] if isinstance(query.q, str) else query.q:
            answers.append(asyncio.get_running_loop().create_future())
            waiting.put_nowait((text, answers[-1]))
        written = await asyncio.gather(*answers)
        return {"translatedText": written[0] if isinstance(query.q, str) else written}

    return app


if __name__ == "__main__":
    folder, port, precision, *numbers = sys.argv[1:]
    uvicorn.run(build(Path(folder), precision, *map(int, numbers)), port=int(port), log_level="warning")
