"""The encoder-only tasks by their commands: training, evaluation, prediction and resuming."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.numpy import load_file

import headwise
from headwise.cli.main import run as run_program
from headwise.corpora.synthetic import generate
from headwise.errors import DataError
from program import Call, assert_resumes

GOOD, BAD = ["bright", "kind", "warm", "fresh", "clever"], ["dull", "cruel", "cold", "stale", "dumb"]
FILL = ["the", "film", "a", "story", "its", "actors", "this", "plot", "and", "one", "scene"]
TWINS = {"ba": "mo", "be": "mi", "di": "ka", "do": "ke", "fu": "la", "ga": "lo", "ge": "nu", "hi": "pa"}
COLORS, NUMBERS = ["red", "green", "blue", "white", "black"], ["two", "three", "four", "five", "six", "seven"]

BASE: dict[str, Any] = {
    "model": {
        **{"encoder_layers": 1, "d_model": 32, "d_ff": 64, "heads": 2, "norm": "pre", "positions": "rotary"},
        **{"scale_embeddings": False, "dropout": 0.1, "max_length": 64},
    },
    "data": {"dev_share": 0.1},
    "subwords": {"kind": "bpe", "size": 80},
    "batch": {"tokens": 400},
    "schedule": {"name": "linear", "peak": 0.01, "warmup": 10},
    "training": {
        **{"max_steps": 60, "validate_every": 30, "checkpoint_every": 10, "average_last": 1, "log_every": 10},
        **{"threads": 1, "precision": "float32", "device": "cpu", "label_smoothing": 0.0},
    },
}


def configuration(folder: Path, task: str, text: list[str], **more: dict[str, Any]) -> Path:
    tree = json.loads(json.dumps(BASE)) | {"task": task}
    tree["data"]["text"] = [str(folder / name) for name in text]
    for section, values in more.items():
        tree[section] = tree.get(section, {}) | values
    file = folder / f"{task}.yaml"
    file.write_text(yaml.safe_dump(tree))
    return file


def review(draw: random.Random, words: list[str]) -> str:
    text = draw.choices(FILL, k=draw.randint(2, 6))
    text.insert(draw.randint(0, len(text)), draw.choice(words))
    return " ".join(text)


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts whose class is determined by one word, and a configuration."""
    folder, draw = tmp_path_factory.mktemp("reviews"), random.Random(1)
    for name, words in (("good.txt", GOOD), ("bad.txt", BAD)):
        (folder / name).write_text("".join(review(draw, words) + "\n" for _ in range(150)))
    examples = [(review(draw, words), label) for label, words in (("good", GOOD), ("bad", BAD)) for _ in range(20)]
    (folder / "test.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in examples))
    options = {"labels": ["good", "bad"], "pooling": "mean", "token_dropout": 0.1}
    configuration(folder, "classification", ["good.txt", "bad.txt"], classification=options)
    return folder


@pytest.fixture(scope="session")
def classifier(reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("classifier") / "run"
    assert run_program(["train", "-c", str(reviews / "classification.yaml"), "-o", str(run)]) == 0
    return run


@pytest.fixture(scope="session")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences in which each word is followed by its twin, so that each predicts the other."""
    folder, draw = tmp_path_factory.mktemp("twins"), random.Random(2)
    lines = [" ".join(f"{w} {TWINS[w]}" for w in draw.choices(list(TWINS), k=2)) for _ in range(400)]
    (folder / "text").write_text("\n".join(lines) + "\n")
    options = {
        "masked_language_model": {"lines_are_documents": True},
        "training": BASE["training"] | {"max_steps": 300},
    }
    configuration(folder, "masked_language_model", ["text"], subwords={"size": 60}, **options)
    return folder


@pytest.fixture(scope="session")
def masked_lm(twins: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("masked_lm") / "run"
    assert run_program(["train", "-c", str(twins / "masked_language_model.yaml"), "-o", str(run)]) == 0
    return run


def scores(program: Call, *arguments: object) -> dict[str, Any]:
    return program("evaluate", *arguments, "--json").json


# Training, evaluation and prediction


def test_a_classifier_learns_and_predicts(program: Call, reviews: Path, classifier: Path, tmp_path: Path) -> None:
    record = scores(program, classifier, reviews / "test.tsv")
    assert record["accuracy"] > 95
    assert record["examples"] == 40
    assert set(record["classes"]) == {"good", "bad"}
    assert scores(program, classifier)["examples"] == 30  # the held-out tenth of each class
    (tmp_path / "text").write_text("the film kind one\n\na stale plot\n")
    outcome = program("predict", classifier, tmp_path / "text")
    labels = [line.split("\t")[0] for line in outcome.out.splitlines()]
    assert labels == ["good", "", "bad"]
    records = program("predict", classifier, tmp_path / "text", "--json").records
    assert [record["line"] for record in records] == [1, 2, 3]
    run = headwise.load(classifier)
    broken, whole = run.predict(["the film\nkind one", "the film kind one"])
    assert broken.record == whole.record == {key: records[0][key] for key in broken.record}
    with pytest.raises(DataError, match="text 2: expected whole characters"):
        run.predict(["the film", "half \ud83d"])
    assert sum(records[0]["probabilities"].values()) == pytest.approx(1)


def test_a_tagger_disambiguates_words_by_context(program: Call, tmp_path: Path) -> None:
    """`run` and `walk` are verbs after `they` and nouns after `the`."""
    draw = random.Random(3)

    def sentence() -> str:
        lines = []
        for _ in range(draw.randint(1, 4)):
            word = draw.choice(["run", "walk", "answer"])
            lines += [f"the\tDET\n{word}\tNOUN\n"] if draw.random() < 0.5 else [f"they\tPRON\n{word}\tVERB\n"]
        return "".join(lines) + "\n"

    (tmp_path / "train.tsv").write_text("".join(sentence() for _ in range(300)))
    file = configuration(tmp_path, "tagging", ["train.tsv"], subwords={"size": 40})
    program("train", "-c", file, "-o", tmp_path / "run", "training.max_steps=200").ok()
    (tmp_path / "test.tsv").write_text("".join(sentence() for _ in range(50)))
    record = scores(program, tmp_path / "run", tmp_path / "test.tsv")
    assert record["accuracy"] > 98
    assert set(record["types"]) == {"DET", "NOUN", "PRON", "VERB"}
    (tmp_path / "text").write_text("they run the answer\n")
    assert program("predict", tmp_path / "run", tmp_path / "text").out == "PRON VERB DET NOUN\n"


def test_a_tagger_finds_spans(program: Call, tmp_path: Path) -> None:
    generate("entities", tmp_path, train=600, dev=40, test=40)
    changes = ["training.max_steps=150", "training.best_by=f1"]
    file = configuration(
        tmp_path, "tagging", ["train.iob"], subwords={"size": 300}, batch={"tokens": 1000}, tagging={"spans": True},
        data={"text": [str(tmp_path / "train.iob")], "dev_text": str(tmp_path / "dev.iob")},
    )  # fmt: skip
    program("train", "-c", file, "-o", tmp_path / "run", *changes).ok()
    record = scores(program, tmp_path / "run", tmp_path / "test.iob")
    assert record["f1"] > 30
    assert set(record["types"]) <= {"PER", "ORG", "LOC", "DATE"}
    (tmp_path / "text").write_text("Dalenshaw moved from Port Kelwick to Lake Beliman in 1987 .\n")
    predicted = program("predict", tmp_path / "run", tmp_path / "text", "--json").json
    for span in predicted["spans"]:
        assert span["text"] == " ".join(predicted["words"][span["start"] : span["end"]])


@pytest.mark.slow
def test_question_answering_finds_an_answer_of_the_asked_type(program: Call, tmp_path: Path) -> None:
    """The position of the answer in the context isn't given, and contexts are longer than a window."""
    draw = random.Random(4)

    def question() -> str:
        words = draw.choices(FILL, k=draw.randint(10, 80))
        color, number = draw.choice(COLORS), draw.choice(NUMBERS)
        for word in (color, number):
            words.insert(draw.randint(0, len(words)), word)
        kind, answer = draw.choice([("color", color), ("number", number)])
        return json.dumps({"question": f"which {kind}?", "context": " ".join(words), "answer": answer})

    (tmp_path / "train.jsonl").write_text("".join(question() + "\n" for _ in range(300)))
    (tmp_path / "test.jsonl").write_text("".join(question() + "\n" for _ in range(40)))
    options = {"stride": 16, "longest_question": 8, "longest_answer": 4}
    file = configuration(
        tmp_path, "question_answering", ["train.jsonl"], question_answering=options, batch={"tokens": 1500},
        subwords={"size": 120}, training=BASE["training"] | {"max_steps": 250},
    )  # fmt: skip
    program("train", "-c", file, "-o", tmp_path / "run").ok()
    record = scores(program, tmp_path / "run", tmp_path / "test.jsonl")
    assert record["exact_match"] > 90
    assert record["f1"] >= record["exact_match"]
    question_line = "which color?\t" + "the story " * 40 + "white " + "a plot " * 40 + "five"
    (tmp_path / "text").write_text(question_line + "\n" + question_line.replace("color", "number") + "\n")
    assert program("predict", tmp_path / "run", tmp_path / "text").out == "white\nfive\n"


def test_a_masked_language_model_fills_in_masks(program: Call, twins: Path, masked_lm: Path, tmp_path: Path) -> None:
    assert scores(program, masked_lm)["accuracy"] > 60  # one in 16 is right by chance
    assert scores(program, masked_lm, twins / "text")["accuracy"] > 60
    (tmp_path / "text").write_text("".join(f"{word} <mask> hi pa\n" for word in TWINS))
    filled = program("predict", masked_lm, tmp_path / "text").out.splitlines()
    right = [line == f"{word} {TWINS[word]} hi pa" for word, line in zip(TWINS, filled, strict=True)]
    assert sum(right) >= 5  # of 8
    predictions = program("predict", masked_lm, tmp_path / "text", "--json").records
    for line, prediction in zip(filled, predictions, strict=True):
        (candidates,) = prediction["candidates"]
        assert line.split()[1] == candidates[0]["token"].strip()
        assert candidates[0]["probability"] >= candidates[1]["probability"]


def test_the_masked_tokens_of_a_text_do_not_depend_on_the_batches(program: Call, twins: Path, masked_lm: Path) -> None:
    whole, small = (
        scores(program, masked_lm, twins / "text", "--set", f"batch.tokens={tokens}") for tokens in (4000, 60)
    )
    assert whole["loss"] == pytest.approx(small["loss"], rel=1e-4)


# Initialization from another run


def test_a_classifier_is_initialized_from_a_masked_language_model(
    program: Call, twins: Path, masked_lm: Path, tmp_path: Path
) -> None:
    (tmp_path / "data.tsv").write_text(
        "text\tlabel\n" + "".join(f"{w} {t}\t{'a' if w < 'e' else 'b'}\n" for w, t in TWINS.items())
    )
    file = configuration(
        tmp_path,
        "classification",
        ["data.tsv"],
        data={"dev_share": 0.0, "text": [str(tmp_path / "data.tsv")]},
    )
    command = ("train", "-c", file, f"training.initialize_from={masked_lm}", "-o", tmp_path / "run")
    # At a learning rate near zero the encoder's weights stay the same.
    program(*command, "schedule.peak=1e-12", "--max-steps=2").ok()
    assert (tmp_path / "run" / "spm.model").read_bytes() == (masked_lm / "spm.model").read_bytes()
    ours = load_file(tmp_path / "run" / "model.safetensors")
    for name, tensor in load_file(masked_lm / "model.safetensors").items():
        if name.startswith("encoder."):
            assert ours[name] == pytest.approx(tensor, abs=1e-9)
    state = json.loads((tmp_path / "run" / "checkpoints" / "step-00000002" / "state.json").read_text())
    assert len(state["identity"]["initialized_from"]) == 12


def test_initialization_needs_a_run_of_the_same_model_size(
    program: Call, reviews: Path, masked_lm: Path, classifier: Path, tmp_path: Path
) -> None:
    command = ("train", "-c", reviews / "classification.yaml", "-o", tmp_path / "run")
    start = f"training.initialize_from={masked_lm}"
    assert program(*command, start, "model.d_model=16", "model.norm=post").error == (
        f"training.initialize_from: {masked_lm} has model.d_model=32 there, found 16 here; "
        "model.norm=pre there, found post here"
    )
    assert program(*command, "training.initialize_from=nowhere").error == (
        "training.initialize_from: nowhere: expected a run directory, found none"
    )
    shutil.copytree(masked_lm, tmp_path / "begun", ignore=shutil.ignore_patterns("model.safetensors"))
    error = program(*command, f"training.initialize_from={tmp_path / 'begun'}").error
    assert "model.safetensors: there is no such file, and no checkpoint" in error


def test_a_masked_language_model_needs_subwords_with_a_mask(
    program: Call, twins: Path, classifier: Path, tmp_path: Path
) -> None:
    start = f"training.initialize_from={classifier}"
    outcome = program("train", "-c", twins / "masked_language_model.yaml", start, "-o", tmp_path / "r")
    assert outcome.error.startswith("training.initialize_from: expected a run whose subwords know <mask>")


# Resuming


@pytest.mark.parametrize("task", ["classification", "masked_language_model"])
def test_a_resumed_run_equals_an_uninterrupted_one(
    task: str, program: Call, reviews: Path, twins: Path, tmp_path: Path
) -> None:
    file = {"classification": reviews, "masked_language_model": twins}[task] / f"{task}.yaml"
    more = ["training.r_drop=1"] if task == "classification" else []
    keys = ("schedule.name=constant", "training.log_every=1", *more)
    assert_resumes(program, tmp_path, "train", "-c", file, *keys, at=13, steps=25)


def test_folds_hold_out_every_text_once(program: Call, reviews: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    for fold in (1, 2, 3):
        options = ["classification.folds=3", f"classification.fold={fold}", "--max-steps=1"]
        run = tmp_path / str(fold)
        program("train", "-c", reviews / "classification.yaml", *options, "-o", run).ok()
        seen += (run / "prepared" / "dev.jsonl").read_text().splitlines()
    assert len(seen) == len(set(seen)) == 300
