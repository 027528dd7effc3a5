"""GPT-2 and Llama-shaped models, imported, against `transformers` itself; nothing is downloaded."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.decoding.generation import Generator, generate_ids, read_prompt
from headwise.engine.options import GenerationOptions
from headwise.page.requests import TextRequest
from headwise.page.views.language_model import next_json
from headwise.tasks.base import EvaluationRequest
from headwise.tasks.registry import find_task
from headwise.text.tokens.loading import load_vocabulary
from headwise.text.tokens.subwords import EOS
from headwise.text.tokens.vocabulary import TextDecoder
from translator_run import assert_same_weights

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

from test_bert import write_bert  # noqa: E402 - needs transformers
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX  # noqa: E402

from transformers_models import (  # noqa: E402 - needs transformers
    HARD,
    TEXTS,
    byte_level,
    edit,
    imported,
    metaspace,
    original_ids,
    shaken,
    trained,
)

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
PROMPTS = ["Two dogs", "Ein Mädchen in einem", "A man\nrides", " straße ☃", "x"]


def write_gpt2(folder: Path, *, steps: int = 0, **changes: Any) -> Path:
    """Write a GPT-2 directory."""
    tokenizer = byte_level(folder)
    settings = {
        "vocab_size": len(tokenizer) + 6,
        "n_positions": 160,
        "n_embd": 24,
        "n_layer": 2,
        "n_head": 4,
        "bos_token_id": tokenizer.eos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        **changes,
    }
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**settings))
    return _written(model, tokenizer, folder, steps)


def write_llama(folder: Path, *, kind: str = "Llama", steps: int = 0, bytes_only: bool = False, **changes: Any) -> Path:
    """Write a directory of a Llama-shaped model, with the tokenizer of Llama 2 or with Qwen2's (`bytes_only`)."""
    tokenizer = byte_level(folder, PRETOKENIZE_REGEX) if bytes_only else metaspace(folder)
    settings = {
        "vocab_size": len(tokenizer),
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 160,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        **changes,
    }
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**settings))
    return _written(model, tokenizer, folder, steps)


def _written(model: Any, tokenizer: Any, folder: Path, steps: int) -> Path:
    torch.manual_seed(0)
    if steps:
        tokenizer.pad_token = tokenizer.eos_token
        rows = [f"{text}{tokenizer.eos_token}" for text in TEXTS]

        def batch() -> dict[str, Any]:
            found = tokenizer(rows, return_tensors="pt", padding=True)
            return {**found, "labels": found["input_ids"].masked_fill(found["attention_mask"] == 0, -100)}

        trained(model, batch, steps)
    else:
        shaken(model)
    model.save_pretrained(folder)
    return folder


KINDS = {
    "gpt2": (write_gpt2, {}),
    "gpt2 trained": (write_gpt2, {"steps": 60, "n_inner": 40, "activation_function": "gelu"}),
    "llama": (write_llama, {}),
    "llama trained": (write_llama, {"steps": 60}),
    "mistral": (write_llama, {"kind": "Mistral", "sliding_window": None, "head_dim": 6}),
    "qwen2": (write_llama, {"kind": "Qwen2", "bytes_only": True, "tie_word_embeddings": True}),
    "llama tied": (write_llama, {"tie_word_embeddings": True, "bytes_only": True, "num_key_value_heads": 4}),
    "llama biases": (
        write_llama,
        {"attention_bias": True, "mlp_bias": True, "head_dim": 8, "hidden_act": "gelu"},
    ),
}


@pytest.fixture(scope="module", params=KINDS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    write, options = KINDS[request.param]
    return write(tmp_path_factory.mktemp("model") / request.param.replace(" ", "-"), **options)


def theirs(folder: Path) -> tuple[Any, Any]:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def test_the_tokenizer_splits_as_at_home(directory: Path, tmp_path: Path) -> None:
    imported(directory, tmp_path / "run")
    _, tokenizer = theirs(directory)
    vocabulary, config = load_vocabulary(tmp_path / "run"), Config.of_run(tmp_path / "run")
    rows = original_ids(tmp_path / "run", tokenizer)
    for text in HARD:
        ids = read_prompt(config, vocabulary, text, "prompt")
        assert [rows[i] for i in ids] == tokenizer(text)["input_ids"]
        decoder = TextDecoder(vocabulary)
        decoded = "".join(map(decoder.feed, ids)) + decoder.end()
        # Llama 2 puts a space before each text, and Qwen2 composes characters.
        assert decoded in (text, f" {text}", unicodedata.normalize("NFC", text))
    end = tokenizer.eos_token
    assert 3 not in vocabulary.encode(f"a{end}b")  # a user's text can't end itself
    assert rows[3] == tokenizer.eos_token_id


@torch.no_grad()
def test_the_logits_are_theirs(directory: Path, tmp_path: Path) -> None:
    ours, (model, tokenizer) = imported(directory, tmp_path / "run"), theirs(directory)
    rows = torch.tensor(original_ids(tmp_path / "run", tokenizer))
    for text in HARD:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        found = ours.project(ours(ids[:, :, None].eq(rows).int().argmax(-1)))
        expected = model(ids).logits
        assert_close(found[..., rows >= 0], expected[..., rows[rows >= 0]], **TOLERANCE)
        assert (found.log_softmax(-1)[..., rows < 0] < -1000).all()  # ids that the original doesn't have
        assert_close(found.logsumexp(-1), expected.logsumexp(-1), **TOLERANCE)


@torch.no_grad()
def test_greedy_generation_is_theirs_token_for_token(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    imported(directory, tmp_path / "run")
    (model, tokenizer), generator = theirs(directory), Generator.load(tmp_path / "run", device="cpu")
    rows = original_ids(tmp_path / "run", tokenizer)
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        row = model.generate(ids, do_sample=False, max_new_tokens=40, pad_token_id=tokenizer.eos_token_id)[0]
        options = GenerationOptions(temperature=0, max_tokens=40)
        start = read_prompt(generator.config, generator.vocabulary, prompt, "prompt")
        steps = generate_ids(generator.model, start, options, end=EOS)
        assert [rows[i] for i in start] + [rows[tokens[0]] for tokens in steps] == row.tolist()
        expected = tokenizer.decode(row, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        found = generator.generate(prompt, options)[0]
        if "\ufffd" not in expected:
            assert (prompt + found).removeprefix(" ") == expected.removeprefix(" ")
    capsys.readouterr()
    command = [
        "predict",
        str(tmp_path / "run"),
        "--prompt",
        "Two dogs",
        "-s",
        "temperature=0",
        "-s",
        "max_tokens=12",
    ]
    assert headwise(command) == 0
    assert capsys.readouterr().out.startswith("Two dogs")


def test_generation_without_a_prompt_begins_as_theirs(directory: Path, tmp_path: Path) -> None:
    imported(directory, tmp_path / "run")
    model, tokenizer = theirs(directory)
    begin = torch.tensor([[tokenizer.bos_token_id]])
    row = model.generate(begin, do_sample=False, max_new_tokens=20, pad_token_id=tokenizer.eos_token_id)[0][1:]
    rows, generator = (
        original_ids(tmp_path / "run", tokenizer),
        Generator.load(tmp_path / "run", device="cpu"),
    )
    start = read_prompt(generator.config, generator.vocabulary, "", "prompt")
    steps = generate_ids(generator.model, start, GenerationOptions(temperature=0, max_tokens=20), end=EOS)
    assert [rows[tokens[0]] for tokens in steps] == row.tolist()


@torch.no_grad()
def test_the_page_shows_their_probabilities(directory: Path, tmp_path: Path) -> None:
    imported(directory, tmp_path / "run")
    (model, tokenizer), generator = theirs(directory), Generator.load(tmp_path / "run", device="cpu")
    shown = next_json(generator, TextRequest(run="run", text="Two dogs"))
    expected = model(**tokenizer("Two dogs", return_tensors="pt")).logits[0, -1].softmax(-1)
    best = expected.topk(5)
    assert [one["probability"] for one in shown["tokens"][:5]] == pytest.approx(best.values.tolist(), rel=1e-4)


@torch.no_grad()
def test_evaluation_gives_their_loss(directory: Path, tmp_path: Path) -> None:
    imported(directory, tmp_path / "run")
    model, tokenizer = theirs(directory)
    (tmp_path / "text.txt").write_text("Two dogs are playing.\n")
    ids = [tokenizer.bos_token_id, *tokenizer("Two dogs are playing.", add_special_tokens=False)["input_ids"]]
    tokens = torch.tensor([[*ids, tokenizer.eos_token_id]])
    expected = model(tokens, labels=tokens).loss.item()
    config = Config.of_run(tmp_path / "run")
    request = EvaluationRequest(tmp_path / "run", config, [tmp_path / "text.txt"], device="cpu")
    assert find_task("language_model").evaluate(request).record["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("write", [write_gpt2, lambda folder: write_bert(folder, "BertForMaskedLM")])
def test_a_tokenizer_of_before_2020_does_not_name_its_model(write: Any, tmp_path: Path) -> None:
    folder = write(tmp_path / "model")
    imported(folder, tmp_path / "expected")
    edit("tokenizer.json", "model", type=None)(folder)
    tree = json.loads((folder / "tokenizer.json").read_text())
    if "merges" in tree["model"]:
        tree["model"]["merges"] = [" ".join(pair) for pair in tree["model"]["merges"]]
    (folder / "tokenizer.json").write_text(json.dumps(tree))
    imported(folder, tmp_path / "run")
    ours, again = (load_vocabulary(tmp_path / run) for run in ("expected", "run"))
    assert all(ours.encode(text) == again.encode(text) for text in HARD)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_vocab_json_and_merges_give_the_same_run(line_end: bytes, tmp_path: Path) -> None:
    new, old = write_gpt2(tmp_path / "new"), tmp_path / "old"
    old.mkdir()
    model = json.loads((new / "tokenizer.json").read_text())["model"]
    (old / "vocab.json").write_text(json.dumps(model["vocab"]))
    lines = ["#version: 0.2", *(f"{a} {b}" for a, b in model["merges"])]
    (old / "merges.txt").write_bytes(b"".join(line.encode() + line_end for line in lines))
    added = {"<|user|>": len(model["vocab"])}
    (old / "added_tokens.json").write_text(json.dumps(added))
    (old / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": True}))
    (old / "config.json").write_bytes((new / "config.json").read_bytes())
    tensors = load_file(new / "model.safetensors")
    masks = {f"h.{number}.attn.bias": torch.ones(1, 1, 160, 160, dtype=torch.uint8).tril() for number in (0, 1)}
    save_file(
        {name.removeprefix("transformer."): t for name, t in tensors.items()} | masks,
        old / "model.safetensors",
    )
    imported(new, tmp_path / "expected")
    imported(old, tmp_path / "run")
    assert_same_weights(tmp_path / "expected", tmp_path / "run")
    again, tokenizer = load_vocabulary(tmp_path / "run"), transformers.AutoTokenizer.from_pretrained(old)
    rows = original_ids(tmp_path / "run", tokenizer)
    for text in [*HARD, "a man<|user|>in"]:
        assert [rows[i] for i in again.encode(text)] == tokenizer(text)["input_ids"]
