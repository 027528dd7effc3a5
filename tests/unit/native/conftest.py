"""Fixtures of the tests of the native library."""

from native_engines import library  # noqa: F401
