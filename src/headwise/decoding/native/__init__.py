"""The native engine: a Transformer's inference and search in C++, tested equal to the readable path."""
