"""Answers in JSON."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

# `json.dumps` makes an encoder for each call, which takes longer than a short answer.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class JSONAnswer(JSONResponse):
    """Starlette's response, with the same bytes."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of a value."""
        return _ENCODER.encode(content).encode("utf-8")
