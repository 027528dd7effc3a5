"""`headwise evaluate` and `headwise export --average` against sacreBLEU, PyTorch and the library."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import sacrebleu
import torch
from safetensors.torch import load_file

from headwise.config import Config
from headwise.engine.translator import Translator
from headwise.training.checkpoint import Checkpoints, checkpointed
from headwise.training.progress import Progress
from headwise.training.randomness import random_state
from program import Call
from translator_run import ENGLISH, GERMAN, make_run


@pytest.fixture
def files(sides: list[Path]) -> list[object]:
    return ["--source", sides[0], "--reference", sides[1]]


def test_evaluate_equals_sacrebleu_on_its_own_translations(
    run: Path, files: list[object], tmp_path: Path, program: Call
) -> None:
    out = tmp_path / "out.de"
    record = program("evaluate", run, *files, "-o", out, "--lowercase", "--json").json
    translations = out.read_text(encoding="utf-8").split("\n")[:-1]
    assert translations == [t.text for t in Translator.load(run).translate(ENGLISH)]
    assert record["bleu"]["score"] == pytest.approx(sacrebleu.corpus_bleu(translations, [GERMAN]).score)
    assert record["chrf"]["score"] == pytest.approx(sacrebleu.corpus_chrf(translations, [GERMAN]).score)
    lowered = sacrebleu.corpus_bleu(translations, [GERMAN], tokenize="none", lowercase=True, force=True)
    assert record["tokenized_bleu"]["score"] == pytest.approx(lowered.score)
    assert "tok:none" in record["tokenized_bleu"]["signature"]
    scored = Translator.load(run).score(ENGLISH, GERMAN)
    total, tokens = sum(o.log_probability for o in scored), sum(len(o.pieces) for o in scored)
    assert record["perplexity"]["subword"] == pytest.approx(math.exp(-total / tokens), rel=1e-4)
    words = sum(len(line.split()) + 1 for line in GERMAN)
    assert record["perplexity"]["word"] == pytest.approx(math.exp(-total / words), rel=1e-4)


@pytest.mark.parametrize(
    ("side", "text", "found"),
    [
        ("de", "Eine Zeile.\n", "expected {count} lines, as many as {source}, found 1"),
        ("en", "", "an empty file"),
    ],
)
def test_the_file_that_does_not_fit_the_other_is_named(
    run: Path, files: list[object], tmp_path: Path, side: str, text: str, found: str, program: Call
) -> None:
    wrong = tmp_path / f"test.{side}"
    wrong.write_text(text)
    for command in (["evaluate"], ["analyze", "calibration"]):
        message = program(*command, run, *files).error
        assert message.startswith(f"{wrong}: ")
        assert message.endswith(found.format(count=len(ENGLISH), source=files[1]))


def test_a_reference_that_is_too_long_has_no_perplexity(
    run: Path, files: list[object], tmp_path: Path, program: Call
) -> None:
    (tmp_path / "test.de").write_text("".join(f"{line}\n" for line in [*GERMAN[:-1], GERMAN[-1] * 500]))
    outcome = program("evaluate", run, *files, "--json")
    assert "perplexity is without 1 of the references" in outcome.err
    scored = Translator.load(run).score(ENGLISH[:-1], GERMAN[:-1])
    total, tokens = sum(o.log_probability for o in scored), sum(len(o.pieces) for o in scored)
    assert outcome.json["perplexity"]["subword"] == pytest.approx(math.exp(-total / tokens), rel=1e-4)


def test_a_run_does_not_differ_from_itself(run: Path, files: list[object], program: Call) -> None:
    command = ("evaluate", run, *files, "--compare", run, "--samples", 50)
    assert program(*command, "--json").json["comparison"]["p_value"] == 1.0
    shown = program(*command).ok().out
    assert all(name in shown for name in ("BLEU", "chrF2", "tokenized BLEU", "perplexity", "tok:13a"))


def test_lowercase_leaves_the_compared_bleu_cased(
    run: Path, files: list[object], tmp_path: Path, program: Call
) -> None:
    capitals = [translation.text.upper() for translation in Translator.load(run).translate(ENGLISH)]
    (tmp_path / "test.de").write_text("".join(f"{line}\n" for line in capitals), encoding="utf-8")
    compared = ("--compare", run, "--samples", 5, "--lowercase", "--json")
    record = program("evaluate", run, *files, *compared).json
    assert record["tokenized_bleu"]["score"] == pytest.approx(100.0)
    assert record["comparison"]["system"] == pytest.approx(record["bleu"]["score"]) != pytest.approx(100.0)


def test_average_is_the_mean_of_the_last_checkpoints(tmp_path: Path, program: Call) -> None:
    config = Config().with_overrides(["training.checkpoint_every=100"])
    (tmp_path / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    weights = {}
    for step in (100, 200, 300):
        model = torch.nn.Linear(3, 2, bias=False)
        tensors = checkpointed(model, {}, [random_state()])
        Checkpoints(tmp_path).save(tensors, Progress(step=step), {})
        weights[step] = model.weight.detach()
    program("export", tmp_path, "--to", "run", "--average", 2, "-o", tmp_path / "average").ok()
    averaged = load_file(tmp_path / "average" / "model.safetensors")["weight"]
    assert torch.allclose(averaged, (weights[200] + weights[300]) / 2)


def test_runs_and_test_sets_give_one_table(run: Path, files: list[object], tmp_path: Path, program: Call) -> None:
    other = make_run(tmp_path / "other", seed=1)
    for name, lines in {"new.en": ENGLISH[:3], "new.de": GERMAN[:3]}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    new = ["--source", tmp_path / "new.en", "--reference", tmp_path / "new.de"]
    results = program("evaluate", run, other, *files, *new, "--json").json["results"]
    assert [(r["run"], Path(r["source"]).name) for r in results] == [
        (str(system), name) for system in (run, other) for name in ("test.en", "new.en")
    ]
    for system, test_set, result in zip([run, run, other, other], [files, new] * 2, results, strict=True):
        alone = program("evaluate", system, *test_set, "--json").json
        assert {key: result[key] for key in alone} == alone
    title, *rows = program("evaluate", run, other, *files, *new).ok().out.splitlines()
    assert title.split()[:4] == ["run", "test", "set", "BLEU"]
    assert all(f"{r['chrf']['score']:.2f}" in row for r, row in zip(results, rows[:4], strict=True))
    assert sum("nrefs:1" in row for row in rows) == 3


def test_a_hyphen_is_standard_output(
    run: Path, files: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Call
) -> None:
    monkeypatch.chdir(tmp_path)
    translations = "".join(f"{t.text}\n" for t in Translator.load(run).translate(ENGLISH))
    assert program("evaluate", run, *files, "-o", "-").out == translations + program("evaluate", run, *files).out
    pairs = ["--source", files[1], "--target", files[3]]
    for words in (["evaluate", run, *files, "--per-line"], ["analyze", "align", run, *pairs]):
        assert program(*words, "-o", "-").out == program(*words).out != ""
    assert not (tmp_path / "-").exists()
