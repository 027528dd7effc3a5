"""Heat maps as pictures: their numbers and the color bar."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from headwise.analysis import picture
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.engine.translator import Translator
from translator_run import ENGLISH, make_run


@pytest.mark.parametrize("shown", [(1, 0), None])
def test_a_heat_map_has_a_color_bar_and_numbers_where_they_fit(
    shown: tuple[int, int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = TranslationTracer(Translator.load(make_run(tmp_path / "run", seed=3))).trace(ENGLISH[0])
    drawn: list[Figure] = []
    monkeypatch.setattr(picture, "save", lambda figure, file: drawn.append(figure))
    picture.draw_trace(trace, tmp_path / "map.png", words=True, shown=shown)
    *maps, bar = drawn[0].axes
    assert bar.get_ylim() == (0, 1)
    written = [(*text.get_position(), float(text.get_text())) for one in maps for text in one.texts]
    if shown is None:
        assert written == []
        return
    weights = trace.attention_map("cross", words=True).weights[shown]
    assert len(written) == np.count_nonzero(weights.round(2))
    for column, row, number in written:
        assert number == pytest.approx(weights[int(row), int(column)], abs=0.00501)
