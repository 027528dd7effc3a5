"""Evaluation metrics of translations, alignments, labels, spans and answers; calibration; significance tests."""
