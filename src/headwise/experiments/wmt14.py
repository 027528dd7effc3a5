"""The paper's base model on its own text, WMT 2014: the row of table 2 that eight GPUs train in hours."""

from __future__ import annotations

from headwise.experiments import table2
from headwise.experiments.harness.outcome import Finding
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import TrainingRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.scales import WMT14, Scale


def rows(scale: Scale) -> list[TrainingRow]:
    """Return the Transformer's row of table 2."""
    return [row for row in table2.rows(scale) if row.name == table2.OURS]


def find(results: Results) -> Finding:
    """Tabulate both kinds of BLEU beside the paper's."""
    return Finding([table2.systems_table(results, "The base model on WMT 2014")])


EXPERIMENT = Experiment("wmt14", "The paper's base model on WMT 2014", rows, find, scale=WMT14.name)
