"""Meshes, primitive shapes, mass properties and poses, shared by all importers."""
