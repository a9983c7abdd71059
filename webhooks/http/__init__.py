"""HTTP/1.1 on a connection: parsing limits, headers, the connection table and the listener."""
