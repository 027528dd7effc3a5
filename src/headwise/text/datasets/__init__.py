"""Prepared, memory-mapped datasets: sentence pairs, monolingual text and labelled examples."""
