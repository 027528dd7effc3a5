"""The requests of the page's interface, every length bounded."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from headwise.analysis.interventions import Intervention, Part, parse_interventions
from headwise.errors import ConfigError

MOST_CHARACTERS = 5_000  # of a text; what is beyond the model's subwords isn't looked into anyway
MOST_BEAM = 16
MOST_CHANGES = 512  # heads of a large model
MOST_PIXELS = 200_000  # characters that encode an image's bytes
MOST_WORDS = 8  # forced ones: each needs a search of its own

Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]
Arrays = Literal["lists", "packed"]
Ids = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=1_024)]
After = Annotated[int, Field(ge=0, lt=2**31)]  # records of metrics.jsonl
Number = Annotated[int, Field(ge=0, lt=100_000)]


class RunRequest(BaseModel):
    """Which run is asked, what it reads, and what is changed in it."""

    model_config = ConfigDict(extra="forbid")

    run: Annotated[str, Field(max_length=200)]
    text: Text
    interventions: Annotated[
        list[Annotated[str, Field(max_length=MOST_CHARACTERS)]], Field(max_length=MOST_CHANGES)
    ] = []
    arrays: Arrays = "lists"

    def changes(self) -> tuple[Intervention, ...]:
        """Read the interventions; raises `ConfigError` for one that isn't written right, and for too many words."""
        found = parse_interventions(self.interventions)
        words = sum(change.kind == "word" for change in found)
        if words > MOST_WORDS:
            raise ConfigError(f"interventions: expected at most {MOST_WORDS} forced words, found {words}")
        return found


class TraceRequest(RunRequest):
    """Translate, and show everything; beam and alpha are the run's unless given."""

    beam: Annotated[int, Field(ge=1, le=MOST_BEAM)] | None = None
    alpha: Annotated[float, Field(ge=0, le=5)] | None = None


class TextRequest(BaseModel):
    """Ask a language model what comes after a text; drawing as `headwise generate`."""

    model_config = ConfigDict(extra="forbid")

    run: Annotated[str, Field(max_length=200)]
    text: Text
    temperature: Annotated[float, Field(gt=0, le=10)] = 1.0
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    arrays: Arrays = "lists"  # there are none; every request of the page names it


class ContinueRequest(TextRequest):
    """Let a language model write on."""

    tokens: Annotated[int, Field(ge=1, le=200)] = 40
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1


class PatchesRequest(BaseModel):
    """Look at an image: a held-out one, counted from 0, or `pixels`, base64 of a byte each (channels, height, width).

    `caption` is for a model of images and texts; without one it reads the held-out image's own.
    """

    model_config = ConfigDict(extra="forbid")

    run: Annotated[str, Field(max_length=200)]
    image: Annotated[int, Field(ge=0, lt=10_000_000)] = 0
    pixels: Annotated[str, Field(max_length=MOST_PIXELS)] | None = None
    caption: Text = ""
    arrays: Arrays = "lists"


class ForceRequest(RunRequest):
    """Show what the model does while it says a target: a text, or ids as a trace gives them."""

    target: Text | Ids
    alpha: Annotated[float, Field(ge=0, le=5)] | None = None


class ProductsRequest(RunRequest):
    """Show one head's arithmetic at one step while the model says `target`; counted from 0."""

    target: Text | Ids
    part: Part
    layer: Number
    head: Number
    query: Number
