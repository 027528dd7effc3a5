"""The C++ library of the native engine and of training: its sources and its loader."""
