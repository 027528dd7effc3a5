"""Argos packages in and out; the model inside is compared with `ctranslate2`, the package with Argos's own layout."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file

from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.engine.translator import Translator
from translator_run import ENGLISH, assert_same_weights, make_run

ctranslate2 = pytest.importorskip("ctranslate2", reason="needs the extra 'ctranslate2'")

from ctranslate2_models import write_opennmt, write_package  # noqa: E402 - needs ctranslate2

LANGUAGES = ["--from-language", "en", "--to-language", "de"]


def exported(run: Path, file: Path, *more: str) -> Path:
    assert headwise(["export", str(run), "--to", "argos", "-o", str(file), *LANGUAGES, *more]) == 0
    return file


def unpacked(file: Path, folder: Path) -> Path:
    """Unpack a package as Argos Translate installs it; return the folder in which it lies."""
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
    (package,) = folder.iterdir()
    return package


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_an_exported_package_has_what_argos_translate_loads(precision: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", share_embeddings="all", norm="pre")
    package = unpacked(exported(run, tmp_path / "en_de.argosmodel", "--precision", precision), tmp_path / "installed")
    assert package.name == "translate-en_de-1_0"
    metadata = json.loads((package / "metadata.json").read_text())
    assert (metadata["from_code"], metadata["from_name"]) == ("en", "English")
    assert (metadata["to_code"], metadata["to_name"]) == ("de", "German")
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
    model = ctranslate2.Translator(str(package / "model"), compute_type="float32")
    tokens = tokenizer.encode(ENGLISH, out_type=str)
    results = model.translate_batch(
        tokens, beam_size=1, max_decoding_length=20, disable_unk=True, suppress_sequences=[["<pad>"], ["<s>"]]
    )
    texts = [tokenizer.decode_pieces(result.hypotheses[0]) for result in results]
    back = tmp_path / "back"
    assert headwise(["import", str(tmp_path / "en_de.argosmodel"), "-o", str(back)]) == 0
    ours = Translator.load(back, engine="pytorch", device="cpu", precision="float32")
    found = ours.translate(ENGLISH, beam=1, max_length=20, extra_length=50, allow_empty=True)
    assert [each.text for each in found] == [text.strip() for text in texts]


def test_export_and_import_change_no_bit(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", share_embeddings="all")
    file = exported(run, tmp_path / "en_de.argosmodel")
    for name, source in (("zipped", file), ("unpacked", unpacked(file, tmp_path / "installed"))):
        assert headwise(["import", str(source), "-o", str(tmp_path / name)]) == 0
        assert_same_weights(run, tmp_path / name)


@pytest.fixture(scope="module")
def opennmt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an OpenNMT-py model in int8, as packages hold it."""
    return write_opennmt(tmp_path_factory.mktemp("argos") / "model", "int8")


def test_a_package_of_an_opennmt_model(opennmt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_package(tmp_path / "translate-en_de-1_0.argosmodel", opennmt, target_prefix="__de__")
    assert headwise(["import", str(file), "-o", str(tmp_path / "zipped")]) == 0
    notes = capsys.readouterr().err
    assert "translates from en to de" in notes
    assert "begins every translation with '__de__', which the vocabulary doesn't have" in notes
    assert headwise(["import", str(opennmt), "-o", str(tmp_path / "plain")]) == 0
    assert Config.load(tmp_path / "zipped" / "config.yaml").data.languages == ("en", "de")
    given = ["import", str(opennmt), "-o", str(tmp_path / "given"), "--languages", "en:pt-BR"]
    assert headwise(given) == 0
    assert Config.load(tmp_path / "given" / "config.yaml").data.languages == ("en", "pt-BR")
    assert "the model's files say" not in capsys.readouterr().err
    assert headwise(["import", str(file), "-o", str(tmp_path / "swapped"), "--languages", "de-en"]) == 0
    assert "its languages are de-en, as given; the model's files say en:de" in capsys.readouterr().err
    assert_same_weights(tmp_path / "zipped", tmp_path / "plain")
    tensors = load_file(tmp_path / "zipped" / "model.safetensors").values()
    assert any(tensor.dtype == torch.int8 for tensor in tensors)


def test_a_target_prefix_begins_the_translations(tmp_path: Path) -> None:
    """Argos Translate gives it to CTranslate2 as `target_prefix`, and takes it off the text again."""
    source = write_opennmt(tmp_path / "model", "float32")
    pieces = json.loads((source / "shared_vocabulary.json").read_text())
    prefix = next(piece for piece in pieces if len(piece) > 2 and piece.startswith("▁"))
    file = write_package(tmp_path / "a.argosmodel", source, target_prefix=prefix)
    run = tmp_path / "run"
    assert headwise(["import", str(file), "-o", str(run)]) == 0
    theirs = ctranslate2.Translator(str(source), compute_type="float32")
    for engine in ("native", "pytorch"):
        ours = Translator.load(run, engine=engine, device="cpu", precision="float32")
        for text in ENGLISH:
            read = ours.subwords.source_pieces(ours.subwords.encode_source(text))
            (result,) = theirs.translate_batch(
                [read], [[prefix]], beam_size=1, max_decoding_length=18, disable_unk=True
            )
            (found,) = ours.translate([text], beam=1, max_length=18, extra_length=50, allow_empty=True)
            assert [prefix, *ours.subwords.target_pieces(found.outputs[0].tokens)] == result.hypotheses[0]
    package = unpacked(exported(run, tmp_path / "b.argosmodel"), tmp_path / "installed")
    assert json.loads((package / "metadata.json").read_text())["target_prefix"] == prefix


@pytest.mark.parametrize(
    ("arguments", "out", "sentence"),
    [
        ([], "a.argosmodel", "expected --from-language, a code such as en or de"),
        (["--from-language", "en"], "a.argosmodel", "expected --to-language"),
        (
            ["--from-language", "../x", "--to-language", "de"],
            "a.argosmodel",
            "--from-language: expected a language code",
        ),
        (
            ["--from-language", "en", "--to-language", "en"],
            "a.argosmodel",
            "expected two languages, found en twice",
        ),
        (LANGUAGES, "a", "expected a name that ends with .argosmodel"),
        ([*LANGUAGES, "--precision", "int4"], "a.argosmodel", "--precision: expected float32 or float16"),
    ],
)
def test_wrong_options_of_an_export(
    arguments: list[str], out: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", share_embeddings="all")
    assert headwise(["export", str(run), "--to", "argos", "-o", str(tmp_path / out), *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / out).exists()


def test_a_temporary_folder_without_room_gets_a_sentence(
    opennmt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, scratch = write_package(tmp_path / "a.argosmodel", opennmt), tmp_path / "scratch"
    run = make_run(tmp_path / "run", share_embeddings="all")
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    capsys.readouterr()
    resource = pytest.importorskip("resource", reason="needs the limits of POSIX")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # of any file
    try:
        codes = [
            headwise(["import", str(file), "-o", str(tmp_path / "imported")]),
            headwise(["export", str(run), "--to", "argos", "-o", str(tmp_path / "b.argosmodel"), *LANGUAGES]),
        ]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert codes == [2, 2]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(f"error: {scratch}/" in line and "can't be written (File too large)" in line for line in lines)


def test_languages_are_told_by_the_names_of_the_training_files(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", share_embeddings="all")
    files = "  source: [a.fr.gz]\n  target: [a.it]"
    config = (run / "config.yaml").read_text().replace("  source: []\n  target: []", files)
    (run / "config.yaml").write_text(config)
    file = tmp_path / "a.argosmodel"
    assert headwise(["export", str(run), "--to", "argos", "-o", str(file)]) == 0
    assert unpacked(file, tmp_path / "installed").name == "translate-fr_it-1_0"


def test_joiners_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", share_embeddings="all", joiners=True, size=170)
    out = tmp_path / "a.argosmodel"
    assert headwise(["export", str(run), "--to", "argos", "-o", str(out), *LANGUAGES]) == 2
    assert "expected subwords without joiners for this format, found" in capsys.readouterr().err
    assert not out.exists()


def test_two_subword_models_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", share_embeddings="none")
    config = (run / "config.yaml").read_text().replace("joint: true", "joint: false")
    (run / "config.yaml").write_text(config)
    for side in ("source", "target"):
        (run / f"spm.{side}.model").write_bytes((run / "spm.model").read_bytes())
    out = tmp_path / "a.argosmodel"
    assert headwise(["export", str(run), "--to", "argos", "-o", str(out), *LANGUAGES]) == 2
    assert "one SentencePiece model for both languages, found subwords.joint=false" in capsys.readouterr().err
