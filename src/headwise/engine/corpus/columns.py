"""How the translations of a line are written: as text in columns, or as a JSON object with everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwise.engine.outputs import Translation
from headwise.text.reading.lines import json_line

_OF_OUTPUT = (
    *("text", "score", "log_probability", "probability", "quality", "review"),
    *("pieces", "token_log_probabilities"),
)


@dataclass(frozen=True)
class Columns:
    """The columns of a translation's lines.

    Attributes:
        numbers: the line's number, first.
        scores: the score before the text.
        alignments: word alignments behind the text.
        jsonl: a JSON object instead, with everything.
    """

    numbers: bool = False
    scores: bool = False
    alignments: bool = False
    jsonl: bool = False

    def lines(self, number: int, translation: Translation) -> list[str]:
        """Return the lines of the translation of line `number`: one for each of its outputs, or one JSON object."""
        if self.jsonl:
            return [json_line(_record(number, translation))]
        lines = []
        for output in translation.outputs:
            columns = [str(number)] if self.numbers else []
            columns += [f"{output.score:.6f}"] if self.scores else []
            columns += [output.text]
            columns += [output.pharaoh] if self.alignments else []
            lines.append("\t".join(columns))
        return lines


def _record(number: int, translation: Translation) -> dict[str, Any]:
    outputs = []
    for output in translation.outputs:
        record = {name: getattr(output, name) for name in _OF_OUTPUT}
        if output.alignment is not None:
            record["alignment"] = output.alignment
        outputs.append(record)
    return {
        "line": number,
        "source": translation.source,
        "source_pieces": translation.source_pieces,
        "unknown": translation.unknown,
        "warnings": translation.warnings,
        "text": translation.text,
        "outputs": outputs,
    }
