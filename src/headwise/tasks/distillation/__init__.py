"""Distillation: a small translator learns from the translations of a larger one (Kim and Rush 2016)."""
