"""The way from the paper to a running model: a program to read beside it, its tables, and chapters that are run."""
