"""Who may use the service: everybody, or those with a key, within its quotas."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from headwise.serve.protocols.keys import Key, KeyStore
from headwise.web.errors import ServiceError


@dataclass(frozen=True)
class Client:
    """A client: the name by which it shares the scheduler, and its key, if keys are needed."""

    name: str
    key: Key | None = None

    @property
    def owner(self) -> str:
        """The owner of its glossaries: its key, or everybody."""
        return "" if self.key is None else self.key.name


class Access:
    """Finds the client of a request, and counts what it uses."""

    def __init__(self, keys: KeyStore | None) -> None:
        self._keys = keys

    @property
    def needs_key(self) -> bool:
        """Whether requests need a key."""
        return self._keys is not None

    def client(self, request: Request, key: str | None) -> Client:
        """Return the client of a request; raises `ServiceError` (403 for a wrong key, 429 for too many requests)."""
        if self._keys is None:
            return Client(request.client.host if request.client else "")
        known = self._keys.find(key or "")
        if known is None:
            found = "another" if key else "none"
            raise ServiceError(403, f"key: expected an API key that this server knows, found {found}")
        request.state.key_name = known.name
        wait = self._keys.seconds_until_allowed(known)
        if wait:
            raise ServiceError(
                429,
                f"the key allows {known.requests_per_minute} requests a minute; try again in {wait} seconds",
                retry_after=wait,
            )
        return Client(known.name, known)

    def charge(self, client: Client, characters: int, *, exceeded: int = 429) -> None:
        """Count characters of a client's key; raises `ServiceError`, with the status `exceeded`, beyond its quota."""
        if self._keys is None or client.key is None:
            return
        if not self._keys.charge(client.key, characters):
            raise ServiceError(
                exceeded,
                f"the key allows {client.key.characters_per_month:,} characters a month, which are used up or don't "
                f"suffice for this request",
            )

    def give_back(self, client: Client, characters: int) -> None:
        """Uncount characters that were charged for what was refused."""
        if self._keys is not None and client.key is not None:
            self._keys.give_back(client.key, characters)

    def usage(self, client: Client) -> tuple[int, int | None]:
        """Return the characters that a client has used this month, and how many it may use; None without a limit."""
        if self._keys is None or client.key is None:
            return 0, None
        return self._keys.used(client.key), client.key.characters_per_month
