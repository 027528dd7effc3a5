"""Native engines of models in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from decoding_models import SYMBOLS
from headwise.decoding.engine import PyTorchEngine
from headwise.engine.base import SearchSentence
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.native.engine import NativeEngine
from headwise.engine.native.packing import PackedModel
from headwise.engine.options import SearchOptions
from headwise.models.embedded import EmbeddedSeq2Seq
from headwise.native.library import VARIANTS, Library, find_library

LIBRARIES = {name: found for name in VARIANTS if isinstance(found := find_library(name), Library)}
compiled = pytest.mark.skipif(
    not LIBRARIES, reason="the native library was not compiled (pip install -e . with a C++ compiler)"
)


@pytest.fixture(scope="module", params=LIBRARIES.values(), ids=LIBRARIES.keys())
def library(request: pytest.FixtureRequest) -> Library:
    """The library of each variant of the processor."""
    return request.param


def native_engine(
    model: EmbeddedSeq2Seq,
    library: Library | None = None,
    *,
    leave_out: str = "",
    precision: str = "float32",
    workers: int = 1,
) -> NativeEngine:
    """Return the native engine with a model's parameters as they are now, beside which is the model itself.

    The parameter `leave_out` is missing.
    """
    found = library or find_library()
    assert isinstance(found, Library)
    parameters = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    parameters.pop(leave_out, None)
    sizes = model.source_size, model.target_size
    packed = PackedModel(model.config, *sizes, parameters.get, library=found, precision=precision)
    return NativeEngine([packed], open_pytorch=lambda: PyTorchEngine(model), workers=workers)


def search_at_once(
    engine: NativeEngine,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    at_once: int,
    lists: Sequence[NDArray[np.int32]] | None = None,
) -> list[list[Hypothesis]]:
    """Search with the native search itself, so many sentences at once; `lists` are shortlists."""
    pairs = zip(sources, lists or [None] * len(sources), strict=True)
    return engine.search_at_once(
        [SearchSentence(source, options, allowed=allowed) for source, allowed in pairs], SYMBOLS, at_once
    )
