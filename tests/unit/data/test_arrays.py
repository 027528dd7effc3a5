"""Ragged arrays and the origins of their rows: values out of range are refused, damage is detected on opening."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headwise.config import DataConfig
from headwise.data.prepared import read_manifest
from headwise.data.ragged import MOST_FILES, Ragged, RaggedWriter, map_places, save_array
from headwise.errors import CheckpointError, ConfigError
from headwise.text.reading.pairs import training_files
from headwise.text.reading.plain import text_files


@pytest.mark.parametrize("value", [1 << 16, -1])
def test_a_value_is_never_cut_to_fit(value: int, tmp_path: Path) -> None:
    with RaggedWriter(tmp_path / "ids", np.uint16) as writer:
        writer.append(np.array([65535, 0], np.int32), np.array([2]))
        with pytest.raises(AssertionError, match="no room"):
            writer.append(np.array([value], np.int32), np.array([1]))
    assert Ragged(tmp_path / "ids", np.uint16)[0].tolist() == [65535, 0]


@pytest.mark.parametrize("offsets", [[1, 2, 4], [0, 3, 2, 4], [0, -1, 4], [0, 4, 5], []])
def test_rows_that_overlap_or_leave_the_file_are_told(offsets: list[int], tmp_path: Path) -> None:
    save_array(tmp_path / "ids.values", np.arange(4, dtype=np.uint16))
    save_array(tmp_path / "ids.offsets", np.array(offsets, np.int64))
    with pytest.raises(CheckpointError, match="ids: expected prepared text, found"):
        Ragged(tmp_path / "ids", np.uint16)


def test_rows_come_from_files_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="train: expected prepared text, found missing"):
        map_places(tmp_path / "train", ["a"])
    save_array(tmp_path / "train.lines", np.array([1, 2], np.int64))
    save_array(tmp_path / "train.files", np.array([0, 1], np.uint16))
    lines, files = map_places(tmp_path / "train", ["a", "b"])
    assert (lines.tolist(), files.tolist()) == ([1, 2], [0, 1])
    with pytest.raises(CheckpointError, match="train: expected rows of 1 files, found one of number 2"):
        map_places(tmp_path / "train", ["a"])
    (tmp_path / "train.lines").write_bytes(b"123")
    with pytest.raises(CheckpointError, match="train: expected prepared text, found missing or damaged files"):
        map_places(tmp_path / "train", ["a", "b"])


def test_more_files_than_have_numbers_are_refused() -> None:
    many = ["a.tsv"] * (MOST_FILES + 1)
    with pytest.raises(ConfigError, match=r"data\.text: expected at most 65,536 files, found 65,537"):
        text_files(DataConfig(text=many))
    with pytest.raises(ConfigError, match=r"data\.source: expected at most 65,536 files, found 65,537"):
        training_files(DataConfig(source=many))
    assert len(text_files(DataConfig(text=many[1:]))) == MOST_FILES


def test_a_prepared_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nowhere: expected prepared data, found none$"):
        read_manifest(tmp_path / "nowhere")
