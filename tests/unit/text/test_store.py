from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.config import AugmentConfig, CleaningConfig, DataConfig, SubwordConfig
from headwise.data import prepared as folders
from headwise.data.ragged import Ragged, RaggedWriter, gather
from headwise.errors import CheckpointError, ConfigError, DataError, TrainingError
from headwise.text.preparation import in_process, resegmented
from headwise.text.preparation.in_process import prepare
from headwise.text.preparation.parallel import PreparedData
from headwise.text.preparation.resegmented import EpochStores, Resegmentation, resegment
from headwise.text.preparation.stores import ParallelStore
from headwise.text.tokens import encoding
from headwise.text.tokens.subwords import EOS, Subwords

SMALL = SubwordConfig(size=60)
WORDS = ["der", "die", "das", "Mann", "Frau", "Hund", "Katze", "reitet", "spielt", "sieht", "rot", "alt"]


def corpus(folder: Path, pairs: list[tuple[str, str]], name: str = "train") -> dict[str, Any]:
    source, target = folder / f"{name}.en", folder / f"{name}.de"
    source.write_text("".join(f"{a}\n" for a, _ in pairs), encoding="utf-8")
    target.write_text("".join(f"{b}\n" for _, b in pairs), encoding="utf-8")
    return {"source": [str(source)], "target": [str(target)], "workers": 1}


def sentences(count: int, seed: int = 0) -> list[tuple[str, str]]:
    random = np.random.default_rng(seed)
    lengths = random.integers(3, 9, (count, 2))  # no pair is removed for its length ratio
    return [tuple(" ".join(random.choice(WORDS, n)) for n in row) for row in lengths]  # type: ignore[misc]


def decoded(store: ParallelStore, subwords: Subwords) -> list[tuple[str, str]]:
    return [
        (subwords.decode_source(store.source(i)), subwords.decode_target(store.target(i))) for i in range(len(store))
    ]


def rows(prepared: PreparedData, name: str = "train") -> list[tuple[str, str]]:
    return decoded(getattr(prepared, name), prepared.subwords)


def forbid(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError(f"{name} was called")

    monkeypatch.setattr(module, name, forbidden)


def test_the_store_holds_the_text(tmp_path: Path) -> None:
    pairs = sentences(200)
    pairs[3] = ("", "leer")
    prepared = prepare(DataConfig(**corpus(tmp_path, pairs), dev_pairs=0), SMALL, tmp_path / "prepared")
    kept = [pair for pair in pairs if pair[0]]
    train = prepared.train
    assert rows(prepared) == kept
    for row, (source, target) in enumerate(kept[:9]):
        assert train.source(row).tolist() == [*prepared.subwords.encode_source(source), EOS]
        assert train.target(row).tolist() == prepared.subwords.encode_target(target)
    assert train.source_lengths.tolist() == [len(train.source(i)) for i in range(len(train))]
    assert train.target_lengths.tolist() == [len(train.target(i)) + 1 for i in range(len(train))]
    assert train.lines[:5].tolist() == [1, 2, 3, 5, 6]
    assert train.source(0).dtype == np.uint16
    assert (len(prepared.dev), prepared.dev_source, prepared.dev_target) == (0, [], [])
    assert "1 with an empty side" in prepared.report[0]
    with pytest.raises(IndexError):
        train.source(len(train))


def test_messages_name_files_and_lines(tmp_path: Path) -> None:
    a, b = corpus(tmp_path, sentences(3), "a"), corpus(tmp_path, sentences(30), "b")
    config = DataConfig(source=a["source"] + b["source"], target=a["target"] + b["target"], dev_pairs=0)
    train = prepare(config, SMALL, tmp_path / "prepared").train
    assert train.locate([2]) == f"{a['source'][0]} line 3"
    assert train.locate([4, 0, 3]) == f"{a['source'][0]} line 1; {b['source'][0]} lines 1 and 2"
    assert train.locate(range(2, 33), most=3) == (
        f"{a['source'][0]} line 3; {b['source'][0]} lines 1 and 2 and 28 more"
    )


def test_a_given_development_set_keeps_its_lines(tmp_path: Path) -> None:
    dev = [(" a ".join(WORDS), "x"), ("", "x"), *sentences(5, seed=1)]
    files = corpus(tmp_path, dev, "dev")
    config = DataConfig(
        **corpus(tmp_path, [*sentences(50), dev[4]]),
        dev_source=files["source"][0],
        dev_target=files["target"][0],
    )
    prepared = prepare(config, SMALL, tmp_path / "prepared")
    expected = [dev[0], *dev[2:]]  # not cleaned by ratio; only the empty side is left out
    assert list(zip(prepared.dev_source, prepared.dev_target, strict=True)) == expected
    assert len(prepared.dev) == len(expected)
    assert prepared.dev.locate([1]) == f"{files['source'][0]} line 3"
    assert "1 training pairs also stand in the development set" in prepared.report
    assert len(prepared.train) == 51


@pytest.mark.parametrize("seed", [1, 2])
def test_the_split_keeps_equal_pairs_together(tmp_path: Path, seed: int) -> None:
    distinct = list(dict.fromkeys(sentences(300)))
    pairs = distinct * 3
    config = DataConfig(**corpus(tmp_path, pairs), dev_pairs=10)
    prepared = prepare(config, SMALL, tmp_path / "prepared", seed=seed)
    dev = list(zip(prepared.dev_source, prepared.dev_target, strict=True))
    assert rows(prepared, "dev") == dev
    assert len(dev) == len(set(dev)) == 10
    assert rows(prepared) == [pair for pair in pairs if pair not in set(dev)]
    assert f"10 pairs split off the training text (seed {seed}); 20 equal to one of them" in prepared.report[1]
    other = prepare(config, SMALL, tmp_path / "other", seed=seed + 1)
    assert set(zip(other.dev_source, other.dev_target, strict=True)) != set(dev)


def test_the_split_leaves_replayed_files_alone(tmp_path: Path) -> None:
    distinct = list(dict.fromkeys(sentences(400)))
    new, old = distinct[:200], distinct[100:]  # a hundred pairs are in both
    files = [corpus(tmp_path, new, "new"), corpus(tmp_path, old, "old")]
    config = DataConfig(
        source=files[0]["source"] + files[1]["source"],
        target=files[0]["target"] + files[1]["target"],
        dev_files=1,
        workers=1,
    )
    prepared = prepare(config, SMALL, tmp_path / "prepared")
    dev = rows(prepared, "dev")
    assert len(dev) == 10  # one in twenty of the new pairs
    assert set(dev) <= set(new)
    assert rows(prepared) == [pair for pair in [*new, *old] if pair not in set(dev)]
    assert f"10 pairs split off {files[0]['source'][0]} (seed 1)" in prepared.report[1]


def test_a_small_corpus_gives_at_most_a_twentieth_to_development(tmp_path: Path) -> None:
    pairs = list(dict.fromkeys(sentences(250)))[:200]
    prepared = prepare(DataConfig(**corpus(tmp_path, pairs)), SMALL, tmp_path / "prepared")
    assert (len(prepared.dev), len(prepared.train)) == (10, 190)
    assert "rather than the 1,000 that data.dev_pairs asks for" in prepared.report[1]


def test_duplicates_are_dropped_on_request(tmp_path: Path) -> None:
    pairs = sentences(100) * 2
    fields = corpus(tmp_path, pairs) | {"dev_pairs": 0}
    assert len(prepare(DataConfig(**fields), SMALL, tmp_path / "prepared").train) == 200
    fields["cleaning"] = {"drop_duplicates": True}
    prepared = prepare(DataConfig(**fields), SMALL, tmp_path / "prepared")
    distinct = list(dict.fromkeys(pairs))
    assert rows(prepared) == distinct
    assert f"{len(distinct)} kept; " in prepared.report[0]
    assert f"{200 - len(distinct)} duplicates" in prepared.report[0]


def test_what_is_held_out_to_test_on_is_not_trained_on(tmp_path: Path) -> None:
    pairs = list(dict.fromkeys(sentences(100)))
    test = tmp_path / "test.de"
    test.write_text(f"{pairs[7][1].upper()}!\n", encoding="utf-8")
    fields = corpus(tmp_path, pairs) | {"dev_pairs": 0}
    everything = prepare(DataConfig(**fields), SMALL, tmp_path / "prepared")
    fields["cleaning"] = {"held_out": [str(test)]}
    prepared = prepare(DataConfig(**fields), SMALL, tmp_path / "prepared")
    assert rows(prepared) == [pair for pair in pairs if pairs[7][1] != pair[1]]
    assert prepared.checksum != everything.checksum
    assert prepare(DataConfig(**fields), SMALL, tmp_path / "prepared").reused
    test.write_text("Ein anderer Satz.\n", encoding="utf-8")
    assert rows(prepare(DataConfig(**fields), SMALL, tmp_path / "prepared")) == pairs
    fields["cleaning"] = {"held_out": [str(tmp_path / "none")]}
    with pytest.raises(DataError, match="none: there is no such file"):
        prepare(DataConfig(**fields), SMALL, tmp_path / "prepared")


def test_the_fields_of_the_text_are_those_of_what_is_held_out(tmp_path: Path) -> None:
    pairs = list(dict.fromkeys(sentences(100)))
    records = [json.dumps({"translation": {"en": source, "de": target}}) for source, target in pairs]
    text, test = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    text.write_text("\n".join(records) + "\n", encoding="utf-8")
    test.write_text(f"{records[7]}\n", encoding="utf-8")
    config = DataConfig(
        source=[str(text)],
        source_field="translation.en",
        target_field="translation.de",
        dev_pairs=0,
        cleaning=CleaningConfig(held_out=[str(test)]),
    )
    held_out = {*pairs[7]}
    assert rows(prepare(config, SMALL, tmp_path / "prepared")) == [p for p in pairs if held_out.isdisjoint(p)]


def test_pairs_over_the_length_limit_are_counted(tmp_path: Path) -> None:
    config = DataConfig(**corpus(tmp_path, sentences(200)), dev_pairs=0)
    everything = prepare(config, SMALL, tmp_path / "prepared")
    limit = int(np.median(everything.train.source_lengths))
    fits = (everything.train.source_lengths <= limit) & (everything.train.target_lengths <= limit)
    prepared = prepare(config, SMALL, tmp_path / "prepared", max_length=limit)
    assert not prepared.reused
    assert prepared.train.lines.tolist() == (np.flatnonzero(fits) + 1).tolist()
    assert f"{int((~fits).sum())} over {limit} subwords left out" in prepared.report[-2]
    with pytest.raises(DataError, match="every training pair is longer than 1 subwords"):
        prepare(config, SMALL, tmp_path / "prepared", max_length=1)
    assert len(PreparedData.open(tmp_path / "prepared").train) == len(prepared.train)  # as it was


def test_the_second_start_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = DataConfig(**corpus(tmp_path, sentences(60)))
    first = prepare(config, SMALL, tmp_path / "prepared")
    for module, name in ((folders, "file_sha256"), (in_process, "_build")):
        forbid(monkeypatch, module, name)
    second = prepare(config, SMALL, tmp_path / "prepared")
    assert (first.reused, second.reused) == (False, True)
    assert rows(second) == rows(first)
    for name in ("dev_source", "report", "checksum"):
        assert getattr(second, name) == getattr(first, name)
    assert prepare(config.model_copy(update={"workers": 2}), SMALL, tmp_path / "prepared").reused


def test_a_touched_file_is_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = corpus(tmp_path, sentences(60))
    prepare(DataConfig(**fields), SMALL, tmp_path / "prepared")
    os.utime(fields["source"][0], (1, 1))
    assert prepare(DataConfig(**fields), SMALL, tmp_path / "prepared").reused
    forbid(monkeypatch, folders, "file_sha256")
    assert prepare(DataConfig(**fields), SMALL, tmp_path / "prepared").reused


def test_any_change_is_noticed(tmp_path: Path) -> None:
    fields = corpus(tmp_path, sentences(60))
    directory = tmp_path / "prepared"

    def again(subwords: SubwordConfig = SMALL, **options: Any) -> bool:
        return prepare(DataConfig(**fields), subwords, directory, **options).reused

    assert not again()
    fields["dev_pairs"] = 2
    assert not again()
    assert not again(SubwordConfig(size=61))
    assert not again(SubwordConfig(size=61, dropout=0.1))
    assert not again(seed=2)
    assert again(seed=2)
    text = Path(fields["target"][0]).read_text()
    Path(fields["target"][0]).write_text(text.replace("Hund", "Hand"))  # as long as before
    os.utime(fields["target"][0], (1, 1))
    assert not again(seed=2)
    for file in directory.glob("train.source.values"):
        file.write_bytes(file.read_bytes()[:-2])
    assert not again(seed=2)  # damaged
    assert again(seed=2)
    Path(fields["source"][0]).unlink()
    with pytest.raises(DataError, match=r"train\.en: there is no such file"):
        again(seed=2)


def test_a_given_model_is_used(tmp_path: Path) -> None:
    text = [" ".join(pair) for pair in sentences(50)]
    model = Subwords.train(text, text, SubwordConfig(size=50, joint=False), tmp_path / "model")
    config = DataConfig(**corpus(tmp_path, sentences(60)))
    prepared = prepare(config, SMALL, tmp_path / "prepared", subwords=model)
    assert prepared.subwords.digest() == model.digest()
    assert not prepared.subwords.joint
    assert prepare(config, SMALL, tmp_path / "prepared", subwords=model).reused
    assert not prepare(config, SMALL, tmp_path / "prepared").reused


@pytest.mark.parametrize("stage", ["_split", "_learn", "_store", "_store_development"])
def test_kill_during_preparation_leaves_no_half_store(tmp_path: Path, stage: str) -> None:
    config = DataConfig(**corpus(tmp_path, sentences(60)))
    code = (
        "import os, signal, sys; from headwise.config import DataConfig, SubwordConfig\n"
        "from headwise.text.preparation import in_process as preparation\n"
        f"preparation.Stages.{stage} = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"preparation.prepare(DataConfig.model_validate_json(sys.argv[1]), SubwordConfig(size=60), sys.argv[2])"
    )
    command = [sys.executable, "-c", code, config.model_dump_json(), str(tmp_path / "prepared")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "prepared").exists()
    prepared = prepare(config, SMALL, tmp_path / "prepared")
    assert rows(prepared, "dev") == list(zip(prepared.dev_source, prepared.dev_target, strict=True))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"train.en", "train.de", "prepared", ".prepared.lock"}


def test_two_processes_at_once_agree(tmp_path: Path) -> None:
    config = DataConfig(**corpus(tmp_path, sentences(300)))
    code = (
        "import sys; from headwise.config import DataConfig, SubwordConfig\n"
        "from headwise.text.preparation.in_process import prepare\n"
        "data = DataConfig.model_validate_json(sys.argv[1])\n"
        "print(prepare(data, SubwordConfig(size=60), sys.argv[2]).reused)"
    )
    command = [sys.executable, "-c", code, config.model_dump_json(), str(tmp_path / "prepared")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(process.communicate()[0].strip() for process in processes) == ["False", "True"]


def test_several_processes_encode_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = corpus(tmp_path, sentences(9_000))
    one = prepare(DataConfig(**fields), SMALL, tmp_path / "one")
    monkeypatch.setattr(encoding, "_ALONE_BELOW", 1000)
    two = prepare(DataConfig(**{**fields, "workers": 2}), SMALL, tmp_path / "two")
    for name in ("train.source", "train.target", "dev.source", "dev.target"):
        for end in ("values", "offsets"):
            file = f"{name}.{end}"
            assert (one.directory / file).read_bytes() == (two.directory / file).read_bytes()
    names = {path.name for path in two.directory.iterdir()}
    assert names == {path.name for path in one.directory.iterdir()}
    assert not any("part" in name or "text" in name for name in names if name.startswith("train"))


def test_a_process_that_cannot_write_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    prepared = prepare(DataConfig(**corpus(tmp_path, sentences(60))), SMALL, tmp_path / "prepared")
    home = prepared.directory
    job = encoding.EncodingJob(
        text=str(home / "dev.source.text"), rows=str(home / "dev.lines"), tokens=str(home), side="source",
        out=str(tmp_path / "missing" / "out"), start=0, stop=1,
    )  # fmt: skip
    with pytest.raises(TrainingError, match=r"missing/out: can't be written \(No such file"):
        encoding._run_processes([job], workers=1)
    with pytest.raises(CheckpointError, match="nowhere: expected prepared text"):
        encoding._run_processes([encoding.replace(job, side="source", text="nowhere")], workers=1)
    with pytest.raises(TrainingError, match="a child process was ended with exit code 1 "):
        encoding._run_processes([encoding.replace(job, tokens=None)], workers=1)  # type: ignore[arg-type]
    assert "Traceback" in capfd.readouterr().err


def spoil(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("manifest.json", None),
        ("manifest.json", b"{half"),
        ("spm.model", None),
        ("spm.model", b"?"),
        ("train.target.offsets", None),
        ("train.target.offsets", b"123"),
        ("train.target.values", b""),
        ("train.lines", b""),
    ],
)
def test_a_damaged_folder_is_recognized(tmp_path: Path, name: str, content: bytes | None) -> None:
    prepare(DataConfig(**corpus(tmp_path, sentences(60))), SMALL, tmp_path / "prepared")
    spoil(tmp_path / "prepared" / name, content)
    with pytest.raises(CheckpointError, match="prepared"):
        PreparedData.open(tmp_path / "prepared")


def folder_of_the_user(folder: Path) -> Path:
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.txt").write_text("precious")
    return folder / "mine"


def a_file(folder: Path) -> Path:
    (folder / "note").write_text("precious")
    return folder / "note"


def below_a_file(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file" / "prepared"


@pytest.mark.parametrize(
    ("place", "error", "message"),
    [
        (folder_of_the_user, DataError, "mine: expected a new folder .*, found other files in it"),
        (a_file, DataError, "note: expected a new folder .*, found a file"),
        (below_a_file, TrainingError, r"file/prepared: can't be written \((Not a directory|File exists)\)"),
    ],
)
def test_places_that_cannot_be_used(
    tmp_path: Path, place: Callable[[Path], Path], error: type[Exception], message: str
) -> None:
    config = DataConfig(**corpus(tmp_path, sentences(60)))
    with pytest.raises(error, match=message):
        prepare(config, SMALL, place(tmp_path))
    for kept in (tmp_path / "mine" / "thesis.txt", tmp_path / "note"):
        assert not kept.exists() or kept.read_text() == "precious"


def test_texts_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="at least 2 different pairs"):
        prepare(DataConfig(**corpus(tmp_path, [("a", "b")] * 9)), SMALL, tmp_path / "prepared")
    with pytest.raises(ConfigError, match=r"subwords\.size: expected at most"):
        prepare(DataConfig(**corpus(tmp_path, sentences(60))), SubwordConfig(), tmp_path / "prepared")
    fields = corpus(tmp_path, sentences(60))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe: expected a file, found a pipe"):
        prepare(DataConfig(**{**fields, "target": [str(tmp_path / "pipe")]}), SMALL, tmp_path / "prepared")
    with pytest.raises(DataError, match="expected a text file, found a directory"):
        prepare(DataConfig(**{**fields, "target": [str(tmp_path)]}), SMALL, tmp_path / "prepared")


class TestEpochs:
    @pytest.fixture
    def prepared(self, tmp_path: Path) -> PreparedData:
        config = DataConfig(**corpus(tmp_path, sentences(300)))
        return prepare(config, SMALL.model_copy(update={"dropout": 0.2}), tmp_path / "prepared")

    def test_every_epoch_is_another_segmentation_of_the_same_text(self, prepared: PreparedData) -> None:
        seen = []
        for epoch in range(3):
            text = resegment(prepared, Resegmentation(seed=1, epoch=epoch, dropout=0.2, longest=512))
            assert text.lines.tolist() == prepared.train.lines.tolist()
            assert decoded(text, prepared.subwords) == rows(prepared)
            assert all(text.source(i)[-1] == EOS for i in range(len(text)))
            assert int(text.source_lengths.sum()) > int(prepared.train.source_lengths.sum())
            seen.append(np.array(text.target_table.values).tobytes())
        assert len(set(seen)) == 3
        assert {path.name.split("-")[0] for path in (prepared.directory / "epochs").iterdir()} == {"1", "2"}

    def test_what_is_made_ahead_is_what_would_be_made_now(
        self, prepared: PreparedData, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(resegmented, "_AHEAD_FROM", 0)
        stores = EpochStores(prepared, Resegmentation(3, 0, 0.2, 512))
        stores.open(0)
        ahead = stores._ahead
        assert ahead is not None
        ahead.result()
        path = prepared.directory / "epochs" / Resegmentation(3, 1, 0.2, 512).name
        made_by_child = [file.read_bytes() for file in sorted(path.iterdir())]
        stores.close()
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
        resegment(prepared, Resegmentation(3, 1, 0.2, 512))
        assert [file.read_bytes() for file in sorted(path.iterdir())] == made_by_child

    def test_a_kill_while_an_old_epoch_is_removed_leaves_no_half_of_it(
        self, prepared: PreparedData, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hows = [Resegmentation(seed=1, epoch=epoch, dropout=0.2, longest=512) for epoch in range(3)]
        expected = resegment(prepared, hows[0]).source_table.values.tolist()
        resegment(prepared, hows[1])

        def killed(path: Path, **_: object) -> None:
            next(path for path in sorted(Path(path).rglob("*")) if path.is_file()).unlink()
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", killed)
            with pytest.raises(KeyboardInterrupt):
                resegment(prepared, hows[2])
        assert resegment(prepared, hows[0]).source_table.values.tolist() == expected
        assert not list((prepared.directory / "epochs").glob(".*partial*"))

    def test_rows_keep_within_the_limit(self, prepared: PreparedData) -> None:
        longest = int(max(prepared.train.source_lengths.max(), prepared.train.target_lengths.max()))
        text = resegment(prepared, Resegmentation(seed=1, epoch=0, dropout=0.9, longest=longest))
        assert int(max(text.source_lengths.max(), text.target_lengths.max())) <= longest
        assert int(text.source_lengths.sum()) > int(prepared.train.source_lengths.sum())

    def test_the_number_of_processes_changes_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        config = DataConfig(**corpus(tmp_path, sentences(9_000)))
        prepared = prepare(config, SMALL.model_copy(update={"dropout": 0.2}), tmp_path / "prepared")
        how = Resegmentation(seed=1, epoch=0, dropout=0.2, longest=512)
        alone = np.array(resegment(prepared, how).source_table.values)
        monkeypatch.setattr(encoding, "_ALONE_BELOW", 1000)
        os.rename(prepared.directory / "epochs", tmp_path / "moved")
        together = resegment(prepared, how, workers=2)
        assert np.array_equal(together.source_table.values, alone)
        assert len(list((prepared.directory / "epochs" / how.name).iterdir())) == 4

    def test_without_the_text_there_is_no_dropout(self, tmp_path: Path) -> None:
        prepared = prepare(DataConfig(**corpus(tmp_path, sentences(60))), SMALL, tmp_path / "prepared")
        with pytest.raises(CheckpointError, match=r"BPE-dropout and data\.augment need"):
            resegment(prepared, Resegmentation(seed=1, epoch=0, dropout=0.1, longest=512))

    @pytest.mark.parametrize("dropout", [0.0, 0.2])
    def test_augmented_pairs_are_the_same_whatever_the_processes(
        self, tmp_path: Path, dropout: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shares = {"capitals": 0.5, "copied": 0.3, "joined": 0.3}
        config = DataConfig(**corpus(tmp_path, sentences(9_000)), augment=AugmentConfig(**shares))
        prepared = prepare(config, SMALL.model_copy(update={"dropout": dropout}), tmp_path / "prepared")
        how = Resegmentation(1, 0, dropout, 512, config.augment.model_dump())
        text = resegment(prepared, how)
        pairs = decoded(text, prepared.subwords)
        assert all(source.isupper() == target.isupper() for source, target in pairs)
        assert 0.45 < np.mean([source.isupper() for source, _ in pairs]) < 0.55
        assert 0.25 < np.mean([source == target for source, target in pairs]) < 0.35
        os.rename(prepared.directory / "epochs", tmp_path / "moved")
        monkeypatch.setattr(encoding, "_ALONE_BELOW", 1000)
        together = resegment(prepared, how, workers=2)
        assert np.array_equal(together.source_table.values, text.source_table.values)
        assert np.array_equal(together.target_table.values, text.target_table.values)


def test_ragged_arrays_hold_rows_of_any_length(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    expected = [random.integers(0, 1000, n) for n in (0, 3, 0, 0, 7, 1)]
    with RaggedWriter(tmp_path / "a", np.uint16) as writer:
        for part in (expected[:2], [], expected[2:]):
            values = np.concatenate([*part, np.zeros(0, np.int64)])
            writer.append(values, np.array([len(row) for row in part], np.int64))
    table = Ragged(tmp_path / "a", np.uint16)
    assert [table[i].tolist() for i in range(len(table))] == [row.tolist() for row in expected]
    for chosen in ([4, 0, 1, 4], [], [2]):
        values, lengths = gather(table, np.array(chosen, np.int64))
        assert lengths.tolist() == [len(expected[i]) for i in chosen]
        assert values.tolist() == [value for i in chosen for value in expected[i].tolist()]
    with RaggedWriter(tmp_path / "empty", np.uint16):
        pass
    assert len(Ragged(tmp_path / "empty", np.uint16)) == 0
