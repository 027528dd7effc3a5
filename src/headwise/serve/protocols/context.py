"""What all protocols share: the service, its clients and their keys, its documents and its glossaries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request

from headwise.errors import HeadwiseError
from headwise.serve.protocols.keys import Key, KeyStore
from headwise.serve.translation.documents import Documents
from headwise.serve.translation.glossaries import GlossaryStore
from headwise.serve.translation.limits import ServiceLimits
from headwise.serve.translation.service import Service, TranslatedText, TranslationJob
from headwise.web.endpoints import Endpoints
from headwise.web.errors import ServiceError
from headwise.web.fields import while_connected


@dataclass(frozen=True)
class Client:
    """A client: the name by which it shares the scheduler, and its key, if keys are needed."""

    name: str
    key: Key | None = None

    @property
    def owner(self) -> str:
        """The owner of its glossaries: its key, or everybody."""
        return "" if self.key is None else self.key.name


@dataclass(frozen=True)
class Context:
    """The parts of a serving process that its protocols use; without `keys`, everybody may use the service."""

    service: Service
    documents: Documents
    keys: KeyStore | None
    store: GlossaryStore | None

    @property
    def limits(self) -> ServiceLimits:
        """The service's limits."""
        return self.service.limits

    @property
    def glossaries(self) -> GlossaryStore:
        """The kept glossaries; raises `ServiceError` (400) where the server keeps none."""
        if self.store is None:
            raise ServiceError(400, "glossary: this server keeps no glossaries (headwise serve --glossaries FILE)")
        return self.store

    def endpoints(self, tag: str, errors: dict[int, Any], wrong: int = 400) -> Endpoints:
        """Return a protocol's endpoints, of which there are none yet; see `Endpoints`."""
        return Endpoints(tag, errors, wrong, self.limits.body_bytes)

    def client(self, request: Request, key: str | None) -> Client:
        """Return the client of a request; raises `ServiceError` (403 for a wrong key, 429 for too many requests)."""
        if self.keys is None:
            return Client(request.client.host if request.client else "")
        known = self.keys.find(key or "")
        if known is None:
            found = "another" if key else "none"
            raise ServiceError(403, f"key: expected an API key that this server knows, found {found}")
        request.state.key_name = known.name
        if wait := self.keys.seconds_until_allowed(known):
            raise ServiceError(
                429,
                f"the key allows {known.requests_per_minute} requests a minute; try again in {wait} seconds",
                retry_after=wait,
            )
        return Client(known.name, known)

    def usage(self, client: Client) -> tuple[int, int | None]:
        """Return the characters that a client has used this month, and how many it may use; None without a limit."""
        if self.keys is None or client.key is None:
            return 0, None
        return self.keys.used(client.key), client.key.characters_per_month

    @contextmanager
    def charged(self, request: Request, client: Client, characters: int, *, exceeded: int = 429) -> Iterator[None]:
        """Charge a client for the block's work on a request's characters, which were checked.

        Raises `ServiceError`, with the status `exceeded`, beyond its quota. What is refused in the block costs nothing.
        """
        key = client.key
        if self.keys is not None and key is not None and not self.keys.charge(key, characters):
            raise ServiceError(
                exceeded,
                f"the key allows {key.characters_per_month:,} characters a month, which are used up or don't "
                f"suffice for this request",
            )
        request.state.characters = characters
        try:
            yield
        except (HeadwiseError, ServiceError):
            self.give_back(client, characters)
            request.state.characters = 0
            raise

    def give_back(self, client: Client, characters: int) -> None:
        """Uncount characters that were charged for what was refused."""
        if self.keys is not None and client.key is not None:
            self.keys.give_back(client.key, characters)

    async def translate(
        self, request: Request, client: Client, job: TranslationJob, *, exceeded: int = 429
    ) -> list[TranslatedText]:
        """Charge the client and translate while it is connected; raises as `Service.translate` and `charged`."""
        self.check_languages(job)
        with self.charged(request, client, self.limits.check(job.texts), exceeded=exceeded):
            return await while_connected(request, self.service.translate(job))

    def check_languages(self, job: TranslationJob) -> None:
        """Raise `ServiceError` (400) for languages or a model that aren't served, as far as the source is given."""
        if job.source is not None or job.model is not None:
            self.service.route_of(job)
        elif self.service.models.all:
            self.service.models.target(job.target)

    def with_glossary(self, client: Client, job: TranslationJob, identifier: str | None) -> TranslationJob:
        """Return the job with a kept glossary for its languages, if one is named; raises `ServiceError` (400, 404)."""
        if identifier is None:
            return job
        if job.source is None and job.model is None:
            raise ServiceError(400, "glossary: expected the texts' language with it, found none")
        route = self.service.route_of(job)
        if not route:
            raise ServiceError(400, "glossary: expected two languages, found the same one twice")
        source, target = route[0].source, route[-1].target
        return replace(job, glossary=self.glossaries.glossary(client.owner, identifier, source, target))
