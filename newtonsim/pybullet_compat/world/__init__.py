"""The scene of a client on the host: bodies, constraints, settings and what goes with them."""
