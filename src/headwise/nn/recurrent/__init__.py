"""Layers of recurrent encoder-decoders: one recurrent layer, and attention before heads."""
