"""Packages that only some features need."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib

import pytest

from headwise.cli.main import run
from headwise.errors import ConfigError
from headwise.extras import OPTIONAL, needed_by, optional_module
from paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def packages(extra: str) -> set[str]:
    """Return the names of an extra's packages, with those of the extras that it names."""
    found: set[str] = set()
    for requirement in EXTRAS[extra]:
        name, others = re.match(r"([\w-]+)(?:\[([\w,-]+)\])?", requirement).groups()  # type: ignore[union-attr]
        found |= set().union(*map(packages, others.split(","))) if name == "headwise" else {name.lower()}
    return found


def needs(distribution: str) -> set[str]:
    """Return the names of what an installed distribution requires."""
    lines = importlib.metadata.requires(distribution) or []
    return {re.split(r"[^\w-]", line)[0].lower().replace("_", "-") for line in lines}


def test_an_extra_brings_each_package_that_it_is_named_for() -> None:
    distributions = importlib.metadata.packages_distributions()
    checked = 0
    for package, installs in OPTIONAL.items():
        if not installs.startswith("headwise[") or package not in distributions:
            continue
        brought = packages(installs.removeprefix("headwise[").rstrip("]"))
        brought = brought.union(*(needs(name) for name in brought if package == "huggingface_hub"))
        names = {name.lower().replace("_", "-") for name in distributions[package]}
        assert names & {name.replace("_", "-") for name in brought}, package
        checked += 1
    assert checked > 15


def test_no_optional_package_is_always_installed() -> None:
    always = {re.split(r"[\[>=;]", requirement)[0] for requirement in PROJECT["dependencies"]}
    assert not always & set(OPTIONAL)


def test_all_has_every_extra_but_those_of_developers() -> None:
    assert packages("all") == set().union(*map(packages, EXTRAS.keys() - {"all", "docs", "dev"}))


def test_a_missing_package_is_one_sentence_that_a_shell_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        ConfigError,
        match=r"^--x: needs the package torch, found none; run `pip install 'headwise\[train\]'`$",
    ):
        optional_module("torch", "--x")


def test_an_import_that_fails_otherwise_is_a_bug() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), needed_by("--x"):
        importlib.import_module("no_such_module")


def test_a_command_that_needs_a_missing_package_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "headwise.web.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["learn", "--no-browser"]) == 2
    expected = "headwise: error: learn: needs the package uvicorn, found none; run `pip install 'headwise[serve]'`\n"
    assert capsys.readouterr().err == expected
