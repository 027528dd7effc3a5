"""Reproduction of the paper's tables, figures and claims; one file per experiment, listed in `harness.registry`."""
