"""JSON and YAML from outside, read within bounds: every file, line and request that isn't sound gives one sentence."""
