"""The fields of the JSON API; every length and number is bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from headwise import bounds
from headwise.analysis.interventions import Intervention, Part, parse_interventions
from headwise.analysis.json_arrays import packed, rounded
from headwise.analysis.recurrence.comparing import STRETCHING, WIDEST
from headwise.errors import ConfigError

MOST_CHARACTERS = 5_000  # of a text; what exceeds the model's longest input isn't read anyway
MOST_CHANGES = 512  # interventions: as many as a large model has heads
MOST_PIXELS = 250_000  # characters that encode an image's bytes; 224 x 224 pixels in three colors take 200,704
MOST_WORDS = 8  # forced words: each needs a search of its own

Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]
Ids = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=1_024)]
Number = Annotated[int, Field(ge=0, lt=100_000)]  # of a layer, head or query, from 0


class RunFields(BaseModel):
    """The run that is asked for, in the address."""

    run: str


class PageRequest(BaseModel):
    """Base of all requests with a body: the run, and the form of arrays in the response, if it has any."""

    model_config = ConfigDict(extra="forbid")

    run: Annotated[str, Field(max_length=200)]
    arrays: Literal["lists", "packed"] = "lists"


class InterventionsRequest(PageRequest):
    """Base of the requests with interventions."""

    interventions: Annotated[list[Text], Field(max_length=MOST_CHANGES)] = []

    def array(self, lists: Callable[[NDArray], Any] = rounded) -> Callable[[NDArray], Any]:
        """Return what makes an array JSON: `packed`, or `lists`."""
        return packed if self.arrays == "packed" else lists

    def changes(self) -> tuple[Intervention, ...]:
        """Parse the interventions; raises `ConfigError` for a malformed one and for too many forced words."""
        interventions = parse_interventions(self.interventions)
        words = sum(change.kind == "word" for change in interventions)
        if words > MOST_WORDS:
            raise ConfigError(f"interventions: expected at most {MOST_WORDS} forced words, found {words}")
        return interventions


class RunRequest(InterventionsRequest):
    """Base of the requests about a text: the run, the source sentence and the interventions."""

    text: Text


class TraceRequest(RunRequest):
    """Translate and return the whole trace; beam and alpha default to the run's."""

    beam: Annotated[int, Field(ge=1, le=bounds.SERVED_BEAM)] | None = None
    alpha: Annotated[float, Field(ge=0, le=5)] | None = None


class TextRequest(PageRequest):
    """Return a language model's next-token distribution after a text; sampling as in `headwise predict`."""

    text: Text
    temperature: Annotated[float, Field(ge=bounds.COLDEST, le=10)] = 1.0
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0


class ContinueRequest(TextRequest):
    """Continue a text with a language model."""

    tokens: Annotated[int, Field(ge=1, le=200)] = 40
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1


Image = Annotated[int, Field(ge=0, lt=10_000_000)]
Pixels = Annotated[str, Field(max_length=MOST_PIXELS)]


class PatchesRequest(InterventionsRequest):
    """Return a vision model's attention over an image's patches.

    The image is a held-out one, counted from 0, or `pixels`: base64 of one byte each, (channels, height, width).
    `caption` is for a model of images and texts; the default is the held-out image's own.
    """

    image: Image = 0
    pixels: Pixels | None = None
    caption: Text = ""


class ForceRequest(RunRequest):
    """Return the trace of forced decoding; `target` is a text, or token ids as a trace returns them."""

    target: Text | Ids
    alpha: Annotated[float, Field(ge=0, le=5)] | None = None


class BoxesRequest(InterventionsRequest):
    """Return the boxes of the model with one sentence's shapes and sizes.

    A classifier of images reads `image` or `pixels`, as in `PatchesRequest`, and the others `text` and `target`.
    """

    text: Text = ""
    target: Text | Ids | None = None
    image: Image = 0
    pixels: Pixels | None = None


class BoxRequest(BoxesRequest):
    """Return one box's computation at one position; layer and position count from 0."""

    box: Annotated[str, Field(max_length=100)]
    layer: Number | None = None
    position: Number = 0
    temperature: Annotated[float, Field(ge=bounds.COLDEST, le=bounds.HOTTEST)] = 1.0


class RecurrenceRequest(RunRequest):
    """Compare recurrent networks with attention on a text."""

    radius: Annotated[float, Field(ge=bounds.LEAST_RADIUS, le=bounds.MOST_RADIUS)] = STRETCHING


class TimesRequest(PageRequest):
    """Time a recurrent layer and an attention layer over length, as wide as those of `RecurrenceRequest`."""

    width: Annotated[int, Field(ge=1, le=WIDEST)] = WIDEST


class StepsRequest(RunRequest):
    """Decode a target step by step, with its likeliest tokens at each step."""

    target: Text | Ids
    alternatives: Annotated[int, Field(ge=1, le=100)] = 8


class ProductsRequest(RunRequest):
    """Return one head's computation at one step of forced decoding; layer, head and query count from 0."""

    target: Text | Ids
    part: Part
    layer: Number
    head: Number
    query: Number
