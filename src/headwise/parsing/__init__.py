"""Parsers of untrusted JSON and YAML, with limits on size and nesting, and errors of one sentence."""
