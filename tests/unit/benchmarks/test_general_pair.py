"""The ablation of the general pair: every text that a variant trains on is there, and a second call trains nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import general_pair
from headwise.config import Config
from headwise.text.reading.lines import read_lines
from paths import ROOT

LINES = 12


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "text"
    (folder / "test").mkdir(parents=True)
    for name in ("train", "sentences", "everyday", "test/tatoeba-dev", "test/tatoeba-test"):
        for side in general_pair.SIDES:
            text = "".join(f"{name} {side} {number}.\n" for number in range(LINES))
            (folder / f"{name}.{side}").write_text(text, "utf-8")
    return folder


def test_every_variant_trains_on_its_text_once(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    trained: dict[str, Config] = {}
    scored: list[str] = []

    def command(name: str, *arguments: object) -> str:
        """Do what the program would, without a model: a translation is its source in capitals."""
        if name == "train":
            _, config, *changes, _, run = map(str, arguments)
            trained[Path(run).name] = Config.load(config, changes)
            Path(run).mkdir()
            (Path(run) / "model.safetensors").touch()
        elif name == "translate":
            _, source, _, out, *_ = map(str, arguments)
            Path(out).write_text("".join(f"{line.upper()}\n" for line in read_lines(Path(source))))
        return ""

    def filtered(command: list[str], *, check: bool) -> None:
        part = Path(command[3])
        part.mkdir()
        for side in general_pair.SIDES:
            (part / f"train.{side}").write_text(f"likely {side}\n")

    monkeypatch.setattr(general_pair, "headwise", command)
    monkeypatch.setattr(general_pair.subprocess, "run", filtered)
    monkeypatch.setattr(general_pair.robustness, "main", scored.extend)
    out = tmp_path / "out"
    arguments = ["--text", str(corpus), "--out", str(out), "--seed", "3"]
    general_pair.main(arguments)
    assert set(trained) == {*general_pair.VARIANTS, general_pair.REVERSE}
    texts = {
        name: [
            list(zip(read_lines(Path(one)), read_lines(Path(other)), strict=True))
            for one, other in zip(config.data.source, config.data.target, strict=True)
        ]
        for name, config in trained.items()
    }
    quarter = [(f"train en {number}.", f"train de {number}.") for number in range(0, LINES, 4)]
    other = range(1, LINES, 4)
    for name in ("base", "unaugmented", "r-drop"):
        assert texts[name] == [quarter]
    for name in ("sentences", "everyday"):
        assert texts[name][0][1] == (f"{name} en 4.", f"{name} de 4.")
    assert texts["likeliest"] == [[("likely en", "likely de")]]
    assert texts["distilled"] == [[(en, en.upper()) for en, _ in quarter]]
    assert texts["both"] == [quarter, *texts["distilled"]]
    assert texts["forward"][1] == [(f"train en {n}.", f"TRAIN EN {n}.") for n in other]
    assert texts["back"][1] == [(f"TRAIN DE {n}.", f"train de {n}.") for n in other]
    assert texts["reverse"] == [[(de, en) for en, de in quarter]]
    assert {(config.training.max_steps, config.training.seed) for config in trained.values()} == {(2000, 3)}
    assert trained["base"].data.augment != trained["unaugmented"].data.augment
    assert [Path(name).name for name in scored[: len(general_pair.VARIANTS)]] == list(general_pair.VARIANTS)
    trained.clear()
    general_pair.main(arguments)
    assert not trained
