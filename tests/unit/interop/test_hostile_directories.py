"""Damaged and hostile models of every format: each gets one sentence before memory is taken, and nothing is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headwise.cli.main import run as headwise

pytest.importorskip("transformers", reason="needs the extra 'huggingface'")
pytest.importorskip("ctranslate2", reason="needs the extra 'ctranslate2'")

from test_bert import write_bert
from test_language_models import write_gpt2, write_llama
from test_t5 import write_t5
from test_vit import write_vit

from ctranslate2_models import write_opennmt, write_package
from hostile_ctranslate2 import ARGOS, CTRANSLATE2
from hostile_marian import MARIAN as MARIAN_FILES
from hostile_transformers import BERT, GPT2, LLAMA, MARIAN, T5, TOKENIZER, VIT
from marian_files import write_files
from marian_models import write_marian

pytestmark = [
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
    pytest.mark.filterwarnings("ignore:Duplicate name"),
]

# What writes a whole model, and what is done to it.
FORMATS = {
    "bert": (lambda folder: write_bert(folder, "BertForMaskedLM"), TOKENIZER | BERT),
    "gpt2": (write_gpt2, GPT2),
    "llama": (write_llama, LLAMA),
    "t5": (write_t5, T5),
    "vit": (write_vit, VIT),
    "marian": (lambda folder: write_marian(folder, steps=1), MARIAN),
    "npz": (lambda folder: write_files(folder, steps=1), MARIAN_FILES),
    "ctranslate2": (write_opennmt, CTRANSLATE2),
    "argosmodel": (lambda file: write_package(file, write_opennmt(file.with_name("opennmt"))), ARGOS),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what gives the undamaged model of a format."""
    known: dict[str, Path] = {}

    def written(name: str) -> Path:
        if name not in known:
            known[name] = tmp_path_factory.mktemp("whole") / f"model.{name}"
            FORMATS[name][0](known[name])
        return known[name]

    return written


@pytest.mark.parametrize(
    ("name", "problem"), [(name, problem) for name, (_, damages) in FORMATS.items() for problem in damages]
)
def test_a_hostile_model_gets_a_sentence(
    name: str,
    problem: str,
    whole: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    original, model = whole(name), tmp_path / f"model.{name}"
    (shutil.copy if original.is_file() else shutil.copytree)(original, model)
    damage, sentence = FORMATS[name][1][problem]
    damage(model)
    capsys.readouterr()
    assert headwise(["import", str(model), "-o", str(tmp_path / "run")]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert str(model) in captured.err
    assert captured.err.count("\n") == 1
    assert "boom" not in captured.out
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "evil").exists()
