"""The web page that shows what a model computes: its JSON API, its files and the server."""
