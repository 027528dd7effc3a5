"""`headwise evaluate` and `headwise export --average` against sacreBLEU, PyTorch and the library."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import sacrebleu
import torch
from safetensors.torch import load_file

from headwise.cli.main import run as run_program
from headwise.config import Config
from headwise.engine.translator import Translator
from headwise.training.checkpoint import Checkpoints, checkpointed
from headwise.training.progress import Progress
from headwise.training.randomness import random_state
from translator_run import ENGLISH, GERMAN, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "de")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, lines in {"en": ENGLISH, "de": GERMAN}.items():
        (tmp_path / f"test.{name}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return ["--source", str(tmp_path / "test.en"), "--reference", str(tmp_path / "test.de")]


def test_evaluate_equals_sacrebleu_on_its_own_translations(
    run: Path, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.de"
    assert run_program(["evaluate", str(run), *files, "-o", str(out), "--lowercase", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
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
    run: Path,
    files: list[str],
    tmp_path: Path,
    side: str,
    text: str,
    found: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = tmp_path / f"test.{side}"
    wrong.write_text(text)
    for command in (["evaluate"], ["analyze", "calibration"]):
        assert run_program([*command, str(run), *files]) == 2
        message = capsys.readouterr().err
        assert message.startswith(f"headwise: error: {wrong}: ")
        assert message.endswith(found.format(count=len(ENGLISH), source=files[1]) + "\n")


def test_a_reference_that_is_too_long_has_no_perplexity(
    run: Path, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.de").write_text("".join(f"{line}\n" for line in [*GERMAN[:-1], GERMAN[-1] * 500]))
    assert run_program(["evaluate", str(run), *files, "--json"]) == 0
    captured = capsys.readouterr()
    assert "perplexity is without 1 of the references" in captured.err
    scored = Translator.load(run).score(ENGLISH[:-1], GERMAN[:-1])
    total, tokens = sum(o.log_probability for o in scored), sum(len(o.pieces) for o in scored)
    found = json.loads(captured.out)["perplexity"]["subword"]
    assert found == pytest.approx(math.exp(-total / tokens), rel=1e-4)


def test_a_run_does_not_differ_from_itself(
    run: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run_program(["evaluate", str(run), *files, "--compare", str(run), "--samples", "50", "--json"]) == 0
    )
    comparison = json.loads(capsys.readouterr().out)["comparison"]
    assert comparison["p_value"] == 1.0
    assert run_program(["evaluate", str(run), *files, "--compare", str(run), "--samples", "50"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("BLEU", "chrF2", "tokenized BLEU", "perplexity", "tok:13a"))


def test_lowercase_leaves_the_compared_bleu_cased(
    run: Path, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capitals = [translation.text.upper() for translation in Translator.load(run).translate(ENGLISH)]
    (tmp_path / "test.de").write_text("".join(f"{line}\n" for line in capitals), encoding="utf-8")
    compared = ["--compare", str(run), "--samples", "5", "--lowercase", "--json"]
    assert run_program(["evaluate", str(run), *files, *compared]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["tokenized_bleu"]["score"] == pytest.approx(100.0)
    assert record["comparison"]["system"] == pytest.approx(record["bleu"]["score"]) != pytest.approx(100.0)


def test_average_is_the_mean_of_the_last_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Config().with_overrides(["training.checkpoint_every=100"])
    (tmp_path / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    average, out = ("export", str(tmp_path), "--to", "run", "--average"), tmp_path / "average"
    weights = {}
    for step in (100, 200, 300):
        model = torch.nn.Linear(3, 2, bias=False)
        tensors = checkpointed(model, {}, [random_state()])
        Checkpoints(tmp_path).save(tensors, Progress(step=step), {})
        weights[step] = model.weight.detach()
    assert run_program([*average, "2", "-o", str(out)]) == 0
    averaged = load_file(out / "model.safetensors")["weight"]
    assert torch.allclose(averaged, (weights[200] + weights[300]) / 2)
    assert run_program([*average, "4", "-o", str(tmp_path / "other")]) == 2
    assert "expected at least 4 checkpoints to average, found 3" in capsys.readouterr().err


def test_runs_and_test_sets_give_one_table(
    run: Path, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_run(tmp_path / "other", seed=1)
    for name, lines in {"new.en": ENGLISH[:3], "new.de": GERMAN[:3]}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    new = ["--source", str(tmp_path / "new.en"), "--reference", str(tmp_path / "new.de")]
    assert run_program(["evaluate", str(run), str(other), *files, *new, "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [(r["run"], Path(r["source"]).name) for r in results] == [
        (str(system), name) for system in (run, other) for name in ("test.en", "new.en")
    ]
    for system, test_set, result in zip([run, run, other, other], [files, new] * 2, results, strict=True):
        assert run_program(["evaluate", str(system), *test_set, "--json"]) == 0
        alone = json.loads(capsys.readouterr().out)
        assert {key: result[key] for key in alone} == alone
    assert run_program(["evaluate", str(run), str(other), *files, *new]) == 0
    title, *rows = capsys.readouterr().out.splitlines()
    assert title.split()[:4] == ["run", "test", "set", "BLEU"]
    assert [f"{result['chrf']['score']:.2f}" in row for result, row in zip(results, rows, strict=False)] == [
        True
    ] * 4
    assert sum("nrefs:1" in row for row in rows) == 3
