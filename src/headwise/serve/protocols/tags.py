"""The fields that say how tags are handled, named as DeepL names them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from headwise.documents.rules import TagRules
from headwise.documents.segments import Mode


def _names(value: Any) -> Any:
    """Return the names of a list of names, or of lists separated by commas."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        return value
    return [name.strip() for part in parts for name in part.split(",") if name.strip()]


TagNames = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=100)]],
    Field(max_length=1_000),
    BeforeValidator(_names),
]


class TagFields(BaseModel):
    """Which elements separate sentences, and which aren't translated."""

    ignore_tags: TagNames = Field([], description="Elements whose content isn't translated.")
    splitting_tags: TagNames = Field([], description="Elements that always separate sentences.")
    non_splitting_tags: TagNames = Field([], description="Elements that never separate sentences.")
    outline_detection: bool = Field(
        True, description="XML: find the elements that separate sentences by where they occur."
    )

    def rules(self, kind: Literal["html", "xml"]) -> TagRules:
        """Return the rules for a document."""
        return TagRules(
            kind,
            frozenset(self.ignore_tags),
            frozenset(self.splitting_tags),
            frozenset(self.non_splitting_tags),
            self.outline_detection,
        )


def within(mode: Mode) -> Mode:
    """Return where the sentences of a document end: line ends are white space, except in `<pre>`."""
    return "punctuation" if mode == "all" else mode
