"""Layers of recurrent encoder-decoders: LSTM and GRU layers, and single-head attention over the source."""
