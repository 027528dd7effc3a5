"""`headwise export --to run`: the parts combine, and give the bits that each gives alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from headwise.config import Config
from headwise.config.data import SPECIAL_PIECES
from headwise.engine.shortlist import FILE as SHORTLIST
from headwise.engine.translator import Translator
from headwise.text.tokens.pair_vocabulary import PairVocabulary
from headwise.text.tokens.source_words import FILE as WORDS
from headwise.text.tokens.subwords import Subwords
from headwise.weights import write_quantized
from program import Call
from translator_run import make_run

MODEL = "model.safetensors"


def test_average_precision_and_shortlist_combine(trained: Path, tmp_path: Path, program: Call) -> None:
    export = ("export", trained, "--to", "run")
    program(*export, "--average", 1, "-o", tmp_path / "one").ok()
    program(*export, "--shortlist", "-o", tmp_path / "listed").ok()
    outcome = program(*export, "--average=1", "--precision=int8", "--shortlist", "-o", tmp_path / "all").ok()
    assert outcome.err.startswith(f"headwise: {tmp_path}/all: ")
    assert all(part in outcome.err for part in (" in int8, from ", "; the average of steps 6; ", SHORTLIST))
    write_quantized(tmp_path / "one" / MODEL, tmp_path / "expected", "int8")
    assert (tmp_path / "all" / MODEL).read_bytes() == (tmp_path / "expected").read_bytes()
    assert (tmp_path / "all" / SHORTLIST).read_bytes() == (tmp_path / "listed" / SHORTLIST).read_bytes()
    assert (tmp_path / "listed" / MODEL).read_bytes() == (trained / MODEL).read_bytes()
    for kept in ("config.yaml", "spm.model", WORDS):
        assert (tmp_path / "all" / kept).read_bytes() == (trained / kept).read_bytes()
    assert {path.name for path in (tmp_path / "all").iterdir()} == {
        *("config.yaml", "spm.model", WORDS, MODEL, SHORTLIST)
    }
    assert Translator.load(tmp_path / "all", shortlist=True).shortlist is not None


def test_the_mean_of_runs(trained: Path, tmp_path: Path, program: Call) -> None:
    own = load_file(trained / MODEL)
    random = np.random.default_rng(1)
    others = [shutil.copytree(trained, tmp_path / name) for name in ("second", "third")]
    models = [{name: random.normal(size=w.shape).astype("f4") for name, w in own.items()} for _ in others]
    for other, model in zip(others, models, strict=True):
        save_file(model, other / MODEL)
    export = ("export", trained, "--to", "run", "--with", others[0])
    program(*export, "--with", others[1], "-o", tmp_path / "mean").ok()
    for name, tensor in load_file(tmp_path / "mean" / MODEL).items():
        np.testing.assert_allclose(tensor, np.mean([model[name] for model in (own, *models)], axis=0), atol=1e-6)
    program(*export, "--precision=int8", "-o", tmp_path / "small").ok()
    assert Translator.load(tmp_path / "small").engine is not None

    (others[0] / "spm.model").write_bytes(b"another")
    refused = program(*export, "-o", tmp_path / "no").error
    assert f"--with: expected spm.model as {trained} has it, found another in {others[0]}" in refused
    config = Config.load(others[0] / "config.yaml")
    (others[0] / "config.yaml").write_text(config.with_overrides(["model.norm=pre"]).to_yaml())
    refused = program(*export, "-o", tmp_path / "no").error
    assert f"--with: {others[0]} has model.norm=pre there, found post here" in refused
    assert not (tmp_path / "no").exists()


def test_a_tokenizer_of_byte_pairs_comes_along(tmp_path: Path, program: Call) -> None:
    run = make_run(tmp_path / "run")
    others = range(len(SPECIAL_PIECES), Subwords.load(run).source_size)
    pieces = (*SPECIAL_PIECES, *(f"piece{number}" for number in others))
    codes = b"#version: 0.2\na b</w>\n"
    (run / "spm.model").unlink()
    Subwords(codes, codes, PairVocabulary(pieces, split="subword-nmt")).save(run)
    config = Config.load(run / "config.yaml")
    config.subwords.kind = "imported"
    (run / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    out = tmp_path / "out"
    program("export", run, "--to", "run", "--precision", "int8", "-o", out).ok()
    assert Translator.load(out, engine="native").subwords.digest() == Subwords.load(run).digest()


def test_a_file_that_cannot_be_read_is_the_one_that_is_named(tmp_path: Path, program: Call) -> None:
    run = make_run(tmp_path / "run")
    (run / "spm.extra.model").symlink_to("missing")
    refused = program("export", run, "--to", "run", "--precision", "int8", "-o", tmp_path / "out").error
    assert refused == f"{run / 'spm.extra.model'}: there is no such file"
