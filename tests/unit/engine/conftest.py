"""Fixtures of the tests of engines."""

from native_engines import library  # noqa: F401
