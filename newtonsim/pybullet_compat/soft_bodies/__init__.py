"""Cloth and elastic solids of a client: their meshes and their world."""
