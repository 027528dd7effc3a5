"""Tables of head measurements for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwise.analysis.heads.importance import HeadPlace
    from headwise.analysis.heads.measuring import PartReport
    from headwise.analysis.heads.roles import Rate, RelationRate


def heads_table(report: PartReport, importance: dict[str, dict[HeadPlace, float]]) -> list[str]:
    """Return the lines of a table with one head per line; a number's baseline follows it."""
    from headwise.analysis.heads.importance import HeadPlace
    from headwise.analysis.interventions import PART_NAMES

    first = report.heads[0]
    lines = [
        "",
        f"{PART_NAMES[report.part]}: {report.sentences} sentences, {first.position.n} rows "
        "(after each number: what chance gives)",
        "  head   argmax at one offset   rare word      entropy      largest weight  end    separators    similar      "
        + "".join(f"{name:>9}" for name in importance)
        + "  best relation, found / best offset / chance / n",
    ]
    for head in report.heads:
        place = HeadPlace(report.part, head.layer, head.head)
        marks = "".join(f"{values[place]:9.4f}" for values in importance.values())
        lines.append(
            f"  {head.layer + 1}.{head.head + 1}   {head.offset:+4d} {_share(head.position, 'chance')}      "
            f"{_share(head.rare, 'chance')}  {head.entropy.rate:5.2f} {head.entropy.baselines['uniform']:5.2f}   "
            f"{_share(head.confidence, 'uniform')}    {head.end.rate:4.0%}  {_share(head.separator, 'uniform')}  "
            f"{_similarity(head.similarity)}  {marks}  {_relation(head.relation)}"
            + "".join(f"  [{role}]" for role in head.roles)
        )
    return lines


def relations_table(report: PartReport) -> list[str]:
    """Return a table with the best head for each relation, selected on every other sentence, measured on the rest."""
    relations = [*report.relations, *report.coreference]
    if not relations:
        return []
    from headwise.analysis.interventions import PART_NAMES

    lines = [
        "",
        f"{PART_NAMES[report.part]}: the best head for each relation",
        "  relation              head   found",
    ]
    lines[-1] += "   best offset   chance      n"
    for best in relations:
        base = best.found.baselines
        lines.append(
            f"  {best.name:<21} {best.layer + 1}.{best.head + 1}    {best.found.rate:5.1%}  {base['offset']:6.1%} "
            f"({best.offset:+d})   {base['chance']:6.1%}  {best.found.n:5d}"
        )
    return lines


def _share(rate: Rate, base: str) -> str:
    return f"{rate.rate:5.0%} {rate.baselines[base]:5.0%}"


def _similarity(rate: Rate | None) -> str:
    return "           " if rate is None else f"{rate.rate:+.2f} {rate.baselines['permuted']:+.2f}"


def _relation(best: RelationRate | None) -> str:
    if best is None:
        return ""
    base = best.found.baselines
    return f"{best.name} {best.found.rate:.0%} / {base['offset']:.0%} / {base['chance']:.0%} / {best.found.n}"
