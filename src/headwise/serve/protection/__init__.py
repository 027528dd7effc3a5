"""Protection of the server from untrusted clients: checks and limits for hosts, connections, bodies and headers."""
