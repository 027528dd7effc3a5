"""What a model reads of the lines that people write, in place of what it can't translate as it is written."""
