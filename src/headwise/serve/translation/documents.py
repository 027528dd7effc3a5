"""Documents: files that are translated in the background and kept until they are fetched."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from headwise.characters import unwritable
from headwise.errors import DataError, HeadwiseError
from headwise.serve.translation.limits import ServiceError
from headwise.serve.translation.preparation import read
from headwise.serve.translation.service import Job, Service
from headwise.text.markup.files import FileTexts, read_file

_LONGEST_NAME = 100  # characters


@dataclass
class Document:
    """A document, from its upload on.

    Attributes:
        key: what its owner gives to see it.
        name: the file's name, without folders.
        characters: its length.
        task: its translation.
        began: monotonic time of the upload.
        content: the translated file; None until it is finished.
        error: why there is none; `error_status` is its HTTP status.
    """

    key: str
    name: str
    characters: int
    began: float
    task: asyncio.Task[None] | None = field(default=None, repr=False)
    content: bytes | None = field(default=None, repr=False)
    error: str | None = None
    error_status: int = 500

    @property
    def status(self) -> str:
        """`translating`, `done` or `error`."""
        return "error" if self.error else "translating" if self.content is None else "done"


class Documents:
    """The documents of all clients, in memory, for some minutes."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._documents: dict[str, Document] = {}

    def read(self, name: str, content: bytes) -> FileTexts:
        """Return the texts of an uploaded file; raises `ServiceError` (400, 413)."""
        try:
            file = read_file(name, content)
        except DataError as error:
            raise ServiceError(400, str(error)) from None
        self._service.limits.check([file.counted])
        return file

    def start(self, name: str, file: FileTexts, job: Job) -> tuple[str, Document]:
        """Translate a file in the background; return the document's id and itself. Raises `ServiceError` (429)."""
        self._remove_old()
        if len(self._documents) >= self._service.limits.documents:
            raise ServiceError(429, "the server has no room for another document", retry_after=10)
        document = Document(secrets.token_hex(32), _safe(name), len(file.counted), time.monotonic())
        identifier = secrets.token_hex(16)
        document.task = asyncio.ensure_future(self._work(document, file, job))
        self._documents[identifier] = document
        return identifier, document

    def find(self, identifier: str, key: str) -> Document:
        """Return a document; raises `ServiceError` (404), also for a wrong key."""
        self._remove_old()
        document = self._documents.get(identifier)
        if document is None or not hmac.compare_digest(document.key.encode(), key.encode(errors="replace")):
            raise ServiceError(404, "document: expected the id and key of a document, found others")
        return document

    def remove(self, identifier: str) -> None:
        """Remove a document, which was fetched."""
        self._documents.pop(identifier, None)

    def close(self) -> None:
        """End the translations that nobody can fetch any more."""
        for document in self._documents.values():
            if document.task is not None:
                document.task.cancel()

    async def _work(self, document: Document, file: FileTexts, job: Job) -> None:
        mode = "all" if file.lines else "punctuation"
        job = replace(job, texts=file.texts, tags=file.tags, mode=mode)
        end = document.began + self._service.limits.document_seconds
        try:
            while True:
                try:
                    job = await asyncio.to_thread(self._with_language, job)
                    found = await self._service.translate_document(job)
                    break
                except ServiceError as error:  # a document waits until the server is less busy
                    if error.status != 429 or time.monotonic() > end:
                        raise
                    await asyncio.sleep(error.retry_after or 1)
            document.content = await asyncio.to_thread(file.write, [one.text for one in found])
        except (ServiceError, HeadwiseError) as error:
            document.error = str(error)
            document.error_status = error.status if isinstance(error, ServiceError) else 400
        finally:
            if document.content is None and document.error is None:
                document.error = "the translation was interrupted"

    def _with_language(self, job: Job) -> Job:
        """Return the job with the language of all of the document's texts together, where none is given."""
        if job.source is not None or job.model is not None:
            return job
        text = "\n".join(read(one, job.mode, job.tags, protect=False).text for one in job.texts)
        return replace(job, source=self._service.source_of(job, text)[0])

    def _remove_old(self) -> None:
        """Remove what was kept long enough."""
        kept = self._service.limits.document_seconds
        now = time.monotonic()
        for identifier, document in list(self._documents.items()):
            if document.status != "translating" and now - document.began > kept:
                del self._documents[identifier]


def _safe(name: str) -> str:
    """Return a file's name without folders and characters that a header or a file system can't hold."""
    base = PurePath(name.replace("\\", "/")).name[-_LONGEST_NAME:]
    kept = "".join(c if c.isalnum() or c in "._- " else "_" for c in base if not unwritable(c))
    return kept.lstrip(".") or "document.txt"
