"""What works without PyTorch, matplotlib and sacreBLEU, and what says what to install, in processes without them."""

from __future__ import annotations

import json
import shutil
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

from headwise.extras import installed
from headwise.interop.formats import EXPORTERS, IMPORTERS
from headwise.native.library import Library, find_library
from headwise.processes import child_environment, python_command
from paths import ROOT

HIDDEN = ("torch", "matplotlib", "sacrebleu")
DEMO = ROOT / "src/headwise/shipped/demo/corpus"
# Runs commands in one process, and prints of each the exit code, what it printed, and its messages.
PROGRAM = """
import contextlib, io, json, sys
for name in {hidden}:
    sys.modules[name] = None
{before}
from headwise.cli.main import run
done = []
for arguments in {commands}:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    done.append((code, out.getvalue(), err.getvalue()))
print(json.dumps([done, sorted(sys.modules)]))
"""
pytestmark = pytest.mark.skipif(
    not isinstance(find_library(), Library),
    reason="the native engine was not compiled (pip install -e . with a C++ compiler)",
)


def python(code: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program that succeeds."""
    done = subprocess.run(
        python_command("-c", code),
        env=child_environment(),
        cwd=cwd,
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def run_in_child(
    commands: list[list[str]], folder: Path, hidden: tuple[str, ...] = HIDDEN, before: str = ""
) -> tuple[list[tuple[int, str, str]], set[str]]:
    """Return what each command did, and the modules that all of them imported."""
    code = PROGRAM.format(hidden=hidden, commands=commands, before=before)
    done = python(code, cwd=folder)
    outcomes, modules = json.loads(done.stdout)
    return [tuple(outcome) for outcome in outcomes], set(modules)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "a.en").write_text("Dog bites man.\nA man rides a horse.\n")
    (tmp_path / "a.de").write_text("Hund beißt Mann.\nEin Mann reitet ein Pferd.\n")
    return tmp_path


def test_what_works_without_them(text: Path) -> None:
    commands = [
        ["translate", "demo", "a.en", "-o", "out.de"],
        ["translate", "demo", "a.en", "--beam", "1", "--jsonl"],
        ["translate", "demo", "a.en", "--n-best", "2", "--scores"],
        ["export", "demo", "--to", "huggingface", "-o", "theirs"],
        ["import", "theirs", "-o", "ours"],
        ["export", "ours", "--to", "run", "--precision", "int8", "-o", "small"],
        ["translate", "small", "a.en", "-o", "small.de"],
        ["data", "list"],
        ["data", "get", "miniature", "-o", "data"],
        ["keys", "add", "keys.db", "client"],
        ["keys", "list", "keys.db"],
        ["--help"],
        ["translate", "--help"],
        ["serve", "--help"],
    ]
    # A format of translators is imported without them, too.
    formats = {*IMPORTERS.values(), *EXPORTERS.values()} - {EXPORTERS["onnx"]}
    before = f"import importlib; [importlib.import_module(name) for name in {formats}]"
    outcomes, _ = run_in_child(commands, text, before=before)
    assert [code for code, _, _ in outcomes] == [0] * len(commands), outcomes
    assert (text / "small.de").read_text().splitlines()[0] == "Hund beißt Mann."
    assert (text / "out.de").read_text().splitlines()[0] == "Hund beißt Mann."
    assert json.loads(outcomes[1][1].splitlines()[0])["text"] == "Hund beißt Mann."


def test_every_other_command_is_one_sentence_with_what_to_install(text: Path) -> None:
    (text / "bert").mkdir()
    (text / "bert" / "config.json").write_text('{"model_type": "bert"}')
    needing: dict[str, list[list[str]]] = {
        "torch": [
            ["train", "--source", "a.en", "--target", "a.de", "-o", "run"],
            ["demo", "--out", "run"],
            ["predict", "demo", "a.en"],
            ["explain", "demo", "--text", "Dog bites man."],
            ["analyze", "heads", "demo", "--miniature"],
            ["learn", "--no-browser"],
            ["reproduce", "table1"],
            ["reproduce", "table2", "--show"],
            ["serve", "demo", "--miniature"],
            ["translate", "demo", "a.en", "--engine", "pytorch"],
            ["import", "bert", "-o", "run"],
            ["export", "demo", "--to", "page", "-o", "page"],
            *([["export", "demo", "--to", "onnx", "-o", "onnx"]] if installed("onnx") else []),
        ],
        "sacrebleu": [["evaluate", "demo", "--source", "a.en", "--reference", "a.de"]],
    }
    installs = {"torch": "headwise[train]", "sacrebleu": "sacrebleu"}
    commands = [command for group in needing.values() for command in group]
    outcomes, _ = run_in_child(commands, text)
    for package, group in needing.items():
        for command in group:
            code, _, error = outcomes[commands.index(command)]
            sentence = f"needs the package {package}, found none; run `pip install '{installs[package]}'`"
            assert (code, error.splitlines()[-1][-len(sentence) :]) == (2, sentence), command
            assert "Traceback" not in error
            assert command[0] != "train" or error.count("\n") == 1  # before its plan


def test_without_the_native_library_either_translating_says_what_to_install(text: Path) -> None:
    before = "from headwise.engine import loading; loading.find_library = lambda: 'there is none'"
    outcomes, _ = run_in_child([["translate", "demo", "a.en"]], text, before=before)
    assert outcomes[0][0] == 2
    expected = (
        "demo: the PyTorch engine (native: there is none): needs the package torch, found none; "
        "run `pip install 'headwise[train]'`\n"
    )
    assert outcomes[0][2].endswith(expected)


def test_python_translates_without_them(tmp_path: Path) -> None:
    code = (
        f"import sys; [sys.modules.__setitem__(name, None) for name in {HIDDEN}]; import headwise; "
        "print(headwise.load('demo').translate(['Dog bites man.'])[0].text)"
    )
    assert python(code).stdout == "Hund beißt Mann.\n"


def test_translating_imports_none_of_them_where_they_are_installed(text: Path) -> None:
    outcomes, modules = run_in_child([["translate", "demo", "a.en", "--beam", "1"]], text, hidden=())
    code, output, *_ = outcomes[0]
    assert (code, output.splitlines()[0]) == (0, "Hund beißt Mann.")
    assert not modules & {*HIDDEN, "transformers", "rich", "sentencex", "starlette"}


def test_the_server_translates_without_them_and_says_how_to_get_its_page(tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")
    shutil.copytree(DEMO.parent, tmp_path / "demo")
    code = f"""
import sys
from pathlib import Path
for name in {HIDDEN}:
    sys.modules[name] = None
from headwise.shipped.runs import find_run
from starlette.testclient import TestClient
from headwise.cli import serve
from headwise.serve import production
from headwise.serve.translation.limits import ServiceLimits
from headwise.serve.workers import supervisor
assert supervisor.prepare_parent(2, "auto") >= 1
runs, page = serve._opened([find_run("demo"), Path({str(tmp_path / "demo")!r})], "auto", 1, None)
opened = production.Production(runs, [], ServiceLimits(), say=print)
with TestClient(opened.app(page()), base_url="http://localhost") as client:
    found = client.post("/translate", json={{"q": "Dog bites man.", "source": "en", "target": "de"}})
    print(list(runs), found.json()["translatedText"])
    print(client.get("/").text)
"""
    done = python(code)
    assert done.stdout.splitlines()[0] == "['demo', 'demo-2'] Hund beißt Mann."
    assert "needs the package torch, found none; run `pip install &#x27;headwise[train]&#x27;`" in done.stdout


@pytest.mark.slow
def test_a_plain_installation_translates_and_serves(text: Path) -> None:
    folder = text / "environment"
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    install = ["-m", "pip", "install", "--quiet", "--constraint", "constraints.txt", f"{ROOT}"]
    subprocess.run([python, *install], cwd=ROOT, check=True)

    def headwise(*arguments: Any) -> subprocess.CompletedProcess[str]:
        command = [python, "-P", "-m", "headwise", *arguments]
        return subprocess.run(command, cwd=text, input="", capture_output=True, text=True, check=False)

    found = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
    assert found.returncode == 1
    assert headwise("translate", "demo", "a.en").stdout.splitlines()[0] == "Hund beißt Mann."
    for command, package in (("serve", "starlette"), ("demo", "torch")):
        failed = headwise(command, *(["demo"] if command == "serve" else []))
        assert failed.returncode == 2
        assert f"{command}: needs the package {package}, found none" in failed.stderr
