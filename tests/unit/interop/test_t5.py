"""T5, versions 1.0 and 1.1, imported, against `transformers` itself; nothing is downloaded."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from torch import nn
from torch.testing import assert_close

from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.engine.translator import Translator
from headwise.text.tokens.subwords import PAD
from translator_run import ENGLISH, GERMAN

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

from transformers_models import (  # noqa: E402 - needs transformers
    HARD,
    TEXTS,
    imported,
    trained,
)

SENTINELS = 10
SPANS = ["Two dogs <extra_id_0> in the <extra_id_1>.", "<extra_id_2>", "a <extra_id_99> b"]


def write_tokenizer(folder: Path, *, spm: bool) -> Any:
    """Write T5's tokenizer: tokenizer.json, with spiece.model as the published models or without."""
    folder.mkdir(parents=True, exist_ok=True)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5), model_writer=model, vocab_size=180, model_type="unigram",
        hard_vocab_limit=False, minloglevel=2, bos_id=-1, pad_id=0, eos_id=1, unk_id=2,
    )  # fmt: skip
    (folder / "spiece.model").write_bytes(model.getvalue())
    (folder / "config.json").write_text('{"model_type": "t5"}')
    tokenizer = transformers.T5Tokenizer.from_pretrained(folder, extra_ids=SENTINELS)
    tokenizer.save_pretrained(folder)
    if not spm:
        (folder / "spiece.model").unlink()
    return tokenizer


def write_t5(folder: Path, *, steps: int = 0, untied: bool = False, spm: bool = False, **changes: Any) -> Path:
    """Write a T5 directory with random weights, or with weights that `transformers` has trained for some steps."""
    tokenizer = write_tokenizer(folder, spm=spm)
    settings = {
        "vocab_size": len(tokenizer) + 3,
        "d_model": 24,
        "d_kv": 5,
        "d_ff": 40,
        "num_layers": 2,
        "num_decoder_layers": 2,
        "num_heads": 4,
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 12,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        **changes,
    }
    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**settings))
    if untied:
        model.lm_head.weight = nn.Parameter(torch.randn(settings["vocab_size"], 24) * 0.3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(mean=float("layer_norm" in name), std=0.3)
    if steps:
        batch = tokenizer(ENGLISH, text_target=GERMAN, return_tensors="pt", padding=True)
        batch["labels"].masked_fill_(batch["labels"] == 0, -100)
        trained(model, lambda: batch, steps, rate=0.01)
    model.save_pretrained(folder)
    return folder


GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
KINDS: dict[str, dict[str, Any]] = {
    "1.0": {"spm": True},
    "1.0 trained": {"steps": 40},
    "1.1": {**GATED, "untied": True},
    "1.1 trained": {**GATED, "untied": True, "steps": 40, "spm": True},
    "1.1 tied": {**GATED, "num_decoder_layers": 1, "feed_forward_proj": "gated-silu"},
}


@pytest.fixture(scope="module", params=KINDS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_t5(tmp_path_factory.mktemp("t5") / request.param.replace(" ", "-"), **KINDS[request.param])


def theirs(folder: Path) -> tuple[Any, Any]:
    model = transformers.T5ForConditionalGeneration.from_pretrained(folder).eval()
    return model, transformers.T5Tokenizer.from_pretrained(folder, extra_ids=SENTINELS)


def original_ids(translator: Translator, tokenizer: Any) -> list[int]:
    """Return the original's id for each of Headwise's."""
    pieces = translator.subwords.target_pieces(range(translator.subwords.target_size))
    known = tokenizer.get_vocab()
    names = {"<s>": "<pad>"}
    return [known.get(names.get(p, p), int(p.split()[-1][:-1]) if "unused" in p else -1) for p in pieces]


def test_the_tokenizer_splits_as_at_home(directory: Path, tmp_path: Path) -> None:
    imported(directory, tmp_path / "run")
    translator, (_, tokenizer) = Translator.load(tmp_path / "run", engine="pytorch"), theirs(directory)
    rows = original_ids(translator, tokenizer)
    for text in [*HARD, *SPANS]:
        assert [rows[i] for i in [*translator.subwords.encode_source(text), 3]] == tokenizer(text)["input_ids"]
    assert translator.subwords.encode_source("</s> <pad>").count(3) == 0


@torch.no_grad()
def test_the_logits_are_theirs(directory: Path, tmp_path: Path) -> None:
    ours, (model, tokenizer) = imported(directory, tmp_path / "run"), theirs(directory)
    rows = torch.tensor(original_ids(Translator.load(tmp_path / "run", engine="pytorch"), tokenizer))
    batch = tokenizer(ENGLISH, return_tensors="pt", padding=True)
    labels = tokenizer(text_target=GERMAN, return_tensors="pt", padding=True)["input_ids"]
    expected = model(**batch, labels=labels).logits[..., rows]
    source, target = (ids[:, :, None].eq(rows).int().argmax(-1) for ids in (batch["input_ids"], labels))
    real = target != PAD
    start = torch.cat([torch.full((len(target), 1), 2), target[:, :-1]], dim=1)
    found = ours.project(ours(source, batch["attention_mask"].bool(), start))
    expected[..., PAD] = found[..., PAD]  # the begin has the row of padding, which counts once
    assert (found[..., PAD] < -1000).all()
    assert_close(found[real], expected[real], rtol=1e-5, atol=1e-5 * float(expected[..., 1:].abs().max()))


@torch.no_grad()
def test_greedy_generation_is_theirs_token_for_token(directory: Path, tmp_path: Path) -> None:
    imported(directory, tmp_path / "run")
    translator, (model, tokenizer) = Translator.load(tmp_path / "run", device="cpu"), theirs(directory)
    rows = original_ids(translator, tokenizer)
    texts = [*ENGLISH, *SPANS]
    found = translator.translate(texts, beam=1, max_length=30, extra_length=60, allow_unknown=True, allow_empty=True)
    lengths = set()
    for text, translation in zip(texts, found, strict=True):
        output = model.generate(
            **tokenizer(text, return_tensors="pt"), do_sample=False, num_beams=1, max_new_tokens=31,
            bad_words_ids=[[0]],
        )  # fmt: skip
        expected = [number for number in output[0].tolist()[1:] if number != 1][:30]
        assert [rows[i] for i in translation.outputs[0].tokens] == expected
        lengths.add(len(expected))
    assert max(lengths) > 3


def test_heads_and_translate_work_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(write_t5(tmp_path / "model", steps=3), tmp_path / "run")
    assert Config.of_run(tmp_path / "run").task == "translation"
    for name, texts in (("en", ENGLISH), ("de", GERMAN)):
        (tmp_path / name).write_text("\n".join(texts) + "\n")
    capsys.readouterr()
    assert headwise(["translate", str(tmp_path / "run"), str(tmp_path / "en")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(ENGLISH)
    pairs = ["--source", str(tmp_path / "en"), "--target", str(tmp_path / "de")]
    assert headwise(["analyze", "heads", str(tmp_path / "run"), *pairs]) == 0
    assert "Encoder self-attention: 6 sentences" in capsys.readouterr().out
