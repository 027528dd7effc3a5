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
import torch

from decoding_models import EOS, SYMBOLS, decode, sentences
from headwise.config import ModelConfig
from headwise.decoding.batching import padded
from headwise.decoding.native_steps import NativeSteps
from headwise.engine.native.engine import NativeEngine
from headwise.engine.options import SearchOptions
from headwise.models.transformer import Transformer
from headwise.native import library
from native_engines import native_engine, search_at_once

SIZE = 60


def main(folder: str, leaked: str) -> None:
    library.FOLDER = Path(folder)
    library_or_reason = library.find_library()
    assert isinstance(library_or_reason, library.Library), library_or_reason
    shape = {
        "encoder_layers": 1,
        "decoder_layers": 2,
        "d_model": 16,
        "d_ff": 32,
        "heads": 2,
        "max_length": 64,
    }
    config = ModelConfig.model_validate(shape | {"share_embeddings": "none", "norm": "pre"})
    model = Transformer(config, SIZE, SIZE).eval()
    for precision in library.PRECISIONS:
        engine = native_engine(model, library_or_reason, precision=precision, workers=2)
        use(engine)
        if leaked == "engine":
            engine.handle = ctypes.c_void_p()


@torch.inference_mode()
def use(engine: NativeEngine) -> None:
    """Search natively, with a shortlist, and step by step."""
    sources = sentences(9, SIZE)
    lists = [np.union1d(np.arange(5, 30), EOS).astype(np.int32) for _ in sources]
    search_at_once(engine, sources, SearchOptions(n_best=3), 2)
    search_at_once(engine, sources, SearchOptions(beam=1), 2, lists)
    decode(engine, sources, SearchOptions(no_repeat_ngram=2), SYMBOLS)
    source, mask = padded(sources, SYMBOLS.pad, torch.device("cpu"))
    steps = NativeSteps(engine)
    state = steps.start(steps.encode(source, mask), 2)
    steps.step(torch.full((18,), SYMBOLS.bos), state)
    state.keep(torch.tensor([0, 3])).reorder(torch.tensor([1, 1, 2, 3]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
    gc.collect()
    # Check now, because Python and torch leave thousands of blocks at exit.
    ctypes.CDLL(None).__lsan_do_recoverable_leak_check()
    os._exit(0)
