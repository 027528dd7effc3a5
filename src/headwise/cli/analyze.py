"""`headwise analyze`: measurements of what a trained model does."""

from __future__ import annotations

from headwise.cli import align, attribute, calibration, heads
from headwise.cli.arguments import group

app = group(
    "Measure heads, alignments, attributions and calibration.",
    "Example: headwise analyze heads demo --miniature",
)
for _command in (heads, align, attribute, calibration):
    app.command(_command.__name__.rpartition(".")[2])(_command.command)
