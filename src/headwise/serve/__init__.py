"""The page that shows what a model does, and the interface behind it."""
