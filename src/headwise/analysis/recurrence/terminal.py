"""The comparison of recurrence and attention as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.analysis.recurrence.comparing import RecurrenceComparison
from headwise.analysis.recurrence.timing import Times
from headwise.analysis.terminal import columns, padded, plain

_DISTANCES = (0, 1, 2, 4, 8, 16, 32, 63)


def comparison_lines(found: RecurrenceComparison) -> list[str]:
    """Return two tables: the gradient by distance, and what each state has of the first token."""
    names = [network.title for network in found.networks]
    gradients = [
        [f"{network.gradient[k]:.1e}" if k < len(network.gradient) else "–" for k in _DISTANCES]
        for network in found.networks
    ]
    lines = [
        "gradient of the last state with respect to the input k positions earlier, relative to k = 0",
        *_table(names, [f"k = {k}" for k in _DISTANCES], gradients),
        "",
        f"what is left of the first token{', which is read last in the text,' if found.backward else ''} in each state",
        *_table(
            names,
            [plain(piece) for piece in found.pieces],
            [[f"{share:.2f}" for share in n.kept] for n in found.networks],
        ),
        "",
    ]
    lines += [f"{network.title}: {network.about}" for network in found.networks]
    return [*lines, f"networks with random weights have width {found.width}"]


def time_lines(times: Times) -> list[str]:
    """Return a table of milliseconds against length."""
    threads = f"{times.threads} thread{'' if times.threads == 1 else 's'}"
    return [
        f"milliseconds of a layer of width {times.width} against the number of tokens ({times.device}, {threads})",
        *_table(
            [row.title for row in times.rows],
            [f"n = {length}" for length in times.lengths],
            [[f"{value:.2f}" for value in row.milliseconds] for row in times.rows],
        ),
    ]


def _table(names: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    first = max(map(columns, names))
    widths = [max(map(columns, (title, *cells))) for title, *cells in zip(head, *rows, strict=True)]
    return [
        "  "
        + "  ".join(
            [
                padded(name, first),
                *(" " * (w - columns(cell)) + cell for cell, w in zip(cells, widths, strict=True)),
            ]
        )
        for name, cells in zip(["", *names], [head, *rows], strict=True)
    ]
