"""The page without a server: its model in JavaScript (run by node) gives the numbers of the server's."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from headwise.analysis.head_arithmetic import head_arithmetic
from headwise.analysis.interventions import parse_interventions
from headwise.analysis.json_arrays import as_json, packed
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.cli.main import run as command_line
from headwise.config import Config, SubwordConfig
from headwise.engine.translator import Translator
from headwise.errors import HeadwiseError
from headwise.interop.runs import open_trained
from headwise.page.requests import MOST_CHARACTERS
from headwise.page.static_page import Exporter
from headwise.text.tokens.pair_vocabulary import PairVocabulary
from headwise.text.tokens.subwords import Subwords, train_model
from headwise.weights import write_quantized
from page_model import Request, in_browser, needs_node, through_client
from translator_run import ENGLISH, GERMAN, make_run, write_dictionary

CLOSE = 1e-4


def export(run: Path, out: Path) -> Path:
    """Export a page, and return the folder of the run's files."""
    out.mkdir()
    Exporter().write(open_trained(run), out, "stored")
    return out / "run"


def on_server(run: Path, requests: Sequence[Request]) -> list[Any]:
    """Answer requests as the server's routes do, errors included."""
    tracer = TranslationTracer(Translator.load(run, device="cpu"))
    return [answer(tracer, path, dict(request)) for path, request in requests]


def answer(tracer: TranslationTracer, path: str, request: dict[str, Any]) -> Any:
    try:
        changes = parse_interventions(request.pop("interventions", []))
        if path == "trace":
            return tracer.trace(interventions=changes, **request).to_json(packed)
        if path == "force":
            return as_json(tracer.force(interventions=changes, **request), packed)
        recorded = tracer.record(request.pop("text"), request.pop("target"), changes)
        return as_json(head_arithmetic(recorded, **request), packed)
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


def requests(texts: Sequence[str], *, changed: bool = True) -> list[Request]:
    """Requests of all kinds, for several sentences and, with `changed`, interventions."""
    changes = [
        ["silence:cross.2.1"],
        ["uniform:encoder.1.2", "zero:decoder.*.1@0", "shift:decoder.*.1@-1"],
        ["shuffle:cross.1.*@7", "shuffle:decoder.1.1@-3", "zero:encoder.2.1@1", "zero:decoder.1.1"],
        ["uniform:*.2.1", "silence:*.*.2"],
        ["prefix:Zwei Hunde"],
        ["word:1:Frau", "shuffle:encoder.*.*@123456789"],
    ][: 6 if changed else 1]
    target = "Zwei Hunde spielen."
    result: list[Request] = [("trace", {"text": text}) for text in texts]
    result += [("trace", {"text": texts[0], "interventions": each}) for each in changes]
    result += [
        ("trace", {"text": texts[0], "beam": 1}),
        ("trace", {"text": texts[0], "beam": 5, "alpha": 1.5}),
    ]
    result += [("trace", {"text": ""}), ("force", {"text": texts[0], "target": [7, 8, 9], "alpha": 0.0})]
    for part in ("encoder", "decoder", "cross"):
        where = {"part": part, "layer": 1, "head": 1, "query": 2}
        for each in ([], *changes[:3]):
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
    "joiners": {"share_embeddings": "all", "joiners": True, "size": 170, "max_length": 80},
    "fairseq": {"positions": "fairseq", "joint": False, "encoder_layers": 3},
    "none": {"positions": "none", "position_options": {"rotary": {"pairs": "halves"}}},
    "halves": {"positions": "rotary", "position_options": {"rotary": {"pairs": "halves", "base": 500.0}}},
}


@needs_node
@pytest.mark.parametrize("name", MODELS)
def test_the_browsers_responses_are_the_servers(name: str, tmp_path: Path) -> None:
    """Interventions replace what any model has computed, so that those of two models are enough."""
    run = make_run(tmp_path / "run", seed=5, **MODELS[name])
    asked = requests(
        [ENGLISH[0], "Two\u00a0zebras  sl\u00adeep.", '(A man) "rides"-the "dogs', "A \ufb01sh? Ha\u0308lt."],
        changed=name in ("paper", "pre-norm"),
    )
    assert_same(run, tmp_path / "page", asked)


@needs_node
def test_no_translation_of_the_browser_is_empty(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", max_length=9, logit_bias=True, end_bias=50.0)
    texts = [ENGLISH[0], "☃ …", "5"]
    asked: list[Request] = [("trace", {"text": text, "beam": beam}) for text in texts for beam in (1, 4)]
    asked.append(("trace", {"text": texts[0], "interventions": ["prefix:,"]}))
    assert_same(run, tmp_path / "page", asked)
    found = [answer["hypotheses"][0]["text"] for answer in in_browser(tmp_path / "page" / "run", asked)]
    assert [any(map(str.isalnum, text)) for text in found] == [True, True, False, False, True, True, True]


def assert_same(run: Path, page: Path, asked: Sequence[Request]) -> None:
    browser = in_browser(export(run, page), asked)
    for request, mine, theirs in zip(asked, browser, on_server(run, asked), strict=True):
        assert_close(mine, theirs, str(request))


@needs_node
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_weights_stay_as_stored(precision: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", seed=5)
    weights = run / "model.safetensors"
    write_quantized(weights, weights, precision)
    assert_same(run, tmp_path / "page", requests([ENGLISH[1]])[:8])
    assert (tmp_path / "page/run/model.safetensors").read_bytes() == weights.read_bytes()


@needs_node
@pytest.mark.parametrize("prefix", [True, False])
def test_unknown_words_are_the_servers(prefix: bool, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", seed=5, size=200)
    if not prefix:
        model = train_model([*ENGLISH, *GERMAN], SubwordConfig(size=200), add_dummy_prefix=False)
        (run / "spm.model").write_bytes(model)
    texts = [
        ENGLISH[3],
        "A MAN rides a manes, strasse STRASSE straße Straßen!",
        "漢字 Ä schlaft SCHLÄFT schläft 12",
        "\u2581 a\u00a0b",
        "ecbfc Ecbfc! e.c. b c ǅǆ ſx ßß 12",
        "Nguyễn, Łódź – “Jiří” ’s… œ ℃ 田中 田ä ½x x½ \u200d\u0335 🦖⌘a 👍🏽 👨\u200d👩\u200d👧 🇩🇪 ǅ",
        "\N{DOG FACE}" * (MOST_CHARACTERS - 1),  # two of JavaScript's characters each
    ]
    assert_same(run, tmp_path / "page", [("trace", {"text": text}) for text in texts])


@needs_node
@pytest.mark.parametrize("language", ["en", "pt-BR", "deu", None])
def test_markers_of_lists_are_the_servers(language: str | None, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", seed=5)
    config = Config.load(run / "config.yaml")
    data = config.data.model_copy(update={"source_language": language})
    (run / "config.yaml").write_text(config.model_copy(update={"data": data}).to_yaml())
    texts = [
        "- [ ] A ball",
        "\u2713\ufe0f (iv) a 3. ball",
        "3. A 2) ball",
        "iv. A ball",
        "A. - -",
        "\u00a9 a ball",
        "- -",
    ]
    assert_same(run, tmp_path / "page", [("trace", {"text": text}) for text in texts])


@needs_node
def test_the_numbering_of_an_imported_vocabulary_is_kept(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", seed=5)
    subwords = Subwords.load(run)
    pieces = subwords.source_pieces(range(subwords.source_size))
    shuffled = (*pieces[:4], ">>deu<<", *reversed(pieces[5:]))
    (run / "spm.model").rename(run / "spm.source.model")
    (run / "spm.target.model").write_bytes((run / "spm.source.model").read_bytes())
    (run / "vocabulary.json").write_bytes(PairVocabulary(shuffled, codes=True, lowercase=True).content())
    config = Config.load(run / "config.yaml")
    imported = config.subwords.model_copy(update={"kind": "imported", "lowercase": True})
    (run / "config.yaml").write_text(config.model_copy(update={"subwords": imported}).to_yaml())
    texts = [ENGLISH[0], f">>deu<< {ENGLISH[1]}", ">>deu<<", ">>fra<< a dog", "</s> <unk>"]
    assert_same(run, tmp_path / "page", [("trace", {"text": text}) for text in texts])


INVALID: list[Request] = [
    ("trace", {"text": "a dog", "interventions": ["silence:cross.9.1"]}),
    ("trace", {"text": "a dog", "interventions": ["silence:*.3.1"]}),
    ("trace", {"text": "a dog", "interventions": ["shift:encoder.1.1"]}),
    ("trace", {"text": "a dog", "interventions": ["it's:cross"]}),
    ("trace", {"text": "a dog", "interventions": ["word:99:Hund"]}),
    ("trace", {"text": "a dog", "interventions": ["zero:cross.1.1@1234567890"]}),
    ("trace", {"text": "a dog", "interventions": ["zero:cross.1.1@-1"]}),
    ("trace", {"text": "a dog", "interventions": ["prefix:" + "Hund " * 60]}),
    ("trace", {"text": "half \ud800"}),
    ("force", {"text": " ", "target": "ein Hund"}),
    ("products", {"text": " ", "target": "ein Hund", "part": "cross", "layer": 0, "head": 0, "query": 0}),
    ("force", {"text": "a dog", "target": []}),
    ("force", {"text": "a dog", "target": [4, 9999]}),
    ("products", {"text": "a dog", "target": [4], "part": "cross", "layer": 2, "head": 0, "query": 0}),
    ("products", {"text": "a dog", "target": [4], "part": "cross", "layer": 1, "head": 5, "query": 0}),
    ("products", {"text": "a dog", "target": [4], "part": "cross", "layer": 1, "head": 0, "query": 8}),
]


def _without_kinds(response: dict[str, Any]) -> dict[str, Any]:
    """The browser's model knows fewer kinds of interventions."""
    return {"error": re.sub("expected one of silence, .*, found", "expected a kind, found", response["error"])}


@needs_node
def test_errors_are_the_servers(small: tuple[Path, Path]) -> None:
    run, folder = small
    theirs = on_server(run, INVALID)
    assert all(response["error"] for response in theirs)
    assert [_without_kinds(one) for one in in_browser(folder, INVALID)] == [_without_kinds(one) for one in theirs]
    assert "/api/next: expected" in in_browser(folder, [("next", {"text": "a"})])[0]["error"]


@needs_node
def test_numbers_that_overflow_are_an_error_as_on_the_server(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", norm="pre")
    weights = load_file(run / "model.safetensors")
    weights["decoder.1.feed_forward.w2.weight"].fill_(3e38)
    save_file(weights, run / "model.safetensors")
    asked: list[Request] = [("force", {"text": "a dog", "target": "ein Hund"})]
    assert_same(run, tmp_path / "page", asked)
    assert "overflow" in on_server(run, asked)[0]["error"]


@needs_node
def test_what_the_browser_cant_load_is_said_and_loaded_on_a_second_try(tmp_path: Path) -> None:
    run = "run?run=a"
    asked = [("trace", None), ("trace", "it"), (run, None), (run, "<p>"), (run, '{"name": 1}')]
    failed, loaded, without_connection, other, right = through_client(tmp_path, asked)
    assert failed == {"error": "The model in the browser failed."}
    assert loaded == {"loaded": "it"}
    assert re.fullmatch("run.json: expected .*, found no connection", without_connection["error"])
    assert re.fullmatch("run.json: expected .*, found another file", other["error"])
    assert right == {"name": 1}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("small")
    run = make_run(folder / "run", seed=5)
    return run, export(run, folder / "page")


def test_a_page_needs_no_other_file(small: tuple[Path, Path]) -> None:
    page = small[1].parent
    index = (page / "index.html").read_text("utf-8")
    named = re.findall(r'(?:src|href)="([^"#]+)"', index)
    assert named
    for file in page.rglob("*.js"):
        imports = re.findall(r'from "([^"]+)"', file.read_text("utf-8"))
        named += [str((file.parent / name).relative_to(page)) for name in imports]
    for name in named:
        assert (page / name).resolve().is_relative_to(page)
        assert (page / name).is_file(), name
    assert "default-src 'self'" in index
    assert not re.search(r"<script(?![^>]*src=)|<style|style=|onclick=", index)
    can = json.loads((small[1] / "run.json").read_text("utf-8"))["can"]
    assert {name for name, able in can.items() if able} == {"translate", "read", "products"}


def test_the_export_says_that_the_page_reads_text_as_it_is_written(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", seed=5)
    config = (run / "config.yaml").read_text(encoding="utf-8")
    (run / "config.yaml").write_text(config.replace("recase: false", "recase: true"), encoding="utf-8")
    write_dictionary(run, "a\tb")
    (run / "words.txt").write_text("für\n", encoding="utf-8")
    (tmp_path / "page").mkdir()
    notes = Exporter().write(open_trained(run), tmp_path / "page", "stored")
    assert any("decoding.recase needs the server" in note for note in notes)
    assert any("the dictionary needs the server" in note for note in notes)
    assert any("words.txt needs the server" in note for note in notes)


@pytest.mark.parametrize("key", ["attention=window", "architecture=recurrent", "cross_attention=linear"])
def test_what_the_browser_lacks_is_refused_by_its_key(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, value = key.split("=")
    changes = {"cross_attention": "fused"} if name == "attention" else {}
    run = make_run(tmp_path / "run", **changes, **{name: value})
    assert command_line(["export", str(run), "--to", "page", "-o", str(tmp_path / "page")]) == 2
    assert f"the browser's model has no model.{key}" in capsys.readouterr().err
    assert not (tmp_path / "page").exists()


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"model_type": "word"}, "a model of words or characters"),
        ({"treat_whitespace_as_suffix": True}, "treat_whitespace_as_suffix"),
        ({"user_defined_symbols": ["<mask>"]}, "user-defined symbols"),
    ],
)
def test_subwords_that_the_browser_lacks_are_refused(
    options: dict[str, Any], found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", size=60)
    config = SubwordConfig(size=60)
    (run / "spm.model").write_bytes(train_model([*ENGLISH, *GERMAN], config, **options))
    assert command_line(["export", str(run), "--to", "page", "-o", str(tmp_path / "page")]) == 2
    assert found in capsys.readouterr().err
