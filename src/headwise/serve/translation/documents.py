"""Documents: files that are translated in the background and kept until they are fetched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import PurePath
from unicodedata import category

from headwise.characters import unwritable
from headwise.config.languages import short_code
from headwise.documents.formats import read_file
from headwise.documents.readers.document_file import DocumentFile
from headwise.engine.documents import write
from headwise.errors import DataError, HeadwiseError
from headwise.serve.translation.document_store import Document, DocumentStore
from headwise.serve.translation.service import Service, TranslationJob
from headwise.serve.translation.waiting import deadline
from headwise.web.errors import ServiceError

_LONGEST_NAME = 100  # characters


class Documents:
    """The documents of all clients, for some minutes; each is translated by the worker that it was sent to."""

    def __init__(self, service: Service, store: DocumentStore) -> None:
        self._service, self._store = service, store
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._reader = ThreadPoolExecutor(1, "reading a document")

    async def read(self, name: str, content: Callable[[], bytes], target: str, source: str | None) -> DocumentFile:
        """Return the texts of a file to be translated into `target`; raises `ServiceError` (400, 413, 504).

        The file names the language as ISO 639 does, `de`, also where a client writes `DE`, as DeepL's do.
        Files are read one at a time, so that the bounds on one bound the memory for all. One that takes too long is
        read to its end before the next one.
        """
        loop = asyncio.get_running_loop()
        async with deadline(self._service.limits.seconds):
            try:
                file = await loop.run_in_executor(
                    self._reader, lambda: read_file(name, content(), short_code(target), source or "")
                )
            except DataError as error:
                raise ServiceError(400, str(error)) from None
        self._service.limits.check_characters(file.characters)
        return file

    def start(
        self,
        name: str,
        file: DocumentFile,
        job: TranslationJob,
        size: int,
        failed: Callable[[], None] = lambda: None,
    ) -> Document:
        """Translate a file of `size` bytes in the background, or call `failed`; raises `ServiceError` (429)."""
        limits = self._service.limits
        self._store.remove_old(limits.document_seconds)
        document = self._store.add(
            _safe(name), file.characters, size, most=limits.documents, most_bytes=limits.documents_bytes
        )
        task = asyncio.ensure_future(self._work(document, file, job, failed))
        self._tasks[document.identifier] = task
        task.add_done_callback(lambda _: self._tasks.pop(document.identifier))
        return document

    def find(self, identifier: str, key: str) -> Document:
        """Return a document; raises `ServiceError` (404), also for a wrong key."""
        self._store.remove_old(self._service.limits.document_seconds)
        return self._store.find(identifier, key)

    async def finished(self, document: Document) -> Document:
        """Wait for a document that was started here; return it as it is then."""
        task = self._tasks.get(document.identifier)
        if task is not None:
            await asyncio.shield(task)
        return self.find(document.identifier, document.key)

    def remove(self, identifier: str) -> None:
        """Remove a document, which was fetched or given up."""
        if identifier in self._tasks:
            self._tasks[identifier].cancel()
        self._store.remove(identifier)

    @property
    def translating(self) -> int:
        """Number of the documents that are being translated here."""
        return len(self._tasks)

    async def close(self) -> None:
        """End the translations that nobody can fetch any more, and close the store."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._reader.shutdown(wait=False, cancel_futures=True)
        self._store.close()

    async def _work(
        self, document: Document, file: DocumentFile, job: TranslationJob, failed: Callable[[], None]
    ) -> None:
        end, kept = time.monotonic() + self._service.limits.document_seconds, False
        try:
            while True:
                try:
                    job = await asyncio.to_thread(self._with_language, job, file)
                    found = await self._service.translate_document(job, file.texts)
                    break
                except ServiceError as error:  # a document waits until the server is less busy
                    if error.status != 429 or time.monotonic() > end:
                        raise
                    await asyncio.sleep(error.retry_after or 1)
            texts = [one.text for one in found]
            sentences = [one.sentences for one in found]
            self._store.finish(document, await asyncio.to_thread(write, file, texts, sentences))
            kept = True
        except (ServiceError, HeadwiseError) as error:
            status = error.status if isinstance(error, ServiceError) else 400
            self._store.fail(document, str(error), status)
        finally:
            if not kept:  # also at the server's end
                failed()
            self._store.interrupt(document.identifier)  # has no effect on a finished one

    def _with_language(self, job: TranslationJob, file: DocumentFile) -> TranslationJob:
        """Return the job with the language of all of the document's texts together, where none is given."""
        if job.source is not None or job.model is not None:
            return job
        text = "\n".join(one.text for one in file.texts)
        language, _ = self._service.source_of(job, text)
        return job if language == self._service.models.target(job.target) else replace(job, source=language)


def _safe(name: str) -> str:
    """Return a file's name without folders and characters that a header or a file system can't hold."""
    base = PurePath(name.replace("\\", "/")).name[-_LONGEST_NAME:]
    # Letters, marks (as in decomposed letters, which macOS has in names, and in vowels of Indic scripts), and numbers.
    kept = "".join(c if category(c)[0] in "LMN" or c in "._- " else "_" for c in base if not unwritable(c))
    return kept.lstrip(".") or "document.txt"
