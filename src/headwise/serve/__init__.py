"""The web page that shows what a model computes, and the translation server."""
