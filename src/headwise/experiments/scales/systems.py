"""What the systems of table 2 are given alike at the small scales.

A system's own are its model, at the Transformer's number of parameters, and its learning rate. Everything else is
written out here for all of them at once, so that a configuration that is tuned for itself lends the comparison
nothing. Where a scale is small enough, `headwise reproduce tuning` trains every system with the same learning rates
for the same steps; the rate taken is the one with the lowest development perplexity.
"""

from __future__ import annotations


def system_file(name: str) -> str:
    """Return the configuration of a system, whose parameters are as many as the Transformer's."""
    return f"configs/multi30k-en-de{'' if name == 'transformer' else f'-{name}'}.yaml"


ALIKE = (
    "optimizer.clip_norm=1.0",
    "schedule.name=linear",
    "training.label_smoothing=0.1",
    "training.r_drop=0.0",
    "training.best_by=bleu",
    "decoding.beam=4",
    "decoding.alpha=0.6",
)
TREATMENT = (
    "label smoothing 0.1, no R-Drop, gradients clipped to norm 1, a rate that rises and falls linearly to zero, beam 4 "
    "with α = 0.6"
)
