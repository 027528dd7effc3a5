"""`headwise reproduce wmt14`, every step of it, on little text in the form of the real archives."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shlex
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import sacrebleu

from headwise.corpora.catalog import CORPORA, CorpusPart
from headwise.experiments.harness.test_sets import from_stanford, to_stanford
from headwise.experiments.paper import DEVICES, HOURS
from headwise.experiments.scales import SCALES, RowRecipe
from program import Call
from toy import shape, toy_pairs

pytestmark = pytest.mark.usefixtures("forked")

NAME = "wmt14-en-de"
SMALL = (
    *shape(32, 64),
    *(
        "model.max_length=64",
        "subwords.size=64",
        "batch.tokens=400",
        "schedule.warmup=40",
        "schedule.scale=2",
    ),
    *("training.max_steps=60", "training.validate_every=30", "training.checkpoint_every=20"),
    *("training.average_last=2", "training.precision=float32", "training.products=torch"),
)


def plain_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Return sentences with compounds and quotes, which Stanford's form changes."""
    return [
        (
            f'"{source}", an a-b isn\'t.'.replace("ba be", "ba-be"),
            f'"{target}", ein A-B.'.replace("mo mi", "mo-mi"),
        )
        for source, target in toy_pairs(count, seed=seed)
    ]


def lines(texts: list[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def write_published(folder: Path) -> None:
    """Write the files as they are published: Stanford's text, compressed or not, and WMT's archive of test sets."""
    folder.mkdir()
    for name, count, seed in (("train", 300, 1), ("newstest2013", 20, 2)):
        for side, language in enumerate(("en", "de")):
            text = lines([to_stanford(pair[side], language) for pair in plain_pairs(count, seed)])
            (folder / f"{name}.{language}.gz").write_bytes(gzip.compress(text))
    with tarfile.open(folder / "test-full.tgz", "w:gz") as archive:
        for side, (kind, language) in enumerate((("src", "en"), ("ref", "de"))):
            segments = [f'<seg id="{n}">{pair[side]}</seg>' for n, pair in enumerate(plain_pairs(12, 3), 1)]
            text = lines(["<srcset>", "<doc>", *segments, "</doc>", "</srcset>"])
            member = tarfile.TarInfo(f"test-full/newstest2014-deen-{kind}.{language}.sgm")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))


@pytest.fixture
def small(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scale with a tiny model, and the corpus with the checksum of our archive; returns the published files."""
    published = here / "published"
    write_published(published)
    md5 = hashlib.md5((published / "test-full.tgz").read_bytes()).hexdigest()
    files = [
        replace(file, parts=tuple(CorpusPart(replace(p.archive, md5=md5), p.member) for p in file.parts))
        for file in CORPORA[NAME].files
    ]
    monkeypatch.setitem(CORPORA, NAME, replace(CORPORA[NAME], files=tuple(files)))
    scale = SCALES["wmt14"]
    models = {"transformer": RowRecipe("configs/wmt14/en-de-base.yaml", SMALL)}
    monkeypatch.setitem(SCALES, "wmt14", replace(scale, comparison=replace(scale.comparison, models=models)))
    return published


def test_every_step_runs(small: Path, program: Call) -> None:
    program("data", "get", NAME, "--from", small).ok()
    command = ("reproduce", "wmt14", "--processes", 2, "--device", "cpu")
    planned = program(*command, "--dry-run", "--price", 3).ok()
    planned = [line for line in planned.out.splitlines() if line.startswith(("headwise", "torchrun"))]
    commands = [shlex.split(line) for line in planned]
    assert [words[:3] for words in commands[:2]] == [["headwise", "data", each] for each in ("get", "prepare")]
    assert commands[2][:5] == ["torchrun", "--standalone", "--nproc-per-node", "2", "-m"]

    done = program(*command).ok()
    said = done.err.splitlines()
    assert [shlex.split(line[2:]) for line in said if line.startswith("$ ")] == commands
    assert "development set: 20 pairs from" in done.err
    record = json.loads(Path("results/wmt14/table2-transformer.seed1.json").read_text())
    assert record["result"]["steps"] == 60
    run = Path("runs/reproduce/wmt14/table2-transformer.seed1")

    sources, references = (
        Path(f"data/{NAME}/newstest2014.full.{language}").read_text().splitlines() for language in ("en", "de")
    )
    assert (sources, references) == tuple(map(list, zip(*plain_pairs(12, 3), strict=True)))
    Path("test.en").write_bytes(lines([to_stanford(line, "en") for line in sources]))
    translated = program("translate", run, "test.en", "--engine", "pytorch", "--device", "cpu").out
    plain = [from_stanford(line, "de") for line in translated.splitlines()]
    scores = record["result"]["test"]
    ours = sacrebleu.corpus_bleu(plain, [references]).score
    assert scores["bleu"]["score"] == pytest.approx(ours, abs=1e-3)
    split = [[to_stanford(line, "de") for line in side] for side in (plain, references)]
    paper = sacrebleu.corpus_bleu(split[0], [split[1]], tokenize="none", force=True).score
    assert scores["tokenized_bleu"]["score"] == pytest.approx(paper, abs=1e-3)
    assert f"{scores['bleu']['score']:.2f}" in done.out

    again = program(*command)
    assert "table2-transformer (seed 1): recorded already" in again.err
    assert "$ " not in again.err


def test_the_papers_machine_would_take_the_papers_time(program: Call, tmp_path: Path) -> None:
    results = ("--results", tmp_path, "--out", tmp_path)
    machine = ("--gpu", "p100", "--processes", DEVICES, "--price", 1)
    outcome = program("reproduce", "wmt14", "--dry-run", *machine, *results).ok()
    row = next(line.split() for line in outcome.out.splitlines() if line.startswith("table2-transformer"))
    *_, hours, unit, price = row
    assert unit == "hours"
    assert 0.6 * HOURS["base"] < float(hours) <= HOURS["base"]
    assert float(price) == pytest.approx(DEVICES * float(hours), rel=0.01)
