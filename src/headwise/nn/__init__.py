"""Attention and the layers around it: tensors in, tensors out, no strings and no vocabularies."""
