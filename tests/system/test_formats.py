"""Every text format and many training options, each compared with the result that it must equal."""

from __future__ import annotations

import gzip
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

from headwise.config import Config
from headwise.tasks.batches.pairs import BatchStream
from headwise.text.preparation.parallel import PreparedData
from program import Call, metrics, saved_step
from toy import Toy, toy_pairs


def losses(run: Path) -> list[float]:
    return [record["loss"] for record in metrics(run, "train")]


def assert_same(ours: Path, theirs: Path) -> None:
    """Assert that two runs have the same parameters."""
    mine, other = (load_file(run / "model.safetensors") for run in (ours, theirs))
    assert mine.keys() == other.keys()
    for name, tensor in mine.items():
        np.testing.assert_array_equal(tensor, other[name])


# Text


def compressed(path: Path, folder: Path) -> Path:
    file = folder / f"{path.name}.gz"
    file.write_bytes(gzip.compress(path.read_bytes()))
    return file


def as_tsv(toy: Toy, folder: Path) -> Path:
    file = folder / "toy.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in toy.pairs))
    return file


def as_jsonl(toy: Toy, folder: Path) -> Path:
    file = folder / "toy.jsonl"
    records = ({"id": i, "text": {}, "en": a, "de": b} for i, (a, b) in enumerate(toy.pairs))
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def windows(path: Path, folder: Path) -> Path:
    """Write a file as an editor on Windows saves it: with a byte-order mark and \\r\\n."""
    file = folder / path.name
    file.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    return file


@pytest.mark.parametrize("form", ["gz", "tsv", "tsv.gz", "jsonl", "jsonl.gz", "windows", "two parts"])
def test_the_same_text_in_another_form_is_the_same(
    form: str, train: Call, toy: Toy, trained: Path, tmp_path: Path
) -> None:
    fields = ["data.source_field=en", "data.target_field=de"]
    if form in ("gz", "windows"):
        write = compressed if form == "gz" else windows
        changes = ["--source", write(toy.source, tmp_path), "--target", write(toy.target, tmp_path)]
    elif form == "two parts":
        changes = []
        for number in range(2):
            for option, side in (("--source", toy.source), ("--target", toy.target)):
                lines = side.read_text().splitlines(keepends=True)
                part = tmp_path / f"{number}{side.suffix}"
                part.write_text("".join(lines[:150] if number == 0 else lines[150:]))
                changes += [option, part]
    else:
        file = as_tsv(toy, tmp_path) if form.startswith("tsv") else as_jsonl(toy, tmp_path)
        file = compressed(file, tmp_path) if form.endswith("gz") else file
        changes = ["--source", file, "data.target=[]", *fields]
    train(tmp_path / "run", *changes).ok()
    assert_same(tmp_path / "run", trained)


def test_files_are_mixed_by_weight(program: Call, tmp_path: Path) -> None:
    """With equal weights both files are sampled equally often, and each pair of a file as often as the others."""
    pairs = toy_pairs(400)
    for name, part in (("big", pairs[:300]), ("small", pairs[300:])):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in part))
    run, weights = tmp_path / "run", [1.0, 1.0]
    sources = [f"--source={tmp_path / name}.tsv" for name in ("big", "small")]
    outcome = program(
        "train", *sources, f"data.weights={weights}", "data.dev_pairs=0", "-o", run, "--max-steps=1",
        *("model.d_model=16", "model.d_ff=16", "model.encoder_layers=1", "model.decoder_layers=1"),
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    config = Config.load(run / "config.yaml")
    assert config.data.weights == weights
    stream = BatchStream(PreparedData.open(run / "prepared"), 200, seed=1, weights=config.data.weights)
    store = PreparedData.open(run / "prepared").train
    used = np.zeros(400, int)
    while stream.epoch < 2:
        np.add.at(used, next(stream).rows, 1)
    stream.close()
    assert [int(used[store.files == file].sum()) for file in (0, 1)] == [400, 400]
    assert set(used[store.files == 1]) == {4}
    assert set(used[store.files == 0]) == {1, 2}


def test_a_development_set_is_split_off_and_reported(trained: Path, program: Call, toy: Toy) -> None:
    again = program("train", "-c", toy.config, "--max-steps=6", "-o", trained)
    assert "development set: 10 pairs split off the training text (seed 1)" in again.err
    prepared = PreparedData.open(trained / "prepared")
    assert (len(prepared.train), len(prepared.dev)) == (390, 10)
    assert set(zip(prepared.dev_source, prepared.dev_target, strict=True)) < set(toy.pairs)


def test_development_files_are_used_as_they_are(train: Call, tmp_path: Path) -> None:
    for name, side in (("dev.src", 0), ("dev.tgt", 1)):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in toy_pairs(20, seed=2)))
    dev = ["--dev-source", tmp_path / "dev.src", "--dev-target", tmp_path / "dev.tgt"]
    outcome = train(tmp_path / "run", *dev).ok()
    assert f"development set: 20 pairs from {tmp_path}/dev.src and {tmp_path}/dev.tgt" in outcome.err
    assert len(PreparedData.open(tmp_path / "run" / "prepared").train) == 400


def test_a_run_without_a_development_set_is_trained(train: Call, tmp_path: Path) -> None:
    outcome = train(tmp_path / "run", "data.dev_pairs=0", "training.patience=1", "--json").ok()
    assert json.loads(outcome.out)["dev"] == {}
    assert metrics(tmp_path / "run", "dev") == []
    assert (tmp_path / "run" / "model.safetensors").exists()


# Training


def test_a_seed_decides_everything(train: Call, trained: Path, tmp_path: Path) -> None:
    train(tmp_path / "same", "--seed=1").ok()
    same, theirs = ((run / "model.safetensors").read_bytes() for run in (tmp_path / "same", trained))
    assert same == theirs
    train(tmp_path / "other", "--seed=2").ok()
    assert not set(losses(tmp_path / "other")) & set(losses(trained))


def test_the_rate_is_the_papers(trained: Path) -> None:
    """Equation 3, for d_model 16 and 20 warm-up steps."""
    rates = [record["learning_rate"] for record in metrics(trained, "train")]
    expected = [16**-0.5 * min(step**-0.5, step * 20**-1.5) for step in range(1, 7)]
    assert rates == pytest.approx(expected, rel=1e-12)


CHOICES: dict[str, list[str]] = {
    "R-Drop": ["training.r_drop=1"],
    "a clipped gradient": ["optimizer.clip_norm=0.001", "optimizer.epsilon=0.1"],
    "weight decay": ["optimizer.weight_decay=0.5"],
    "no label smoothing": ["training.label_smoothing=0"],
    "pre-norm": ["model.norm=pre"],
    "learned positions": ["model.positions=learned"],
    "GELU": ["model.activation=gelu"],
    "two vocabularies": ["subwords.joint=false", "subwords.size=30", "model.share_embeddings=target"],
    "lower case": ["subwords.lowercase=true"],
    "a cosine": ["schedule.name=cosine", "schedule.peak=0.01"],
    "accumulation": ["batch.accumulate=3"],
}


@pytest.mark.parametrize("name", CHOICES)
def test_an_option_changes_the_losses_and_trains_a_translator(
    name: str, program: Call, train: Call, toy: Toy, trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train(run, *CHOICES[name]).ok()
    if name != "lower case":  # the toy language has no upper case
        assert losses(run)[1:] != losses(trained)[1:]
    assert all(math.isfinite(loss) for loss in losses(run))
    (tmp_path / "text").write_text("ba be\n\ndi\n")
    translated = program("translate", run, tmp_path / "text", "--beam=2").ok()
    assert len(translated.out.splitlines()) == 3
    assert translated.out.splitlines()[1] == ""


def test_the_reference_attention_learns_what_the_fast_one_does(train: Call, tmp_path: Path) -> None:
    off = ["model.dropout=0", "model.attention_dropout=0"]  # the two kinds draw different random numbers
    for kind in ("reference", "fused"):
        train(tmp_path / kind, *off, f"model.attention={kind}").ok()
    assert losses(tmp_path / "fused") == pytest.approx(losses(tmp_path / "reference"), rel=1e-4)


def test_bfloat16_learns_nearly_the_same(train: Call, tmp_path: Path) -> None:
    off = ["model.dropout=0", "model.attention_dropout=0"]
    for precision in ("float32", "bfloat16"):
        outcome = train(tmp_path / precision, *off, f"training.precision={precision}").ok()
        assert f"{precision} on cpu" in outcome.err
    ours, theirs = losses(tmp_path / "bfloat16"), losses(tmp_path / "float32")
    assert ours != theirs
    assert ours == pytest.approx(theirs, rel=0.01)
    saved = load_file(tmp_path / "bfloat16" / "model.safetensors")
    assert {tensor.dtype for tensor in saved.values()} == {np.dtype("float32")}


def test_minutes_bound_a_run(train: Call, tmp_path: Path) -> None:
    outcome = train(tmp_path / "run", "--max-minutes=0.0001", "--json").ok()
    report = json.loads(outcome.out)
    assert report["ended"] == "reached 0.0001 minutes"
    assert 1 <= report["steps"] < 6
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_patience_ends_a_run(train: Call, tmp_path: Path) -> None:
    """At a learning rate near zero BLEU stays 0, which is an improvement only at the first validation."""
    outcome = train(tmp_path / "run", "schedule.scale=1e-9", "training.validate_every=1",
        *("training.patience=2", "training.best_by=bleu", "--json"),
    ).ok()  # fmt: skip
    report = json.loads(outcome.out)
    assert (report["ended"], report["steps"]) == ("no better in 2 validations", 3)
    assert (tmp_path / "run" / "best").read_text() == "step-00000001\n"


def test_a_loss_that_explodes_names_step_lines_and_checkpoint(program: Call, toy: Toy, tmp_path: Path) -> None:
    run = tmp_path / "run"
    explode = ["schedule.name=constant", "schedule.warmup=0", "schedule.peak=1e30"]
    outcome = program("train", "-c", toy.config, *explode, "training.checkpoint_every=1", "-o", run)
    assert saved_step(run) == 1
    start = f"step 2: the loss is nan for {toy.source} lines "
    assert outcome.error.startswith(start)
    lines, rest = outcome.error.removeprefix(start).split(" and ", 1)
    assert all(1 <= int(line) <= 400 for line in lines.split(", "))
    assert rest.endswith(
        f"; the last good checkpoint is {run}/checkpoints/step-00000001; "
        "a lower learning rate or optimizer.clip_norm may help"
    )


def test_tensorboard_has_the_values_of_the_metrics_file(train: Call, tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    run = tmp_path / "run"
    train(run, "training.tensorboard=true").ok()
    (file,) = (run / "tensorboard").iterdir()
    values = {
        (value.tag, event.step): value.tensor.float_val[0]
        for event in loader.EventFileLoader(str(file)).Load()
        for value in event.summary.value
    }
    for record in metrics(run, "train"):
        assert values["train/loss", record["step"]] == pytest.approx(record["loss"], rel=1e-6)
    (averaged,) = metrics(run, "averaged")
    assert values["averaged/perplexity", 6] == pytest.approx(averaged["perplexity"], rel=1e-6)


def test_tensorboard_that_is_not_installed(
    program: Call, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    outcome = program("train", "-c", toy.config, "training.tensorboard=true", "-o", tmp_path / "run")
    assert outcome.error == (
        "training.tensorboard: needs the package tensorboard, found none; run `pip install 'headwise[tensorboard]'`"
    )


# Files of a run


def test_the_run_contains_its_configuration(toy: Toy, trained: Path) -> None:
    written = yaml.safe_load((trained / "config.yaml").read_text())
    given: dict[str, Any] = yaml.safe_load(toy.config.read_text())
    assert written.keys() == Config().model_dump().keys()
    for section, values in given.items():
        for key, value in values.items():
            assert written[section][key] == (6 if key == "max_steps" else value)
    assert (trained / "latest").read_text() == "step-00000006\n"


def test_translating_needs_three_files(program: Call, trained: Path, toy: Toy, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.yaml", "spm.model", "model.safetensors"):
        (bare / name).write_bytes((trained / name).read_bytes())
    assert program("translate", bare, toy.source).out == program("translate", trained, toy.source).out


def test_the_average_command_gives_the_average_of_training(
    program: Call, train: Call, trained: Path, tmp_path: Path
) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    train(run).ok()
    said = program("export", run, "--to", "run", "--average=2", "-o", other).ok().err
    assert re.fullmatch(f"headwise: {other}: .* MB; the average of steps 4, 6\n", said)
    assert (other / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    error = program("export", tmp_path, "--to", "run", "--average=3", "-o", tmp_path / "more").error
    assert error == f"{tmp_path}: expected a run directory, found none"
