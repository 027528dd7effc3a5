"""The web server: one way to route, parse and describe requests, its protection, and changed run directories."""
