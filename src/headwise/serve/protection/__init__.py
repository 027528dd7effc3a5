"""What protects a server from strangers: hosts, connections, bodies and headers are checked and bounded."""
