"""The web page that shows what a model computes, and the JSON API behind it."""
