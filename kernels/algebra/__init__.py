"""Spatial vectors, and sparse and skyline factorizations."""
