"""`headwise analyze heads` on imported encoder-only and decoder-only models, against `transformers`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headwise.analysis.attention import SentenceWords
from headwise.analysis.heads.single_text import split_words
from headwise.cli.main import run as headwise
from headwise.text.tokens.loading import load_vocabulary
from translator_run import ENGLISH

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

from test_bert import TASKS, write_bert  # noqa: E402 - needs transformers
from test_language_models import write_gpt2, write_llama  # noqa: E402

from transformers_models import imported  # noqa: E402


def heads(run: Path, text: Path, capsys: Any) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert headwise(["analyze", "heads", str(run), "--source", str(text), "--json"]) == 0
    (part,) = json.loads(capsys.readouterr().out)["parts"]
    return part["heads"]


def entropies(model: Any, tokens: list[list[int]], *, causal: bool) -> np.ndarray:
    """Return the mean entropy of the rows of each head, (layers, heads); symbols around a text have no row."""
    rows = []
    for ids in tokens:
        with torch.no_grad():
            attentions = model(torch.tensor([ids]), output_attentions=True).attentions
        weights = torch.stack(attentions)[:, 0].double().numpy()  # (layers, heads, tokens, tokens)
        inner = weights[:, :, 1:] if causal else weights[:, :, 1:-1]
        rows.append(-(inner * np.log(np.maximum(inner, 1e-300))).sum(-1))
    return np.concatenate(rows, axis=2).mean(axis=2)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text("\n".join(ENGLISH) + "\n")
    return tmp_path / "text"


@pytest.mark.parametrize("architecture", TASKS)
def test_heads_of_bert_are_theirs(
    architecture: str, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_bert(tmp_path / "model", architecture)
    imported(folder, tmp_path / "run")
    model = getattr(transformers, architecture).from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    expected = entropies(model, [tokenizer(line)["input_ids"] for line in ENGLISH], causal=False)
    for head in heads(tmp_path / "run", text, capsys):
        assert head["entropy"]["rate"] == pytest.approx(expected[head["layer"], head["head"]], abs=1e-4)


@pytest.mark.parametrize("write", [write_gpt2, write_llama])
def test_heads_of_a_language_model_are_theirs(
    write: Any, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "model")
    imported(folder, tmp_path / "run")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lines = [[tokenizer.bos_token_id, *tokenizer(line, add_special_tokens=False)["input_ids"]] for line in ENGLISH]
    expected = entropies(model, lines, causal=True)
    for head in heads(tmp_path / "run", text, capsys):
        assert head["entropy"]["rate"] == pytest.approx(expected[head["layer"], head["head"]], abs=1e-4)


@pytest.mark.parametrize("write", [lambda folder: write_bert(folder, "BertForMaskedLM"), write_gpt2])
def test_units_belong_to_the_words_of_the_text(write: Any, tmp_path: Path) -> None:
    imported(write(tmp_path / "model"), tmp_path / "run")
    vocabulary = load_vocabulary(tmp_path / "run")
    for line in [*ENGLISH, "Élève 東京 straße"]:
        sentence = SentenceWords.of(line)
        ids, shared = split_words(vocabulary, sentence)
        assert ids == vocabulary.encode(line)
        owners = (shared > 0).argmax(axis=0)
        assert ((shared > 0).sum(axis=0) == 1).all()  # no unit is part of two words here
        assert (np.diff(owners) >= 0).all()
        assert set(owners) == set(range(len(sentence.words)))
        for number, word in enumerate(sentence.words):
            spelled = vocabulary.decode([i for i, owner in zip(ids, owners, strict=True) if owner == number])
            assert "�" in spelled or spelled.replace(" ", "") in (word, word.lower(), "eleve")


def test_a_sentence_that_is_too_long_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(write_gpt2(tmp_path / "model"), tmp_path / "run")
    (tmp_path / "long").write_text("word " * 500)
    assert headwise(["analyze", "heads", str(tmp_path / "run"), "--source", str(tmp_path / "long")]) == 2
    assert "expected a sentence with text, of at most 160 tokens (model.max_length=160)" in capsys.readouterr().err
