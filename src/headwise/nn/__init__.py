"""Attention and the layers around it: tensors in, tensors out, no strings and no vocabularies."""

from headwise.nn import attention_positions, kinds

__all__ = ["attention_positions", "kinds"]
