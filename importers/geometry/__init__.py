"""Meshes, primitive shapes, mass properties and poses, as all importers read them."""
