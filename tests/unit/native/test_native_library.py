"""The library rejects arguments that would cause invalid memory accesses, and stays usable afterwards."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import pytest
import torch

from decoding_models import sentences
from headwise.config import ModelConfig
from headwise.engine.native.engine import NativeEngine
from headwise.engine.options import SearchOptions
from headwise.errors import ConfigError
from headwise.models.transformer import Transformer
from headwise.native import library as native
from headwise.native.library import PRECISIONS, Library
from native_engines import compiled, native_engine, search_at_once

SIZE = 20

pytestmark = compiled


@pytest.fixture(scope="module")
def engine(library: Library) -> NativeEngine:
    return build(library)


def build(library: Library, leave_out: str = "", vocabulary: int = SIZE, **changes: Any) -> NativeEngine:
    shape = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 8, "d_ff": 12, "heads": 2, "max_length": 16}
    torch.manual_seed(1)
    model = Transformer(ModelConfig.model_validate(shape | {"norm": "pre"} | changes), vocabulary, vocabulary)
    return native_engine(model, library, leave_out=leave_out)


def shape(**changes: int | float) -> native.Shape:
    """Return a valid shape of an engine, with changes."""
    fields: dict[str, int | float] = {
        **dict.fromkeys(("d_model", "d_ff", "source_size", "target_size"), 16),
        **dict.fromkeys(("encoder_layers", "decoder_layers", "heads", "shared_heads"), 1),
        **dict.fromkeys(("longest", "key_size", "value_size"), 16),
        "added": 1,
        **{"pre_norm": 0, "activation": 0, "key_scale": 0.25, "epsilon": 1e-5},
    }
    return native.Shape(**(fields | changes))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"d_model": 0}, "expected a size of the model from 1 to"),
        ({"d_ff": -5}, "expected a size of the model from 1 to"),
        ({"target_size": 2**30}, "expected a size of the model from 1 to"),
        ({"encoder_layers": 2**30}, "expected encoder layers from 1 to 4096"),
        ({"longest": -1}, "expected positions from 0 to"),
        ({"heads": 3, "shared_heads": 2}, "multiple of those of keys and values"),
        ({"key_size": 17}, "multiples of 16"),
        ({"heads": 2**16, "value_size": 2**16}, "expected a size of all heads from 1 to"),
        ({"activation": 4}, "expected an activation from 0 to 3"),
        ({"longest": 0}, "expected a number of positions, found none"),
        ({"rotated": 1}, "expected a size of rotated heads that is a multiple of 32"),
        ({"biased": 1}, "expected a distance, found none"),
        ({"reach": -1}, "expected a distance from 0 to"),
        ({"reach": 3, "key_tables": 2}, "expected a table of distances, or one for each head"),
        ({"reach": 2**24, "value_tables": 1}, "expected numbers in a table of distances from 1 to"),
        ({"epsilon": 0.0}, "a positive epsilon"),
        ({"key_scale": float("nan")}, "expected a finite scale"),
    ],
)
def test_shapes_that_can_not_be(library: Library, changes: dict[str, Any], sentence: str) -> None:
    handle = ctypes.c_void_p()
    with pytest.raises(ValueError, match=sentence):
        library.call("new", ctypes.byref(shape(**changes)), 0, ctypes.byref(handle))
    assert not handle
    with pytest.raises(ValueError, match="expected a precision from 0 to 2, found 3"):
        library.call("new", ctypes.byref(shape()), 3, ctypes.byref(handle))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_weights_of_other_sizes_and_names(library: Library, precision: str) -> None:
    handle, values = ctypes.c_void_p(), np.ones(16 * 80, np.float32)
    library.call("new", ctypes.byref(shape()), PRECISIONS[precision], ctypes.byref(handle))
    place = values.ctypes.data
    for name, arguments, sentence in (
        ("linear", (b"encoder.0.w1", place, None, 17, 16), "expected 16 outputs of encoder.0.w1, found 17"),
        ("linear", (b"encoder.0.w1", place, None, 16, -1), "expected 16 inputs of encoder.0.w1, found -1"),
        ("linear", (b"encoder.0.w1", None, None, 16, 16), "expected weights, found none"),
        ("linear", (b"encoder.1.w1", place, None, 16, 16), "there is no weight of this name"),
        ("linear", (b"encoder.0.cross_attention.in", place, None, 16, 16), "no weight of this name"),
        ("vector", (b"encoder.0.around_feed_forward.bias", place, 15), "expected 16 values of"),
        ("vector", (b"encoder.0.around_feed_forward.bias", None, 16), "expected values, found none"),
        ("vector", (b"encoder_norm.bias", place, 16), "there is no weight of this name"),
        ("table", (b"positions", place, 17, 16), "expected 16 rows of positions, found 17"),
        ("table", (b"source_embedding", place, 16, 15), "expected 16 columns of source_embedding, found 15"),
        ("table", (b"source_embedding", None, 16, 16), "expected values, found none"),
        ("table", (b"another", place, 16, 16), "there is no weight of this name"),
        ("table", (None, place, 16, 16), "expected an engine and a name, found none"),
    ):
        with pytest.raises(ValueError, match=sentence):
            library.call(name, handle, *arguments)
    library.value("free", handle)


@pytest.mark.parametrize("name", ["encoder.0.w1", "encoder_norm.bias", "target_embedding", "positions"])
def test_an_engine_without_one_of_its_weights_does_not_run(
    library: Library, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Library.call

    def forgetful(self: Library, function: str, *arguments: Any) -> None:
        if name.encode() not in arguments:
            call(self, function, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Library, "call", forgetful)
        engine = build(library)
    with pytest.raises(ValueError, match=f"expected the weight {name}, found none"):
        search_at_once(engine, [[5, 3]], SearchOptions(), 1)


def search_options(beam: int, n_best: int, *others: float, banned: int = 3) -> native.NativeOptions:
    return native.NativeOptions(
        *(beam, n_best, *others, 0, 0, 0, 1.0, 1.0, 0), native.Banned((ctypes.c_int32 * 3)(0, 2, 1), banned)
    )


def changed_options(**changes: int | float) -> native.NativeOptions:
    options = search_options(1, 1, 0, 0.6, 1.0)
    for name, value in changes.items():
        setattr(options, name, value)
    return options


def job(engine: NativeEngine, **changes: Any) -> None:
    """Create a job of two sentences with some arguments changed, and free it."""
    arrays: dict[str, Any] = {
        "ids": np.array([5, 6, 3, 7, 3], np.int32),
        "offsets": np.array([0, 3, 5], np.int64),
        "limits": np.array([6, 5], np.int32),
        "prefixes": np.array([4, 5], np.int32),
        "prefix_offsets": np.array([0, 2, 2], np.int64),
        "random": np.full(11, 0.5),
        "lettered": np.array([1, 0], np.uint8),
        "given": np.array([4, 9], np.int32),
        "listed": np.array([3, 8, 9, 3, 7], np.int32),
        "lists": np.array([0, 3, 5], np.int64),
        # The automaton of the forms 5 6 and 7.
        "edge_offsets": np.array([0, 2, 4, 6, 8], np.int32),
        "edge_tokens": np.array([5, 7, 6, 7, 5, 7, 5, 7], np.int32),
        "edge_nodes": np.array([1, 3, 2, 3, 1, 3, 1, 3], np.int32),
        "end_offsets": np.array([0, 0, 0, 1, 2], np.int32),
        "ended": np.array([0, 1], np.int32),
        "distances": np.array([2, 1, 1, 1, 2, 1, 2, 1], np.int32),
        "masks": np.array([1, 2], np.uint64),
    }
    arrays |= {name: np.array(v, arrays[name].dtype) for name, v in changes.items() if name in arrays}
    numbers = {"tokens": 5, "count": 2, "listed_count": 5, "nodes": 4, "terms": 2, "edges": 8, "ends": 2}
    numbers |= {"continuing": SIZE, "letters": SIZE, "prefixes_count": 2, "models": 1}
    numbers |= {name: value for name, value in changes.items() if name in numbers}
    options = changes.get("options", search_options(4, 1, 0, 0.6, 1.0))
    symbols = changes.get("symbols", native.NativeSymbols(2, 3))
    place = {name: array.ctypes.data for name, array in arrays.items()}
    sizes = [numbers[name] for name in ("nodes", "terms", "edges", "ends")]
    names = [name for name, *_ in native.TermArrays._fields_[4:]]
    terms = (native.TermArrays * 2)(native.TermArrays(*sizes, *(place[name] for name in names)))
    if options.sampled:
        terms[0].nodes = changes.get("nodes", 0)
    handle = ctypes.c_void_p()
    handles = (ctypes.c_void_p * 2)(engine.models[0].handle, changes.get("second", engine).models[0].handle)
    try:
        engine.library.call(
            "job_new",
            *(handles, numbers["models"], symbols, place["given"], len(arrays["given"])),
            *(bytes(SIZE), numbers["continuing"], bytes(SIZE), numbers["letters"], ctypes.byref(handle)),
        )
        counts = (numbers["prefixes_count"], numbers["listed_count"], len(arrays["random"]))
        sentences = native.Sentences(
            *(numbers["count"], numbers["tokens"], *counts),
            *(place["ids"], place["offsets"], place["prefixes"], place["prefix_offsets"]),
            *(place["listed"], place["lists"], place["limits"]),
            *(ctypes.addressof(terms), place["lettered"], place["random"]),
        )
        engine.library.call("job_add", handle, sentences, options, 0, ctypes.byref(ctypes.c_int64()))
    finally:
        engine.library.value("job_free", ctypes.byref(handle))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "source id": ({"ids": [5, 20, 3, 7, 3]}, "expected a source id from 0 to 19, found 20"),
    "negative id": ({"ids": [5, -1, 3, 7, 3]}, "expected a source id from 0 to 19, found -1"),
    "empty source": ({"offsets": [0, 5, 5]}, "expected tokens of a sentence from 1 to 16, found 0"),
    "order": ({"offsets": [0, 6, 5]}, "expected offsets in order"),
    "beginning": ({"offsets": [1, 3, 5]}, "expected 0 as the first offset, found 1"),
    "end": ({"offsets": [0, 3, 9]}, "expected 5 as the last offset, found 9"),
    "count": ({"count": -1}, "expected sentences from 0 to"),
    "limit": ({"limits": [6, 0]}, "expected a longest output of at least 1"),
    "listed id": ({"listed": [3, 8, 20, 3, 7]}, "expected a listed id from 0 to 19, found 20"),
    "list without end": ({"listed": [3, 8, 9, 4, 7]}, "expected the end symbol in every list"),
    "list out of order": ({"listed": [3, 9, 8, 3, 7]}, "expected listed ids in order"),
    "list with a twin": ({"listed": [3, 8, 8, 3, 7]}, "expected listed ids in order"),
    "empty list": ({"lists": [0, 5, 5], "listed": [3, 4, 5, 6, 7]}, "expected the end symbol in every list"),
    "lists' end": ({"lists": [0, 3, 6]}, "expected 5 as the last offset, found 6"),
    "beam": ({"options": search_options(0, 1, 0, 0.6, 1.0)}, "expected a beam from 1 to 1048576, found 0"),
    "n best": ({"options": search_options(4, 5, 0, 0.6, 1.0)}, "expected outputs of a sentence from 1 to 4"),
    "shortest": ({"options": search_options(4, 1, -1, 0.6, 1.0)}, "expected a shortest length"),
    "alpha": ({"options": search_options(4, 1, 0, float("nan"), 1.0)}, "expected alpha of at least 0"),
    "patience": ({"options": search_options(4, 1, 0, 0.6, float("nan"))}, "patience of at least 1"),
    "end symbol": (
        {"symbols": native.NativeSymbols(2, SIZE)},
        "expected the end symbol from 0 to 19, found 20",
    ),
    "start symbol": (
        {"symbols": native.NativeSymbols(-1, 3)},
        "expected the start symbol from 0 to 19, found -1",
    ),
    "banned": (
        {"options": search_options(4, 1, 0, 0.6, 1.0, banned=4)},
        "expected banned symbols from 0 to 3, found 4",
    ),
    "given": ({"given": [4, SIZE]}, "expected a given symbol from 0 to 19, found 20"),
    "models": ({"models": 0}, "expected models from 1 to"),
    "prefix": ({"prefixes": [4, SIZE]}, "expected an id of a prefix from 0 to 19, found 20"),
    "prefixes' end": ({"prefixes_count": 3}, "expected 3 as the last offset, found 2"),
    "room after the prefix": ({"limits": [2, 5]}, "expected a longest output of at least 1 after its prefix"),
    "temperature": ({"options": changed_options(temperature=0.0)}, "expected temperature and top-p above 0"),
    "top-p": ({"options": changed_options(top_p=float("nan"))}, "expected temperature and top-p above 0"),
    "top-k": ({"options": changed_options(top_k=-1)}, "expected temperature and top-p above 0"),
    "forced": ({"options": changed_options(forced=3)}, "expected what is forced from 0 to 2, found 3"),
    "a forced beam": (
        {"options": changed_options(forced=1, beam=2)},
        "expected one hypothesis of a forced output",
    ),
    "few random numbers": (
        {"options": changed_options(sampled=1), "random": [0.5] * 10},
        "expected a random number for each sample and step, found fewer",
    ),
    "random numbers": (
        {"options": changed_options(sampled=1), "random": [0.5] * 10 + [1.0]},
        "expected random numbers from 0 to below 1",
    ),
    "not a random number": (
        {"options": changed_options(sampled=1), "random": [math.nan] * 11},
        "expected random numbers from 0 to below 1",
    ),
    "sampled terms": (
        {"options": changed_options(sampled=1), "nodes": 4},
        "expected a beam search with terms, found samples",
    ),
    "nodes of terms": ({"nodes": 257}, "expected nodes of terms from 1 to 256, found 257"),
    "terms": ({"terms": 65}, "expected terms from 1 to 64, found 65"),
    "edges of terms": ({"edges": -1}, "expected edges of terms from 0 to"),
    "edges' end": ({"edges": 9}, "expected 9 as the last offset, found 8"),
    "edges' order": ({"edge_offsets": [0, 9, 4, 6, 8]}, "expected offsets in order"),
    "ends of terms": ({"end_offsets": [0, 0, 0, 1, 3]}, "expected 2 as the last offset, found 3"),
    "token of a term": (
        {"edge_tokens": [5, 20, 6, 7, 5, 7, 5, 7]},
        "a token of a term from 0 to 19, found 20",
    ),
    "tokens out of order": ({"edge_tokens": [7, 5, 6, 7, 5, 7, 5, 7]}, "expected tokens of terms in order"),
    "end in a term": ({"edge_tokens": [3, 5, 6, 7, 5, 7, 5, 7]}, "expected terms without the end symbol"),
    "node of terms": ({"edge_nodes": [1, 4, 2, 3, 1, 3, 1, 3]}, "a node of terms from 0 to 3, found 4"),
    "ended term": ({"ended": [0, 2]}, "expected a term from 0 to 1, found 2"),
    "distance": ({"distances": [2, 1, 0, 1, 2, 1, 2, 1]}, "a distance of a term from 1 to 256, found 0"),
    "bits": ({"masks": [1, 0]}, "expected a bit for every term"),
    "room for the terms": ({"limits": [5, 5]}, "expected a longest output with room for the terms"),
    "continuing": ({"continuing": 19}, "expected 20 bytes about the target tokens, found 19"),
    "letters": ({"letters": 21}, "expected 20 bytes about the target tokens, found 21"),
    "no letters": ({"letters": 0}, "expected the tokens with letters, found none"),
}


@pytest.mark.parametrize(("changes", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_job_is_made_of(engine: NativeEngine, changes: dict[str, Any], sentence: str) -> None:
    job(engine)
    job(engine, options=changed_options(sampled=1))
    with pytest.raises(ValueError, match=sentence):
        job(engine, **changes)


def test_models_of_an_ensemble_have_one_vocabulary(engine: NativeEngine, library: Library) -> None:
    other = build(library, vocabulary=SIZE + 1)
    with pytest.raises(ValueError, match="expected 20 source subwords in every model, found 21"):
        job(engine, models=2, second=other)
    with pytest.raises(ConfigError, match="20 source and 20 target subwords, as in model 1, found 21 and 21"):
        NativeEngine([*engine.models, *other.models], open_pytorch=lambda: None)


def test_weights_too_small_for_a_scale_are_zeros(library: Library) -> None:
    """The smallest float32 numbers over 127 underflow to 0, by which weights can't be divided."""
    model = build(library).pytorch.model
    with torch.no_grad():
        model.get_parameter("encoder.0.feed_forward.w1.weight").fill_(1e-45)
        model.get_parameter("encoder.0.feed_forward.w1.bias").zero_()
    sources, options = sentences(4, SIZE, longest=5), SearchOptions(extra_length=5)
    found = [
        search_at_once(native_engine(model, library, precision=precision), sources, options, 4)
        for precision in ("float32", "int8")
    ]
    assert all(hypotheses for each in found for hypotheses in each)
