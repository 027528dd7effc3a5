"""Translations of strings with other placeholders: another output, or the source, and an estimate of what stands."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headwise.documents.formats import read_file
from headwise.documents.rendering import Rendered, render
from headwise.engine.documents import write
from headwise.engine.outputs import Output, Translation

CATALOGUE = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
    '<file source-language="en" target-language="de"><body>'
    '<trans-unit id="1"><source>Delete {name} now.</source></trans-unit></body></file></xliff>'
)


class Found:
    """What a model made of sentences: the same outputs of each, best first."""

    def __init__(self, sentences: Sequence[str], outputs: dict[str, float]) -> None:
        made = tuple(Output(text, (4,), quality=quality) for text, quality in outputs.items())
        self.translations = [Translation(sentence, (), made) for sentence in sentences]

    async def word_weights(self, pairs: Sequence[Any]) -> list[Any]:
        raise AssertionError("there is nothing to be placed")


@pytest.mark.parametrize(
    ("outputs", "ranks", "text", "estimate"),
    [
        ({"Lösche {name} jetzt.": 80.0}, [0], "Lösche {name} jetzt.", "0.800"),
        ({"Lösche {name} {0}.": 80.0, "Lösche {name}.": 40.0}, [1], "Lösche {name}.", "0.400"),
        ({"Lösche {name} {0}.": 80.0}, [], "Delete {name} now.", None),
    ],
)
def test_the_estimate_is_of_the_output_that_stands(
    outputs: dict[str, float], ranks: list[int], text: str, estimate: str | None
) -> None:
    file = read_file("a.xlf", CATALOGUE.encode(), "de")
    (document,) = (one.prepare("en") for one in file.texts)

    async def search(texts: list[str], numbers: Sequence[int]) -> list[Found]:
        return [Found(texts, outputs)]

    rendered: list[Rendered[Translation]] = asyncio.run(render(document.all_sentences, search))
    assert [list(one.ranks) for one in rendered] == [ranks]
    assert [bool(one.warnings) for one in rendered] == [not ranks]
    written = write(file, [document.join([one.texts[0] for one in rendered])], [rendered]).decode()
    assert f">{text}</target>" in written
    assert (f'mtConfidence="{estimate}"' in written) is (estimate is not None)
    assert ("mtConfidence" in written) is (estimate is not None)
