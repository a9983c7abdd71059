"""A running server: sockets, processes, TLS contexts and reloads. The composition root."""
