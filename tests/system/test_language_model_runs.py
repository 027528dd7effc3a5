"""A language model by its commands: training, resuming, evaluation and generation."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch.testing import assert_close

from headwise.cli.main import run as run_program
from headwise.decoding.generation import Generator, generate_ids
from headwise.engine.options import GenerationOptions
from program import Call, assert_resumes, metrics, saved_step

SENTENCE = "the cat sat on the mat – über 日本.\n"


def write(folder: Path, **model: Any) -> Path:
    """Write a configuration and a text of two sentences in random order: a line's first letter determines the rest."""
    draw = random.Random(1)
    text = "".join(draw.choice([SENTENCE, "Ein Hund saß auf dem Gras.\n"]) for _ in range(300))
    (folder / "text.txt").write_text(text)
    shape = {"decoder_layers": 1, "d_model": 32, "d_ff": 64, "heads": 2, "max_length": 24, "norm": "pre"}
    config = {
        "task": "language_model",
        "model": {**shape, "positions": "rotary", "dropout": 0.1, "attention_dropout": 0.1, **model},
        "data": {"text": [str(folder / "text.txt")]},
        "subwords": {"kind": "characters"},
        "batch": {"tokens": 240, "accumulate": 2},
        "schedule": {"name": "constant", "peak": 0.01, "warmup": 5},
        "training": {
            "max_steps": 24, "validate_every": 8, "checkpoint_every": 4, "average_last": 2, "log_every": 1,
            "threads": 1, "precision": "float32", "device": "cpu", "label_smoothing": 0.0,
        },
    }  # fmt: skip
    file = folder / "lm.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learned")
    command = ["train", "-c", str(write(folder)), "model.dropout=0", "model.attention_dropout=0"]
    assert run_program([*command, "--max-steps=150", "-o", str(folder / "run")]) == 0
    return folder / "run"


def test_the_loss_reaches_the_entropy_of_the_text(learned: Path, program: Call) -> None:
    """The entropy of each line is one choice of two, ln 2 nats, which is a lower bound for any model."""
    report = program("evaluate", learned, "--json").json
    lines = round(report["characters"] / ((len(SENTENCE) + 27) / 2))
    least = lines * math.log(2) / report["characters"]
    assert 0.9 * least < report["nats_per_character"] < least + 0.15
    assert report["perplexity"] == pytest.approx(math.exp(report["loss"]))
    assert report["bits_per_character"] == pytest.approx(report["nats_per_character"] / math.log(2))
    (averaged,) = metrics(learned, "averaged")
    assert report["loss"] == pytest.approx(averaged["loss"], rel=1e-5)
    out = program("predict", learned, "--prompt", "the c", "-s", "temperature=0", "-s", "max_tokens=80").out
    assert out.startswith(SENTENCE)


@torch.no_grad()
def test_scores_equal_those_of_a_plain_loop(learned: Path, program: Call, tmp_path: Path) -> None:
    """The loop scores each token separately with the context that the stride gives, by the definition."""
    text = tmp_path / "some.txt"
    text.write_text(SENTENCE * 2 + "x")
    report = program("evaluate", learned, text, "--set", "language_model.stride=7", "--json").json
    generator = Generator.load(learned, device="cpu")
    ids = [generator.vocabulary.line_end, *generator.vocabulary.encode(SENTENCE * 2 + "x\n")]
    total, end = 0.0, 0
    while end < len(ids) - 1:
        new = min(len(ids) - 1, end + (7 if end else 24))
        start = max(0, new - 24)
        window = torch.tensor([ids[start:new]])
        log_probs = generator.model.project(generator.model(window)).log_softmax(-1)[0]
        total -= sum(float(log_probs[t - start, ids[t + 1]]) for t in range(end, new))
        end = new
    assert report["loss"] == pytest.approx(total / (len(ids) - 1), rel=1e-5)
    assert report["tokens"] == len(ids) - 1


def test_a_resumed_run_equals_an_uninterrupted_one(program: Call, tmp_path: Path) -> None:
    assert_resumes(program, tmp_path, "train", "-c", write(tmp_path), at=10)


@pytest.mark.parametrize("change", [["model.prefix=true"], ["subwords.kind=bpe", "subwords.size=60"]])
def test_other_ways_to_train(change: list[str], program: Call, tmp_path: Path) -> None:
    run = tmp_path / "run"
    lines = "language_model.lines_are_documents=true"
    program("train", "-c", write(tmp_path), *change, lines, "-o", run).ok()
    losses = [record["loss"] for record in metrics(run, "dev")]
    assert losses[-1] < losses[0]
    samples = program("predict", run, "-n", 3, "--json", "--prompt", "the", "-s", "max_tokens=30").records
    texts = [sample["text"] for sample in samples]
    assert len(texts) == 3
    assert all(text.startswith("the") and "\n" not in text for text in texts)


def test_samples_depend_on_the_seed_and_their_number_alone(learned: Path) -> None:
    generator = Generator.load(learned, device="cpu")
    options = GenerationOptions(temperature=1.5, max_tokens=60)
    three = generator.generate("the ", options, samples=3)
    assert generator.generate("the ", options, samples=1) == three[:1]
    assert len(set(three)) == 3
    other = GenerationOptions(temperature=1.5, max_tokens=60, seed=2)
    assert generator.generate("the ", other)[0] not in three
    assert generator.generate("the ", GenerationOptions(temperature=1.5, max_tokens=20))[0] == three[0][:20]
    greedy = generator.generate("the ", GenerationOptions(temperature=0, max_tokens=20))
    assert generator.generate("the ", GenerationOptions(top_k=1, max_tokens=20)) == greedy
    assert generator.generate("the ", GenerationOptions(top_p=1e-9, max_tokens=20)) == greedy


@torch.no_grad()
def test_beyond_its_maximum_length_a_model_reads_the_last_half_again(learned: Path) -> None:
    """Compare with a plain loop without a cache, also for prompts longer than the model's maximum length."""
    model = Generator.load(learned, device="cpu").model
    for prompt in ([5, 9, 11], list(range(5, 25)) * 3):
        options = GenerationOptions(temperature=0, max_tokens=70)
        generated = [tokens[0] for tokens in generate_ids(model, prompt, options)]
        seen, expected = prompt[-24:], []
        while len(expected) < 70:
            expected.append(int(model.project(model(torch.tensor([seen]))[0, -1]).argmax()))
            seen = [*seen, expected[-1]] if len(seen) < 24 else [*seen, expected[-1]][-12:]
        assert generated == expected


def test_a_recurrent_model_generates_beyond_its_maximum_length(program: Call, tmp_path: Path) -> None:
    run = tmp_path / "run"
    linear = ["model.attention=linear", "model.positions=none", "model.attention_dropout=0", "--max-steps=2"]
    program("train", "-c", write(tmp_path), *linear, "-o", run).ok()
    generator = Generator.load(run, device="cpu")
    (text,) = generator.generate("", GenerationOptions(max_tokens=100))
    ids = [generator.vocabulary.line_end, *generator.vocabulary.encode(text)]
    log_probs, _ = generator.model.step(torch.tensor([ids[:-1]]), generator.model.start())
    state, last = generator.model.start(), torch.empty(0)
    for token in ids[:-1]:
        last, state = generator.model.step(torch.tensor([[token]]), state)
    assert len(text) == 100
    assert_close(last, log_probs, rtol=1e-4, atol=1e-4)


def test_several_texts_are_numbered(learned: Path, program: Call) -> None:
    out = program("predict", learned, "--prompt", "the", "-n", 2, "-s", "max_tokens=40").out
    assert out.startswith("--- 1 ---\nthe")
    assert "\n--- 2 ---\nthe" in out
    assert out.endswith("\n")


def test_a_run_keeps_its_configuration(learned: Path, program: Call) -> None:
    error = program("train", "-c", learned.parent / "lm.yaml", "-o", learned).error
    assert error.startswith(f"{learned}: was begun with model.attention_dropout=0")
    assert saved_step(learned) == 150
