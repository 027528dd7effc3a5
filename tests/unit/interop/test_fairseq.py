"""fairseq checkpoints in, against `torch.nn`; and against fairseq itself where an interpreter has it."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_models import write_fairseq
from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.decoding.translator import Translator
from translator_run import ENGLISH, GERMAN

KINDS: dict[str, dict[str, Any]] = {
    "shared": {},
    "pre-norm": {"pre": True, "tied": "target"},
    "untied": {"tied": "none", "split": "words"},
    "old": {"old": True},
    "old, untied": {"old": True, "tied": "none", "pre": True},
}


def imported(source: Path, run: Path) -> Path:
    assert headwise(["import", str(source), "-o", str(run)]) == 0
    return run


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_and_tokens_are_those_of_torch(kind: str, tmp_path: Path) -> None:
    theirs, pairs = write_fairseq(tmp_path / "fairseq", **KINDS[kind])
    run = imported(tmp_path / "fairseq", tmp_path / "run")
    scores = Translator.load(run, engine="pytorch", device="cpu").score(ENGLISH, GERMAN)
    for (source, target), output in zip(pairs, scores, strict=True):
        found = theirs(torch.tensor(source), torch.tensor([2, *target[:-1]]))
        expected = found.gather(-1, torch.tensor(target)[:, None])[:, 0]
        assert list(output.token_log_probabilities) == pytest.approx(expected.tolist(), abs=1e-5)
    lines = (tmp_path / "fairseq" / "dict.de.txt").read_text().splitlines()
    pieces = ["<unused 0>", "<pad>", "</s>", "<unk>", *(line.rpartition(" ")[0] for line in lines)]
    for engine in ("native", "pytorch"):
        translator = Translator.load(run, engine=engine, device="cpu", precision="float32")
        for (source, _), translation in zip(
            pairs, translator.translate(ENGLISH, beam=1, max_length=20, extra_length=40), strict=True
        ):
            expected = [pieces[number] for number in theirs.greedy(source, 2, 2, [1, 3], 20)]
            assert translator.subwords.target_pieces(translation.outputs[0].tokens) == expected


def test_byte_pairs_beside_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_fairseq(tmp_path / "fairseq", split="words")
    (tmp_path / "fairseq" / "bpecodes").write_text("T w 9\nTw o</w> 8\nb o 7\nbo y</w> 6\n")
    run = imported(tmp_path / "fairseq" / "checkpoint_best.pt", tmp_path / "run")
    assert "texts are split at spaces into byte pairs" in capsys.readouterr().err
    subwords = Translator.load(run).subwords
    assert subwords.source_pieces(subwords.encode_source("Two boy")) == ["Two", "boy"]
    assert subwords.decode_source(subwords.encode_source("Two boy")) == "Two boy"


def test_the_languages_of_the_data_files(tmp_path: Path) -> None:
    write_fairseq(tmp_path / "fairseq", split="words", tied="none")
    before = imported(tmp_path / "fairseq", tmp_path / "before")
    edit(lambda c: c["cfg"]["task"].clear() or vars(c["cfg"]["model"]).update(source_lang=None))(
        tmp_path / "fairseq"
    )
    (tmp_path / "fairseq" / "valid.en-de.de.idx").touch()
    after = imported(tmp_path / "fairseq", tmp_path / "after")
    assert Config.load(before / "config.yaml").data.languages == ("en", "de")
    digests = {Translator.load(run).subwords.digest() for run in (before, after)}
    assert len(digests) == 1


FAIRSEQ = os.environ.get("HEADWISE_FAIRSEQ")  # a Python interpreter
THEIRS = """
import argparse, json, sys, torch
from fairseq import checkpoint_utils
if hasattr(torch.serialization, "add_safe_globals"):
    torch.serialization.add_safe_globals([argparse.Namespace])
folder, texts = sys.argv[1], json.loads(sys.argv[2])
models, _, task = checkpoint_utils.load_model_ensemble_and_task([folder + "/checkpoint_best.pt"], {"data": folder})
model = models[0].eval()
options = {"beam": 1, "max_len_a": 0, "max_len_b": 20, "unkpen": 1e9}
generator = task.build_generator(models, type("Options", (), options)())
found = []
for source, target in texts:
    ids = [d.encode_line(text, add_if_not_exist=False, append_eos=True).long()
           for d, text in ((task.source_dictionary, source), (task.target_dictionary, target))]
    batch = {"src_tokens": ids[0][None], "src_lengths": torch.tensor([len(ids[0])])}
    before = torch.cat([torch.tensor([2]), ids[1][:-1]])[None]
    with torch.no_grad():
        logits = model(**batch, prev_output_tokens=before)[0][0]
        scores = logits.log_softmax(-1).gather(-1, ids[1][:, None])[:, 0].tolist()
        tokens = generator.generate(models, {"net_input": batch})[0][0]["tokens"].tolist()
    found.append((scores, [task.target_dictionary[t] for t in tokens if t != 2]))
print(json.dumps(found))
"""
TRAINED = {
    "shared": "--share-all-embeddings",
    "pre-norm": "--share-decoder-input-output-embed --encoder-normalize-before --decoder-normalize-before",
    "untied": "--activation-fn gelu",
}


@pytest.mark.skipif(
    FAIRSEQ is None, reason="needs HEADWISE_FAIRSEQ, a Python interpreter (3.9) that has fairseq"
)
@pytest.mark.parametrize("kind", TRAINED)
def test_a_model_of_fairseqs_own_trainer(kind: str, tmp_path: Path) -> None:
    pairs = list(zip(ENGLISH, GERMAN, strict=True))
    for language, lines in (("en", ENGLISH), ("de", GERMAN)):
        (tmp_path / f"train.{language}").write_text("\n".join(lines * 20) + "\n")
    data = tmp_path / "data"
    joined = " --joined-dictionary" if kind == "shared" else ""
    fairseq(
        "preprocess",
        f"-s en -t de --trainpref {tmp_path}/train --validpref {tmp_path}/train --destdir {data}{joined}",
    )
    shape = " ".join(
        f"--{side}-embed-dim 32 --{side}-ffn-embed-dim 48 --{side}-layers 2 --{side}-attention-heads 4"
        for side in ("encoder", "decoder")
    )
    recipe = "--optimizer adam --lr 0.005 --max-tokens 400 --max-update 30 --save-dir " + str(data)
    fairseq("train", f"{data} --arch transformer {shape} {recipe} {TRAINED[kind]} --cpu --seed 1")
    run = imported(data, tmp_path / "run")
    assert FAIRSEQ is not None
    command = [FAIRSEQ, "-c", THEIRS, str(data), json.dumps(pairs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    theirs = json.loads(done.stdout.splitlines()[-1])
    ours = Translator.load(run, engine="pytorch", device="cpu")
    for output, (scores, _) in zip(ours.score(ENGLISH, GERMAN), theirs, strict=True):
        assert list(output.token_log_probabilities) == pytest.approx(scores, abs=1e-5)
    for engine in ("native", "pytorch"):
        translator = Translator.load(run, engine=engine, device="cpu", precision="float32")
        outputs = translator.translate(ENGLISH, beam=1, min_length=1, max_length=20, extra_length=40)
        for translation, (_, pieces) in zip(outputs, theirs, strict=True):
            assert translator.subwords.target_pieces(translation.outputs[0].tokens) == pieces


def fairseq(command: str, options: str) -> None:
    assert FAIRSEQ is not None
    program = f"from fairseq_cli.{command} import cli_main; cli_main()"
    subprocess.run([FAIRSEQ, "-c", program, *options.split()], capture_output=True, check=True)


class Bomb:
    """What a hostile pickle holds."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("boom",))


def edit(change: Any) -> Any:
    """Change the loaded checkpoint."""

    def apply(folder: Path) -> None:
        with torch.serialization.safe_globals([Namespace]):
            checkpoint = torch.load(folder / "checkpoint_best.pt", weights_only=True)
        torch.save(change(checkpoint) or checkpoint, folder / "checkpoint_best.pt")

    return apply


def edit_options(**changes: Any) -> Any:
    return edit(lambda checkpoint: vars(checkpoint["cfg"]["model"]).update(changes))


def edit_state(**changes: Any) -> Any:
    return edit(
        lambda checkpoint: checkpoint["model"].update(
            {name.replace("__", "."): tensor for name, tensor in changes.items()}
        )
    )


def edit_dictionaries(change: Any) -> Any:
    def apply(folder: Path) -> None:
        for file in folder.glob("dict.*.txt"):
            file.write_text(change(file.read_text()))

    return apply


def compressed(folder: Path) -> None:
    with zipfile.ZipFile(folder / "checkpoint_best.pt") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(folder / "checkpoint_best.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def without_languages(folder: Path) -> None:
    edit(lambda c: c["cfg"]["task"].clear() or vars(c["cfg"]["model"]).update(source_lang=None))(folder)
    (folder / "dict.de.txt").write_text("a 1\n")


class Other:
    """A class of somebody's."""


HOSTILE = {
    "code in a pickle": (edit(lambda c: {"model": {"a": Bomb()}}), "found a pickle that needs more"),
    "another class": (
        edit(lambda c: c | {"cfg": Other()}),
        "found a pickle that needs more (test_fairseq.Other",
    ),
    "compressed": (compressed, "expected uncompressed tensors"),
    "no zip": (lambda folder: (folder / "checkpoint_best.pt").write_bytes(b"x"), "in its zip format"),
    "an expanded tensor": (
        edit_state(encoder__embed_tokens__weight=torch.zeros(1).expand(10**12)),
        "within its",
    ),
    "no parameters": (
        edit(lambda c: {"cfg": c["cfg"]}),
        "expected model, the parameters by name, found none",
    ),
    "no options": (edit(lambda c: {"model": c["model"]}), "expected cfg or args, the options of the model"),
    "a missing option": (
        edit(lambda c: delattr(c["cfg"]["model"], "encoder_layers")),
        "encoder_layers: field required",
    ),
    "another architecture": (edit_options(arch="lightconv"), "arch: string should match pattern"),
    "learned positions": (
        edit_options(encoder_learned_pos=True),
        "encoder_learned_pos: expected false, found",
    ),
    "an adaptive softmax": (
        edit_options(adaptive_softmax_cutoff=[5, 9]),
        "adaptive_softmax_cutoff: expected false",
    ),
    "an activation": (edit_options(activation_fn="tanh"), "activation_fn: expected 'relu'"),
    "a vast width": (edit_options(encoder_embed_dim=10**12), "encoder_embed_dim: "),
    "unequal widths": (
        edit_options(decoder_embed_dim=64),
        "expected encoder_embed_dim and decoder_embed_dim to be equal",
    ),
    "another output": (
        edit_options(decoder_output_dim=64),
        "expected decoder_output_dim to be decoder_embed_dim, 32",
    ),
    "more layers": (edit_options(encoder_layers=3), "expected tensor encoder.layers.2."),
    "one tensor more": (
        edit_state(more=torch.zeros(3)),
        "found tensor more, which Headwise has no place for",
    ),
    "other shapes": (edit_state(encoder__layers__0__fc1__bias=torch.zeros(3)), "of shape (48,), found (3,)"),
    "more rows": (
        edit_state(
            **{
                f"{side}__weight": torch.zeros(500, 32)
                for side in ("encoder__embed_tokens", "decoder__embed_tokens", "decoder__output_projection")
            }
        ),
        "rows, found shape (500, 32)",
    ),
    "numbers that aren't": (
        edit_state(encoder__layers__0__fc1__bias=torch.full((48,), float("inf"))),
        "expected finite",
    ),
    "untied": (
        edit_state(decoder__embed_tokens__weight=torch.zeros(3, 32)),
        "expected decoder.embed_tokens.weight to equal",
    ),
    "no languages": (without_languages, "expected source_lang and target_lang in its options"),
    "a language elsewhere": (
        edit(
            lambda c: c["cfg"]["task"].clear() or vars(c["cfg"]["model"]).update(source_lang="/../../etc/x")
        ),
        "x.txt: expected a dictionary",
    ),
    "a dictionary of other lines": (
        edit_dictionaries(lambda text: text + "boom\n"),
        "expected a piece and its count (line",
    ),
    "a piece twice": (
        edit_dictionaries(lambda text: text + text.splitlines()[0] + "\n"),
        "expected different pieces",
    ),
    "other dictionaries": (
        lambda folder: (folder / "dict.de.txt").write_text("a 1\n"),
        "expected the pieces of dict.en.txt",
    ),
    "GPT-2's subwords": (
        lambda folder: (folder / "merges.txt").write_text(""),
        "found the subwords of --bpe gpt2",
    ),
    "two kinds of subwords": (
        lambda folder: (folder / "bpecodes").write_text(""),
        "expected one file of subwords",
    ),
    "no subwords": (
        lambda folder: (folder / "sentencepiece.bpe.model").write_bytes(b"x"),
        "expected a SentencePiece model",
    ),
    "two checkpoints": (
        lambda folder: (folder / "model.pt").write_text(""),
        "expected checkpoint_best.pt or model.pt or one",
    ),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undamaged directory."""
    folder = tmp_path_factory.mktemp("whole")
    write_fairseq(folder)
    return folder


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_directory_gets_a_sentence(
    name: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fairseq"
    folder.mkdir()
    for file in whole.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    damage, sentence = HOSTILE[name]
    damage(folder)
    assert headwise(["import", str(folder), "-o", str(tmp_path / "run")]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
    assert "boom" not in captured.out
    assert not (tmp_path / "run").exists()
