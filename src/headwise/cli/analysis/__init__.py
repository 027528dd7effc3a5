"""Commands that look inside models."""
