"""Shared code of the experiments: rows, runs, records, statistics, and the report."""
