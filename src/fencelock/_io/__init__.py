"""What moves bytes: the wire format, and later the connections that speak it."""
