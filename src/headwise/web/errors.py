"""Requests that are refused or given up, as the layers below the protocols raise them."""

from __future__ import annotations

from headwise.errors import HeadwiseError


class ServiceError(Exception):
    """A request is refused or failed: an HTTP status, one sentence, which never quotes a text, and when to retry."""

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.retry_after = status, sentence, retry_after


class NotReady(HeadwiseError):
    """A run has no model yet, because it is still training."""


class QueueFull(Exception):
    """The queue already holds the most requests that may wait."""


class ClientGone(Exception):
    """The client has disconnected before its request was answered."""
