"""Rays and closest points against the shapes of a world."""
