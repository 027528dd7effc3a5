"""Paths of the repository and of the shared real data."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
DOCS = ROOT / "docs"
SHARED = ROOT.parent / "shared" / "data"
