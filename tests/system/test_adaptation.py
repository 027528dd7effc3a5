"""`headwise train --from`: adaptation of a run to new text, with replay of old text."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from headwise.config import Config
from headwise.text.tokens.subwords import Subwords
from program import Call, assert_resumes, latest, metrics, result
from toy import Toy, toy_pairs, write_toy

# Few and quick steps; everything else is the recipe's.
QUICK = (
    *("training.threads=1", "training.log_every=1", "training.precision=float32", "batch.tokens=200"),
    *("training.checkpoint_every=4", "training.validate_every=4", "training.average_last=2"),
    "training.validate_share=1",
)
FAST = ("schedule.peak=0.02", "schedule.warmup=1")


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Text of another domain: longer sentences of the same words."""
    return write_toy(tmp_path_factory.mktemp("new"), toy_pairs(120, seed=2, shortest=7, longest=9))


def command(run: Path, new: Toy, *more: object) -> list[object]:
    return ["train", "--from", run, "--source", new.source, "--target", new.target, *QUICK, *more]


def test_a_run_is_adapted_with_its_model_and_subwords(trained: Path, new: Toy, program: Call, tmp_path: Path) -> None:
    adapted = tmp_path / "adapted"
    outcome = program(*command(trained, new, *FAST, "--max-steps=16", "-o", adapted)).ok()
    assert f"model and subwords: those of {trained}" in outcome.err
    assert "schedule.peak=0.002: " in outcome.err
    assert "training.patience=4: ends after 4 validations" in outcome.err
    assert (adapted / "spm.model").read_bytes() == (trained / "spm.model").read_bytes()
    before, after = Config.of_run(trained), Config.of_run(adapted)
    assert (after.model, after.subwords, after.decoding) == (before.model, before.subwords, before.decoding)
    assert after.training.best_by == "bleu"
    assert (adapted / "model.safetensors").read_bytes() != (trained / "model.safetensors").read_bytes()
    assert json.loads((latest(adapted) / "state.json").read_text())["identity"]["initialized_from"]

    old = toy_files(trained)
    table = program(
        *("evaluate", trained, adapted, "--source", old[0], "--reference", old[1]),
        *("--source", new.source, "--reference", new.target, "--json"),
    )
    scores = {(r["run"], r["source"]): r["perplexity"]["word"] for r in json.loads(table.out)["results"]}
    assert len(scores) == 4
    assert scores[str(adapted), str(new.source)] < 0.8 * scores[str(trained), str(new.source)]


def toy_files(run: Path) -> tuple[str, str]:
    data = Config.of_run(run).data
    return data.source[0], data.target[0]


def test_training_begins_with_the_runs_weights(trained: Path, new: Toy, program: Call, tmp_path: Path) -> None:
    same = tmp_path / "same"
    program(*command(trained, new, "--max-steps=1", "schedule.peak=1e-9", "-o", same)).ok()
    before, after = load_file(trained / "model.safetensors"), load_file(same / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.allclose(before[name], after[name], rtol=0, atol=1e-7) for name in before)


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_resumed_adaptation_equals_an_uninterrupted_one(
    processes: int, trained: Path, new: Toy, program: Call, tmp_path: Path
) -> None:
    more = ["--mix", f"{trained}=0.3", f"training.processes={processes}"]
    whole = assert_resumes(program, tmp_path, *command(trained, new, *more), at=4, steps=8)

    before, after = load_file(trained / "model.safetensors"), load_file(whole / "model.safetensors")
    assert before.keys() == after.keys()
    engines = [
        program("evaluate", whole, "--source", new.source, "--reference", new.target, "--engine", engine, "--json").out
        for engine in ("native", "pytorch")
    ]
    native, pytorch = (json.loads(out)["perplexity"]["word"] for out in engines)
    assert native == pytest.approx(pytorch, rel=1e-3)


def test_restart_begins_with_the_runs_weights_again(trained: Path, new: Toy, program: Call, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program(*command(trained, new, "--max-steps=4", "-o", run)).ok()
    first = result(run)
    program(*command(trained, new, "--max-steps=4", "--restart", "-o", run)).ok()
    assert result(run) == first


def test_old_text_has_its_share_and_the_development_set_is_new(
    trained: Path, new: Toy, program: Call, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    old = toy_files(trained)
    mixed = ("--mix", f"{old[0]},{old[1]}=0.25", "--mix", f"{trained}=0.5")
    outcome = program(*command(trained, new, *mixed, "--max-steps=1", "-o", run)).ok()
    data = Config.of_run(run).data
    assert data.source == [str(new.source), old[0], old[0]]
    assert data.weights == [0.25, 0.25, 0.5]
    assert f"--mix: 50% of the examples from {trained}, against forgetting" in outcome.err
    assert f"development set: 6 pairs split off {new.source} (seed 1)" in outcome.err
    assert metrics(run, "dev")


def test_subwords_of_the_new_text_are_added(trained: Path, program: Call, tmp_path: Path) -> None:
    new = write_toy(
        tmp_path, [(f"{source} xylo ł", f"zither!? {target} ł") for source, target in toy_pairs(80, seed=3)]
    )
    begun = tmp_path / "begun"
    more = ("training.add_subwords=20", "subwords.dropout=0", "--mix", f"{trained}=0.5")
    outcome = program(*command(trained, new, *more, "--max-steps=1", "schedule.peak=1e-9", "-o", begun)).ok()
    old, grown = Subwords.load(trained), Subwords.load(begun)
    added = grown.source_size - old.source_size
    assert 5 < added <= 20
    assert f"subwords: {added} added that the new text needs, {grown.source_size} in all" in outcome.err
    unknown = [grown.encode_target(f"zither{char}")[-1] for char in "!?ł"]
    assert min(unknown) >= old.source_size
    before, after = load_file(trained / "model.safetensors"), load_file(begun / "model.safetensors")
    name = "source_embedding.weight"
    assert all(torch.allclose(before[n], after[n], rtol=0, atol=1e-7) for n in before if n != name)
    assert torch.allclose(before[name], after[name][: old.source_size], rtol=0, atol=1e-7)
    piece = next(p for p in grown.source_pieces(range(old.source_size, grown.source_size)) if p[0] == "▁")
    mean = before[name][old.encode_source(piece[1:])].double().mean(0)
    assert torch.allclose(after[name][grown.source_processor.piece_to_id(piece)].double(), mean, rtol=0, atol=1e-7)
    usual = before[name].norm(dim=1).mean()
    for first, second in itertools.combinations(unknown, 2):  # such characters don't begin alike
        distance = (after[name][first] - after[name][second]).norm()
        assert 0.5 * usual < distance < 2 * usual

    whole = assert_resumes(program, tmp_path, *command(trained, new, *more), at=4, steps=8)
    again = program(
        "train", "--from", whole, *command(trained, new, *QUICK, "--max-steps=1", "-o", tmp_path / "next")[3:]
    )
    assert again.code == 0, again.err  # a grown run is a start like any other


def test_mistakes_get_a_sentence(trained: Path, new: Toy, program: Call, tmp_path: Path) -> None:
    run = tmp_path / "run"

    def error(*more: object, start: object = trained, out: Path = run) -> str:
        return program(*command(Path(str(start)), new, *more, "-o", out)).error

    assert error(out=trained).startswith("training.initialize_from: expected another run than the one to train")
    assert "has model.d_ff=32 there, found 64 here" in error("model.d_ff=64")
    for key in ("lowercase", "joiners"):
        assert error(f"subwords.{key}=true") == f"subwords.{key}: expected false, as in {trained}, found true"
    assert error("--mix", f"{new.source}=0.5") == (
        f"--mix {new.source}: expected a run, SOURCE,TARGET or one file with both sides, found none of them"
    )

    moved = Path(shutil.copytree(trained, tmp_path / "moved"))
    config = Config.of_run(moved).with_overrides([f"data.source=[{tmp_path / 'gone'}]"])
    (moved / "config.yaml").write_text(config.to_yaml())
    assert error("--mix", f"{moved}=0.5") == (
        f"--mix {moved}: expected its training text {tmp_path / 'gone'}, found no such file; name the files where they "
        "are now: --mix SOURCE,TARGET=SHARE"
    )
    (moved / "config.yaml").write_text(config.with_overrides(["data.source=[]", "data.target=[]"]).to_yaml())
    assert "expected a run that names its training text, found none" in error("--mix", f"{moved}=0.5")
