"""Tokens that somebody added to the tokenizer of a translation model, against `transformers` itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwise.cli.main import run as headwise
from headwise.text.tokens.subwords import Subwords
from translator_run import ENGLISH, make_run

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

from test_t5 import write_t5  # noqa: E402 - needs transformers

from marian_models import write_marian  # noqa: E402 - needs transformers

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

ADDED = ["<b", "<br>", ">>nld<<", "[NAME]"]  # the first begins the second
TEXTS = ["A man<br>rides a [NAME] horse", ">>nld<<Two dogs<b", "[NAME][NAME]", *ENGLISH]


def write_marian_with(folder: Path) -> tuple[Any, Any]:
    write_marian(folder, steps=1)
    return transformers.MarianTokenizer.from_pretrained(folder), transformers.MarianMTModel


def write_t5_with(folder: Path) -> tuple[Any, Any]:
    write_t5(folder)
    return transformers.T5Tokenizer.from_pretrained(folder), transformers.T5ForConditionalGeneration


@pytest.fixture(scope="module", params=[write_marian_with, write_t5_with])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose tokenizer got more tokens, and whose embeddings got rows for them."""
    folder = tmp_path_factory.mktemp("added") / "model"
    tokenizer, kind = request.param(folder)
    tokenizer.add_tokens(ADDED)
    model = kind.from_pretrained(folder)
    model.resize_token_embeddings(max(len(tokenizer), model.config.vocab_size) + 2)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def pieces(folder: Path, text: str) -> list[str]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    found: list[str] = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
    return found


def test_they_are_pieces_here_and_there(directory: Path, tmp_path: Path) -> None:
    run, out, back = (tmp_path / name for name in ("run", "out", "back"))
    assert headwise(["import", str(directory), "-o", str(run)]) == 0
    assert headwise(["export", str(run), "--to", "huggingface", "-o", str(out)]) == 0
    subwords = Subwords.load(run)
    for text in TEXTS:
        found = subwords.source_pieces(subwords.encode_source(text))
        assert pieces(directory, text) == [*found, "</s>"]
        assert pieces(out, text) == [*found, "</s>"]
    assert subwords.decode_target(subwords.encode_target(TEXTS[0])).count("<br>") == 1
    assert headwise(["import", str(out), "-o", str(back)]) == 0
    assert Subwords.load(back).digest() == subwords.digest()


def test_other_programs_are_to_find_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ctranslate2")
    run, folder = make_run(tmp_path / "own", share_embeddings="all", norm="post"), tmp_path / "exported"
    assert headwise(["export", str(run), "--to", "huggingface", "-o", str(folder)]) == 0
    vocabulary = json.loads((folder / "vocab.json").read_text())
    last = max(vocabulary, key=vocabulary.__getitem__)
    (folder / "added_tokens.json").write_text(json.dumps({"<br>": vocabulary.pop(last)}))
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    assert headwise(["import", str(folder), "-o", str(tmp_path / "run")]) == 0
    assert headwise(["export", str(tmp_path / "run"), "--to", "ctranslate2", "-o", str(tmp_path / "a")]) == 0
    assert "take <br> out of a text before SentencePiece splits it" in capsys.readouterr().err


def test_an_id_beyond_the_embeddings_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, folder = make_run(tmp_path / "own", share_embeddings="all"), tmp_path / "exported"
    assert headwise(["export", str(run), "--to", "huggingface", "-o", str(folder)]) == 0
    for content, sentence in (
        ({"<br>": 10**9}, "found 1000000000 for '<br>'"),
        ([3], "expected a JSON object"),
    ):
        (folder / "added_tokens.json").write_text(json.dumps(content))
        assert headwise(["import", str(folder), "-o", str(tmp_path / "run")]) == 2
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
