"""What a model did with a text: its search, every head's attention and the probabilities, to read, save and look at."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.analysis.interventions import PARTS, Part, parse_interventions
from headwise.analysis.trace import Trace
from headwise.analysis.tracer import Tracer
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.config import Config
from headwise.engine.alignment import Link
from headwise.errors import ConfigError

SUFFIXES = (".png", ".html", ".json")
_HEIGHT = 720  # pixels of the page in a notebook


@dataclass(frozen=True, repr=False)
class Explanation:
    """The recording of one text by one model; in a notebook it is shown as the page of `headwise serve`.

    Attributes:
        text: the text.
        trace: everything that was recorded (see `headwise.analysis.trace.Trace`).
        plain: the same without interventions.
    """

    text: str
    trace: Trace
    plain: Trace
    tracer: Tracer
    config: Config
    path: Path | None

    @property
    def output(self) -> str:
        """The translation that the weights are of (the best, or `target`, or `hypothesis`), or the completed text."""
        return "" if self.trace.forced is None else self.trace.forced.target.text

    @property
    def attention(self) -> dict[Part, NDArray[np.float32]]:
        """Weights (layers, heads, rows, columns) of the parts that the model has: encoder, decoder and cross."""
        return {} if self.trace.forced is None else dict(self.trace.forced.attention)

    @property
    def weights(self) -> NDArray[np.float32]:
        """`weights[layer][head]` (target, source) of the cross-attention, or of a single stack's self-attention.

        Layers and heads count from 0. Raises `ConfigError` where the text is empty or the model has no attention.
        """
        return self.trace.attention_map(self._part).weights

    @property
    def rows(self) -> tuple[str, ...]:
        """The tokens of the rows of `weights`."""
        return self.trace.attention_map(self._part).rows

    @property
    def columns(self) -> tuple[str, ...]:
        """The tokens of the columns of `weights`."""
        return self.trace.attention_map(self._part).columns

    @property
    def alignment(self) -> tuple[Link, ...]:
        """Links (source word, target word) of a translation, from 0, read from the cross-attention; else none."""
        forced, tracer = self.trace.forced, self.tracer
        if forced is None or "cross" not in forced.attention or not isinstance(tracer, TranslationTracer):
            return ()
        target = forced.target.ids
        ended = target[-1] == tracer.translator.symbols.eos
        return tracer.translator.links(forced.attention["cross"], self.trace.source.ids, target[: len(target) - ended])

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        part: Part | None = None,
        words: bool = False,
        head: str | None = None,
    ) -> None:
        """Write it as a page that needs nothing else (.html), a picture (.png) or all values (.json).

        `part` (by default that of `weights`), `words` (joined subwords) and `head` (LAYER.HEAD from 1, alone) are of a
        picture. Raises `ConfigError` for another suffix, for these of anything else, a part that the model lacks or an
        unknown head, and `TrainingError` for a failing disk.
        """
        out = Path(path)
        check_suffix(out)
        for name, value in {"part": part, "words": words, "head": head}.items():
            if value and out.suffix != ".png":
                raise ConfigError(f"{name}: expected a picture (.png) to save, found {out}")
        if out.suffix == ".png":
            from headwise.analysis.picture import draw_trace

            part = part or self._part
            draw_trace(self.trace, out, part=part, words=words, shown=_head(self.trace, part, head))
            return
        from headwise.files import write_text

        write_text(out, self.page() if out.suffix == ".html" else self.trace.dumps() + "\n")

    def page(self) -> str:
        """Return the page, as HTML that loads nothing else."""
        from headwise.page.recorded_page import recorded_page

        return recorded_page(self.tracer, self.config, self.path, self.text, self.trace, self.plain)

    def _repr_html_(self) -> str:
        page = html.escape(self.page())
        return f'<iframe srcdoc="{page}" style="width: 100%; height: {_HEIGHT}px; border: 1px solid #ccc"></iframe>'

    def __repr__(self) -> str:
        return f"<headwise.Explanation {self.text!r} → {self.output!r}: {', '.join(self.attention)}>"

    @property
    def _part(self) -> Part:
        for part in reversed(PARTS):
            if part in self.attention:
                return part
        return "cross"


def explain(
    tracer: Tracer,
    config: Config,
    text: str,
    do: str | Sequence[str] = (),
    path: Path | None = None,
    **options: Any,
) -> Explanation:
    """Record a text; arguments and errors as for `Run.explain`."""
    if options and not isinstance(tracer, TranslationTracer):
        name = next(iter(options))
        option = f"--{name}" if name in ("target", "hypothesis", "beam", "alpha") else f"-s {name}"
        raise ConfigError(f"{option}: expected a translation run, found another")
    for name in ("guard", "keep_translated"):
        if options.get(name):
            raise ConfigError(f"-s {name}: expected options of one search, which is looked into, found {name}")
    if None not in (options.get("target"), options.get("hypothesis")):
        raise ConfigError("--hypothesis: expected none beside --target, found one")
    interventions = parse_interventions([do] if isinstance(do, str) else list(do))
    trace = tracer.trace(text, interventions, **options)
    searched = {name: value for name, value in options.items() if name not in ("target", "hypothesis")}
    plain = tracer.trace(text, **searched) if interventions else trace
    return Explanation(text, trace, plain, tracer, config, path)


def check_suffix(out: Path) -> None:
    """Raise `ConfigError` for a file whose name doesn't tell what to write."""
    if out.suffix not in SUFFIXES:
        raise ConfigError(f"{out}: expected a file that ends in .png, .html or .json")


def _head(trace: Trace, part: Part, head: str | None) -> tuple[int, int] | None:
    if head is None:
        return None
    layers, heads = trace.attention_map(part).weights.shape[:2]
    match = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", head)
    layer, number = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (1 <= layer <= layers and 1 <= number <= heads):
        raise ConfigError(f"head: expected LAYER.HEAD from 1.1 to {layers}.{heads}, found {head!r}")
    return layer - 1, number - 1
