"""The models of the repository have the scores of their cards."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from paths import ROOT, SHARED
from program import call


def test_the_multi30k_model_has_the_scores_of_its_card(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = SHARED / "multi30k"
    if not folder.is_dir():
        pytest.skip(f"needs the corpus in {folder}")
    model = ROOT / "models" / "multi30k-en-de"
    card = (model / "README.md").read_text(encoding="utf-8")
    files = {}
    for side in ("en", "de"):
        files[side] = tmp_path / f"test.{side}"
        packed = folder / f"test_2016_flickr.lc.norm.tok.{side}.gz"
        files[side].write_bytes(gzip.decompress(packed.read_bytes()))
    pair = ("--source", files["en"], "--reference", files["de"])
    found = json.loads(call(capsys, "evaluate", model, *pair, "--beam", 5, "--alpha", 1.4, "--json").out)
    for name, key in (("BLEU", "bleu"), ("chrF2", "chrf"), ("tokenized BLEU", "tokenized_bleu")):
        row = re.search(rf"^\| {name} \| ([0-9.]+) \|", card, re.MULTILINE)
        assert row is not None
        # int8 products round differently with other processors' instructions
        assert found[key]["score"] == pytest.approx(float(row[1]), abs=0.3), name
