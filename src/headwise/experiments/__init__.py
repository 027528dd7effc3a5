"""The paper's tables, figures and claims, run again; each experiment is one file, registered in `harness.registry`."""
