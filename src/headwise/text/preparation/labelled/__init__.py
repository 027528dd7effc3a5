"""Prepared datasets of labelled examples: texts with a label, sentences with tags, questions with answers."""
