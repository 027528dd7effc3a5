"""Settings shared by all systems of table 2 at the small scales.

Each system has its own model, with the Transformer's number of parameters, and its own learning rate. All other
settings are overridden here for all systems, so that no system profits from a configuration tuned for it alone. If a
scale is small enough, `headwise reproduce tuning` trains every system with the same learning rates for the same number
of steps; the rate with the lowest development perplexity is used.
"""

from __future__ import annotations


def system_file(name: str) -> str:
    """Return the configuration file of a system, whose model has as many parameters as the Transformer."""
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
