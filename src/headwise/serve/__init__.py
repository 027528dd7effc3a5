"""The page that shows what a model does; the interface behind it."""
