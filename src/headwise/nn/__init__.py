"""Attention and the layers around it. The modules take and return tensors; none knows text or vocabularies."""

from headwise.nn import attention_positions, kinds

__all__ = ["attention_positions", "kinds"]
