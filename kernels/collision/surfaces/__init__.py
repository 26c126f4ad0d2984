"""Surfaces that are not convex: triangle meshes, height fields, signed distance fields."""
