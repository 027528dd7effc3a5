"""Benchmarks against other systems: each system runs in its own warm process, and rounds alternate between systems.

One module per benchmark (`train`, `decode`, `start`, `curves` for attention and the loss) and one per system (`peers`).
"""
