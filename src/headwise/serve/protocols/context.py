"""What all protocols share: the service, who may use it, its documents and its metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from headwise.errors import HeadwiseError
from headwise.serve.protocols.access import Access, Client
from headwise.serve.translation.documents import Documents
from headwise.serve.translation.glossaries import GlossaryStore
from headwise.serve.translation.limits import ServiceLimits
from headwise.serve.translation.service import Service, TranslatedText, TranslationJob
from headwise.text.reading.glossary import Glossary
from headwise.web.endpoints import Endpoints
from headwise.web.errors import ServiceError
from headwise.web.fields import while_connected


@dataclass(frozen=True)
class Context:
    """The parts of a serving process that its protocols use."""

    service: Service
    access: Access
    documents: Documents
    store: GlossaryStore | None

    @property
    def limits(self) -> ServiceLimits:
        """The service's limits."""
        return self.service.limits

    @property
    def glossaries(self) -> GlossaryStore:
        """The kept glossaries; raises `ServiceError` (400) where the server keeps none."""
        if self.store is None:
            raise ServiceError(
                400, "glossary: this server keeps no glossaries (headwise serve --glossaries FILE)"
            )
        return self.store

    def kept_glossary(self, client: Client, identifier: str, job: TranslationJob) -> Glossary:
        """Return a kept glossary for a job's languages; raises `ServiceError` (400, 404)."""
        if job.source is None and job.model is None:
            raise ServiceError(400, "glossary: expected the texts' language with it, found none")
        route = self.service.route_of(job)
        if not route:
            raise ServiceError(400, "glossary: expected two languages, found the same one twice")
        return self.glossaries.glossary(client.owner, identifier, route[0].source, route[-1].target)

    def endpoints(self, tag: str, errors: dict[int, Any], wrong: int = 400) -> Endpoints:
        """Return a protocol's endpoints, of which there are none yet; see `Endpoints`."""
        return Endpoints(tag, errors, wrong, self.limits.body_bytes)

    async def translate(
        self, request: Request, client: Client, job: TranslationJob, *, exceeded: int = 429
    ) -> list[TranslatedText]:
        """Charge the client and translate while it is connected; raises as `Service.translate` and `Access.charge`."""
        self.check_languages(job)
        with self.charged(request, client, self.limits.check(job.texts), exceeded=exceeded):
            return await while_connected(request, self.service.translate(job))

    def check_languages(self, job: TranslationJob) -> None:
        """Raise `ServiceError` (400) for languages or a model that aren't served, as far as the source is given."""
        if job.source is not None or job.model is not None:
            self.service.route_of(job)
        elif self.service.models.all:
            self.service.models.target(job.target)

    @contextmanager
    def charged(
        self, request: Request, client: Client, characters: int, *, exceeded: int = 429
    ) -> Iterator[None]:
        """Charge a client for the block's work on a request's characters, which were checked; raises `ServiceError`.

        What is refused in the block costs nothing.
        """
        self.access.charge(client, characters, exceeded=exceeded)
        request.state.characters = characters
        try:
            yield
        except (HeadwiseError, ServiceError):
            self.access.give_back(client, characters)
            request.state.characters = 0
            raise
