"""A server that one would write around CTranslate2: a queue, and workers that take up to 32 waiting sentences at once.

python ctranslate2_server.py FOLDER PORT WORKERS THREADS, where FOLDER is what `headwise export --to ctranslate2` wrote.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import ctranslate2
import sentencepiece
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

folder = Path(sys.argv[1])
port, workers, threads = map(int, sys.argv[2:])
translator = ctranslate2.Translator(str(folder), inter_threads=workers, intra_threads=threads)
source_pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
target_pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "target.spm"))
waiting: asyncio.Queue[tuple[list[str], asyncio.Future[str]]] = asyncio.Queue()


async def work() -> None:
    while True:
        batch = [await waiting.get()]
        while len(batch) < 32 and not waiting.empty():
            batch.append(waiting.get_nowait())
        sources = [source for source, _ in batch]
        results = await asyncio.to_thread(
            translator.translate_batch, sources, beam_size=4, length_penalty=0.6, max_batch_size=32
        )
        for (_, future), result in zip(batch, results, strict=True):
            if not future.cancelled():
                future.set_result(target_pieces.decode(result.hypotheses[0]))


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(work()) for _ in range(workers)]
    yield
    for task in tasks:
        task.cancel()


async def translate(request: Request) -> JSONResponse:
    body: dict[str, Any] = await request.json()
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    waiting.put_nowait((source_pieces.encode(body["q"], out_type=str), future))
    return JSONResponse({"translatedText": await future})


app = Starlette(routes=[Route("/translate", translate, methods=["POST"])], lifespan=lifespan)
uvicorn.run(app, port=port, log_level="warning")
