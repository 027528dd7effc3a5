"""What the service accepts, and how it refuses the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headwise.characters import unwritable
from headwise.web.errors import ServiceError

MOST_CHARACTERS = 1_000_000  # of a request
MOST_ITEMS = 10_000
MOST_SECONDS = 3_600.0


@dataclass(frozen=True)
class ServiceLimits:
    """Limits of every request, and of all together.

    Attributes:
        characters: most characters of all texts of a request.
        items: most texts of a request.
        seconds: deadline of a request, from its arrival.
        queue: most sentences that wait at once.
        alternatives: most further translations of a text.
        document_bytes: most bytes of a request with a document.
        documents: most documents that are kept until they are fetched.
        documents_bytes: most bytes that all of them had when they came.
        document_seconds: deadline of a document, and how long its translation is kept.
    """

    characters: int = 50_000
    items: int = 50
    seconds: float = 30.0
    queue: int = 2_000
    alternatives: int = 10
    document_bytes: int = 2**24
    documents: int = 100
    documents_bytes: int = 2**28
    document_seconds: float = 600.0

    @property
    def body_bytes(self) -> int:
        """Most bytes of a request's body: JSON may need 12 for a character, and there are other fields."""
        return 12 * self.characters + 65_536

    @property
    def seconds_to_finish(self) -> int:
        """Seconds that a server which is told to end gives requests in progress."""
        return math.ceil(self.seconds) + 1

    def check_characters(self, characters: int) -> int:
        """Return a number of characters; raises `ServiceError` (413) where they are too many."""
        if characters > self.characters:
            raise ServiceError(413, f"request: expected at most {self.characters:,} characters, found {characters:,}")
        return characters

    def check(self, texts: Sequence[str]) -> int:
        """Return the number of characters of all texts.

        Raises `ServiceError`: 413 where they are too many, 400 for half of a surrogate pair, which UTF-8 can't encode.
        """
        if len(texts) > self.items:
            raise ServiceError(413, f"request: expected at most {self.items} texts, found {len(texts)}")
        characters = self.check_characters(sum(map(len, texts)))
        for text in texts:
            if surrogate := unwritable(text):
                raise ServiceError(400, f"text: expected characters that UTF-8 can encode, found {surrogate}")
        return characters
