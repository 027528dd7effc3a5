"""`headwise data list` and `headwise data get`, as a user runs them."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headwise.cli.data import app
from headwise.corpora.built_in import read_built_in
from headwise.corpora.catalog import CORPORA, Corpus, PublicFile
from headwise.errors import ConfigError, DataError
from paths import SHARED
from program import Call
from translator_run import make_run


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Corpus]:
    """A public corpus named `toy` on a local server; the test runs in an empty folder."""
    site, folder = tmp_path / "site", tmp_path / "here"
    site.mkdir()
    folder.mkdir()
    (site / "train.en.gz").write_bytes(gzip.compress(b"a man\n"))
    (site / "train.de").write_bytes(b"ein Mann\n")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.chdir(folder)
    handler = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        files = (PublicFile("train.en", f"{url}/train.en.gz"), PublicFile("train.de", f"{url}/train.de"))
        corpus = Corpus("toy", "two lines", ("en", "de"), "CC0", url, 1, files, ("train.en", "train.de"))
        monkeypatch.setitem(CORPORA, "toy", corpus)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield corpus
        server.shutdown()
        thread.join()


def run(*arguments: str) -> Result:
    """Run a command that should succeed."""
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_list_names_every_corpus_with_its_terms() -> None:
    text = run("list").stdout
    for corpus in CORPORA.values():
        assert corpus.name in text
        assert corpus.license in text
        assert corpus.homepage in text


def test_list_json_has_every_file_with_its_checksum() -> None:
    listed = json.loads(run("list", "--json").stdout)
    assert {entry["name"] for entry in listed} == set(CORPORA)
    for entry in listed:
        for described, file in zip(entry["files"], CORPORA[entry["name"]].files, strict=True):
            assert described == json.loads(json.dumps(asdict(file)))
            assert described["sha256"] == file.sha256


def test_get_writes_to_data_name_and_says_how_to_train(toy: Corpus) -> None:
    result = run("get", "toy")
    assert Path("data/toy/train.en").read_bytes() == b"a man\n"
    assert Path("data/toy/train.de").read_bytes() == b"ein Mann\n"
    assert "data/toy/train.en  6 bytes, downloaded, checksum recorded" in result.stdout
    assert "headwise train --source data/toy/train.en --target data/toy/train.de -o runs/toy" in result.stdout
    assert "CC0" in result.stdout
    assert "getting train.de (9 bytes)" in result.stderr
    assert "present, checksum verified" in run("get", "toy").stdout


def test_get_json_is_one_object_and_nothing_else_on_stdout(toy: Corpus) -> None:
    answer = json.loads(run("get", "toy", "-o", "elsewhere", "--only", "*.de", "--json").stdout)
    assert answer["corpus"] == "toy"
    assert answer["directory"] == "elsewhere"
    (file,) = answer["files"]
    assert file["path"] == "elsewhere/train.de"
    assert file["status"] == "downloaded"
    assert file["bytes"] == 9
    assert file["known"] is False


def test_get_from_a_folder(toy: Corpus, tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("local\n")
    (tmp_path / "train.de.gz").write_bytes(gzip.compress(b"hier\n"))
    result = run("get", "toy", "--from", str(tmp_path))
    assert Path("data/toy/train.de").read_bytes() == b"hier\n"
    assert "copied" in result.stdout
    run("get", "toy", "-o", "data/toy", "--only", "*.de")
    with pytest.raises(DataError, match="the checksum is wrong"):
        run("get", "toy", "--force")  # the server's text isn't the one recorded


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("origin", ["server", "folder"])
def test_get_brings_a_model_that_translates(
    toy: Corpus, origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Call
) -> None:
    run_directory = make_run(tmp_path / "site" / "de")
    (run_directory / "corpus").mkdir()
    (run_directory / "corpus" / "dev.en").write_text("A dog sleeps.\n")
    names = [file.relative_to(run_directory) for file in sorted(run_directory.rglob("*")) if file.is_file()]
    files = tuple(
        PublicFile(name.as_posix(), f"{toy.homepage}/de/{name.as_posix()}", _sha256(run_directory / name))
        for name in names
    )
    model = Corpus("de", "a small model", ("en", "de"), "MIT", toy.homepage, 1, files, model=True)
    monkeypatch.setitem(CORPORA, "de", model)
    result = run("get", "de", *(("--from", str(run_directory)) if origin == "folder" else ()))
    assert "To translate with it: headwise translate models/de" in result.stdout
    for name in names:
        assert (Path("models/de") / name).read_bytes() == (run_directory / name).read_bytes()
    Path("text").write_text("A dog sleeps.\n")
    outputs = [program("translate", directory, "text") for directory in (run_directory, "models/de")]
    assert [output.code for output in outputs] == [0, 0]
    assert outputs[0].out == outputs[1].out
    (run_directory / "spm.model").write_bytes(b"other")
    with pytest.raises(DataError, match=r"spm\.model.*the checksum is wrong"):
        run("get", "de", "--force", "--only", "spm.model")


def test_the_first_bytes_of_a_models_file_do_not_make_it_a_gzip_file(
    toy: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header of a safetensors file may be 35,615 bytes long, which is how a gzip file begins."""
    weights = (35_615).to_bytes(8, "little") + b"{}"
    (tmp_path / "site" / "model.safetensors").write_bytes(weights)
    file = PublicFile("model.safetensors", f"{toy.homepage}/model.safetensors")
    monkeypatch.setitem(CORPORA, "de", Corpus("de", "", (), "MIT", toy.homepage, 1, (file,), model=True))
    run("get", "de")
    assert Path("models/de/model.safetensors").read_bytes() == weights


def test_get_writes_what_is_made_here_and_keeps_it(toy: Corpus) -> None:
    result = run("get", "reverse", "--only", "dev.*")
    assert "data/reverse/dev.source" in result.stdout
    assert len(Path("data/reverse/dev.target").read_text().splitlines()) == 500
    assert "present, checksum verified" in run("get", "reverse", "--only", "dev.*").stdout
    run("get", "miniature", "--only", "dev.*")
    assert Path("data/miniature/dev.en").read_text("utf-8").splitlines() == read_built_in("miniature", "dev.en")
    Path("data/miniature/dev.en").write_text("mine")
    with pytest.raises(DataError, match="another file is already here"):
        run("get", "miniature", "--only", "dev.en")
    with pytest.raises(ConfigError, match=r"--from elsewhere: expected none, as reverse is made here"):
        run("get", "reverse", "--from", "elsewhere")


def test_force_replaces_what_another_version_has_made(toy: Corpus) -> None:
    run("get", "reverse", "--only", "dev.source")
    of_today = Path("data/reverse/dev.source").read_bytes()
    of_another_version = of_today[::-1]
    Path("data/reverse/dev.source").write_bytes(of_another_version)
    manifest = Path("data/reverse/manifest.json")
    old, new = (hashlib.sha256(text).hexdigest() for text in (of_another_version, of_today))
    manifest.write_text(manifest.read_text().replace(new, old))
    assert "present, checksum verified" in run("get", "reverse", "--only", "dev.source").stdout
    assert "written" in run("get", "reverse", "--only", "dev.source", "--force").stdout
    assert Path("data/reverse/dev.source").read_bytes() == of_today


def test_multi30k_from_the_shared_data(tmp_path: Path) -> None:
    if not (SHARED / "multi30k").is_dir():
        pytest.skip(f"needs the real data in {SHARED / 'multi30k'}")
    out = tmp_path / "multi30k"
    run("get", "multi30k", "--from", str(SHARED / "multi30k"), "-o", str(out), "--only", "*.de")
    assert len((out / "train.de").read_text(encoding="utf-8").splitlines()) == 29_000
    assert not (out / "train.en").exists()


def test_the_open_text_from_the_shared_data(tmp_path: Path) -> None:
    if not (SHARED / "open-en-de").is_dir():
        pytest.skip(f"needs the real data in {SHARED / 'open-en-de'}")
    out = tmp_path / "text"
    files = ("thunderbird.tsv", "test/tatoeba-dev.*")
    only = [option for file in files for option in ("--only", file)]
    run("get", "open-en-de-text", "--from", str(SHARED / "open-en-de"), "-o", str(out), *only)
    assert len((out / "thunderbird.tsv").read_text("utf-8").splitlines()) == 4_274
    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    origin, _, license_name = manifest["files"]["thunderbird.tsv"]["terms"].rpartition("; ")
    assert (origin, license_name) == ("Mozilla Thunderbird, mozilla-l10n/thunderbird-l10n", "MPL 2")
    assert manifest["files"]["test/tatoeba-dev.de"]["terms"].endswith("CC BY 2.0")


def test_every_file_of_the_open_text_names_origin_and_license() -> None:
    tested = [file.name for file in CORPORA["open-en-de-text"].files if file.terms.startswith("kept out of training: ")]
    assert {name.partition(".")[0] for name in tested} == {
        *("open-source-guides", "test/tatoeba-dev", "test/tatoeba-test", "test/ntrex128")
    }
    for file in CORPORA["open-en-de-text"].files:
        assert re.search(r", [\w-]+/[\w.-]+(@[0-9a-f]{7,})?( and [\w-]+/[\w.-]+@[0-9a-f]{10})?; ", file.terms)
