"""Loading of the native engine's compiled library, and the signatures of its C functions.

setup.py compiles `native.cpp` once for each instruction set, where there is a compiler. The library for the best
instruction set that the processor supports is loaded, limited by `ATEN_CPU_CAPABILITY`, as in PyTorch. This module
doesn't depend on PyTorch.
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

VERSION = 12  # version of the C interface, as in native.cpp
# Instruction sets, indexed by the level that headwise_level() in native.cpp returns.
VARIANTS = ("portable", "avx2", "avx512", "avx512bf16")
_CAPABILITIES = {"default": 0, "avx2": 1}  # maximum level for values of ATEN_CPU_CAPABILITY
FOLDER = Path(__file__).parent  # folder of the compiled libraries
_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")  # as in setup.py
_NO_MEMORY = "there is not enough memory"  # the message in native.cpp
PRECISIONS = {"float32": 0, "bfloat16": 1, "int8": 2}


class Shape(ctypes.Structure):
    """Mirror of `Shape` in shape.h."""

    _fields_ = (
        *((name, c_int32) for name in ("d_model", "d_ff", "encoder_layers", "decoder_layers")),
        *((name, c_int32) for name in ("source_size", "target_size", "longest")),
        *((name, c_int32) for name in ("heads", "shared_heads", "key_size", "value_size")),
        *((name, c_int32) for name in ("added", "rotated", "reach", "biased", "key_tables", "value_tables")),
        *((name, c_int32) for name in ("pre_norm", "final_norm", "rms", "gated", "source_end", "activation")),
        *((name, c_float) for name in ("key_scale", "epsilon")),
    )


class Banned(ctypes.Structure):
    """Mirror of `Banned` in scan.h."""

    _fields_ = (("ids", c_int32 * 3), ("count", c_int32))


class NativeOptions(ctypes.Structure):
    """Mirror of `Options` in beam.h."""

    _fields_ = (
        *((name, c_int32) for name in ("beam", "n_best", "min_length")),
        ("alpha", c_float),
        ("patience", c_double),
        *((name, c_int32) for name in ("no_repeat_ngram", "sampled", "top_k")),
        *((name, c_double) for name in ("temperature", "top_p")),
        ("forced", c_int32),
        ("banned", Banned),
    )


class NativeSymbols(ctypes.Structure):
    """Mirror of `Symbols` in scan.h."""

    _fields_ = (("bos", c_int32), ("eos", c_int32))


class TermArrays(ctypes.Structure):
    """Mirror of `TermArrays` in terms.h."""

    _fields_ = (
        *((name, c_int32) for name in ("nodes", "terms", "edges", "ends")),
        *((name, c_void_p) for name in ("edge_offsets", "edge_tokens", "edge_nodes", "end_offsets", "ended")),
        *((name, c_void_p) for name in ("distances", "masks")),
    )


class Sentences(ctypes.Structure):
    """Mirror of `Sentences` in queue.h."""

    _fields_ = (
        ("count", c_int32),
        *((name, c_int64) for name in ("ids_count", "prefixes_count", "lists_count", "numbers_count")),
        *((name, c_void_p) for name in ("ids", "offsets", "prefixes", "prefix_offsets")),
        *((name, c_void_p) for name in ("lists", "list_offsets", "limits", "terms", "lettered", "numbers")),
    )


class NativeProgress(ctypes.Structure):
    """Mirror of `Progress` in job.h."""

    _fields_ = (
        *((name, c_int64) for name in ("sentences", "outputs", "tokens", "weights", "failed")),
        ("running", c_int32),
    )


class NativeLoad(ctypes.Structure):
    """Mirror of `Load` in job.h."""

    _fields_ = tuple((name, c_int64) for name in ("waiting", "waiting_tokens", "running", "rows"))


class Collected(ctypes.Structure):
    """Mirror of `Collected` in job.h."""

    _fields_ = (
        *((name, c_int64) for name in ("sentences", "outputs", "tokens", "weight_count")),
        *((name, c_void_p) for name in ("numbers", "counts", "failures", "lengths", "ids", "gains")),
        ("weights", c_void_p),
    )


_FUNCTIONS: dict[str, tuple[Any, ...]] = {  # name -> result, arguments
    "new": (c_char_p, POINTER(Shape), c_int32, POINTER(c_void_p)),
    "free": (None, c_void_p),
    "linear": (c_char_p, c_void_p, c_char_p, c_void_p, c_void_p, c_int32, c_int32),
    "vector": (c_char_p, c_void_p, c_char_p, c_void_p, c_int32),
    "table": (c_char_p, c_void_p, c_char_p, c_void_p, c_int32, c_int32),
    "job_new": (
        c_char_p,
        *(POINTER(c_void_p), c_int32, POINTER(NativeSymbols), c_void_p, c_int64),
        *(c_char_p, c_int64, c_char_p, c_int64),
        POINTER(c_void_p),
    ),
    "job_add": (c_char_p, c_void_p, POINTER(Sentences), POINTER(NativeOptions), c_int64, POINTER(c_int64)),
    "job_start": (c_char_p, c_void_p, c_int32, c_int64, c_int32),
    "job_close": (None, c_void_p),
    "job_cancel": (None, c_void_p, c_int64),
    "job_wait": (c_char_p, c_void_p, c_int32, c_int64, POINTER(NativeProgress)),
    "job_collect": (c_char_p, c_void_p, POINTER(Collected)),
    "job_load": (None, c_void_p, POINTER(NativeLoad)),
    "job_stop": (None, c_void_p),
    "job_free": (None, POINTER(c_void_p)),
    "product": (
        c_char_p,
        *(c_void_p, c_int64, c_int64) * 2,
        *(c_void_p, c_void_p, c_int64),
        *(c_int32, c_int32, c_int32, c_int32, c_int32),
    ),
}


def failure(name: str, message: bytes) -> Exception:
    """Return the error for a message of the library, which the function `name` returned."""
    text = message.decode()
    return MemoryError(text) if text == _NO_MEMORY else ValueError(f"{name}: {text}")


class Library:
    """The loaded library: `call` is for functions that report errors, `value` for functions that can't fail."""

    def __init__(self, path: Path, variant: str) -> None:
        self.variant = variant
        self._library = ctypes.CDLL(str(path))
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(self._library, f"headwise_{name}")
            function.restype, function.argtypes = result, arguments

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns an error message or null.

        Raises `MemoryError` where memory runs out, and `ValueError` where the library rejects the arguments.
        """
        message = self.value(name, *arguments)
        if message is not None:
            raise failure(name, message)

    def value(self, name: str, *arguments: Any) -> Any:
        """Call a function and return its result."""
        return getattr(self._library, f"headwise_{name}")(*arguments)


def find_library(variant: str | None = None) -> Library | str:
    """Load the library for this processor, or the given variant; returns the reason as a phrase where there is none."""
    compiled = {name: path for name in VARIANTS if (path := FOLDER / f"_{name}{_SUFFIX}").exists()}
    if "portable" not in compiled:
        return "it was not compiled when Headwise was installed (see docs/translate.md)"
    try:
        level = _supported_level(compiled["portable"])
        supported = [name for name in VARIANTS[: level + 1] if name in compiled]
        if variant is not None and variant not in supported:
            return f"this processor or installation has no variant {variant}"
        selected = variant or supported[-1]
        return _load(compiled[selected], selected)
    except (OSError, AttributeError) as error:
        return f"its library can't be loaded ({error})"


def _supported_level(portable: Path) -> int:
    library = ctypes.CDLL(str(portable))
    version = library.headwise_version()
    if version != VERSION:
        raise OSError(f"expected version {VERSION} of it, found {version}; install Headwise again")
    level: int = library.headwise_level()
    return min(level, _CAPABILITIES.get(os.environ.get("ATEN_CPU_CAPABILITY", "").lower(), level))


@cache
def _load(path: Path, variant: str) -> Library:
    return Library(path, variant)
