"""Driver of the leak test: use every function of the native library in every precision, then exit.

With the argument `engine` it leaks engines on purpose, to verify that LeakSanitizer detects them.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from pathlib import Path

import numpy as np

from decoding_models import EOS, SYMBOLS, decode, sentences, tiny_transformer
from headwise.engine.native.engine import NativeEngine
from headwise.engine.options import SearchOptions
from headwise.native import library
from native_engines import native_engine, search_at_once

SIZE = 60


def main(folder: str, leaked: str) -> None:
    library.FOLDER = Path(folder)
    library_or_reason = library.find_library()
    assert isinstance(library_or_reason, library.Library), library_or_reason
    model = tiny_transformer(SIZE, encoder_layers=1, norm="pre", positions="sinusoidal")
    for precision in library.PRECISIONS:
        engine = native_engine(model, library_or_reason, precision=precision, workers=2)
        use(engine)
        if leaked == "engine":
            engine.models[0].handle = ctypes.c_void_p()


def use(engine: NativeEngine) -> None:
    """Search with and without a shortlist and prefixes, draw samples, average models and decode by force."""
    sources = sentences(9, SIZE)
    lists = [np.union1d(np.arange(5, 30), EOS).astype(np.int32) for _ in sources]
    search_at_once(engine, sources, SearchOptions(n_best=3), 2)
    search_at_once(engine, sources, SearchOptions(beam=1), 2, lists)
    decode(engine, sources, SearchOptions(no_repeat_ngram=2), SYMBOLS)
    decode(engine, sources, SearchOptions(sample=True, n_best=3, top_p=0.9), SYMBOLS)
    several = NativeEngine([*engine.models] * 2, open_pytorch=lambda: None, workers=2)
    found = decode(several, sources, SearchOptions(), SYMBOLS, prefixes=[[7, 8]] * len(sources))
    engine.cross_attention(sources, [each[0].tokens for each in found], SYMBOLS)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
    gc.collect()
    # Check now, because Python and torch leave thousands of blocks at exit.
    ctypes.CDLL(None).__lsan_do_recoverable_leak_check()
    os._exit(0)
