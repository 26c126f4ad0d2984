"""Physics servers: a world that other processes use, and clients of such worlds."""
