"""The page without a server: its model in JavaScript (run by node) gives the numbers of the server's."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.analysis.interventions import parse_interventions
from headwise.analysis.products import products
from headwise.analysis.tracer import Tracer
from headwise.decoding.translator import Translator
from headwise.errors import HeadwiseError
from headwise.interop.runs import open_trained
from headwise.serve.json_arrays import products_json, reading_json, trace_json
from headwise.serve.static_page import Exporter
from translator_run import ENGLISH, make_run

NODE = shutil.which("node")
HARNESS = Path(__file__).parents[2] / "support/ask_page.mjs"
ARRAYS = {"encoder", "decoder", "cross"}
CLOSE = 1e-4

needs_node = pytest.mark.skipif(NODE is None, reason="there is no node: apt install nodejs")

Request = tuple[str, dict[str, Any]]


def export(run: Path, out: Path) -> Path:
    """Export a page, and return the folder of the run's files."""
    out.mkdir()
    Exporter().write(open_trained(run), out, "stored")
    return out / "run"


def in_browser(folder: Path, requests: Sequence[Request]) -> list[Any]:
    """Answer requests with the page's model."""
    assert NODE is not None
    done = subprocess.run(
        [NODE, str(HARNESS), str(folder)],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def on_server(run: Path, requests: Sequence[Request]) -> list[Any]:
    """Answer requests as the server's routes do, errors included."""
    tracer = Tracer(Translator.load(run, device="cpu"))
    return [answer(tracer, path, dict(request)) for path, request in requests]


def answer(tracer: Tracer, path: str, request: dict[str, Any]) -> Any:
    try:
        changes = parse_interventions(request.pop("interventions", []))
        if path == "trace":
            return trace_json(tracer.trace(interventions=changes, **request), "packed")
        if path == "force":
            return reading_json(tracer.force(interventions=changes, **request), "packed")
        return products_json(products(tracer, interventions=changes, **request), "packed")
    except HeadwiseError as error:
        return {"error": str(error)}


def assert_close(browser: Any, server: Any, place: str = "") -> None:
    """Compare two responses: the same fields, lists and texts, and numbers within 1e-4."""
    if isinstance(server, dict) and "float32" in server:
        expected = np.frombuffer(base64.b64decode(server["float32"]), dtype="<f4")
        assert browser["shape"] == list(server["shape"]), place
        assert np.abs(np.array(browser["float32"]) - expected).max(initial=0) < CLOSE, place
    elif isinstance(server, dict):
        assert browser.keys() == server.keys(), place
        for key, value in server.items():
            assert_close(browser[key], value, f"{place}.{key}")
    elif isinstance(server, list | tuple):
        assert len(browser) == len(server), place
        for index, value in enumerate(server):
            assert_close(browser[index], value, f"{place}[{index}]")
    elif isinstance(server, float):
        assert browser == pytest.approx(server, abs=CLOSE), place
    else:
        assert browser == server, place


def requests(run: Path, texts: Sequence[str]) -> list[Request]:
    """Requests of all kinds, for several sentences and interventions."""
    changes = [
        [],
        ["silence:cross.2.1"],
        ["uniform:encoder.1.2", "shift:decoder.*.1@-1"],
        ["shuffle:cross.1.*@7", "zero:encoder.2.1@1", "zero:decoder.1.1"],
        ["prefix:Zwei Hunde"],
        ["word:1:Frau", "shuffle:encoder.*.*@123456789"],
    ]
    target = "Zwei Hunde spielen."
    result: list[Request] = [
        ("trace", {"text": text, "interventions": each}) for text in texts for each in changes
    ]
    result += [
        ("trace", {"text": texts[0], "beam": 1}),
        ("trace", {"text": texts[0], "beam": 5, "alpha": 1.5}),
    ]
    result += [("trace", {"text": ""}), ("force", {"text": texts[0], "target": [7, 8, 9], "alpha": 0.0})]
    for part in ("encoder", "decoder", "cross"):
        where = {"part": part, "layer": 1, "head": 1, "query": 2}
        for each in changes[:4]:
            request = {"text": texts[0], "target": target, "interventions": each}
            result += [("products", {**request, **where}), ("force", request)]
    return result


MODELS: dict[str, dict[str, Any]] = {
    "paper": {"share_embeddings": "all"},
    "pre-norm": {"norm": "pre", "share_embeddings": "target", "attention_bias": True},
    "rotary": {
        "positions": "rotary",
        "activation": "silu",
        "gated": True,
        "normalization": "rms",
        "heads": 4,
    },
    "alibi": {"positions": "alibi", "key_value_heads": 1, "activation": "gelu", "heads": 2},
    "t5": {
        "positions": "t5",
        "position_options": {"t5": {"buckets": 8, "reach": 9}},
        "activation": "gelu_tanh",
        "scale_embeddings": False,
    },
    "relative": {
        "positions": "relative",
        "position_options": {"relative": {"reach": 3, "values": True, "per_head": True}},
        "attention": "reference",
        "d_k": 6,
        "d_v": 5,
    },
    "learned": {"positions": "learned", "logit_bias": True, "source_end": False, "feed_forward_bias": False},
    "tensor2tensor": {"positions": "tensor2tensor", "norm": "post", "final_norm": True},
    "fairseq": {"positions": "fairseq", "joint": False, "encoder_layers": 3},
    "none": {"positions": "none", "position_options": {"rotary": {"pairs": "halves"}}},
    "halves": {"positions": "rotary", "position_options": {"rotary": {"pairs": "halves", "base": 500.0}}},
}


@needs_node
@pytest.mark.parametrize("name", MODELS)
def test_the_browsers_responses_are_the_servers(name: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", seed=5, **MODELS[name])
    asked = requests(run, [ENGLISH[0], "Two zebras  sleep."])
    browser = in_browser(export(run, tmp_path / "page"), asked)
    for request, mine, theirs in zip(asked, browser, on_server(run, asked), strict=True):
        assert_close(mine, theirs, str(request))
