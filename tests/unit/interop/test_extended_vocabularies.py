"""Imported vocabularies that grow by new text (`training.add_subwords`), against the libraries that they come from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file

from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.engine.translator import Translator
from headwise.text.tokens.subwords import UNK, Subwords
from translator_run import ENGLISH, GERMAN, assert_same_weights

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")


from ctranslate2_models import write_opennmt, write_package  # noqa: E402 - needs transformers
from marian_files import write_files  # noqa: E402 - needs transformers
from marian_models import CODE, load_tokenizer, write_marian  # noqa: E402 - needs transformers

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

NEW = (
    [f"{source} quizzes xylophone €" for source in ENGLISH],
    [f"{target} Buchungen «Konto»" for target in GERMAN],
)
QUICK = (
    *("training.threads=1", "training.precision=float32", "batch.tokens=120", "training.r_drop=0"),
    *("training.checkpoint_every=2", "training.validate_every=2", "training.average_last=1"),
    *("schedule.peak=0.01", "schedule.warmup=1", "training.add_subwords=24"),
)


def argos(folder: Path) -> Path:
    return write_package(folder / "a.argosmodel", write_opennmt(folder / "model", "float32"))


def npz(folder: Path) -> Path:
    write_files(folder)
    return folder


FORMATS: dict[str, Callable[[Path], Path]] = {
    "marian": lambda folder: write_marian(folder / "model"),
    "marian, two lists": lambda folder: write_marian(folder / "model", separate=True),
    "marian, forced code": lambda folder: write_marian(folder / "model", target_codes=(">>swe<<", ">>fra<<")),
    "npz": npz,
    "ctranslate2": lambda folder: write_opennmt(folder / "model", "float32"),
    "argos": argos,
}


def train(run: Path, texts: tuple[list[str], list[str]], out: Path, *more: str) -> None:
    for name, lines in zip(("new.en", "new.de"), texts, strict=True):
        (out.parent / name).write_text("\n".join(lines * 4) + "\n", encoding="utf-8")
    files = ["--source", str(out.parent / "new.en"), "--target", str(out.parent / "new.de")]
    assert headwise(["train", "--from", str(run), *files, *QUICK, *more, "-o", str(out)]) == 0


@pytest.fixture(scope="module", params=FORMATS)
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An imported run of each format."""
    folder = tmp_path_factory.mktemp("grown")
    run = folder / "run"
    assert headwise(["import", str(FORMATS[request.param](folder)), "-o", str(run)]) == 0
    return run


@pytest.fixture(scope="module")
def grown(start: Path) -> Path:
    """The run, trained on with a vocabulary that has grown."""
    out = start.parent / "new"
    train(start, NEW, out, "--max-steps=4")
    return out


def test_new_rows_begin_with_the_mean_of_their_old_pieces(
    start: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    begun = tmp_path / "begun"
    train(start, NEW, begun, "--max-steps=1", "schedule.peak=1e-9")
    old, new = Subwords.load(start), Subwords.load(begun)
    added = [new.source_size - old.source_size, new.target_size - old.target_size]
    assert 8 < min(added) <= max(added) <= 24
    counts = f"{added[0]} added" if old.joint else f"{added[0]} and {added[1]} added"
    assert f"subwords: {counts} that the new text needs" in capfd.readouterr().err
    before, after = load_file(start / "model.safetensors"), load_file(begun / "model.safetensors")
    for name, tensor in before.items():
        assert torch.allclose(tensor, after[name][: len(tensor)], rtol=0, atol=1e-6), name
    name = "source_embedding.weight" if old.joint else "target_embedding.weight"
    checked = 0
    for number in range(old.target_size, new.target_size):
        (piece,) = new.target_pieces([number])
        ids = old.encode_target(piece[1:]) if piece[0] == "▁" else [UNK]
        ids = ids[len(old.given[:1]) :] if piece[0] == "▁" else ids
        of_the_source = old.models[0] != old.models[1] and piece in own_pieces(new.models[0])
        if of_the_source or UNK in ids or old.target_pieces(ids) != new_parts(old, piece):
            continue
        checked += 1
        assert torch.allclose(after[name][number].double(), before[name][ids].double().mean(0), rtol=0, atol=1e-6)
        if "logit_bias" in before:
            assert after["logit_bias"][number].item() == pytest.approx(
                before["logit_bias"][ids].double().mean().item(), abs=1e-6
            )
    assert checked > 3
    assert not any((bias < -100).any() for n, t in after.items() if n == "logit_bias" for bias in [t[len(before[n]) :]])


def own_pieces(model: bytes) -> set[str]:
    loaded = sentencepiece.SentencePieceProcessor(model_proto=model)
    return set(loaded.id_to_piece(list(range(loaded.vocab_size()))))


def new_parts(old: Subwords, piece: str) -> list[str]:
    """Return the pieces that SentencePiece itself segments a word into, by the old model of the target."""
    model = sentencepiece.SentencePieceProcessor(model_proto=old.models[1])
    parts: list[str] = model.encode(piece[1:], out_type=str)
    return parts


def test_a_grown_run_resumes_with_the_same_bits(grown: Path, start: Path, tmp_path: Path) -> None:
    parts = tmp_path / "new"
    train(start, NEW, parts, "--max-steps=2")
    train(start, NEW, parts, "--max-steps=4")
    assert_same_weights(grown, parts)
    again = tmp_path / "again"
    train(grown, ([f"{line} zeppelin" for line in ENGLISH], GERMAN), again, "--max-steps=1")
    sizes = [Subwords.load(run, Config.load(run / "config.yaml").subwords).source_size for run in (grown, again)]
    assert sizes[1] > sizes[0]


def test_a_grown_run_is_exported_and_imported_again(grown: Path, tmp_path: Path) -> None:
    texts = [*NEW[0][:4], f"{CODE} {ENGLISH[0]}"]
    options: dict[str, Any] = {"beam": 1, "max_length": 18, "extra_length": 50, "allow_empty": True}
    native = Translator.load(grown, engine="native", precision="float32")
    torched = Translator.load(grown, engine="pytorch", device="cpu")
    found = [
        [translation.outputs[0].tokens for translation in each.translate(texts, **options)]
        for each in (native, torched)
    ]
    assert found[0] == found[1]
    model = Config.load(grown / "config.yaml").model
    if model.positions == "tensor2tensor":  # Marian's, which neither of the others has
        back(grown, "marian", tmp_path)
        return
    if model.source_end:
        check_huggingface(grown, native, texts, found[0], tmp_path)
    ctranslate2 = pytest.importorskip("ctranslate2")
    again = back(grown, "ctranslate2", tmp_path)
    theirs, subwords = ctranslate2.Translator(str(tmp_path / "ctranslate2"), device="cpu"), native.subwords
    prefix = [subwords.target_pieces(subwords.given[:1])] if subwords.given else None
    for text, tokens in zip(texts, found[0], strict=True):
        source = subwords.source_pieces(subwords.encode_source(text))
        (result,) = theirs.translate_batch([source], prefix, beam_size=1, max_decoding_length=18, disable_unk=True)
        assert result.hypotheses[0] == [*(prefix[0] if prefix else []), *subwords.target_pieces(tokens)]
    if not subwords.given:  # the format has no place for the code
        assert [each.text for each in again.translate(texts[:4], **options)] == [
            each.text for each in native.translate(texts[:4], **options)
        ]


def back(run: Path, form: str, folder: Path) -> Translator:
    """Export a run, import the result, which splits texts as before, and open it."""
    assert headwise(["export", str(run), "--to", form, "-o", str(folder / form)]) == 0
    assert headwise(["import", str(folder / form), "-o", str(folder / f"{form}-back")]) == 0
    before, after = (Translator.load(each).subwords for each in (run, folder / f"{form}-back"))
    for text in NEW[0][:4]:
        assert after.source_pieces(after.encode_source(text)) == before.source_pieces(before.encode_source(text))
    return Translator.load(folder / f"{form}-back", engine="native", precision="float32")


def check_huggingface(
    run: Path, ours: Translator, texts: list[str], tokens: list[tuple[int, ...]], folder: Path
) -> None:
    out, again = folder / "out", folder / "again"
    assert headwise(["export", str(run), "--to", "huggingface", "-o", str(out)]) == 0
    model, tokenizer = transformers.AutoModelForSeq2SeqLM.from_pretrained(out), load_tokenizer(out)
    for text, expected in zip(texts, tokens, strict=True):
        batch = tokenizer([text], return_tensors="pt")
        assert batch["input_ids"][0].tolist()[:-1] == ours.subwords.encode_source(text)
        row = model.generate(**batch, num_beams=1, max_length=20)[0].tolist()
        begin = [2, *ours.subwords.given[:1]]
        assert row[: len(begin) + len(expected)] == [*begin, *expected]
    assert headwise(["import", str(out), "-o", str(again)]) == 0
    assert_same_weights(run, again)
    assert Translator.load(again).subwords.digest() == ours.subwords.digest()


def test_a_tokenizer_that_cannot_grow_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path / "model")
    for name in ("source.spm", "target.spm"):
        (tmp_path / "model" / name).unlink()
    assert headwise(["import", str(tmp_path / "model"), "-o", str(tmp_path / "run")]) == 0
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("A man\n" * 40)
    files = ["--source", str(tmp_path / "a.en"), "--target", str(tmp_path / "a.de")]
    assert (
        headwise(
            [
                "train",
                "--from",
                str(tmp_path / "run"),
                *files,
                "--no-checks",
                *QUICK,
                "-o",
                str(tmp_path / "new"),
            ]
        )
        == 2
    )
    assert "training.add_subwords: expected a vocabulary of SentencePiece alone, found words" in capsys.readouterr().err
