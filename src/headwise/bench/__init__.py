"""Benchmarks beside other systems: each system in its own warm process, round by round in turn.

One file per benchmark (`train`, `decode`, `attention`, `loss`, `start`) and one per peer (`peers`).
"""
