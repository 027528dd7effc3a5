"""Models of other toolkits, in and out: one module for each format, and one line in `headwise.interop.formats`."""
